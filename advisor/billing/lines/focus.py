"""FOCUS: lines as rows of the FinOps Open Cost and Usage Specification 1.2, which tools for cloud bills read.

Kernel. A row is what an account owes for one container, node, resource and kind on one day, or in one hour.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from advisor.billing.lines.line import PLATFORM, UNATTRIBUTED
from advisor.billing.lines.money import MICROS, apportion

VERSION = "1.2"
HOUR = 60 * MICROS
"""Micro-unit-minutes of a unit in an hour."""
Grain = Literal["day", "hour"]
LENGTH = {"day": timedelta(days=1), "hour": timedelta(hours=1)}
COLUMNS = (
    "AvailabilityZone",
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingAccountType",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "CapacityReservationId",
    "CapacityReservationStatus",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "CommitmentDiscountStatus",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceId",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "RegionId",
    "RegionName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "ServiceSubcategory",
    "SkuId",
    "SkuMeter",
    "SkuPriceDetails",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "SubAccountType",
    "Tags",
    "x_AllocatedMethodDetails",
    "x_AllocatedMethodId",
    "x_AllocatedResourceId",
    "x_AllocatedResourceName",
    "x_Kind",
    "x_MemoCost",
    "x_Pool",
)
"""In the order of the file: 47 of the specification, ours last; those that 1.3 has too are called as there."""
CATEGORY = {"rebate": "Credit", "surcharge": "Adjustment", "platform_share": "Adjustment", "rounding": "Adjustment"}
"""What is no usage."""
IDLE = "idle_"
DIGITS = 12
"""Of a ratio behind the point."""
DYNAMIC = ("scarcity", "scarcity_true_up")
Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Invoice:
    """What rows of one file of lines share.

    Args:
        cluster: cluster of the month.
        period: month that they are billed in: its bounds, and how it is written.
        about: month that they are about; another one where they are corrections.
        currency: ISO 4217.
        pool: class and site.
        book: version of the price book.
        units: of resources, from the price book.
        sign: -1 for a file that is taken back.
    """

    cluster: str
    period: tuple[datetime, datetime, str]
    about: str
    currency: str
    pool: str
    book: str
    units: Mapping[str, str]
    sign: int = 1


def focus_rows(lines: pa.Table, of: Invoice, grain: Grain = "day") -> Iterator[Row]:
    """Rows of FOCUS for lines of one file.

    Args:
        lines: rows of line_table.SCHEMA, any order.
        of: what they share.
        grain: whether hours of a day are added up.

    Returns:
        Rows whose BilledCost sums to that of the lines, to the micro-unit; values as they are written, empty for null.
        Each cause of idle cost is a charge of the pool, allocated to accounts with ratios that sum to 1.

    Raises:
        Nothing.

    Source: FinOps Foundation, FOCUS 1.2; which of our kinds is which charge: ours, docs/decisions/0049-billing.md.
    """
    rows = _summed(lines, grain)
    ratios = _ratios(rows)
    for number, row in enumerate(rows):
        yield _row(row, of, grain) | (_allocated(row, ratios[number], of) if number in ratios else {})


def rounding_rows(
    of: Invoice, owed_micros: Mapping[str, int], minor: Mapping[str, int], exponent: int
) -> Iterator[Row]:
    """What makes each account's invoice whole coins: a row for each that differs.

    Args:
        of: the month; its pool and book do not count.
        owed_micros: what accounts owe.
        minor: what they pay, in minor units.
        exponent: digits of the currency behind the point.
    """
    coin = MICROS // 10**exponent
    start, end, _ = of.period
    for account, amount in owed_micros.items():
        if added := minor[account] * coin - amount:
            row = {"account": account, "kind": "rounding", "amount": added, "hour": start}
            yield _row(row, of, "day") | {"ChargePeriodStart": _time(start), "ChargePeriodEnd": _time(end)}


def _summed(lines: pa.Table, grain: Grain) -> Sequence[dict[str, object]]:
    starts = lines["hour"].cast(pa.int64())
    starts = pc.fill_null(starts, pc.min(starts).as_py() or 0)  # what is about all hours of a file begins with them
    length = round(LENGTH[grain].total_seconds() * 1e6)
    floor = pc.multiply(pc.divide(starts, length), length)
    columns = {name: lines[name] for name in ("account", "kind", "container", "node", "resource")}
    columns |= {"amount": lines["amount_micros"], "quantity": lines["micro_unit_minutes"], "memo": lines["memo_micros"]}
    table = pa.table({"hour": floor, **columns})
    by = ["hour", "account", "kind", "container", "node", "resource"]
    grouped = table.group_by(by, use_threads=False).aggregate([(c, "sum") for c in ("amount", "quantity", "memo")])
    renamed = grouped.rename_columns({f"{c}_sum": c for c in ("amount", "quantity", "memo")})
    found: list[dict[str, object]] = renamed.sort_by([(name, "ascending") for name in by]).to_pylist()
    return found


def _ratios(rows: Sequence[Mapping[str, object]]) -> dict[int, Decimal]:
    """By row its share of the charge that it was allocated from, exact to DIGITS; none where shares cancel out."""
    charges: dict[tuple[object, object], list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        if str(row["kind"]).startswith(IDLE):
            charges[row["hour"], row["kind"]].append(number)
    found: dict[int, Decimal] = {}
    for numbers in charges.values():
        amounts = [_int(rows[number]["amount"]) for number in numbers]
        if min(amounts) > 0 or max(amounts) < 0:
            parts = apportion(10**DIGITS, [abs(a) for a in amounts], [str(rows[n]["account"]) for n in numbers])
            found |= {n: Decimal(part).scaleb(-DIGITS) for n, part in zip(numbers, parts.tolist(), strict=True)}
    return found


def _allocated(line: Mapping[str, object], ratio: Decimal, of: Invoice) -> Row:
    """Columns of FOCUS 1.3 for a split charge."""
    return {
        "x_AllocatedMethodDetails": f'{{"Elements":[{{"AllocatedRatio":{ratio:.{DIGITS}f}}}]}}',
        "x_AllocatedMethodId": f"{of.book}/{line['kind']}",
        "x_AllocatedResourceId": of.pool,
        "x_AllocatedResourceName": of.pool,
    }


def _row(line: Mapping[str, object], of: Invoice, grain: Grain) -> Row:
    account, kind = str(line["account"]), str(line["kind"])
    amount = of.sign * _int(line["amount"])
    cost = _decimal(Decimal(amount) / MICROS, 6)
    found = dict.fromkeys(COLUMNS, "") | _shared(of) | _period(line, grain)
    found |= {
        "BilledCost": cost,
        "ChargeCategory": CATEGORY.get(kind, "Usage"),
        "ChargeClass": "Correction" if of.about != of.period[2] else "",
        "ChargeDescription": _description(line, of),
        "ChargeFrequency": "One-Time" if kind in CATEGORY else "Usage-Based",
        "ContractedCost": cost,
        "EffectiveCost": cost,
        "InvoiceId": f"{of.cluster}-{of.period[2]}-{account}",
        "ListCost": cost,
        "SubAccountId": account,
        "SubAccountName": account,
        "SubAccountType": "Operator" if account in (PLATFORM, UNATTRIBUTED) else "Team",
        "Tags": _json({"team": account}),
        "x_Kind": kind,
        "x_MemoCost": "" if line.get("memo") is None else _decimal(Decimal(of.sign * _int(line["memo"])) / MICROS, 6),
    }
    return found | _resource(line) | _usage(line, of, amount)


def _shared(of: Invoice) -> Row:
    start, end, _ = of.period
    site = of.pool.partition("@")[2]
    return {
        "AvailabilityZone": site,
        "BillingAccountId": of.cluster,
        "BillingAccountName": of.cluster,
        "BillingAccountType": "Cluster",
        "BillingCurrency": of.currency,
        "BillingPeriodStart": _time(start),
        "BillingPeriodEnd": _time(end),
        "InvoiceIssuerName": of.cluster,
        "ProviderName": of.cluster,
        "PublisherName": of.cluster,
        "RegionId": site,
        "RegionName": site,
        "ServiceCategory": "Compute",
        "ServiceName": "Containers",
        "ServiceSubcategory": "Containers",
        "x_Pool": of.pool,
    }


def _period(line: Mapping[str, object], grain: Grain) -> Row:
    hour = line["hour"]
    start = hour if isinstance(hour, datetime) else datetime.fromtimestamp(_int(hour) / 1e6, UTC)
    return {"ChargePeriodStart": _time(start), "ChargePeriodEnd": _time(start + LENGTH[grain])}


def _resource(line: Mapping[str, object]) -> Row:
    if not line.get("container"):
        return {}
    return {
        "ResourceId": str(line["container"]),
        "ResourceName": str(line["container"]),
        "ResourceType": "Container",
    }


def _usage(line: Mapping[str, object], of: Invoice, amount: int) -> Row:
    """Quantity and price; lines that are shared out count as one unit each."""
    kind, resource = str(line["kind"]), line.get("resource")
    if kind in CATEGORY:
        return {}
    quantity = of.sign * _int(line.get("quantity") or 0)
    priced = resource is not None and quantity != 0
    units = Decimal(quantity) / HOUR if priced else Decimal(1)
    unit = f"{of.units[str(resource)]}-Hours" if priced else "Shares"
    price = _decimal(Decimal(amount) / MICROS / units, 18)
    name = str(resource) if resource is not None else kind
    return {
        "ConsumedQuantity": _decimal(units, 12),
        "ConsumedUnit": unit,
        "ContractedUnitPrice": price,
        "ListUnitPrice": price,
        "PricingCategory": "Dynamic" if kind in DYNAMIC else "Standard",
        "PricingQuantity": _decimal(units, 12),
        "PricingUnit": unit,
        "SkuId": f"{of.pool}/{name}",
        "SkuMeter": name,
        "SkuPriceDetails": _json({"x_PriceBook": of.book}),
        "SkuPriceId": f"{of.book}/{of.pool}/{name}",
    }


def _description(line: Mapping[str, object], of: Invoice) -> str:
    what = str(line["kind"]).replace("_", " ")
    of_what = f" of {line['resource']}" if line.get("resource") else ""
    where = f", container {line['container']} on {line['node']}" if line.get("container") else ""
    back = ", taken back" if of.sign < 0 else ""
    return f"{what}{of_what} in {of.pool}{where}{back}"


def _json(of: Mapping[str, str]) -> str:
    return msgspec.json.encode(of, order="deterministic").decode()


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def _decimal(value: Decimal, digits: int) -> str:
    """With a fixed number of digits: readers take a column of whole numbers for integers, which FOCUS forbids."""
    return f"{value:.{digits}f}"


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0
