"""Reservations: those that are open, and which pod holds which. An edge.

Read by a thread, which replaces all of them at once; held and asked on the event loop. The holder is published to
other workers and servers with its assumed pod.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Gauge

from advisor.cluster.assumed_pod_load import Booked
from advisor.placement.evicted_pod_metrics import EvictedPodMetrics, remember
from advisor.placement.reservation_match import (
    LAPSED,
    Pod,
    Reservation,
    ReservedNode,
    Workload,
    by_workload,
    reserved_node,
)

MAX_OPEN = 10_000
"""Reservations that are read at once."""
MAX_HELD = 2 * MAX_OPEN
"""Reservations of which it is remembered who holds them."""


def _never() -> int:
    return 0


@dataclass
class Reservations:
    """Where pods of moved workloads belong.

    Args:
        now_us: the clock.
        metrics: registry of the counters of reservations.
    """

    now_us: Callable[[], int] = _never
    metrics: CollectorRegistry = field(default_factory=CollectorRegistry)
    holders: dict[str, str] = field(default_factory=dict, init=False)
    """As `reserved_node` has them, oldest first."""
    by_workload: Mapping[Workload, tuple[Reservation, ...]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._pods = EvictedPodMetrics(self.metrics)
        open_ones = Gauge("cohabit_reservations_open", "Reservations that have not expired.", registry=self.metrics)
        open_ones.set_function(self.open)

    def take(self, reservations: Iterable[Reservation]) -> None:
        """From now on these are open, and no others; for any thread."""
        self.by_workload = by_workload(reservations)

    def open(self) -> int:
        """How many have not expired."""
        now_us = self.now_us()
        return sum(one.expires_us > now_us for each in self.by_workload.values() for one in each)

    def concern(self, pod: Pod) -> bool:
        """Whether the pod's workload has reservations."""
        return pod.workload in self.by_workload

    def reserved_node(self, pod: Pod, names: Collection[str]) -> ReservedNode | None:
        """See `advisor.placement.reservation_match.reserved_node`; counted once for each pod."""
        found = reserved_node(self.by_workload.get(pod.workload, ()), pod, names, self.holders, now_us=self.now_us())
        if found is not None and found.reservation is None:
            self._pods.target_not_offered(pod.uid)
        elif (
            found is not None
            and found.reservation is not None
            and self.holders.get(found.reservation.reservation) != pod.uid
        ):
            self._pods.pinned(pod.uid)  # counted by the first worker only
        return found

    def hold(self, booked: Booked) -> None:
        """Count a pod that is assumed by a reservation."""
        self.holders.pop(booked.reservation, None)
        remember(self.holders, booked.reservation, booked.uid, MAX_HELD)

    def ended(self, booked: Booked, seen_on: str | None) -> None:
        """A pod is no longer assumed: on the reserved node it keeps the reservation, else it releases it.

        Args:
            booked: what ended.
            seen_on: the node where the pod is; None where it is not known to be anywhere.
        """
        if not booked.reservation:
            return
        landed = seen_on == booked.node
        if not landed and self.holders.get(booked.reservation) == booked.uid:
            self.holders[booked.reservation] = LAPSED
        if seen_on is not None:
            self._pods.observed(booked.uid, scheduled=landed)
