"""Booking: newcomers that will probably arrive on a node before any metric says so. Kernel.

Between a decision and the first metric of the pod a node looks as free as before, and everybody is sent there: the
herd. So a newcomer is booked on the node that was best for it, under its uid: asked again, the booking moves; seen
among the residents, it ends; after two metric intervals without a sign, it ends too.

Source: ours, DESIGN §6; the herd is what Mitzenmacher, "How useful is old information?", PODC 1997, warns of.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from advisor.replies import Changed, Said
from advisor.scoring import ModelScorer
from advisor.snapshot import Snapshot
from advisor.table import NewcomerClass, score_columns

KEPT_US = 120_000_000
"""Two metric intervals."""
MOST = 20_000
"""Bookings at once; older ones end sooner when there are more."""


@dataclass(frozen=True, slots=True)
class Booked:
    """One newcomer on its way."""

    uid: str
    node: str
    of: NewcomerClass
    at_us: int


@dataclass
class Bookings:
    """All that are on their way, by uid, oldest first."""

    _by_uid: dict[str, Booked] = field(default_factory=dict)

    def book(self, booked: Booked) -> set[str]:
        """Take a booking in; the nodes whose residents it changed."""
        before = self._by_uid.pop(booked.uid, None)
        self._by_uid[booked.uid] = booked
        dropped = [next(iter(self._by_uid))] if len(self._by_uid) > MOST else []
        return {booked.node} | ({before.node} if before else set()) | self._end(dropped)

    def settle(self, arrived: Collection[str], now_us: int) -> set[str]:
        """End bookings of containers that arrived or are overdue; the nodes that had them."""
        return self._end([b.uid for b in self._by_uid.values() if b.uid in arrived or now_us - b.at_us > KEPT_US])

    def on(self, nodes: Collection[str]) -> list[Booked]:
        """Bookings on some nodes."""
        return [booked for booked in self._by_uid.values() if booked.node in nodes]

    def nodes(self) -> set[str]:
        """Nodes with a booking."""
        return {booked.node for booked in self._by_uid.values()}

    def __len__(self) -> int:
        return len(self._by_uid)

    def _end(self, uids: Iterable[str]) -> set[str]:
        return {self._by_uid.pop(uid).node for uid in uids}


def crowded(snapshot: Snapshot, nodes: Collection[str], booked: Iterable[Booked]) -> Snapshot:
    """A snapshot of only some nodes, with those booked there as residents of which nothing is measured yet.

    Args:
        snapshot: of all nodes.
        nodes: names; those that the snapshot does not hold are left out.
        booked: newcomers on these nodes.

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
    guests = [coming[snapshot.nodes[row]] for row in rows]
    seats = [(int(snapshot.first[row]), int(snapshot.first[row + 1])) for row in rows]
    residents = np.concatenate([np.arange(*seat) for seat in seats] or [np.zeros(0, np.int64)])
    ends = np.cumsum([end - begin for begin, end in seats], dtype=np.int64)
    after = np.repeat(ends, [len(each) for each in guests])
    flat = [guest for each in guests for guest in each]
    use = snapshot.resident_use[residents]
    return replace(
        snapshot,
        nodes=tuple(snapshot.nodes[row] for row in rows),
        containers=tuple(
            uid
            for (begin, end), each in zip(seats, guests, strict=True)
            for uid in (*snapshot.containers[begin:end], *(guest.uid for guest in each))
        ),
        cpusets=tuple(
            cpuset
            for (begin, end), each in zip(seats, guests, strict=True)
            for cpuset in (*snapshot.cpusets[begin:end], *([None] * len(each)))
        ),
        node_platform=snapshot.node_platform[rows],
        node_capacity=snapshot.node_capacity[rows],
        node_facts=snapshot.node_facts[rows],
        node_seen_us=snapshot.node_seen_us[rows],
        node_known=snapshot.node_known[rows],
        first=np.append(
            0, np.cumsum([e - b + len(g) for (b, e), g in zip(seats, guests, strict=True)], dtype=np.int64)
        ),
        resident_app=np.insert(
            snapshot.resident_app[residents], after, [snapshot.app_index.get(g.of.app, -1) for g in flat]
        ),
        resident_best_effort=np.insert(
            snapshot.resident_best_effort[residents], after, [g.of.best_effort for g in flat]
        ),
        resident_use=np.insert(use, after, np.nan, axis=0),
    )


def with_bookings(
    scorer: ModelScorer, booked: Iterable[Booked], nodes: Collection[str], classes: Iterable[NewcomerClass]
) -> Changed:
    """What is said of classes on some nodes, those booked there counted as residents; to the bit that of the scorer."""
    view = crowded(scorer.snapshot, nodes, booked)
    asked = list(classes)
    found = score_columns(replace(scorer, snapshot=view), asked, np.arange(len(view.nodes), dtype=np.int32))
    return {
        of: {n: Said(p, c) for n, p, c in zip(view.nodes, points.tolist(), cost.tolist(), strict=True)}
        for of, points, cost in zip(asked, found.points, found.cost, strict=True)
    }
