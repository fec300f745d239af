"""Interference cap: how much best-effort use a node bears before a resident's bound on its slowdown passes a limit."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.cluster.pending_pod import PendingPod
from advisor.scoring.candidates import Crowd, home_of, joined_pressure, seats_of
from advisor.scoring.score_scale import LIMIT_SLOWDOWN
from advisor.scoring.scorer import Bounded, ModelScorer

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
STEPS = 8
"""Halvings of the interval that holds the cap: 1/256 of a node."""
CPU = 0


@dataclass(frozen=True, slots=True)
class Caps:
    """What bounds best-effort use on n nodes.

    Args:
        cores: (n,) additional CPU use of best-effort containers up to which no bound comes to pass the limit; inf where
            none does on the whole node.
        resident: (n,) row in the snapshot of the resident whose bound passes it first, -1 where none does.
        names: names of residents, by row in the snapshot.
    """

    cores: Floats
    resident: Ints
    names: tuple[str, ...]


def use_per_core(use: Floats, best_effort: NDArray[np.bool_]) -> Floats:
    """What best-effort containers use of each resource for each core.

    Args:
        use: (m, resources) of residents, NaN where not known.
        best_effort: (m,) whether each is BE.

    Returns:
        (resources,) the 75th percentile over best-effort residents, so that what comes is rarely louder; over all where
        none of them was measured; 0 where none was, since no bound depends on it then.

    Raises:
        Nothing.

    Source: ours.
    """
    busy = use[:, CPU] > 0
    found = np.zeros(use.shape[1])
    for rows in (busy, busy & best_effort):
        ratio = use[rows] / use[rows][:, [CPU]]
        known = np.isfinite(ratio).any(axis=0)
        found[known] = np.nanquantile(ratio[:, known], 0.75, axis=0)
    found[CPU] = 1.0
    return found


def interference_caps(scorer: ModelScorer, nodes: NDArray[np.int32], *, limit: float = LIMIT_SLOWDOWN) -> Caps:
    """The largest best-effort CPU use that each node bears.

    Args:
        scorer: the model over a snapshot; the best-effort residents that are there are part of it.
        nodes: (n,) rows of the snapshot's nodes, each with known capacity.
        limit: slowdown ratio that the upper bound of no latency-sensitive resident may come to pass; residents whose
            bound is above it already are not pushed over it.

    Returns:
        See Caps. A model by load alone has no bounds of residents, and caps nothing.

    Raises:
        Nothing.

    Source: ours, docs/headroom.md: bisection over the model, whose bounds never fall as a neighbour uses more.
    """
    snapshot, count = scorer.snapshot, len(nodes)
    nothing = Caps(np.full(count, np.inf), np.full(count, -1), snapshot.containers)
    if scorer.by_load or not count:
        return nothing
    home, seats = home_of(snapshot, nodes), seats_of(snapshot, PendingPod("", None, best_effort=True), nodes)
    if not len(home.resident):
        return nothing
    each = use_per_core(snapshot.resident_use, snapshot.resident_best_effort)
    low, high = np.zeros(count), np.nan_to_num(snapshot.node_capacity[nodes, CPU])
    safe = ~home.members.best_effort & (resident_bounds(scorer, home, seats, low[:, None] * each).high <= limit)
    worst, resident = _worst(scorer, home, seats, high[:, None] * each, safe)
    bounded = worst > limit
    for _ in range(STEPS):
        middle = (low + high) / 2
        worst, first = _worst(scorer, home, seats, middle[:, None] * each, safe)
        above = worst > limit
        low, high = np.where(above, low, middle), np.where(above, middle, high)
        resident = np.where(above, first, resident)
    return Caps(np.where(bounded, low, np.inf), np.where(bounded, resident, -1), snapshot.containers)


def resident_bounds(scorer: ModelScorer, home: Crowd, seats: Crowd, use: Floats) -> Bounded:
    """Slowdowns of (k,) residents with (n, resources) more best-effort use on their nodes, and their bounds."""
    snapshot = scorer.snapshot
    raw = home.raw(joined_pressure(home, replace(seats, members=replace(seats.members, use=use))))
    platform = snapshot.node_platform[np.searchsorted(snapshot.first, home.resident, side="right") - 1]
    return scorer.bounded(raw, snapshot.resident_app[home.resident], platform)


def _worst(scorer: ModelScorer, home: Crowd, seats: Crowd, use: Floats, safe: NDArray[np.bool_]) -> tuple[Floats, Ints]:
    """(n,) largest bound of a resident that was safe, with more best-effort use, and whose it is."""
    group, count = home.members.group, len(use)
    high = np.where(safe, resident_bounds(scorer, home, seats, use).high, -np.inf)
    order = np.lexsort((-home.resident, high, group))
    worst, whose = np.full(count, -np.inf), np.full(count, -1)
    worst[group[order]], whose[group[order]] = high[order], home.resident[order]
    return worst, whose
