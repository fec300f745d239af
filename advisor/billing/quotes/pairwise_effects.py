"""Pairwise effects: a container's slowdown on a node, and what it and each neighbour add to each other. Kernel.

By the placement model, as candidates are scored. What one adds is the mean of two differences: with all others there,
and with none of them. That is an order and its reverse: where containers act on each other in pairs alone it is
Shapley's share, see benchmarks.pricing_shapley.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.billing.interference.expected_adjustment import Colocation, Neighbour, Slowdown
from advisor.cluster.pending_pod import PendingPod
from advisor.cluster.snapshot import Snapshot
from advisor.scoring.candidates import Crowd, felt_by_pending, home_of, joined_pressure, seats_of
from advisor.scoring.scorer import Bounded, ModelScorer
from features.contention.pressure import Members, pressures

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class IncomingPod:
    """A container that might be on a node.

    Args:
        pending_pod: its app, team and class.
        use: (resources,) what it is expected to use, in the snapshot's units; NaN where its app's profile applies.
    """

    pending_pod: PendingPod
    use: Floats


def colocation(scorer: ModelScorer, incoming: IncomingPod, node: int) -> Colocation | None:
    """Expected slowdown of a container on a node, and the pairwise effects with its neighbours.

    Args:
        scorer: over a snapshot in which the container is not.
        incoming: the container; free to use every core.
        node: row of the node in the snapshot.

    Returns:
        Its slowdown and all neighbours; None without a prediction. A container's unknown use adds no pressure.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0047-pricing.md; an order and its reverse, Castro et al., "Polynomial calculation of
        the Shapley value based on sampling", 2009.
    """
    of, nodes = scorer.snapshot, np.array([node], np.int32)
    home, seats = home_of(of, nodes), _seated(of, incoming, nodes)
    platform = of.node_platform[nodes]
    app = np.full(1, of.app_index.get(incoming.pending_pod.app, -1))
    own = scorer.bounded(seats.raw(felt_by_pending(of, home, nodes)), app, platform)
    residents, count = of.resident_app[home.resident], len(home.resident)
    theirs = scorer.bounded(home.raw(joined_pressure(home, seats)), residents, np.repeat(platform, count))
    adds = _mean_added(scorer, _felt(home, seats), np.repeat(app, 2 * count + 2), platform, count)
    added = _mean_added_to(scorer, home, seats, residents, platform)
    if not all(np.isfinite(values).all() for values in (own.low, own.high, theirs.low, theirs.high, adds, added)):
        return None
    [waits], wait = of.by_waiting(app), of.by_waiting(residents).tolist()
    names = [None if code < 0 else of.apps[code] for code in residents.tolist()]
    neighbours = tuple(
        Neighbour(
            of.containers[row],
            names[i],
            best_effort,
            _slowdown(theirs, i, by_waiting=wait[i]),
            adds=float(adds[i]),
            added=float(added[i]),
        )
        for i, (row, best_effort) in enumerate(
            zip(home.resident.tolist(), home.members.best_effort.tolist(), strict=True)
        )
    )
    return Colocation(_slowdown(own, 0, by_waiting=bool(waits)), neighbours)


def _slowdown(of: Bounded, row: int, *, by_waiting: bool) -> Slowdown:
    return Slowdown(float(of.low[row]), float(of.mean[row]), float(of.high[row]), by_waiting)


def _seated(of: Snapshot, incoming: IncomingPod, nodes: NDArray[np.int32]) -> Crowd:
    """The container on a node, with what is known of its use in the place of its app's profile."""
    seats = seats_of(of, incoming.pending_pod, nodes)
    use = np.where(np.isfinite(incoming.use), incoming.use, seats.members.use)
    return replace(seats, members=replace(seats.members, use=use))


def _felt(home: Crowd, seats: Crowd) -> Floats:
    """(2 k + 2, raw features) of the container next to all, all but each, each alone, and none."""
    count = len(home.resident)
    everybody = np.ones((1, count), np.bool_)
    sets = np.vstack([everybody, ~np.eye(count, dtype=np.bool_), np.eye(count, dtype=np.bool_), ~everybody])
    rows = [(*np.flatnonzero(one).tolist(), count) for one in sets]
    last = np.cumsum([len(one) for one in rows]) - 1
    pressure = pressures(_groups(_both(home, seats), rows))[last]
    return replace(seats, profile=seats.profile.repeat(len(rows), 0), facts=seats.facts.repeat(len(rows), 0)).raw(
        pressure
    )


def _mean_added(scorer: ModelScorer, raw: Floats, app: Ints, platform: Ints, count: int) -> Floats:
    """(k,) what each neighbour adds to the container, last and first of all."""
    mean = scorer.bounded(raw, app, np.repeat(platform, len(raw))).mean
    last = mean[0] - mean[1 : count + 1]
    first = mean[count + 1 : -1] - mean[-1]
    return np.asarray((last + first) / 2)


def _mean_added_to(scorer: ModelScorer, home: Crowd, seats: Crowd, app: Ints, platform: Ints) -> Floats:
    """(k,) what the container adds to each neighbour, last and first of all."""
    both, count = _both(home, seats), len(home.resident)
    everybody = list(range(count))
    alone = [(i,) for i in everybody]
    pairs = [(i, count) for i in everybody]
    pressed = [
        pressures(_groups(both, [(*everybody, count)]))[:count],
        pressures(_groups(both, [everybody]))[:count],
        pressures(_groups(both, pairs))[0::2],
        pressures(_groups(both, alone)),
    ]
    raw = np.concatenate([home.raw(pressure) for pressure in pressed])
    means = scorer.bounded(raw, np.tile(app, 4), np.repeat(platform, len(raw))).mean.reshape(4, count)
    return np.asarray((means[0] - means[1] + means[2] - means[3]) / 2)


def _both(home: Crowd, seats: Crowd) -> Members:
    """All containers, the estimated one last; unknown use adds no pressure."""
    return Members(
        group=np.zeros(len(home.resident) + 1, np.int64),
        use=np.nan_to_num(np.concatenate([home.members.use, seats.members.use])),
        capacity=np.concatenate([home.members.capacity, seats.members.capacity]),
        best_effort=np.concatenate([home.members.best_effort, seats.members.best_effort]),
        cpuset=[*home.members.cpuset, *seats.members.cpuset],
    )


def _groups(of: Members, rows: Sequence[Sequence[int]]) -> Members:
    """Some of the members, once for each set of rows."""
    every = np.array([row for one in rows for row in one], np.int64)
    return Members(
        group=np.repeat(np.arange(len(rows)), [len(one) for one in rows]),
        use=of.use[every],
        capacity=of.capacity[every],
        best_effort=of.best_effort[every],
        cpuset=[of.cpuset[row] for row in every.tolist()],
    )
