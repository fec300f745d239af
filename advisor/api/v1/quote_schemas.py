"""Bodies of quotes as JSON: what is asked for, and what it would cost."""

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
Hours = Annotated[int, Field(ge=1, le=MAX_HOURS, description="That it runs."), BeforeValidator(whole)]
Resource = Literal["cpu", "memory", "gpu", "network", "disk"]


class _Ask(Body):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class NeedAsk(_Ask):
    """What a new container requests of a resource and is expected to use of it, on average."""

    request: Units
    """Cores, GiB or GPUs; of network and disk nothing is requested, and this is what is moved, GiB a minute."""
    use: Units | None = None
    """In the same units; all of the request counts as used where it is left out."""


class OtherNeedAsk(_Ask):
    """What is to be other than it is; what is left out stays."""

    request: Units | None = None
    """Cores, GiB or GPUs; of network and disk GiB a minute."""
    use: Units | None = None
    """In the same units."""


class NewAsk(_Ask):
    """A new container."""

    team: Name
    """Who would pay; role team quotes for its own alone."""
    resources: Annotated[dict[Resource, NeedAsk], Field(min_length=1)]
    """What it needs, by resource."""
    app: Name | None = None
    """Name of the app: its profile gives the effects between it and its neighbours."""
    tier: Name | None = None
    """Of the price book; default: the tier of containers of unknown class."""
    node: Name | None = None
    """Left out, transfers are not known."""
    pool: Name | None = None
    """Where no node is named."""
    hours: Hours = 1
    """That it runs."""

    def ask(self) -> Ask:
        """The same, as the domain names it."""
        needs = tuple(Need(name, of.request, of.use) for name, of in self.resources.items())
        return Ask(
            needs=needs, team=self.team, app=self.app, tier=self.tier, node=self.node, pool=self.pool, hours=self.hours
        )


class RunningAsk(_Ask):
    """A container that runs: another request or use, another node, or both; as it is where neither is said."""

    container: Name
    """Its name in records."""
    resources: dict[Resource, OtherNeedAsk] = Field(default_factory=dict)
    """What is to be other, by resource."""
    move_to: Name | None = None
    """A node."""
    hours: Hours = 1
    """That it runs."""

    def ask(self) -> Ask:
        """The same, as the domain names it."""
        needs = tuple(Need(name, of.request, of.use) for name, of in self.resources.items())
        return Ask(container=self.container, needs=needs, move_to=self.move_to, hours=self.hours)


def _which(body: object) -> str:
    """Which of the two is asked: who names a container asks about one that runs."""
    named = body.get("container") if isinstance(body, Mapping) else getattr(body, "container", None)
    return "new" if named is None else "running"


QuoteAsk = Annotated[Annotated[NewAsk, Tag("new")] | Annotated[RunningAsk, Tag("running")], Discriminator(_which)]


class SlowdownReply(Body):
    """A slowdown, 1.0 is the baseline: expected value and 80 % interval."""

    low: float
    """Of the interval."""
    expected: float
    """On the mean."""
    high: float
    """Of the interval."""


class AmountsReply(Body):
    """Micro-units: what is expected, and what they are by the ends of the slowdowns' intervals."""

    low: int
    """By the end at which it is least."""
    expected: int
    """On the mean."""
    high: int
    """By the end at which it is most."""


class ChargeReply(Body):
    """An hour of a resource."""

    resource: str
    """cpu, memory, gpu, network or disk."""
    unit: str
    """What a quantity of it is counted in."""
    request: float | None
    """In units; null where nothing is requested."""
    use: float | None
    """In units; null where it is not known."""
    micro_unit_minutes: int
    """That are billed; 60,000,000 are a unit for an hour."""
    unit_price_micros: float
    """For a unit and hour, the tier counted in."""
    amount_micros: int
    """Millionths of the currency."""


class NeighbourReply(Body):
    """A container on the node."""

    container: str
    """Its name in records."""
    app: str | None
    """Null where unknown."""
    team: str | None
    """Null where it was not metered yet; of another team also `app` is null and `container` none where a team asks."""
    adds: float
    """Slowdown - 1 that it adds to the quoted container."""
    added: float
    """Slowdown - 1 that the quoted container adds to it."""
    slowdown: SlowdownReply
    """Its own, co-located with the estimated container."""
    liable: bool
    """Whether its team used more than it requested, and pays for what it adds."""
    share_micros: int
    """Of what it would get back, the quoted container's part, before the cap."""


class TransfersReply(Body):
    """What interference would move, for all the hours."""

    slowdown: SlowdownReply
    """Of the quoted container."""
    alone_micros: int
    """The base charge for the time that its work takes alone, by the expected slowdown."""
    rebate_micros: AmountsReply
    """What it would get back; bills go by what surely was, so that `low` is what to count on."""
    surcharge_micros: AmountsReply
    """What it would pay for what it adds to others."""
    neighbours: list[NeighbourReply]
    """Who adds most first."""


class CostReply(Body):
    """What a container costs."""

    book: str
    """Version of the price book."""
    currency: str
    """ISO 4217."""
    pool: str
    """Whose prices count."""
    node: str | None
    """Null where none is meant."""
    hour_us: int
    """By what was sold in the hour that began then."""
    team: str
    """Who would pay."""
    tier: str
    """Class of service."""
    hours: int
    """That it runs."""
    charges: list[ChargeReply]
    """Of one hour; what has no price is free and left out."""
    base_micros: int
    """Of all the hours."""
    transfers: TransfersReply | None
    """Null where they are not known."""
    reason: str
    """Why transfers are not known; empty where they are."""
    shadow: bool
    """Adjustments are shown, and not paid yet."""
    total_micros: AmountsReply | None
    """Base charge less the rebate, and the surcharge; what would be owed, in shadow mode."""
    owed_micros: int
    """What is expected to be paid."""


class ChangeReply(Body):
    """What the quote is more than what it costs as it is; negative where less."""

    base_micros: int
    """Millionths of the currency."""
    rebate_micros: AmountsReply | None
    """Null where transfers are not known."""
    surcharge_micros: AmountsReply | None
    """Null where transfers are not known."""
    total_micros: AmountsReply | None
    """Null where transfers are not known."""
    owed_micros: int
    """Millionths of the currency."""


class QuoteReply(Body):
    """A quote."""

    quote: CostReply
    """What was asked about."""
    before: CostReply | None
    """Of a container that runs: what it costs as it is."""
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
        team=of.asked.team,
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
    return SlowdownReply(low=of.low, expected=of.mean, high=of.high)


def _amounts_reply(of: Amounts) -> AmountsReply:
    return AmountsReply(low=of.low, expected=of.expected, high=of.high)


def _amounts(of: Amounts | None) -> AmountsReply | None:
    return None if of is None else _amounts_reply(of)
