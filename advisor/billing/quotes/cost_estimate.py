"""Quotes: what a container would cost, by what a pool cost and sold in its newest hour. Kernel.

The container is put among what was metered and the hour is billed again, so that a quote and a bill are one arithmetic.
"""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from advisor.billing.interference.claims import WEIGHED
from advisor.billing.interference.expected_adjustment import (
    Amounts,
    Colocation,
    IncomingPod,
    Residents,
    Transfers,
    foreseen_transfers,
)
from advisor.billing.interference.transfers import Player
from advisor.billing.lines.accounts import account_of, accounts_by_team
from advisor.billing.pricing.charges import bill_pool_hours
from advisor.billing.pricing.price_book import PriceBook
from advisor.billing.quotes.errors import first_few, invalid_request
from advisor.errors import Invalid, NotFound
from features.columnar.arrow_columns import micros
from features.metering.units import MINUTES, RESOURCES
from features.metering.usage_hours import minutes_of
from features.schema.tables import METERED

MAX_HOURS = 8784
"""A leap year."""
MAX_UNITS = 1e6
"""Of a resource, that a container may be asked for."""
NO_NODE = "name a node: interference is estimated per node"
BEST_EFFORT = "BE"
"""Class of service of containers that get nothing back: their tier is cheaper instead."""
NOWHERE = ""
"""Node of a container that is quoted for a pool, wherever in it."""
METERED_NAMES = tuple(resource.name for resource in RESOURCES)


@dataclass(frozen=True, slots=True)
class Need:
    """What a container asks for of a resource and is expected to use, on average, in the units of table `metered`.

    Args:
        resource: as the price book calls it.
        request: units; None where nothing is requested: then what is used counts.
        use: units; None where it is not known: then all of the request counts as used.
    """

    resource: str
    request: float | None = None
    use: float | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A container to be quoted.

    Args:
        container: its uid; of a new one an unused name.
        app: None where unknown.
        team: that pays; None where it has none.
        tier: its class of service.
        needs: resource by resource.
        hours: that it runs.
    """

    container: str
    app: str | None
    team: str | None
    tier: str
    needs: tuple[Need, ...]
    hours: int = 1

    @property
    def account(self) -> str:
        """The account that pays."""
        return account_of(self.team)


@dataclass(frozen=True, slots=True)
class Sold:
    """A pool's hour.

    Args:
        book: by which it is billed.
        metered: rows of table `metered`.
        pool_hour: its row of table `pool_hours`.
    """

    book: PriceBook
    metered: pa.Table
    pool_hour: pa.Table


@dataclass(frozen=True, slots=True)
class Charge:
    """What a resource costs for an hour.

    Args:
        need: what is asked for.
        micro_unit_minutes: what is billed of it.
        unit: of the resource.
        unit_price_micros: for a unit and hour, the tier counted in.
        amount_micros: for the hour.
    """

    need: Need
    micro_unit_minutes: int
    unit: str
    unit_price_micros: float
    amount_micros: int


@dataclass(frozen=True, slots=True)
class Quote:
    """What a container would cost.

    Args:
        asked: the container.
        pool: where.
        node: where; None for the pool, wherever in it.
        hour_us: by what was sold in the hour that began then.
        book: price book that it is billed by.
        charges: an hour's, resource by resource; what has no price is left out, and free.
        base_micros: base charge of all hours.
        transfers: what interference would move, for all hours; None where that is not known.
        why: why it is not; empty else.
    """

    asked: Asked
    pool: str
    node: str | None
    hour_us: int
    book: PriceBook = field(repr=False)
    charges: tuple[Charge, ...]
    base_micros: int
    transfers: Transfers | None
    why: str = ""

    @property
    def shadow(self) -> bool:
        """Whether transfers are only shown."""
        return self.book.policy.shadow

    @property
    def with_transfers(self) -> Amounts | None:
        """Base charge, less the rebate, and the surcharge; the interval is that of both at their worst and best."""
        of = self.transfers
        if of is None:
            return None
        return Amounts(
            self.base_micros - of.rebate.high + of.surcharge.low,
            self.base_micros - of.rebate.expected + of.surcharge.expected,
            self.base_micros - of.rebate.low + of.surcharge.high,
        )

    @property
    def owed_micros(self) -> int:
        """What is expected to be paid: in shadow mode, and where transfers are not known, the base charge alone."""
        total = self.with_transfers
        return self.base_micros if self.shadow or total is None else total.expected


def quote(asked: Asked, sold: Sold, node: str | None, colocation: Colocation | None, why: str = "") -> Quote:
    """What a container would cost in a pool, and on a node of it.

    Args:
        asked: the container. What was metered of one of that uid is replaced.
        sold: what the pool cost and sold.
        node: where; None quotes the pool without transfers.
        colocation: what a model foresees there; None where it foresees nothing.
        why: why it does not, in words; for estimates of a pool it is given already.

    Returns:
        The base charge of each hour is what `bill_pool_hours` bills of it among all others, its own quantity counted
        in: a quote of a container that then comes is its bill, to the micro-unit.

    Raises:
        Invalid, NotFound: it does not say what is to be quoted.
        Conflict, AdvisorError: see `bill_pool_hours`.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    refuse_senseless(asked, sold.book)
    lines = _billed(asked, sold, node)
    charges = _charges(asked, sold.book, lines)
    base = sum(charge.amount_micros for charge in charges)
    foreseen = None
    if node is not None and colocation is not None:
        incoming = IncomingPod(
            asked.container, Player(asked.account, node), max(0, base), asked.tier == BEST_EFFORT, asked.hours
        )
        foreseen = foreseen_transfers(incoming, colocation, residents_of(asked, sold, node, lines), sold.book.policy)
    return Quote(
        asked=asked,
        pool=sold.pool_hour["pool"][0].as_py(),
        node=node,
        hour_us=int(micros(sold.pool_hour["hour"])[0]),
        book=sold.book,
        charges=charges,
        base_micros=base * asked.hours,
        transfers=foreseen,
        why="" if foreseen is not None else why or NO_NODE,
    )


def _charges(asked: Asked, book: PriceBook, lines: pa.Table) -> tuple[Charge, ...]:
    """What is billed of the container, resource by resource."""
    needs, units = {need.resource: need for need in asked.needs}, {price.resource: price.unit for price in book.prices}
    own = lines.filter(pc.and_(pc.equal(lines["kind"], "base"), pc.equal(lines["container"], asked.container)))
    return tuple(
        Charge(
            need=needs[row["resource"]],
            micro_unit_minutes=row["micro_unit_minutes"],
            unit=units[row["resource"]],
            unit_price_micros=row["unit_price_micros"],
            amount_micros=row["amount_micros"],
        )
        for row in own.to_pylist()
    )


def refuse_senseless(asked: Asked, book: PriceBook) -> None:
    """Nothing, if it says what is to be quoted.

    Raises:
        Invalid: nothing is asked for, something twice or without an amount, or an amount or time is out of range; a
            resource is not metered.
        NotFound: the book has no such tier.
    """
    names = [need.resource for need in asked.needs]
    if strange := sorted(set(names) - set(METERED_NAMES)):
        raise Invalid(f"resource {strange[0][:80]!r} is not metered: choose one of {first_few(METERED_NAMES)}")
    if asked.tier not in {tier.name for tier in book.tiers}:
        raise NotFound(
            f"tier {asked.tier[:80]!r} is not in price book {book.version!r}: choose one of "
            f"{first_few([tier.name for tier in book.tiers])}"
        )
    if not names or len(set(names)) < len(names):
        raise invalid_request("name at least one resource, each once")
    if not 1 <= asked.hours <= MAX_HOURS:
        raise invalid_request(f"{asked.hours} hours: use 1 to {MAX_HOURS}")
    for need in asked.needs:
        amounts = [amount for amount in (need.request, need.use) if amount is not None]
        if not amounts:
            raise invalid_request(f"give the request or use of {need.resource}")
        if not all(0 <= amount <= MAX_UNITS for amount in amounts):
            raise invalid_request(f"an amount of {need.resource} is outside 0 to {MAX_UNITS:,.0f} units")


def residents_of(asked: Asked, sold: Sold, node: str, lines: pa.Table) -> Residents:
    """Charges on a node without the estimated container.

    Args:
        asked: the container.
        sold: the pool's hour.
        node: where.
        lines: of the hour, the container among all others.
    """
    taken = pa.concat_tables([_others(asked, sold.metered), rows_of(asked, sold.pool_hour, node)])
    here = taken.filter(pc.equal(taken["node"], node))
    here = here.append_column("account", accounts_by_team(here["team"]))
    team = dict(zip(here["container"].to_pylist(), here["account"].to_pylist(), strict=True))
    billed = lines.filter(pc.and_(pc.equal(lines["kind"], "base"), pc.equal(lines["node"], node)))
    sums = billed.group_by("container", use_threads=False).aggregate([("amount_micros", "sum")])
    base = dict(zip(sums["container"].to_pylist(), sums["amount_micros_sum"].to_pylist(), strict=True))
    for of in (team, base):
        of.pop(asked.container, None)
    return Residents(team, base, _beyond(here))


def _beyond(here: pa.Table) -> frozenset[str]:
    """Accounts that used more of some resource in the hour than they requested, as claims has it."""
    weighed = here.filter(pc.is_in(here["resource"], pa.array(WEIGHED)))
    sums = weighed.group_by(["account", "resource"], use_threads=False).aggregate(
        [(name, "sum") for name in ("requested", "within", "beyond")]
    )
    more = pc.greater(pc.add(sums["within_sum"], sums["beyond_sum"]), sums["requested_sum"])
    return frozenset(sums["account"].filter(more).to_pylist())


def _billed(asked: Asked, sold: Sold, node: str | None) -> pa.Table:
    """Lines of the hour, the container among all others."""
    taken = pa.concat_tables([_others(asked, sold.metered), rows_of(asked, sold.pool_hour, node)])
    return bill_pool_hours(taken, sold.pool_hour, sold.book)


def _others(asked: Asked, metered: pa.Table) -> pa.Table:
    return metered.filter(pc.not_equal(metered["container"], asked.container))


def rows_of(asked: Asked, pool_hour: pa.Table, node: str | None) -> pa.Table:
    """What would be metered of a container that is there for a whole hour: rows of table `metered`."""
    place = {name: pool_hour[name][0].as_py() for name in ("cluster", "hour", "pool")}
    shared = {"node": node or NOWHERE, "container": asked.container, "app": asked.app}
    more = {"team": asked.team, "qos": asked.tier, "minutes": MINUTES, "gap_minutes": 0}
    rows = [place | shared | more | {"resource": need.resource} | _sums(need) for need in asked.needs]
    return pa.Table.from_pylist(rows, schema=METERED.schema)


def _sums(need: Need) -> dict[str, int]:
    """An hour of the same in every minute."""
    request, use = (
        np.full(MINUTES, np.nan if amount is None else amount, np.float64) for amount in (need.request, need.use)
    )
    minutes = minutes_of(request, use)
    return {name: int(getattr(minutes, name).sum()) for name in ("requested", "within", "beyond")}
