"""Expired node metrics: which nodes are known well enough to be scored. Kernel."""

import numpy as np
from numpy.typing import NDArray

from features.columnar.windows import STALE_US, WINDOW_US

Ints = NDArray[np.int64]


def known_nodes(seen_us: Ints, now_us: int, *, placements: bool) -> NDArray[np.bool_]:
    """Nodes whose residents are known.

    Without placements, residents are known from metrics alone: a node whose newest metrics have expired is unknown. It
    gets no score of its own, see `advisor.placement.encoded_scores`. Metrics of a whole snapshot expire in
    `advisor.placement.model_state`: then every node has score 0.

    Args:
        seen_us: (n,) end of the newest window with metrics of each node, microseconds since 1970; 0 without any.
        now_us: the time.
        placements: whether placements are known, which name residents even of nodes without metrics.

    Returns:
        (n,) True where residents are known.
    """
    expired = now_us - seen_us > STALE_US + WINDOW_US
    return np.asarray(~expired | placements)
