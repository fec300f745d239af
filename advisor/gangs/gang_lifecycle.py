"""Gang lifecycle: a reservation of slots for all members of a gang, and what happens to it. Kernel.

A reservation is open until enough members are bound or its time is over; it is settled with all bound, or with at
least min_count bound at its end; it expires with fewer. Slots are held in one piece and given back in one piece.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal

from advisor.errors import Conflict
from advisor.gangs.gang_request import GangPlacement, GangRequest, Level, MemberClass

State = Literal["open", "settled", "expired", "released"]
STRAND_US = 300_000_000
"""How long the slot of a failed member is kept for its replacement."""
SEEN_US = 60_000_000
"""A bound member is taken off a node's room until the messages behind that room are so much newer than its binding."""
SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Slot:
    """A member's place.

    Args:
        member: its class, by number.
        node: where.
        state: open, bound by a pod, or lost by one that failed.
        uid: of the pod that is or was bound.
        at_us: of the last change.
    """

    member: int
    node: str
    state: Literal["open", "bound", "lost"] = "open"
    uid: str = ""
    at_us: int = 0


@dataclass(frozen=True, slots=True)
class GangReservation:
    """Slots of a gang, as one object.

    Args:
        id: of the reservation.
        cluster: of the gang.
        namespace: of the gang.
        gang: its name.
        generation: of its specification.
        members: its classes.
        min_count: members without which none may start.
        slots: one per member that was placed.
        level: of the domain.
        domain: name.
        cost: interference cost of all members.
        priority: recorded.
        reserve_us: for how long each renewal holds.
        created_us: when it was taken.
        until_us: when an open one ends.
        expected_s: expected run time, in seconds; None where unknown.
        state: see State.
        changed_us: last change.
    """

    id: str
    cluster: str
    namespace: str
    gang: str
    generation: int
    members: tuple[MemberClass, ...]
    min_count: int
    slots: tuple[Slot, ...]
    level: Level
    domain: str
    cost: float
    priority: int
    reserve_us: int
    created_us: int
    until_us: int
    expected_s: float | None = None
    state: State = "open"
    changed_us: int = 0

    @property
    def bound(self) -> int:
        """Members that are bound."""
        return sum(slot.state == "bound" for slot in self.slots)

    @property
    def ends_us(self) -> int | None:
        """When its members are expected to end; None where unknown."""
        return None if self.expected_s is None else self.created_us + int(self.expected_s * SECOND_US)


def begun(
    request: GangRequest, placement: GangPlacement, *, cluster: str, reserve_us: int, now_us: int
) -> GangReservation:
    """An open reservation of a placement; its id is of the gang, its generation and the time."""
    key = f"{cluster}/{request.group}/{request.generation}/{now_us}"
    return GangReservation(
        id=sha256(key.encode()).hexdigest()[:20],
        cluster=cluster,
        namespace=request.namespace,
        gang=request.gang,
        generation=request.generation,
        members=request.members,
        min_count=request.min_count,
        slots=tuple(Slot(seat.member, seat.node, at_us=now_us) for seat in placement.seats),
        level=placement.level,
        domain=placement.domain,
        cost=placement.cost,
        priority=request.priority,
        reserve_us=reserve_us,
        created_us=now_us,
        until_us=now_us + reserve_us,
        expected_s=request.expected_s,
        changed_us=now_us,
    )


def current(one: GangReservation, now_us: int) -> GangReservation:
    """The reservation at a time: an open one that is over has settled or expired; the same object where it stays."""
    if one.state != "open" or now_us < one.until_us:
        return one
    return replace(one, state="settled" if one.bound >= one.min_count else "expired", changed_us=now_us)


def held(one: GangReservation, now_us: int, as_of_us: int) -> Iterator[tuple[MemberClass, str]]:
    """Class and node of each slot that takes room.

    Args:
        one: a reservation.
        now_us: the time.
        as_of_us: newest message behind the room that the slots are taken off.

    Returns:
        Open slots while the reservation is open; lost ones for STRAND_US; bound ones until room shows their pods.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0077-gangs.md.
    """
    bound_ones = (slot for slot in one.slots if slot.state == "bound" and as_of_us < slot.at_us + SEEN_US)
    for slot in (*bound_ones, *(slot for slot, _ in waiting(one, now_us))):
        yield one.members[slot.member], slot.node


def waiting(one: GangReservation, now_us: int) -> Iterator[tuple[Slot, int]]:
    """Slots that wait for a pod, and until when: open ones of an open reservation, and lost ones for STRAND_US."""
    one = current(one, now_us)
    for slot in one.slots:
        if slot.state == "open" and one.state == "open":
            yield slot, one.until_us
        elif slot.state == "lost" and one.state in {"open", "settled"} and now_us < slot.at_us + STRAND_US:
            yield slot, slot.at_us + STRAND_US


def renewed(one: GangReservation, now_us: int) -> GangReservation:
    """An open reservation holds for its time again.

    Raises:
        Conflict: it is not open.
    """
    one = _open(one, now_us)
    return replace(one, until_us=now_us + one.reserve_us, changed_us=now_us)


def bound(one: GangReservation, uid: str, node: str, now_us: int) -> GangReservation:
    """A member is bound: it takes a slot on its node, first one that a failed member left, else any slot that is free.

    Raises:
        Conflict: the reservation is over, or all its slots are bound.
    """
    one = current(one, now_us)
    if any(slot.uid == uid and slot.state == "bound" for slot in one.slots):
        return one
    free = [at for at, slot in enumerate(one.slots) if slot.state != "bound"]
    if one.state not in {"open", "settled"} or not free:
        raise Conflict(f"gang {one.gang!r} is {one.state} and has {len(free)} free slots: reserve again")
    at = min(free, key=lambda at: (one.slots[at].node != node, one.slots[at].state != "lost", at))
    slots = _with(one.slots, at, Slot(one.slots[at].member, node, "bound", uid, now_us))
    until = max(one.until_us, now_us + one.reserve_us) if one.state == "open" else one.until_us
    after = replace(one, slots=slots, until_us=until, changed_us=now_us)
    return replace(after, state="settled") if after.bound == len(slots) else after


def lost(one: GangReservation, uid: str, now_us: int) -> GangReservation:
    """A bound member failed: its slot is kept for the replacement; the same object where no such member is bound."""
    one = current(one, now_us)
    at = next((at for at, slot in enumerate(one.slots) if slot.uid == uid and slot.state == "bound"), None)
    if at is None or one.state not in {"open", "settled"}:
        return one
    return replace(
        one, slots=_with(one.slots, at, replace(one.slots[at], state="lost", at_us=now_us)), changed_us=now_us
    )


def released(one: GangReservation, now_us: int) -> GangReservation:
    """No slot is kept any more; the same object where none was."""
    one = current(one, now_us)
    return replace(one, state="released", changed_us=now_us) if one.state in {"open", "settled"} else one


def _open(one: GangReservation, now_us: int) -> GangReservation:
    if (one := current(one, now_us)).state != "open":
        raise Conflict(f"the reservation of gang {one.gang!r} is {one.state}: reserve again")
    return one


def _with(slots: tuple[Slot, ...], at: int, slot: Slot) -> tuple[Slot, ...]:
    return (*slots[:at], slot, *slots[at + 1 :])
