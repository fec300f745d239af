"""Gang desk: answers whether a gang can start, and reserves its slots, all of them or none. An edge."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge
from sqlalchemy import Connection, Engine

from advisor.admission.node_room import Rooms, rooms_by_use
from advisor.cluster.pending_pod import PodClass
from advisor.cluster.snapshot import Snapshot
from advisor.database.engine import reading
from advisor.errors import Conflict, Unavailable
from advisor.gangs.gang_columns import ClassCosts, GangColumns, gang_columns
from advisor.gangs.gang_lifecycle import GangReservation, begun, bound, current, held, lost, released, renewed
from advisor.gangs.gang_request import GangPlacement, GangRequest, Infeasible
from advisor.gangs.gang_store import (
    Grants,
    grants_of,
    of_key,
    one_of,
    owning,
    put,
    read_grants,
    recent_sizes,
    sweep,
    with_known_end,
)
from advisor.gangs.joint_placement import placed

RESERVE_US = 120_000_000
"""How long a reservation holds unless the request says otherwise."""
RECENT = 200
"""Gangs whose sizes are the recent mix."""
GPU = "nvidia.com/gpu"
"""Extended resource that devices are counted by."""


def _unheard(_of: PodClass, /) -> None:
    """No score table learns of requested classes."""


Held = Iterable[tuple[PodClass, str]]
Costs = Callable[[Sequence[PodClass], Held], ClassCosts]
"""Costs of classes on all nodes, with members of other gangs; raises Unavailable where there are none."""
OUTCOMES = ("granted", "infeasible", "expired", "conflicts")


@dataclass(frozen=True, slots=True)
class Asked:
    """The answer to a request: a placement or why there is none, and the reservation unless it was only tried."""

    placement: GangPlacement | Infeasible | None
    reservation: GangReservation | None = None


@dataclass
class GangDesk:
    """Where gangs are placed and reserved.

    Args:
        engine: the store.
        snapshot: the newest one; None before the first.
        rooms: what its nodes have left by requests; None where only its use is known.
        costs: see Costs.
        now_us: the clock.
        metrics: registry of the counters.
        want: called with every requested class, on the event loop.
    """

    engine: Engine
    snapshot: Callable[[], Snapshot | None]
    rooms: Callable[[], Rooms | None]
    costs: Costs
    now_us: Callable[[], int]
    metrics: CollectorRegistry = field(default_factory=CollectorRegistry)
    want: Callable[[PodClass], None] = _unheard

    def __post_init__(self) -> None:
        self._counted = Counter(
            "cohabit_gangs", "Gang requests and reservations, by outcome.", ["outcome"], registry=self.metrics
        )
        self._slots = Gauge("cohabit_gang_slots_held", "Slots of gangs that are reserved.", registry=self.metrics)
        for outcome in OUTCOMES:
            self._counted.labels(outcome)

    def ask(self, request: GangRequest) -> Asked:
        """Where a gang would start now, without a reservation; the one that it has where it has one.

        Raises:
            Conflict, Unavailable, StoreUnavailable: see `reserve`.
        """
        snapshot = self._snapshot()
        with reading(self.engine) as connection:
            known, seen = self._read(connection, snapshot.cluster, request)
        return Asked(None, known) if known is not None else Asked(self._placed(request, snapshot, seen))

    def reserve(self, request: GangRequest, reserve_us: int = RESERVE_US) -> Asked:
        """Reserve slots for at least min_count members at once, or none.

        The placement is computed before the store has an owner, and once again by the owner where grants have changed
        since. A generation is reserved once; a newer one releases the older.

        Raises:
            Conflict: a newer generation of the gang is reserved.
            Unavailable: there is nothing to place it by.
            StoreUnavailable: the database does not answer; then nothing is reserved.
        """
        snapshot = self._snapshot()
        with reading(self.engine) as connection:
            known, seen = self._read(connection, snapshot.cluster, request)
        if known is not None:
            return Asked(None, known)
        found = self._placed(request, snapshot, seen)
        with owning(self.engine) as connection:
            self._ended(sweep(connection, snapshot.cluster, self.now_us()))
            known, now = self._read(connection, snapshot.cluster, request)
            if known is not None:
                return Asked(None, known)
            if now.grants.version != seen.grants.version:
                self._counted.labels("conflicts").inc()
                found = self._placed(request, snapshot, now)
            self._counted.labels("granted" if isinstance(found, GangPlacement) else "infeasible").inc()
            if not isinstance(found, GangPlacement):
                return Asked(found)
            for older in now.older:
                put(connection, released(older, now.at_us))
            made = begun(request, found, cluster=snapshot.cluster, reserve_us=reserve_us, now_us=now.at_us)
            put(connection, made)
        return Asked(found, made)

    def _read(
        self, connection: Connection, cluster: str, request: GangRequest
    ) -> tuple[GangReservation | None, "Seen"]:
        """The reservation that a gang has, and what a new one is placed by.

        Raises:
            Conflict: a newer generation is reserved.
        """
        now_us = self.now_us()
        grants = grants_of(connection, cluster, now_us)
        own = [current(one, now_us) for one in of_key(connection, cluster, request.namespace, request.gang)]
        alive = sorted((one for one in own if one.state in {"open", "settled"}), key=lambda one: one.generation)
        newest = alive[-1] if alive else None
        if newest is not None and newest.generation > request.generation:
            raise Conflict(f"generation {newest.generation} of gang {request.group!r} is reserved: ask for that one")
        recent, running = recent_sizes(connection, cluster, RECENT), with_known_end(connection, cluster, now_us)
        known = newest if newest is not None and newest.generation == request.generation else None
        return known, Seen(now_us, grants, recent, running, alive)

    def renew(self, name: str, bound_on: Sequence[tuple[str, str]] = (), failed: Sequence[str] = ()) -> GangReservation:
        """Hold a reservation for its time again, or take members that were bound, by uid and node, or failed, by uid.

        Raises:
            NotFound: there is none of that id.
            Conflict: it is over.
        """

        def changed(one: GangReservation, now_us: int) -> GangReservation:
            for uid in failed:
                one = lost(one, uid, now_us)
            for uid, node in bound_on:
                one = bound(one, uid, node, now_us)
            return one if bound_on or failed else renewed(one, now_us)

        return self._change(name, changed)

    def release(self, name: str) -> GangReservation:
        """Give all slots of a reservation back; one that is over stays as it is.

        Raises:
            NotFound: there is none of that id.
        """
        return self._change(name, released)

    def _change(self, name: str, step: Callable[[GangReservation, int], GangReservation]) -> GangReservation:
        cluster = self._snapshot().cluster
        with owning(self.engine) as connection:
            now_us = self.now_us()
            self._ended(sweep(connection, cluster, now_us))
            before = one_of(connection, cluster, name)
            after = step(before, now_us)
            if after != before:
                put(connection, after)
        return after

    def reservations(self) -> list[GangReservation]:
        """Reservations that hold room, or did within the last hour, as they are now; ended ones are counted."""
        cluster, now_us = self._snapshot().cluster, self.now_us()
        grants = read_grants(self.engine, cluster, now_us)
        if any(current(one, now_us) is not one for one in grants.gangs):
            with owning(self.engine) as connection:
                self._ended(sweep(connection, cluster, now_us))
                grants = grants_of(connection, cluster, now_us)
        self._slots.set(sum(1 for one in grants.gangs for _ in held(one, now_us, now_us)))
        return grants.gangs

    def _ended(self, ended: Iterable[GangReservation]) -> None:
        self._counted.labels("expired").inc(sum(one.state == "expired" for one in ended))

    def _snapshot(self) -> Snapshot:
        if (snapshot := self.snapshot()) is None:
            raise Unavailable("no snapshot yet: check that `cohabit refresh` runs")
        return snapshot

    def _placed(self, request: GangRequest, snapshot: Snapshot, seen: "Seen") -> GangPlacement | Infeasible:
        return placed_by(request, snapshot, self.rooms(), self.costs, seen)


class Seen(NamedTuple):
    """What a gang is placed by: a time, grants, recent sizes, gangs with an expected end, its older generations."""

    at_us: int
    grants: Grants = Grants(0, [])
    recent: Sequence[int] = ()
    running: Sequence[GangReservation] = ()
    older: Sequence[GangReservation] = ()


def placed_by(
    request: GangRequest, snapshot: Snapshot, rooms: Rooms | None, costs: Costs, seen: Seen, *, device: str = GPU
) -> GangPlacement | Infeasible:
    """The best placement of a gang with the slots of others taken off.

    Args:
        request: the gang.
        snapshot: of the cluster.
        rooms: what its nodes have left; None, or those of another cluster, for what it uses.
        costs: see Costs.
        seen: what else it is placed by.
        device: name of the extended resource that devices are counted by.

    Returns:
        See `advisor.gangs.joint_placement.placed`; an infeasible one with the time when it will be feasible.

    Raises:
        Unavailable: there are no costs.

    Source: ours, docs/decisions/0077-gangs.md.
    """
    rooms = rooms_by_use(snapshot) if rooms is None or rooms.cluster != snapshot.cluster else rooms
    older = {one.id for one in seen.older}
    alive = [released(one, seen.at_us) if one.id in older else one for one in seen.grants.gangs]
    taken = [slot for one in alive for slot in held(one, seen.at_us, rooms.as_of_us)]
    priced = costs([one.of for one in request.members], ((one.of, node) for one, node in taken))
    columns = gang_columns(snapshot, rooms, request, priced, device).without(taken)
    found = placed(request, columns, seen.recent)
    if isinstance(found, Infeasible):
        return replace(found, earliest_us=earliest_us(request, columns, seen.running))
    return found


def earliest_us(request: GangRequest, columns: GangColumns, running: Sequence[GangReservation]) -> int | None:
    """When enough gangs with an expected end are over for a gang to start; None where that is not enough.

    Args:
        request: the gang.
        columns: its candidate nodes now.
        running: settled gangs with an expected end, the first to end first.

    Returns:
        Microseconds since 1970.

    Raises:
        Nothing.

    Source: Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995: the shadow time of a waiting job.
    """

    def fits_after(number: int) -> bool:
        ended = ((one.members[slot.member], slot.node) for one in running[:number] for slot in one.slots)
        return isinstance(placed(request, columns.with_freed(ended)), GangPlacement)

    number = bisect_left(range(len(running) + 1), True, lo=1, key=fits_after) if running else 1
    return running[number - 1].ends_us if number <= len(running) and fits_after(number) else None
