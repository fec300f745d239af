"""Assumed pods: pods that will probably arrive on a node before any metric shows them. Kernel.

Until the first metric of a placed pod its node looks as free as before, so every pod goes there: the herd effect. So
a pending pod is assumed on its best node, by its uid. Another request for the uid moves it; it ends when the pod is
observed among the residents; after two metric intervals without a sign, it ends too.

Source: ours, DESIGN §6; the herd is what Mitzenmacher, "How useful is old information?", PODC 1997, warns of.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from advisor.cluster.pending_pod import PodClass
from advisor.cluster.snapshot import Snapshot
from features.training.residents import DEMAND

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Booked:
    """One assumed pod.

    Args:
        uid: of the pod.
        node: where it is assumed.
        of: its class.
        at_us: since when.
        group: it belongs to; empty for none.
        reservation: the reservation of its node; empty for none.
    """

    uid: str
    node: str
    of: PodClass
    at_us: int
    group: str = ""
    reservation: str = ""


def crowded(snapshot: Snapshot, nodes: Collection[str], booked: Iterable[Booked]) -> Snapshot:
    """A snapshot of only some nodes, with those booked there as residents of which nothing is measured yet.

    An assumed pod of an unknown app has the use of its team and the sensitivity of any unknown app.

    Args:
        snapshot: of all nodes.
        nodes: names; those that the snapshot does not hold are left out.
        booked: assumed pods on these nodes.

    Returns:
        The nodes in the snapshot's order, each with its residents and then its bookings.

    Raises:
        Nothing.

    Source: ours.
    """
    rows = sorted(snapshot.node_index[name] for name in nodes if name in snapshot.node_index)
    coming: dict[str, list[Booked]] = defaultdict(list)
    for one in booked:
        coming[one.node].append(one)
    assumed = [coming[snapshot.nodes[row]] for row in rows]
    seats = [(int(snapshot.first[row]), int(snapshot.first[row + 1])) for row in rows]
    residents = np.concatenate([np.arange(*seat) for seat in seats] or [np.zeros(0, np.int64)])
    ends = np.cumsum([end - begin for begin, end in seats], dtype=np.int64)
    after = np.repeat(ends, [len(each) for each in assumed])
    flat = [pod for each in assumed for pod in each]
    use = snapshot.resident_use[residents]
    where = np.repeat(np.array(rows, np.int64), [len(each) for each in assumed])
    return replace(
        snapshot,
        racks=(),
        nodes=tuple(snapshot.nodes[row] for row in rows),
        containers=_appended(snapshot.containers, seats, [[pod.uid for pod in each] for each in assumed]),
        cpusets=_appended(snapshot.cpusets, seats, [[None] * len(each) for each in assumed]),
        node_platform=snapshot.node_platform[rows],
        node_capacity=snapshot.node_capacity[rows],
        node_facts=snapshot.node_facts[rows],
        node_seen_us=snapshot.node_seen_us[rows],
        node_known=snapshot.node_known[rows],
        node_offered=snapshot.node_offered[rows] if snapshot.node_offered.size else snapshot.node_offered,
        first=np.append(
            0, np.cumsum([e - b + len(g) for (b, e), g in zip(seats, assumed, strict=True)], dtype=np.int64)
        ),
        resident_app=np.insert(
            snapshot.resident_app[residents], after, [snapshot.app_index.get(g.of.app, -1) for g in flat]
        ),
        resident_best_effort=np.insert(
            snapshot.resident_best_effort[residents], after, [g.of.best_effort for g in flat]
        ),
        resident_use=np.insert(use, after, _expected_use(snapshot, flat, where), axis=0),
    )


def _appended(values: Sequence[T], seats: Sequence[tuple[int, int]], more: Sequence[Sequence[T]]) -> tuple[T, ...]:
    """Values of each node's residents, then what is added there."""
    nodes = zip(seats, more, strict=True)
    return tuple(one for (begin, end), added in nodes for one in (*values[begin:end], *added))


def _expected_use(snapshot: Snapshot, assumed: Sequence[Booked], nodes: NDArray[np.int64]) -> NDArray[np.float64]:
    """(g, resources) expected use of assumed pods of unknown apps and known teams on their nodes; else NaN.

    Of known apps a scorer knows the profile, and of all others what is expected of any.
    """
    team = np.array([-1 if g.of.app else snapshot.team_index.get(g.of.team, -1) for g in assumed], np.int64)
    expected = snapshot.expected(team, snapshot.node_platform[nodes])[:, DEMAND] * snapshot.node_capacity[nodes]
    return np.where((team >= 0)[:, None], expected, np.nan)
