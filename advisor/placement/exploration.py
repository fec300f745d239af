"""Exploration: some advice is drawn among equally good nodes, so that its effect can be estimated. Kernel.

Placement depends on unrecorded factors that also act on slowdown. Advice that was drawn
depends on nothing: what differs between pods after it, by what was drawn, was caused by it. The same holds for the
holdout, drawn by pod uid: its difference from the other pods is the effect of all advice.
"""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from advisor.scoring.score_scale import HIGHEST

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
BAND = 0.1
"""How much more than the best a node may cost: a tenth of one container's normal, about half a point."""
LEAST_POINTS = 7
"""What a node that is drawn has at least; where the best is hardly good nothing is tried."""
OTHERS = 5
"""What the others get at most."""
ARM, KEPT = b"cohabit withheld", b"cohabit kept"
"""What a pod's lots are drawn for; 16 bytes at most."""


def propensities(points: Ints, costs: Floats) -> Floats:
    """With which probability each candidate would be drawn.

    Args:
        points: (k,) 0 to 10, 0 where vetoed.
        costs: (k,) what they are of; NaN where nothing is known.

    Returns:
        (k,) the same for all in the safe band: not vetoed, LEAST_POINTS or more, and at most BAND above the least cost
        of such. Others have 0, and all have where fewer than two are in the band: there is nothing to draw.

    Raises:
        Nothing.

    Source: ours, see docs/decisions/0029.
    """
    good = (points >= LEAST_POINTS) & ~np.isnan(costs)
    band = good & (costs <= np.min(costs, where=good, initial=np.inf) + BAND)
    size = int(band.sum())
    return band / size if size > 1 else np.zeros(len(points))


def drawn(propensity: Floats, rng: np.random.Generator) -> int:
    """Position of the candidate that is drawn.

    Args:
        propensity: (k,) from `propensities`.
        rng: draws.

    Returns:
        0 to k - 1; -1 where there is nothing to draw.

    Raises:
        Nothing.

    Source: ours, see docs/decisions/0029.
    """
    band = np.flatnonzero(propensity)
    return int(band[rng.integers(len(band))]) if len(band) else -1


def lot(uid: str, purpose: bytes) -> float:
    """A pod's number in a draw: the same however often it is asked for, in every worker and server.

    Args:
        uid: of the pod; the cluster assigns it at random.
        purpose: ARM or KEPT; numbers for different ones have nothing to do with each other.

    Returns:
        Uniform over [0, 1) among pods.

    Raises:
        UnicodeEncodeError: the uid is no text that can be written down.

    Source: BLAKE2b, RFC 7693, its first 53 bits.
    """
    digest = blake2b(uid.encode(), digest_size=8, person=purpose).digest()
    return float(int.from_bytes(digest, "little") >> 11) / 2**53


def put_first(points: Ints, first: Flags) -> Ints:
    """Points that put a node before all others.

    Args:
        points: (n,) 0 to 10.
        first: (n,) which it is; more than one where it was offered more than once.

    Returns:
        (n,) 10 for it, at most OTHERS for the others, whose order stays.

    Raises:
        Nothing.

    Source: ours, see docs/decisions/0029.
    """
    return np.where(first, HIGHEST, np.minimum(points, OTHERS))
