"""Leases: those that are open, and which pod holds which. An edge: it counts.

Read by a thread, which replaces all of them at once; held and asked on the event loop. The holder is published to
other workers and servers with its assumed pod.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge

from advisor.cluster.assumed_pod import Booked
from advisor.placement.reservation_match import LAPSED, Lease, Pod, ReservedNode, Workload, by_workload, reserved_node

T = TypeVar("T")

MOST_OPEN = 10_000
"""Leases that are read at once."""
MOST_HELD, MOST_COUNTED = 2 * MOST_OPEN, 10_000
"""Leases of which it is remembered who holds them, and pods of which it is remembered that they were counted."""
OUTCOMES = ("told", "target_not_offered", "landed", "elsewhere")


def _never() -> int:
    return 0


@dataclass
class Leases:
    """Where pods of moved workloads belong.

    Args:
        now_us: the clock.
        metrics: where is counted what came of leases.
    """

    now_us: Callable[[], int] = _never
    metrics: CollectorRegistry = field(default_factory=CollectorRegistry)
    holders: dict[str, str] = field(default_factory=dict, init=False)
    """As `reserved_node` has them, oldest first."""
    _of: Mapping[Workload, tuple[Lease, ...]] = field(default_factory=dict, init=False)
    _reserved: dict[str, None] = field(default_factory=dict, init=False)
    """Pods that got a reserved node from this process, until they are observed."""
    _missed: dict[str, None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._outcomes = Counter(
            "cohabit_steered_pods", "Pods that a lease was open for, by outcome.", ["outcome"], registry=self.metrics
        )
        for outcome in OUTCOMES:
            self._outcomes.labels(outcome)
        open_ones = Gauge("cohabit_leases_open", "Steering leases that have not expired.", registry=self.metrics)
        open_ones.set_function(self.open)

    def take(self, leases: Iterable[Lease]) -> None:
        """From now on these are open, and no others; for any thread."""
        self._of = by_workload(leases)

    def open(self) -> int:
        """How many have not expired."""
        now_us = self.now_us()
        return sum(lease.expires_us > now_us for leases in self._of.values() for lease in leases)

    def concern(self, pod: Pod) -> bool:
        """Whether there are leases of the pod's workload."""
        return pod.workload in self._of

    def reserved_node(self, pod: Pod, names: Collection[str]) -> ReservedNode | None:
        """See `advisor.placement.reservation_match.reserved_node`; counted once for each pod."""
        found = reserved_node(self._of.get(pod.workload, ()), pod, names, self.holders, now_us=self.now_us())
        if found is not None and found.lease is None:
            self._count(pod.uid, self._missed, "target_not_offered")
        elif found is not None and found.lease is not None and self.holders.get(found.lease.lease) != pod.uid:
            self._count(pod.uid, self._reserved, "told")  # counted by the first worker only
        return found

    def hold(self, booked: Booked) -> None:
        """A pod is on its way by a lease."""
        if not booked.lease:
            return
        self.holders.pop(booked.lease, None)
        _remember(self.holders, booked.lease, booked.uid, MOST_HELD)

    def ended(self, booked: Booked, seen_on: str | None) -> None:
        """A pod is no longer on its way: it keeps the lease for good on the lease's node, and leaves it otherwise.

        Args:
            booked: what ended.
            seen_on: the node where the pod is; None where it is not known to be anywhere.
        """
        if not booked.lease:
            return
        landed = seen_on == booked.node
        if not landed and self.holders.get(booked.lease) == booked.uid:
            self.holders[booked.lease] = LAPSED
        if seen_on is not None and booked.uid in self._reserved:
            del self._reserved[booked.uid]
            self._outcomes.labels("landed" if landed else "elsewhere").inc()

    def _count(self, uid: str, counted: dict[str, None], outcome: str) -> None:
        if uid not in counted:
            self._outcomes.labels(outcome).inc()
            _remember(counted, uid, None, MOST_COUNTED)


def _remember(where: dict[str, T], key: str, value: T, most: int) -> None:
    """Put it last, and forget the first where there are too many."""
    where[key] = value
    if len(where) > most:
        del where[next(iter(where))]
