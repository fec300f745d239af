"""Interference derate: how full nodes may be before too many residents pass a limit of slowdown. Kernel."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.capacity.interference_cap import CPU, resident_bounds
from advisor.cluster.pending_pod import PendingPod
from advisor.scoring.candidates import Crowd, home_of, seats_of
from advisor.scoring.score_scale import LIMIT_SLOWDOWN
from advisor.scoring.scorer import ModelScorer

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

LEVELS = np.arange(20, 101) / 100
"""Shares of a node's cores that are tried."""
MIN_RESIDENTS = 20
"""Latency-sensitive residents of a platform below which nothing is said of it."""


@dataclass(frozen=True, slots=True)
class Fullness:
    """How full nodes of a platform may be.

    Args:
        platform: name.
        nodes: looked at.
        residents: latency-sensitive, looked at.
        used: share of their cores that is in use now.
        share: the largest of `LEVELS` at which few enough residents are slowed; None where there is none.
        slowed: (levels,) share of residents beyond the limit when each node is that full, or fuller where it is now.
    """

    platform: str
    nodes: int
    residents: int
    used: float
    share: float | None
    slowed: Floats

    @property
    def slowed_now(self) -> float:
        """Share of residents beyond the limit at the level that is in use."""
        return float(np.interp(self.used, LEVELS, self.slowed))


def bearable_fullness(scorer: ModelScorer, most_slowed: float, *, limit: float = LIMIT_SLOWDOWN) -> list[Fullness]:
    """How full nodes may be, by platform.

    Args:
        scorer: the model over a snapshot.
        most_slowed: share of latency-sensitive residents that may be expected beyond the limit.
        limit: slowdown ratio.

    Returns:
        One for each platform with `MIN_RESIDENTS`; none of a model by load alone, which predicts no resident. Nodes are
        filled with more use of the mix that runs in the cluster. Nodes without known cores are left out.

    Raises:
        Nothing.

    Source: ours, docs/purchases.md: expected slowdowns never fall as a neighbour uses more, so the share slowed rises
    with the level.
    """
    snapshot = scorer.snapshot
    cores = snapshot.node_capacity[:, CPU]
    nodes = np.flatnonzero(snapshot.node_known & (cores > 0)).astype(np.int32)
    home = home_of(snapshot, nodes)
    if scorer.by_load or not len(home.resident):
        return []
    group, cores = home.members.group, cores[nodes]
    used = np.bincount(group, np.nan_to_num(snapshot.resident_use[home.resident, CPU]), minlength=len(nodes))
    slowed = _slowed(scorer, home, nodes, np.maximum(LEVELS[:, None] * cores - used, 0.0), limit)
    found = list[Fullness]()
    for platform, name in enumerate(snapshot.platforms):
        mine = snapshot.node_platform[nodes] == platform
        own = mine[group] & ~home.members.best_effort
        if own.sum() >= MIN_RESIDENTS:
            shares = slowed[:, own].mean(axis=1)
            fine = LEVELS[shares <= most_slowed]
            full = float(used[mine].sum() / cores[mine].sum())
            share = float(fine[-1]) if len(fine) else None
            found.append(Fullness(name, int(mine.sum()), int(own.sum()), full, share, shares))
    return found


def _slowed(
    scorer: ModelScorer, home: Crowd, nodes: NDArray[np.int32], more: Floats, limit: float
) -> NDArray[np.bool_]:
    """(levels, k) whether each resident is expected beyond the limit with (levels, n) more cores of the mix in use."""
    snapshot = scorer.snapshot
    seats = seats_of(snapshot, PendingPod("", None, best_effort=True), nodes)
    use = np.nan_to_num(snapshot.resident_use).sum(axis=0)
    each = use / use[CPU] if use[CPU] > 0 else np.eye(len(use))[CPU]
    return np.stack([resident_bounds(scorer, home, seats, level[:, None] * each).mean > limit for level in more])
