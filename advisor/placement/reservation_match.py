"""Reservations: the node reserved for the replacement of a pod that a plan evicted. Kernel.

An eviction names no target: the workload makes another pod, and a scheduler puts it anywhere. A reservation says for a
while where the next pod of that workload belongs. One reservation serves one pod.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

LAPSED = ""
"""Holder of a reservation that was given to a pod that never arrived."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """The next pod of a workload belongs on a node.

    Args:
        reservation: name of the reservation.
        cluster: of the workload.
        namespace: of the workload.
        app: of the workload, as `ingest.schema.workload_identity.identify` returns it.
        template_hash: that the pod must carry; empty for any.
        node: where it belongs.
        expires_us: until when.
        plan: that it carries out.
        step: of that plan.
    """

    reservation: str
    cluster: str
    namespace: str
    app: str
    template_hash: str
    node: str
    expires_us: int
    plan: str
    step: int


class Pod(NamedTuple):
    """The pods that a reservation may be for.

    Args:
        namespace: of the pod.
        app: of the pod.
        template_hash: that it carries; empty where it does not say.
        uid: of the pod.
    """

    namespace: str
    app: str
    template_hash: str
    uid: str

    @property
    def workload(self) -> "Workload":
        """Key of reservations."""
        return self.namespace, self.app


Workload = tuple[str, str]
"""Namespace and app."""


@dataclass(frozen=True, slots=True)
class ReservedNode:
    """The match of a pod with open reservations.

    Args:
        reservation: the reservation of its node; None if no reserved node is a candidate: all nodes are feasible.
    """

    reservation: Reservation | None

    def failed(self, names: Iterable[str]) -> dict[str, str]:
        """Offered nodes where the pod does not belong, each with the reason."""
        if self.reservation is None:
            return {}
        why = f"cohabit: reservation {self.reservation.reservation} pins this pod to another node"
        return {name: why for name in names if name != self.reservation.node}


def by_workload(reservations: Iterable[Reservation]) -> dict[Workload, tuple[Reservation, ...]]:
    """Reservations of each workload, in the order in which they are given: by expiry, then by step."""

    def key(reservation: Reservation) -> Workload:
        return reservation.namespace, reservation.app

    ordered = sorted(reservations, key=lambda one: (key(one), one.expires_us, one.step, one.reservation))
    return {workload: tuple(group) for workload, group in groupby(ordered, key)}


def reserved_node(
    reservations: Sequence[Reservation], pod: Pod, names: Collection[str], holders: Mapping[str, str], *, now_us: int
) -> ReservedNode | None:
    """The candidate node of a pod, and its reservation.

    One node, also where several would do: the next pod must know which is left.

    Args:
        reservations: reservations of the pod's workload, in the order of `by_workload`.
        pod: who.
        names: offered nodes.
        holders: uid of the pod that holds a reservation, by reservation; LAPSED where that pod never arrived.
        now_us: microseconds since 1970.

    Returns:
        The reservation that the pod already holds if its node is offered, else the first unassigned one, else the
        first that lapsed; a ReservedNode without reservation where no node of theirs is offered. None where no
        reservation is open for the pod: all have expired, are of another template or are held by others.

    Raises:
        Nothing.

    Source: ours.
    """
    its_own = [
        one
        for one in reservations
        if _admits(one, pod, now_us) and holders.get(one.reservation, LAPSED) in {LAPSED, pod.uid}
    ]
    if not its_own:
        return None
    offered = frozenset(names)
    there = (one for one in its_own if one.node in offered)
    return ReservedNode(min(there, key=lambda one: _rank(holders.get(one.reservation), pod), default=None))


def _admits(reservation: Reservation, pod: Pod, now_us: int) -> bool:
    return reservation.expires_us > now_us and reservation.template_hash in {"", pod.template_hash}


def _rank(holder: str | None, pod: Pod) -> int:
    return 1 if holder is None else 0 if holder == pod.uid else 2
