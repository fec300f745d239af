"""Charges: a pool's cost of any number of hours, shared out by what was metered, as columns of lines. Kernel.

A quantity counts its resource's price and its tier. Either everybody together pays all of the cost (full recovery), or
the pool's capacity sells for its cost and what is not sold is idle, named by its cause.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from advisor.billing.lines.accounts import accounts_by_team
from advisor.billing.lines.line import KINDS, UNATTRIBUTED, Kind
from advisor.billing.lines.money import MICROS, exact_total, in_order, in_order_64
from advisor.billing.lines.schema import SCHEMA
from advisor.billing.pricing.billed_quantity import HOUR, billed_quantity, gap_quantity
from advisor.billing.pricing.idle_cost import causes_by_hour, causes_of, idle_shares, idle_worth
from advisor.billing.pricing.price_book import HOUR_US, PriceBook
from advisor.errors import AdvisorError, Conflict
from features.columnar.arrow_columns import micros
from features.columnar.composite_keys import joint, ranks
from features.schema.tables import IDLE
from ingest.schema.tables import TIMESTAMP

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
UNTOLD_TIER = "LS"
"""Tier of containers of unknown class: as everywhere, these are not best effort."""
BASE, NOT_TAKEN, REST = range(3)
"""Blocks of an hour's lines, in their order: base, idle by cause, unattributed."""
CANNOT = 2**62
SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")
_Other = tuple[int, int, Kind, str, int, str | None]
"""A line about no container: start of its hour, block, kind, account, amount, evidence."""


@dataclass(frozen=True)
class _Rows:
    """Priced rows of `metered` in the order of their lines, and what each counts.

    Args:
        source: the rows, as they came.
        order: (n,) place in the source of each line.
        hour_us: (n,) start of its hour.
        account: (n,) place in accounts.
        accounts: names, rising.
        kind: (n,) place in weights: which resource and tier.
        known: (n,) micro-unit-minutes.
        gap: (n,) micro-unit-minutes of minutes of which nothing is known.
        gap_minutes: (n,) how many these are.
        gaps: (g,) rows that have some, in the order of their lines, which are all of one account.
    """

    source: pa.Table
    order: Ints
    hour_us: Ints
    account: Ints
    accounts: list[str]
    kind: Ints
    known: Ints
    gap: Ints
    gap_minutes: Ints
    gaps: Ints

    def hours(self, starts: Ints) -> Iterator[tuple[slice, Ints]]:
        """Of each hour that starts then its rows, and its gaps."""
        gaps_us = self.hour_us[self.gaps]
        bounds = (np.searchsorted(of, starts, side=side).tolist() for of in (self.hour_us, gaps_us) for side in SIDES)
        for first, last, gap, after in zip(*bounds, strict=True):
            yield slice(first, last), self.gaps[gap:after]


@dataclass(frozen=True)
class _Weights:
    """What a micro-unit-minute counts, by resource and tier, all divided by what divides them all.

    Args:
        resources: of the book.
        tiers: of the book.
        of: by resource, then tier.
        of_capacity: by resource.
    """

    resources: list[str]
    tiers: list[str]
    of: list[int]
    of_capacity: list[int]

    def by_resource(self) -> dict[str, int]:
        """What a micro-unit-minute of capacity counts."""
        return dict(zip(self.resources, self.of_capacity, strict=True))


@dataclass(frozen=True, slots=True)
class _Rest:
    """Idle capacity of an hour: its worth relative to the used capacity, and its cost."""

    worth: int
    amount_micros: int


@dataclass
class _Lines:
    """Amounts of lines as they come about, and lines that are about no container."""

    amount: Ints
    gap_amount: Ints
    price: Floats
    gap_price: Floats
    others: list[_Other]


def bill_pool_hours(metered: pa.Table, pools: pa.Table, book: PriceBook, *, idle: pa.Table | None = None) -> pa.Table:
    """Lines of one pool that sum to its cost, hour by hour.

    Args:
        metered: rows of table `metered` of the pool, any order.
        pools: its rows of table `pool_hours`, each hour once; every hour of the former is among them.
        book: prices, tiers by class of service, rule, and who pays for idle cost. Resources that it has no price
            for are free. Containers without a class are of UNTOLD_TIER; account_of says which account a team has.
        idle: its rows of table `idle`, any order; idle capacity without a cause there is headroom.

    Returns:
        Rows of line_table.SCHEMA, in its order: a base line for each request or use, an unattributed one for each gap
        that counts, idle ones by cause and account; no row where nothing was requested or used. Where quantities are
        worth more than the capacity, the price falls until they cost what the pool does. With nothing at all to share
        by, the cost is one line to UNATTRIBUTED, and the others are 0. Of equal remainders the first line gets the
        unit; what is idle comes last.

    Raises:
        AdvisorError: rows are of several pools.
        Conflict: an hour's cost is not known; a class has no tier in the book, or a quantity is below 0 or absurd.

    Source: ours, docs/decisions/0047-pricing.md and 0049-billing.md.
    """
    _refuse_mixed(metered, pools)
    weights = _weights(book)
    rows = _rows(metered, book, weights)
    count = len(rows.order)
    amounts, prices = np.zeros((2, count), np.int64), np.full((2, count), np.nan)
    lines = _Lines(amounts[0], amounts[1], prices[0], prices[1], [])
    by_hour = causes_by_hour(IDLE.schema.empty_table() if idle is None else idle, weights.by_resource())
    pools = pools.sort_by("hour")
    starts = micros(pools["hour"])
    costs, capacities = (pools[name].to_pylist() for name in ("cost_micros", "capacity"))
    parts = zip(starts.tolist(), rows.hours(starts), costs, capacities, strict=True)
    for hour_us, part, cost, capacity in parts:
        rest = _share_out(rows, lines, part, weights, (cost, dict(capacity or ()), book.policy.recovery))
        if rest is None:
            lines.others += [(hour_us, REST, "unattributed", UNATTRIBUTED, cost, None)] if cost else []
        else:
            causes = causes_of(rest.worth, by_hour.get(hour_us, {}), _charged(rows, lines, part[0]), book.policy.idle)
            shares = idle_shares(rest.amount_micros, causes)
            lines.others += [
                (hour_us, NOT_TAKEN, one.kind, one.account, one.amount_micros, _json(paid_by=one.paid_by))
                for one in shares
            ]
    return _table(rows, lines, weights)


def _refuse_mixed(metered: pa.Table, pools: pa.Table) -> None:
    """Refuse rows of several pools, and hours without cost."""
    names = sorted({*pc.unique(metered["pool"]).to_pylist(), *pc.unique(pools["pool"]).to_pylist()})
    if len(names) > 1:
        raise AdvisorError(f"rows of several pools ({', '.join(names[:5])}): bill each pool separately")
    costly = pools.filter(pc.is_valid(pools["cost_micros"]))["hour"]
    hours = {*pc.unique(metered["hour"]).to_pylist(), *pc.unique(pools["hour"]).to_pylist()}
    if lacking := sorted(hours - {*costly.to_pylist()}):
        raise _no_cost(names[0], [f"{hour:%Y-%m-%d %H:%M} UTC" for hour in lacking])


def _weights(book: PriceBook) -> _Weights:
    of = [price.weight_micros * tier.ppm for price in book.prices for tier in book.tiers]
    of_capacity = [price.weight_micros * MICROS for price in book.prices]
    shared = gcd(*of, *of_capacity) or 1
    return _Weights(
        [price.resource for price in book.prices],
        [tier.name for tier in book.tiers],
        [weight // shared for weight in of],
        [weight // shared for weight in of_capacity],
    )


def _rows(metered: pa.Table, book: PriceBook, weights: _Weights) -> _Rows:
    """Rows with a request or use of a resource that has a price, in the order of their lines."""
    tiers = pc.coalesce(metered["qos"], pa.scalar(UNTOLD_TIER))
    if strange := sorted({*pc.unique(tiers).to_pylist()} - {*weights.tiers}):
        raise Conflict(
            f"cannot compute the billed quantity: class of service {', '.join(strange[:5])} is not a tier of price "
            f"book {book.version!r}: name it there"
        )
    resource = pc.index_in(metered["resource"], pa.array(weights.resources, pa.string()))
    source = metered.append_column("tier", pc.index_in(tiers, pa.array(weights.tiers, pa.string())))
    taken = pc.bit_wise_or(pc.bit_wise_or(source["requested"], source["within"]), source["beyond"])
    billed = pc.and_(pc.is_valid(resource), pc.not_equal(taken, 0))
    source = source.append_column("price", resource).filter(billed).combine_chunks()
    team = accounts_by_team(source["team"])
    account, accounts = ranks(team), sorted(pc.unique(team).to_pylist())
    hour_us = micros(source["hour"])
    hour = (hour_us - (hour_us.min() if len(hour_us) else 0)) // HOUR_US
    thing = joint([ranks(source[name]) for name in ("container", "node", "resource")])
    order = np.argsort(joint([hour, account, thing]), kind="stable")
    sums = {name: _whole(source[name])[order] for name in ("requested", "within", "beyond", "minutes", "gap_minutes")}
    known = billed_quantity(sums["requested"], sums["within"], sums["beyond"], book.policy.rule)
    gap = gap_quantity(known, sums["minutes"], sums["gap_minutes"])
    gaps = np.flatnonzero(gap)
    gaps = gaps[np.argsort(joint([hour, thing])[order[gaps]], kind="stable")]
    kind = _whole(source["price"]) * len(weights.tiers) + _whole(source["tier"])
    return _Rows(
        source=source,
        order=order,
        hour_us=hour_us[order],
        account=account[order],
        accounts=accounts,
        kind=kind[order],
        known=known,
        gap=gap,
        gap_minutes=sums["gap_minutes"],
        gaps=gaps,
    )


def _whole(column: pa.ChunkedArray) -> Ints:
    return np.asarray(column.cast(pa.int64()).to_numpy(), np.int64)


def _share_out(
    rows: _Rows, lines: _Lines, part: tuple[slice, Ints], weights: _Weights, pool: tuple[int, dict[str, int], str]
) -> _Rest | None:
    """Fill in an hour's amounts and prices; returns the idle cost, None without a basis to share it."""
    (hour, gaps), (cost, capacity, recovery) = part, pool
    quantity = np.concatenate([rows.known[hour], rows.gap[gaps]])
    kind = np.concatenate([rows.kind[hour], rows.kind[gaps]])
    shares, sold = _shares(quantity, kind, weights.of)
    worth = sum(weight * capacity.get(name, 0) for name, weight in weights.by_resource().items())
    rest = 0 if recovery == "full" and sold else idle_worth(worth, sold)
    if not sold + rest:
        return None
    if isinstance(shares, np.ndarray) and rest < CANNOT:
        amounts = in_order_64(cost, np.append(shares, rest))
    else:
        amounts = in_order(cost, [*map(int, shares), rest])
    prices = np.array([cost * weight * HOUR / (sold + rest) for weight in weights.of])
    count = hour.stop - hour.start
    lines.amount[hour], lines.gap_amount[gaps] = amounts[:count], amounts[count:-1]
    lines.price[hour], lines.gap_price[gaps] = prices[kind[:count]], prices[kind[count:]]
    return _Rest(rest, int(amounts[-1]))


def _charged(rows: _Rows, lines: _Lines, hour: slice) -> dict[str, int]:
    """What accounts are charged as base in an hour."""
    sums = np.zeros(len(rows.accounts), np.int64)
    np.add.at(sums, rows.account[hour], lines.amount[hour])
    return dict(zip(rows.accounts, sums.tolist(), strict=True))


def _shares(quantity: Ints, kind: Ints, weights: Sequence[int]) -> tuple[Ints | list[int], int]:
    """What each quantity counts, and all of them together: as columns where that fits."""
    if max(weights) * int(quantity.max(initial=0)) < CANNOT:
        shares = np.array(weights, np.int64)[kind] * quantity
        return shares, exact_total(shares)
    large = [weights[i] * q for i, q in zip(kind.tolist(), quantity.tolist(), strict=True)]
    return large, sum(large)


def _table(rows: _Rows, lines: _Lines, weights: _Weights) -> pa.Table:
    """The lines in their order: hour by hour base lines, idle ones, and last what is unattributed."""
    gaps, others = rows.gaps, sorted(lines.others)
    count = len(rows.order)
    blocks = np.repeat([BASE, REST], [count, len(gaps)])
    blocks = np.insert(blocks, count, [other[1] for other in others])
    hours = np.insert(rows.hour_us[np.append(np.arange(count), gaps)], count, [other[0] for other in others])
    place = np.lexsort((blocks, hours))

    def column(base: Ints, of_others: Sequence[int], of_gaps: Ints) -> Ints:
        return np.concatenate([base, np.array(of_others, np.int64), of_gaps])[place]

    none = [-1] * len(others)
    source = column(rows.order, none, rows.order[gaps])
    quantity = column(rows.known, none, rows.gap[gaps])
    price = np.concatenate([lines.price, np.full(len(others), np.nan), lines.gap_price[gaps]])[place]
    amount = column(lines.amount, [other[4] for other in others], lines.gap_amount[gaps])
    about, texts = _evidence(rows, gaps, weights)
    evidence = [*texts, *sorted({other[5] for other in others if other[5] is not None})]
    of_others = [-1 if other[5] is None else evidence.index(other[5], len(texts)) for other in others]
    found = {
        "hour": pa.array(hours[place], TIMESTAMP),
        "kind": _texts(column(*_kinds(count, others, len(gaps))), KINDS),
        "account": _accounts(rows, gaps, others, column),
        **{name: rows.source[name].take(_or_null(source)) for name in ("container", "node", "resource")},
        "amount_micros": pa.array(amount),
        "memo_micros": pa.nulls(len(place), pa.int64()),
        "micro_unit_minutes": _or_null(quantity),
        "unit_price_micros": pa.array(price, mask=np.isnan(price)),
        "evidence": _texts(column(about[:count], of_others, about[count:]), evidence),
    }
    return pa.table([found[field.name] for field in SCHEMA], schema=SCHEMA).combine_chunks()


def _kinds(count: int, others: Sequence[_Other], gaps: int) -> tuple[Ints, list[int], Ints]:
    """Places in KINDS."""
    base, rest = KINDS.index("base"), KINDS.index("unattributed")
    return np.full(count, base), [KINDS.index(other[2]) for other in others], np.full(gaps, rest)


def _accounts(
    rows: _Rows, gaps: Ints, others: Sequence[_Other], column: Callable[[Ints, Sequence[int], Ints], Ints]
) -> pa.Array:
    names = sorted({*rows.accounts, UNATTRIBUTED, *(other[3] for other in others)})
    at = {name: place for place, name in enumerate(names)}
    own = np.array([at[name] for name in rows.accounts], np.int64)[rows.account]
    return _texts(column(own, [at[other[3]] for other in others], np.full(len(gaps), at[UNATTRIBUTED])), names)


def _evidence(rows: _Rows, gaps: Ints, weights: _Weights) -> tuple[Ints, list[str]]:
    """(n + g,) of base lines and gaps what else they were worked out from, as a place in texts; and the texts."""
    texts = [_json(tier=tier) for tier in weights.tiers]
    codes, place = np.unique(rows.account[gaps] * 64 + rows.gap_minutes[gaps], return_inverse=True)
    gap_texts = [_json(minutes_not_known=code % 64, team=rows.accounts[code // 64]) for code in codes.tolist()]
    return np.append(rows.kind % len(weights.tiers), len(texts) + place), [*texts, *gap_texts]


def _json(**facts: int | str) -> str:
    return json.dumps(facts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _texts(places: Ints, texts: Sequence[str]) -> pa.Array:
    """(n,) texts; null where a place is below 0."""
    return pa.array(texts, pa.string()).take(_or_null(places))


def _or_null(values: Ints) -> pa.Array:
    """(n,) numbers; null where one is below 0."""
    return pa.array(values, mask=values < 0)


def _no_cost(pool: str, hours: Sequence[str]) -> Conflict:
    more = f" and {len(hours) - 1:,} more hours" if len(hours) > 1 else ""
    return Conflict(
        f"pool {pool!r} has no cost in the hour from {hours[0]}{more}: send cost_micros_per_hour of its nodes, or "
        "import its bill with `cohabit bill import`, then run `cohabit bill meter` for these hours again"
    )
