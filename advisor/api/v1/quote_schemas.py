"""Bodies of cost estimates as JSON: requests and replies."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag

from advisor.api.http.base_schema import Body
from advisor.api.v1.plan_schemas import whole
from advisor.billing.interference.expected_adjustment import Amounts, Named, Slowdown, Transfers
from advisor.billing.quotes.cost_estimate import MAX_HOURS, MAX_UNITS, Charge, Need, Quote
from advisor.billing.quotes.quote_diff import Change
from advisor.billing.quotes.service import Answer, Ask

Name = Annotated[str, Field(min_length=1, max_length=253)]
Units = Annotated[float, Field(ge=0, le=MAX_UNITS, allow_inf_nan=False)]
Hours = Annotated[int, Field(ge=1, le=MAX_HOURS, description="Hours of the estimate."), BeforeValidator(whole)]
Resource = Literal["cpu", "memory", "gpu", "network", "disk"]


class _Ask(Body):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class NeedAsk(_Ask):
    """Request of a new container for a resource, and its expected average use."""

    request: Units
    """Request in cores, GiB or GPUs; for network and disk, which have no request, the traffic in GiB a minute."""
    use: Units | None = None
    """Expected use in the same units; default: the request."""


class OtherNeedAsk(_Ask):
    """Changed values; omitted ones stay."""

    request: Units | None = None
    """Request in cores, GiB or GPUs; for network and disk GiB a minute."""
    use: Units | None = None
    """Expected use in the same units."""


class NewAsk(_Ask):
    """A new container."""

    team: Name
    """Team that would pay; role team estimates for its own only."""
    resources: Annotated[dict[Resource, NeedAsk], Field(min_length=1)]
    """Needs by resource."""
    app: Name | None = None
    """Name of the app: its profile gives the effects between it and its neighbours."""
    tier: Name | None = None
    """Of the price book; default: the tier of containers of unknown class."""
    node: Name | None = None
    """Node; without it adjustments are unknown."""
    pool: Name | None = None
    """Pool, if no node is named."""
    hours: Hours = 1
    """Hours of the estimate."""

    def ask(self) -> Ask:
        """The same, as the domain names it."""
        needs = tuple(Need(name, of.request, of.use) for name, of in self.resources.items())
        return Ask(
            needs=needs, team=self.team, app=self.app, tier=self.tier, node=self.node, pool=self.pool, hours=self.hours
        )


class RunningAsk(_Ask):
    """A running container with another request, use or node; omitted values stay."""

    container: Name
    """Its name in records."""
    resources: dict[Resource, OtherNeedAsk] = Field(default_factory=dict)
    """Changed needs by resource."""
    move_to: Name | None = None
    """Target node."""
    hours: Hours = 1
    """Hours of the estimate."""

    def ask(self) -> Ask:
        """The same, as the domain names it."""
        needs = tuple(Need(name, of.request, of.use) for name, of in self.resources.items())
        return Ask(container=self.container, needs=needs, move_to=self.move_to, hours=self.hours)


def _which(body: object) -> str:
    """Selects the type of request: one that names a container is about a running one."""
    named = body.get("container") if isinstance(body, Mapping) else getattr(body, "container", None)
    return "new" if named is None else "running"


QuoteAsk = Annotated[Annotated[NewAsk, Tag("new")] | Annotated[RunningAsk, Tag("running")], Discriminator(_which)]


class SlowdownReply(Body):
    """A slowdown; 1.0 is the baseline. Expected value and 80 % interval."""

    low: float
    """Lower end of the interval."""
    expected: float
    """Mean."""
    high: float
    """Upper end of the interval."""
    by_waiting: bool
    """Whether the app is judged by waiting alone: no rebate rests on that."""


class AmountsReply(Body):
    """Micro-units: expected amount, and amounts at the ends of the slowdown intervals."""

    low: int
    """Smallest amount."""
    expected: int
    """Amount at the mean."""
    high: int
    """Largest amount."""


class ChargeReply(Body):
    """An hour of a resource."""

    resource: str
    """cpu, memory, gpu, network or disk."""
    unit: str
    """Unit of a quantity."""
    request: float | None
    """Requested units; null without a request."""
    use: float | None
    """Used units; null where unknown."""
    micro_unit_minutes: int
    """Billed micro-unit-minutes; 60,000,000 are a unit for an hour."""
    unit_price_micros: float
    """Price per unit and hour, with the tier's weight."""
    amount_micros: int
    """Charge, in millionths of the currency."""


class NeighbourReply(Body):
    """A container on the node."""

    container: str
    """Its name in records."""
    app: str | None
    """Null where unknown."""
    team: str | None
    """Team; null where not metered yet. For role team, `app` is null and `container` empty for other teams."""
    adds: float
    """Slowdown - 1 that it adds to the estimated container."""
    added: float
    """Slowdown - 1 that the estimated container adds to it."""
    slowdown: SlowdownReply
    """Its own slowdown, co-located with the estimated container."""
    liable: bool
    """Whether its team used more than it requested, and so pays for the slowdown it adds."""
    share_micros: int
    """Its share of the estimated container's rebate, before the cap."""


class TransfersReply(Body):
    """Adjustments for interference, for all hours."""

    slowdown: SlowdownReply
    """Slowdown of the estimated container."""
    alone_micros: int
    """Base charge of the time that its work takes without interference, by the expected slowdown."""
    rebate_micros: AmountsReply
    """Rebate; bills use the lower bound of the slowdown, so plan with `low`."""
    surcharge_micros: AmountsReply
    """Surcharge for the slowdown it adds to others."""
    neighbours: list[NeighbourReply]
    """Neighbours, strongest first."""


class CostReply(Body):
    """Cost estimate of a container."""

    book: str
    """Version of the price book."""
    currency: str
    """ISO 4217."""
    pool: str
    """Pool whose prices apply."""
    node: str | None
    """Node; null if none is named."""
    hour_us: int
    """Start of the metered hour that the prices are from, microseconds since 1970."""
    team: str
    """Team that would pay."""
    tier: str
    """Quality of service class."""
    hours: int
    """Hours of the estimate."""
    charges: list[ChargeReply]
    """Charges of one hour; resources without a price are free and left out."""
    base_micros: int
    """Base charge of all hours."""
    transfers: TransfersReply | None
    """Adjustments; null where unknown."""
    reason: str
    """Why adjustments are unknown; empty where known."""
    shadow: bool
    """Shadow mode: adjustments are shown, not charged."""
    total_micros: AmountsReply | None
    """Base charge minus rebate plus surcharge; owed outside shadow mode."""
    owed_micros: int
    """Expected payment."""


class ChangeReply(Body):
    """Estimate minus present cost; negative where lower."""

    base_micros: int
    """Millionths of the currency."""
    rebate_micros: AmountsReply | None
    """Rebate; null where adjustments are unknown."""
    surcharge_micros: AmountsReply | None
    """Surcharge; null where adjustments are unknown."""
    total_micros: AmountsReply | None
    """Total; null where adjustments are unknown."""
    owed_micros: int
    """Millionths of the currency."""


class QuoteReply(Body):
    """A cost estimate."""

    quote: CostReply
    """The requested estimate."""
    before: CostReply | None
    """Present cost of a running container."""
    change: ChangeReply | None
    """Compared with its present cost; null for a new container."""


def reply_of(answer: Answer) -> QuoteReply:
    """An answer as JSON."""
    return QuoteReply(
        quote=_cost(answer.quote),
        before=None if answer.before is None else _cost(answer.before),
        change=None if answer.change is None else _change(answer.change),
    )


def _cost(of: Quote) -> CostReply:
    return CostReply(
        book=of.book.version,
        currency=of.book.currency,
        pool=of.pool,
        node=of.node,
        hour_us=of.hour_us,
        team=of.asked.account,
        tier=of.asked.tier,
        hours=of.asked.hours,
        charges=[_charge(charge) for charge in of.charges],
        base_micros=of.base_micros,
        transfers=None if of.transfers is None else _transfers(of.transfers),
        reason=of.why,
        shadow=of.shadow,
        total_micros=_amounts(of.with_transfers),
        owed_micros=of.owed_micros,
    )


def _charge(of: Charge) -> ChargeReply:
    return ChargeReply(
        resource=of.need.resource,
        unit=of.unit,
        request=of.need.request,
        use=of.need.use,
        micro_unit_minutes=of.micro_unit_minutes,
        unit_price_micros=of.unit_price_micros,
        amount_micros=of.amount_micros,
    )


def _transfers(of: Transfers) -> TransfersReply:
    return TransfersReply(
        slowdown=_slowdown(of.slowdown),
        alone_micros=of.alone_micros,
        rebate_micros=_amounts_reply(of.rebate),
        surcharge_micros=_amounts_reply(of.surcharge),
        neighbours=[_neighbour(one) for one in of.neighbours],
    )


def _neighbour(one: Named) -> NeighbourReply:
    return NeighbourReply(
        container=one.of.container,
        app=one.of.app,
        team=one.team,
        adds=one.of.adds,
        added=one.of.added,
        slowdown=_slowdown(one.of.slowdown),
        liable=one.liable,
        share_micros=one.share_micros,
    )


def _change(of: Change) -> ChangeReply:
    return ChangeReply(
        base_micros=of.base_micros,
        rebate_micros=_amounts(of.rebate),
        surcharge_micros=_amounts(of.surcharge),
        total_micros=_amounts(of.total),
        owed_micros=of.owed_micros,
    )


def _slowdown(of: Slowdown) -> SlowdownReply:
    return SlowdownReply(low=of.low, expected=of.mean, high=of.high, by_waiting=of.by_waiting)


def _amounts_reply(of: Amounts) -> AmountsReply:
    return AmountsReply(low=of.low, expected=of.expected, high=of.high)


def _amounts(of: Amounts | None) -> AmountsReply | None:
    return None if of is None else _amounts_reply(of)
