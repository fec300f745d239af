"""Gangs: groups of pods that start together or not at all, as JSON."""

from collections.abc import Callable
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request
from prometheus_client import Counter
from pydantic import BeforeValidator, ConfigDict, Field

from advisor.api.http.base_schema import Body
from advisor.api.http.concurrency_limit import ConcurrencyLimit
from advisor.api.http.openapi import refusals
from advisor.api.http.roles import Role, allowed
from advisor.api.v1.plan_schemas import whole
from advisor.cluster.pending_pod import PodClass
from advisor.errors import Unavailable
from advisor.gangs.gang_desk import Asked, GangDesk
from advisor.gangs.gang_lifecycle import GangReservation, State
from advisor.gangs.gang_request import (
    MAX_CLASSES,
    MAX_MEMBERS,
    GangPlacement,
    GangRequest,
    Infeasible,
    Level,
    MemberClass,
    Mode,
)

WRITERS: tuple[Role, ...] = ("scheduler", "admin")
READERS: tuple[Role, ...] = ("scheduler", "sre", "planner", "admin")
AT_ONCE, WAITING = 1, 64
"""A placement takes tens of milliseconds, in the process of the extender API."""
NO_STORE = "gangs need the database: run `cohabit admin database migrate`, or set COHABIT_DATABASE"
Id = Annotated[str, Path(pattern="^[0-9a-f]{1,40}$")]
Name = Annotated[str, Field(min_length=1, max_length=253)]
PARTS = 1000
"""Of a device, in which shares are counted."""
KEY = r"^[-A-Za-z0-9_.]+$"
"""Names that Kubernetes accepts, as the database keeps them."""
Members = Annotated[int, Field(ge=1, le=MAX_MEMBERS), BeforeValidator(whole)]
Uid = Annotated[str, Field(min_length=1, max_length=253)]


class Strict(Body):
    """A body that names only known fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class GangMembers(Strict):
    """Members that are alike."""

    name: Name
    """Name of the class."""
    app: Name
    """App of the members."""
    team: Annotated[str, Field(max_length=253)] | None = None
    """Team of the app; an unknown app gets the cold-start prior of this team."""
    best_effort: bool = False
    """Whether they are best effort."""
    count: Members
    """Number of members."""
    cpu_cores: float = Field(default=0.0, ge=0, le=1e5)
    """Cores requested by each."""
    memory_bytes: float = Field(default=0.0, ge=0, le=1e15)
    """Memory requested by each."""
    devices: Annotated[int, Field(ge=0, le=64), BeforeValidator(whole)] | Annotated[float, Field(gt=0, lt=1)] = 0
    """GPU devices requested by each: whole ones, or a share of one, rounded to thousandths."""

    def domain(self) -> MemberClass:
        """The same, as the domain names it."""
        share = 0 if isinstance(self.devices, int) else min(max(round(self.devices * PARTS), 1), PARTS - 1)
        return MemberClass(
            name=self.name,
            of=PodClass(self.app, self.best_effort, self.team or ""),
            count=self.count,
            cores=self.cpu_cores,
            memory_bytes=self.memory_bytes,
            devices=self.devices if isinstance(self.devices, int) else 0,
            share=share,
        )


class Topology(Strict):
    """Domain that members should share."""

    level: Level = "set"
    """`node`, `rack`, `zone`, or `set` for all candidate nodes."""
    mode: Mode = "required"
    """`required`: one domain or none. `preferred`: several domains at a cost, where no single one has room."""


class GangAsk(Strict):
    """A gang that wants to start."""

    gang: str = Field(min_length=1, max_length=253, pattern=KEY)
    """Name of the gang, as its pods carry it."""
    namespace: str = Field(default="default", min_length=1, max_length=63, pattern=KEY)
    """Namespace of the gang."""
    generation: Annotated[int, Field(ge=0, le=2**53), BeforeValidator(whole)] = 0
    """Generation of its specification; each is reserved once, and a newer one releases the older."""
    members: Annotated[list[GangMembers], Field(min_length=1, max_length=MAX_CLASSES)]
    """Classes of members."""
    min_count: Annotated[int, Field(ge=1, le=MAX_CLASSES * MAX_MEMBERS), BeforeValidator(whole)] | None = None
    """Members without which none may start; default: all."""
    topology: Topology = Topology()
    """Domain that members should share."""
    nodes: Annotated[list[Name], Field(max_length=10_000)] | None = None
    """Candidate nodes; default: all."""
    reserve_s: float = Field(default=120.0, ge=1, le=3600)
    """Seconds that the reservation holds; each renewal and each bound member extends it."""
    priority: Annotated[int, Field(ge=-(2**31), lt=2**31), BeforeValidator(whole)] = 0
    """Priority, recorded with the reservation."""
    expected_s: float | None = Field(default=None, gt=0, le=1e8)
    """Expected run time in seconds, for the `earliest_us` of others; null where unknown."""
    dry_run: bool = False
    """Only compute the placement; nothing is reserved."""

    def request(self) -> GangRequest:
        """The same, as the domain names it."""
        members = tuple(one.domain() for one in self.members)
        return GangRequest(
            self.namespace,
            self.gang,
            members,
            sum(one.count for one in members) if self.min_count is None else self.min_count,
            self.generation,
            self.topology.level,
            self.topology.mode,
            self.priority,
            self.expected_s,
            None if self.nodes is None else tuple(self.nodes),
        )


class SeatReply(Body):
    """The place of one member."""

    member: str
    """Name of its class."""
    node: str
    """Node."""


class PlacementReply(Body):
    """A placement of at least `min_count` members."""

    level: Level
    """Level of the domain; `set` where no node declares the level that was asked for."""
    domain: str
    """Name of the domain."""
    domains: int
    """Number of domains that hold members."""
    cost: float
    """Interference cost of all members; a latency-sensitive container at twice its baseline costs 2."""
    among_members_cost: float
    """Part of it that members cause each other."""
    break_cost: float
    """Cost of the largest recent gang that no longer fits the domain; not in `cost`."""
    seats: list[SeatReply]
    """Place of each member."""


class InfeasibleReply(Body):
    """Reason why fewer than `min_count` members have a place."""

    missing: dict[str, int]
    """Members without a place by class, in the best domain."""
    best: str
    """Best domain, and what runs short there."""
    earliest_us: int | None
    """When running gangs with an expected end leave enough room, microseconds since 1970; null where unknown."""


class SlotReply(SeatReply):
    """A reserved place."""

    state: Literal["open", "bound", "lost"]
    """`bound` by a pod, `lost` by one that failed, or `open`."""
    uid: str
    """Pod that is or was bound; empty for none."""


class ReservationReply(Body):
    """Slots of a gang."""

    id: str
    """Name of the reservation."""
    namespace: str
    """Namespace of the gang."""
    gang: str
    """Name of the gang."""
    generation: int
    """Generation of its specification."""
    state: State
    """`open`, `settled` with enough members bound, `expired` or `released`."""
    min_count: int
    """Members without which none may start."""
    bound: int
    """Members that are bound."""
    level: Level
    """Level of the domain."""
    domain: str
    """Name of the domain."""
    cost: float
    """Interference cost of all members, as computed for the reservation."""
    priority: int
    """Priority of the request."""
    created_us: int
    """Time of the reservation, microseconds since 1970."""
    until_us: int
    """End of an open reservation, microseconds since 1970."""
    slots: list[SlotReply]
    """One per member."""


class GangReply(Body):
    """Answer to a gang: a placement, a reservation, or the reason why there is none."""

    feasible: bool
    """Whether at least `min_count` members can start together."""
    placement: PlacementReply | None = None
    """Where; null where it is infeasible or was reserved before."""
    reservation: ReservationReply | None = None
    """Slots; null with `dry_run` and where it is infeasible."""
    infeasible: InfeasibleReply | None = None
    """Why not; null where it is feasible."""


class GangsReply(Body):
    """Reservations of gangs."""

    gangs: list[ReservationReply]
    """Those that hold room, or did within the last hour, oldest first."""


class BoundPod(Strict):
    """A member that was bound."""

    uid: Uid
    """Pod."""
    node: Name
    """Node."""


class RenewAsk(Strict):
    """News of members; without any the reservation is only extended."""

    bound: list[BoundPod] = Field(default_factory=list, max_length=MAX_MEMBERS)
    """Members that were bound since; each takes a slot on its node, else any other."""
    failed: list[Uid] = Field(default_factory=list, max_length=MAX_MEMBERS)
    """Bound pods that failed: their slots are kept for 300 s."""


def gang_routes(desk: GangDesk | None, rejected: Counter) -> APIRouter:
    """Routes of gangs; without a database all report the missing setting."""
    router = APIRouter()
    limit = ConcurrencyLimit(AT_ONCE, WAITING, rejected)

    @router.post("/v1/gangs", responses=refusals(400, 408, 409, 413, 422, 503))
    @allowed(*WRITERS)
    async def reserve(ask: GangAsk, request: Request) -> GangReply:
        """Reserve slots for a whole gang, at least `min_count` members at once or none; repeated calls are the same."""
        at, wanted = _opened(desk), ask.request()
        for one in wanted.members:
            at.want(one.of)
        work: Callable[[], Asked] = lambda: at.reserve(wanted, int(ask.reserve_s * 1e6))  # noqa: E731
        return reply_of(wanted, await limit.run(request, (lambda: at.ask(wanted)) if ask.dry_run else work))

    @router.get("/v1/gangs", responses=refusals(503))
    @allowed(*READERS)
    def gangs() -> GangsReply:
        """Reservations that hold room, or did within the last hour."""
        return GangsReply(gangs=[row_of(one) for one in _opened(desk).reservations()])

    @router.delete("/v1/gangs/{id}", responses=refusals(404, 422, 503))
    @allowed(*WRITERS)
    def release(id: Id) -> ReservationReply:  # noqa: A002 - name of the parameter
        """Release all slots of a reservation; may be repeated."""
        return row_of(_opened(desk).release(id))

    @router.post("/v1/gangs/{id}/renew", responses=refusals(400, 404, 408, 409, 413, 422, 503))
    @allowed(*WRITERS)
    def renew(id: Id, ask: RenewAsk) -> ReservationReply:  # noqa: A002 - name of the parameter
        """Extend a reservation, and report members that were bound or failed."""
        return row_of(_opened(desk).renew(id, [(one.uid, one.node) for one in ask.bound], ask.failed))

    return router


def _opened(desk: GangDesk | None) -> GangDesk:
    if desk is None:
        raise Unavailable(NO_STORE)
    return desk


def reply_of(request: GangRequest, asked: Asked) -> GangReply:
    """The answer as JSON."""
    found, names = asked.placement, [one.name for one in request.members]
    reservation = None if asked.reservation is None else row_of(asked.reservation)
    if isinstance(found, Infeasible):
        why = InfeasibleReply(missing=found.missing, best=found.best, earliest_us=found.earliest_us)
        return GangReply(feasible=False, infeasible=why)
    return GangReply(feasible=True, placement=_placement(found, names), reservation=reservation)


def _placement(found: GangPlacement | None, names: list[str]) -> PlacementReply | None:
    if found is None:
        return None
    return PlacementReply(
        level=found.level,
        domain=found.domain,
        domains=found.domains,
        cost=found.cost,
        among_members_cost=found.among_members,
        break_cost=found.break_cost,
        seats=[SeatReply(member=names[seat.member], node=seat.node) for seat in found.seats],
    )


def row_of(one: GangReservation) -> ReservationReply:
    """A reservation as JSON."""
    names = [member.name for member in one.members]
    same = {name: getattr(one, name) for name in ReservationReply.model_fields if name != "slots"}
    slots = [SlotReply(member=names[slot.member], node=slot.node, state=slot.state, uid=slot.uid) for slot in one.slots]
    return ReservationReply(**same, slots=slots)
