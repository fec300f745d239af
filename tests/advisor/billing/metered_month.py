"""The last hours of a month as they were metered, in a lake of the test's own."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from advisor.billing.lines.money import MICROS
from advisor.billing.pricing.price_book import PriceBook, Tier
from features.schema.tables import IDLE, METERED, POOL_HOURS, SLOWED, TABLES
from ingest.lake.tables import Lake
from ingest.schema.tables import Table
from tests.advisor.billing.billed import START_US, book

END = datetime(2026, 12, 1, tzinfo=UTC)
HOURS = [END - timedelta(hours=h) for h in (30, 29, 28, *range(27, 0, -1))]
UNIT_HOUR = 60 * MICROS
TEAMS = {"web-1": "shop", "web-2": "shop", "crawl-1": "search", "lost-1": None}
COST = 7_654_321


def metered_row(hour: datetime, container: str, resource: str, units: float, **changes: object) -> dict[str, object]:
    """A container that requested a unit and used some."""
    quantity = round(units * UNIT_HOUR)
    row = {
        "cluster": "c",
        "hour": hour,
        "node": "n1",
        "container": container,
        "resource": resource,
        "pool": "std@a",
        "app": container.rsplit("-", 1)[0],
        "team": TEAMS.get(container),
        "qos": "BE" if container.startswith("crawl") else "LS",
        "requested": UNIT_HOUR,
        "within": min(quantity, UNIT_HOUR),
        "beyond": max(0, quantity - UNIT_HOUR),
        "minutes": 60,
        "gap_minutes": 0,
    }
    return row | changes


def rows(hours: Sequence[datetime] = HOURS) -> list[dict[str, object]]:
    """Everybody, hour by hour, of two resources."""
    use = {"web-1": 0.4, "web-2": 1.7, "crawl-1": 2.5, "lost-1": 0.1}
    return [
        metered_row(hour, container, resource, units + 0.01 * (number % 7))
        for number, hour in enumerate(hours)
        for container, units in use.items()
        for resource in ("cpu", "memory")
    ]


def pool_rows(hours: Sequence[datetime] = HOURS) -> list[dict[str, object]]:
    """One pool, which costs a little more in each hour."""
    capacity = [("cpu", 8 * UNIT_HOUR), ("memory", 16 * UNIT_HOUR)]
    shared = {"cluster": "c", "pool": "std@a", "nodes": 1, "cost_source": "nodes", "capacity": capacity}
    return [{**shared, "hour": hour, "cost_micros": COST + number} for number, hour in enumerate(hours)]


def lake_of(folder: Path, taken: list[dict[str, object]], pools: list[dict[str, object]]) -> Lake:
    """A lake that holds just that."""
    lake = Lake.open(folder, TABLES)
    put(lake, taken, pools)
    return lake


def put(lake: Lake, taken: list[dict[str, object]], pools: list[dict[str, object]]) -> None:
    """Meter the month again."""
    span = END - timedelta(days=30), END
    lake.replace("metered", *span, "metering", table_of(taken, METERED))
    lake.replace("pool_hours", *span, "metering", table_of(pools, POOL_HOURS))


def judge(lake: Lake, told: list[dict[str, object]]) -> None:
    """Say who was slowed down in the month."""
    lake.replace("slowed", END - timedelta(days=30), END, "judging", table_of(told, SLOWED))


def leave(lake: Lake) -> None:
    """Say that a part of it is stranded by two teams, and a part failed, in every hour."""
    shared = {"cluster": "c", "pool": "std@a", "resource": "memory"}
    stranded = {"cause": "stranded", "quantity": 3 * UNIT_HOUR, "by_team": [("search", UNIT_HOUR), ("shop", UNIT_HOUR)]}
    failed = {"cause": "failure", "quantity": 2 * UNIT_HOUR, "by_team": []}
    told = [{**shared, "hour": hour, **cause} for hour in HOURS for cause in (stranded, failed)]
    lake.replace("idle", HOURS[0].replace(hour=0), END, "metering", table_of(told, IDLE))


BESIDE = {"crawl-1": 0.6, "lost-1": 0.1, "web-1": 0.1}
"""What each adds to the slowdown of web-2."""


def slowed_row(hour: datetime, **changes: object) -> dict[str, object]:
    """web-2 of team shop, slowed down mostly by crawl-1 of team search, which used twice what it requested."""
    beside = [
        {"container": name, "added": added, "llc": 0.2, "memory_bandwidth": 0.2} for name, added in BESIDE.items()
    ]
    row = {
        "cluster": "c",
        "hour": hour,
        "node": "n1",
        "container": "web-2",
        "app": "web",
        "low": [1.5] * 12,
        "excess": 1.0,
        "neighbours": beside,
        "method": "slowed-2",
    }
    return row | changes


def table_of(taken: list[dict[str, object]], of: Table) -> pa.Table:
    """Rows in a table's schema."""
    return pa.Table.from_pylist(taken, schema=of.schema)


def price_book(version: str = "2026-11", start_us: int = START_US) -> PriceBook:
    tiers = (Tier("LS", MICROS), Tier("BE", 250_000), Tier("SYSTEM", 0))
    return book(version=version, start_us=start_us, tiers=tiers)
