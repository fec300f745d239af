"""Bills: what a provider billed for pools, from CSV to whole micro-units by the hour. Kernel.

Costs are decimal numbers and stay exact. What is finer than a micro-unit is carried from row to row of a pool, so that
its total is right to the last one.
"""

import csv
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from io import StringIO

import pyarrow as pa

from features.metering.currencies import CURRENCIES, MEANT
from features.schema.errors import FeaturesError
from features.schema.tables import BILLS

MICROS = 1_000_000
HOUR = timedelta(hours=1)
MAX_ROWS = 5_000_000
"""Rows by the hour of one bill: a year of 500 pools."""
LONGEST = timedelta(days=3653)
"""Of one row: what is reserved for longer is not sold."""
MAX_COST = Decimal(10**12)
MAX_TOTAL = 9 * Decimal(10**12)
"""Of all rows without their signs: 64 bits hold as many micro-units."""
TAGS = "Tags"
POOL_TAG = "x_pool"


@dataclass(frozen=True, slots=True)
class Columns:
    """How a form of bill calls what is read of it.

    Args:
        pool: column of the pool; where it is empty, key POOL_TAG of column Tags names it.
        start: first hour, ISO 8601.
        end: first hour that is not in it any more.
        cost: decimal number, in units of the currency; negative is a credit.
        currency: ISO 4217.
        poolless: whether a row may be of no pool.
    """

    pool: str
    start: str
    end: str
    cost: str
    currency: str
    poolless: bool = False


PLAIN = Columns("pool", "start", "end", "cost", "currency")
FOCUS = Columns("ResourceName", "ChargePeriodStart", "ChargePeriodEnd", "BilledCost", "BillingCurrency", True)
"""FOCUS 1.x, cost and usage. EffectiveCost, the other cost, spreads what was paid in advance over what it covers."""
ZONE = " UTC"
"""Ending of times in exports of Google Cloud; ISO 8601 does not have it."""


@dataclass(frozen=True, slots=True)
class Bill:
    """A bill by the hour, and what of it is no pool's.

    Args:
        rows: of table `bills`.
        poolless: number of rows of the bill that name no pool: taxes, support, commitments.
        poolless_costs: what these come to, by currency.
    """

    rows: pa.Table
    poolless: int
    poolless_costs: Mapping[str, Decimal]


@dataclass(frozen=True, slots=True)
class _Item:
    """One row of a bill."""

    line: int
    pool: str
    start: datetime
    hours: int
    cost: Decimal
    currency: str


def read_bill(content: str, name: str, cluster: str, columns: Columns) -> Bill:
    """A bill by the hour.

    Args:
        content: CSV with a header.
        name: of the bill.
        cluster: whose pools it names.
        columns: what they are called in it; others are ignored.

    Returns:
        A row of the bill is spread over its hours evenly, by largest remainder, the first hours first; all of a pool
        are its cost to the micro-unit. Rows of FOCUS without a pool are counted and summed, and left out.

    Raises:
        FeaturesError: with the line, the column and what to do.

    Source: ours, docs/decisions/0049-billing.md.
    """
    every = list(_items(content, name, columns))
    if not every:
        raise _wrong(name, 1, columns.cost, "there are no rows below the header: export the bill again")
    items, others = [one for one in every if one.pool], [one for one in every if not one.pool]
    if not items:
        raise _wrong(name, 1, columns.pool, f"no row names a pool, nor tag {POOL_TAG}: name it with --pool-column")
    if (spent := sum((abs(item.cost) for item in items), Decimal())) > MAX_TOTAL:
        raise _wrong(name, 1, columns.cost, f"it comes to {spent:,.0f} (limit {MAX_TOTAL:,}): cut it up")
    total = sum(item.hours for item in items)
    if total > MAX_ROWS:
        raise _wrong(name, 1, columns.start, f"it is {total:,} hours of pools (limit {MAX_ROWS:,}): cut it up")
    found: dict[str, list[object]] = {field: [] for field in BILLS.schema.names}
    for item, micros in _whole(items):
        for number, amount in enumerate(_evenly(micros, item.hours)):
            hour = item.start + number * HOUR
            row = (hour, item.pool, f"{item.line}/{hour:%Y-%m-%dT%H}", amount, item.currency)
            for field, value in zip(("hour", "pool", "item", "cost_micros", "currency"), row, strict=True):
                found[field].append(value)
    found["cluster"], found["bill"] = [cluster] * total, [name] * total
    rows = pa.table(found, schema=BILLS.schema).sort_by([(key, "ascending") for key in ("hour", *BILLS.key)])
    costs: dict[str, Decimal] = defaultdict(Decimal)
    for item in others:
        costs[item.currency] += item.cost
    return Bill(rows, len(others), dict(costs))


def _items(content: str, name: str, columns: Columns) -> Iterator[_Item]:
    reader = csv.DictReader(StringIO(content.removeprefix("\ufeff"), newline=""))
    head = _head(reader, name)
    needed = [columns.start, columns.end, columns.cost, columns.currency]
    needed += [] if TAGS in head else [columns.pool]
    for column in needed:
        if column not in head:
            raise _wrong(name, 1, column, f"the header does not have it, only {', '.join(head)[:200] or 'nothing'}")
        if head.count(column) > 1:
            raise _wrong(name, 1, column, "the header has it twice: leave one")
    for row in _rows(reader, name):
        if None in row:
            raise _wrong(name, reader.line_num, head[-1], "there are more cells than the header has: quote commas")
        yield _item(row, reader.line_num, name, columns)


def _head(reader: "csv.DictReader[str]", name: str) -> Sequence[str]:
    try:
        return reader.fieldnames or ()
    except csv.Error as error:
        raise _wrong(name, 1, "header", f"it is no CSV ({error}): export the bill again") from error


def _rows(reader: "csv.DictReader[str]", name: str) -> Iterator[dict[str, str | None]]:
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise _wrong(name, reader.line_num + 1, "any", f"it is no CSV ({error}): export the bill again") from error
        if row is None:
            return
        yield dict(row)


def _item(row: Mapping[str, str | None], line: int, name: str, columns: Columns) -> _Item:
    currency = (row[columns.currency] or "").strip()
    if currency not in CURRENCIES:
        instead = MEANT.get(currency.upper(), "three capital letters such as USD, EUR or CNY")
        raise _wrong(name, line, columns.currency, f"{currency[:20]!r} is no currency of ISO 4217: write {instead}")
    cost, pool = _cost(row, line, name, columns.cost), (row.get(columns.pool) or "").strip() or _tagged(row.get(TAGS))
    if not pool and not columns.poolless:
        raise _wrong(name, line, columns.pool, "it is empty: name the pool, class@site")
    if not pool:
        return _Item(line, "", datetime.min.replace(tzinfo=UTC), 0, cost, currency)  # its times may be of any length
    start, end = (_hour(row, line, name, column) for column in (columns.start, columns.end))
    if end <= start:
        raise _wrong(name, line, columns.end, "it is not after the start: give the first hour that is not billed")
    if end - start > LONGEST:
        raise _wrong(name, line, columns.end, f"it is {(end - start).days:,} days after the start: look at the years")
    return _Item(line, pool, start, (end - start) // HOUR, cost, currency)


def _hour(row: Mapping[str, str | None], line: int, name: str, column: str) -> datetime:
    text = (row[column] or "").strip()
    try:
        moment = datetime.fromisoformat(text.removesuffix(ZONE))
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise _wrong(name, line, column, f"{text[:40]!r} is no time: write 2026-11-01T00:00:00Z") from error
    if moment.minute or moment.second or moment.microsecond:
        raise _wrong(name, line, column, f"{text[:40]} is within an hour: bill whole hours, UTC")
    return moment


def _cost(row: Mapping[str, str | None], line: int, name: str, column: str) -> Decimal:
    text = (row[column] or "").strip()
    try:
        cost = Decimal(text)
    except InvalidOperation as error:
        raise _wrong(name, line, column, f"{text[:40]!r} is no decimal number: write 1234.56") from error
    if not cost.is_finite() or cost.copy_abs() > MAX_COST:  # abs() would overflow
        raise _wrong(name, line, column, f"{text[:40]} is beyond {MAX_COST:,}: look at its unit")
    return cost


def _tagged(tags: str | None) -> str:
    try:
        parsed = json.loads(tags or "{}")
    except (ValueError, RecursionError):
        return ""
    pool = parsed.get(POOL_TAG) if isinstance(parsed, dict) else None
    return pool.strip() if isinstance(pool, str) else ""


def _whole(items: list[_Item]) -> Iterator[tuple[_Item, int]]:
    """Micro-units of each row: what its pool's total rises by, so that fractions are carried and none is lost."""
    exact: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for item in items:
        key = item.pool, item.currency
        exact[key] += item.cost * MICROS
        micros = int(exact[key].to_integral_value(ROUND_HALF_EVEN)) - sums[key]
        sums[key] += micros
        yield item, micros


def _evenly(micros: int, hours: int) -> list[int]:
    """An amount in equal parts, what cannot be parted in the first ones."""
    each, more = divmod(abs(micros), hours)
    sign = -1 if micros < 0 else 1
    return [sign * (each + (number < more)) for number in range(hours)]


def _wrong(bill: str, line: int, column: str, reason: str) -> FeaturesError:
    return FeaturesError(f"bill {bill!r}, line {line}, column {column}: {reason}; nothing was imported")
