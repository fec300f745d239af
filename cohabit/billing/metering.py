"""Metering and bills as commands do them: which hours, in this process or with Spark, and each bill once. An edge."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from cohabit.config.errors import CohabitError
from cohabit.config.settings import SparkSettings
from cohabit.terminal.console import Bar, bar
from features.jobs.local_metering import run_local
from features.metering.invoices import FOCUS, MICROS, PLAIN, Columns, read_bill
from features.metering.node_hours import pool_names
from features.metering.units import HOUR_US, Hours
from features.schema.tables import BILLS
from ingest.lake.row_filter import EPOCH, microseconds
from ingest.lake.tables import Lake
from ingest.schema.provenance import BatchId

MAX_BYTES = 1 << 28
HOUR = timedelta(hours=1)
PATIENCE = timedelta(days=1)
"""So long usage may be on its way: hours that have been over as long are metered although none came after them."""


def hours_to_meter(lake: Lake, start: datetime | None, end: datetime | None, now: datetime) -> Hours:
    """The hours that options name; without, those from the last metered one until the last full one in the lake.

    An hour that is not over is left out, also where `end` names it: it would count as metered without what is to come.

    Raises:
        CohabitError: there is no usage, a time is within an hour, or nothing lies between them.
    """
    spans = [span for table in ("usage", "samples") if (span := lake.span(table))]
    if not spans and (start is None or end is None):
        raise CohabitError(f"the lake {lake.uri} has no usage: run `cohabit ingest` first, or name another lake")
    metered_us = max((part.end_us for part in lake.range_parts("pool_hours")), default=None)  # written last of a day
    first_us = _hour_us("--from", start)
    if first_us is None:
        first_us = min(low for low, _ in spans) // HOUR_US * HOUR_US if metered_us is None else metered_us
    landed_us = max((high for _, high in spans), default=0) // HOUR_US * HOUR_US
    named_us = _hour_us("--to", end)
    over_us = max(landed_us, microseconds(now - PATIENCE) // HOUR_US * HOUR_US)
    end_us = landed_us if named_us is None else min(named_us, over_us)
    if end_us <= first_us and (start is not None or end is not None):
        raise CohabitError(
            "no hour that is over lies between --from and --to: --to names the first hour that is not metered any more"
        )
    return Hours(first_us, max(0, (end_us - first_us) // HOUR_US))


def refuse_part(hours: Hours, end: datetime | None) -> None:
    """Nothing, if hours reach to where they should end.

    Raises:
        CohabitError: the end is missing, or they end before it, since later ones are not over.
    """
    end_us = _hour_us("--to", end)
    if end_us is None:
        raise CohabitError("--whole needs --to: the first hour that is not metered any more")
    if (missing := (end_us - hours.start_us) // HOUR_US - hours.count) > 0:
        raise CohabitError(
            f"{missing} of these hours have not ended, so none was metered: an hour has ended once later usage is "
            "ingested, or after a day; check the lag of `cohabit ingest`, then retry"
        )


def _hour_us(option: str, moment: datetime | None) -> int | None:
    if moment is None:
        return None
    if moment.minute or moment.second:
        raise CohabitError(f"{option} {moment:%Y-%m-%dT%H:%M} lies within an hour: name a full one")
    if moment.year < EPOCH.year:
        raise CohabitError(f"{option} {moment:%Y-%m-%dT%H:%M} lies before {EPOCH.year}: look at its year")
    return microseconds(moment.replace(tzinfo=UTC))


def meter_hours(lake: Lake, hours: Hours, spark: SparkSettings | None) -> Mapping[str, int]:
    """Meter hours, showing how far it is; rows written by table."""
    written = {"metered": 0, "idle": 0, "pool_hours": 0}
    with bar("metering") as shown:
        days = _Days(shown, hours, written)
        if spark is None:
            run_local(lake, hours, days.report_rows)
        else:
            _with_spark(lake, hours, spark, days)
    return written


@dataclass
class _Days:
    """How far metering is."""

    shown: Bar
    hours: Hours
    written: dict[str, int]
    done: int = 0

    def report_rows(self, table: str, rows: int) -> None:
        """A day of a table was written."""
        self.written[table] += rows
        if table == "pool_hours":
            self.done = min(self.done + 24, self.hours.count)
            self.shown.advance("hours metered", self.done, self.hours.count)


def _with_spark(lake: Lake, hours: Hours, settings: SparkSettings, days: _Days) -> None:
    from features.jobs.spark.session import LOCAL_MASTER, spark_session
    from features.jobs.spark.spark_metering import run_spark

    with spark_session(settings.master or LOCAL_MASTER, {"spark.driver.memory": settings.driver_memory}) as spark:
        run_spark(spark, lake, hours, days.report_rows)


@dataclass(frozen=True, slots=True)
class Imported:
    """What was imported of a bill.

    Args:
        new: whether it is new.
        rows: by the hour.
        totals: what they come to, by currency.
        start: its first hour.
        end: behind its last hour.
        strange: pools without nodes.
        poolless: rows of the bill that name no pool.
        poolless_costs: what they come to, by currency.
    """

    new: bool
    rows: int
    totals: Mapping[str, Decimal]
    start: datetime
    end: datetime
    strange: tuple[str, ...]
    poolless: int
    poolless_costs: Mapping[str, Decimal]


def columns_of(form: str, pool: str | None, cost: str | None) -> Columns:
    """How a form of bill calls what is read of it, with other columns of pool and cost where these are named."""
    columns = PLAIN if form == "csv" else FOCUS
    return replace(columns, pool=pool or columns.pool, cost=cost or columns.cost)


def import_bill(lake: Lake, file: Path, name: str, *, cluster: str, columns: Columns) -> Imported:
    """Land a bill, once.

    Raises:
        FeaturesError: a row cannot be read.
        CohabitError: the file has more than MAX_BYTES or is not UTF-8, some pool and hour would cost something in
            several currencies, another bill was imported by this name, or this one by another.
    """
    if (size := file.stat().st_size) > MAX_BYTES:
        raise CohabitError(f"{file} has {size:,} bytes (limit {MAX_BYTES:,}): export only pools, or split it")
    try:
        content = file.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise CohabitError(f"{file} is not UTF-8 text: export the bill as uncompressed CSV") from error
    bill = read_bill(content, name, cluster, columns)
    rows = bill.rows
    _refuse_same(lake, rows, name, cluster)
    _refuse_mixed(lake, rows, name)
    origin = BatchId(f"bill-{hashlib.sha256(name.encode()).hexdigest()[:32]}", 0)
    new = bool(lake.append(BILLS.name, rows, origin))
    if not _landed(lake, name, cluster).equals(rows.combine_chunks()):
        raise CohabitError(
            f"bill {name!r} was already imported with other content, and imported bills are immutable: import the "
            "difference under another name"
        )
    hours = rows["hour"].to_pylist()
    return Imported(
        new=new,
        rows=rows.num_rows,
        totals=_totals(rows),
        start=hours[0],
        end=hours[-1] + HOUR,
        strange=_strange(lake, rows),
        poolless=bill.poolless,
        poolless_costs=bill.poolless_costs,
    )


def pools_described(lake: Lake, cluster: str) -> list[str]:
    """Pools that nodes of a cluster ever said they were in, sorted."""
    nodes = lake.read("nodes")
    return sorted(set(pool_names(nodes.filter(pc.equal(nodes["cluster"], cluster))).to_pylist()))


def _strange(lake: Lake, rows: pa.Table) -> tuple[str, ...]:
    """Pools of a bill that no node ever said it was in, sorted."""
    known = pools_described(lake, rows["cluster"][0].as_py())
    return tuple(sorted(set(rows["pool"].to_pylist()) - set(known)))


def _refuse_mixed(lake: Lake, rows: pa.Table, name: str) -> None:
    """Nothing, if each pool and hour of a bill is in one currency, together with other bills: no bill is taken back.

    Raises:
        CohabitError: one is not.
    """
    before = lake.read(BILLS.name, rows["hour"][0].as_py(), rows["hour"][-1].as_py() + HOUR)
    others = before.filter(pc.and_(pc.not_equal(before["bill"], name), pc.equal(before["cluster"], rows["cluster"][0])))
    names = ["hour", "pool", "currency"]
    both = pa.concat_tables([others.select(names), rows.select(names)])
    counts = both.group_by(["hour", "pool"]).aggregate([("currency", "count_distinct"), ("currency", "distinct")])
    mixed = counts.filter(pc.greater(counts["currency_count_distinct"], 1)).sort_by("hour").slice(0, 1).to_pylist()
    for one in mixed:
        raise CohabitError(
            f"bill {name!r} was not imported: the cost of pool {one['pool']!r} in the hour from "
            f"{one['hour']:%Y-%m-%d %H:%M} UTC would be in {' and '.join(sorted(one['currency_distinct']))}, and "
            "currencies are not converted; use one currency in the whole bill"
        )


def _refuse_same(lake: Lake, rows: pa.Table, name: str, cluster: str) -> None:
    """Nothing, if no bill of another name has just these rows.

    Raises:
        CohabitError: one does.
    """
    start, end = rows["hour"][0].as_py(), rows["hour"][-1].as_py() + HOUR
    there = lake.read(BILLS.name, start, end, ["cluster", "hour", "bill"])
    names = pc.unique(there.filter(pc.equal(there["cluster"], cluster))["bill"]).to_pylist()
    for other in sorted(set(names) - {name}):
        if _landed(lake, other, cluster).drop_columns("bill").equals(rows.drop_columns("bill").combine_chunks()):
            raise CohabitError(
                f"bill {name!r} has the same rows as the imported bill {other!r}, so it was not imported: its costs "
                "would count twice; if both are owed, put them into one file"
            )


def _landed(lake: Lake, name: str, cluster: str) -> pa.Table:
    """What of a bill is in the lake."""
    found = lake.read(BILLS.name)
    own = found.filter(pc.and_(pc.equal(found["bill"], name), pc.equal(found["cluster"], cluster)))
    return own.sort_by([(key, "ascending") for key in ("hour", *BILLS.key)]).combine_chunks()


def _totals(rows: pa.Table) -> dict[str, Decimal]:
    sums = rows.group_by("currency").aggregate([("cost_micros", "sum")])
    totals = zip(sums["currency"].to_pylist(), sums["cost_micros_sum"].to_pylist(), strict=True)
    return {currency: Decimal(micros) / MICROS for currency, micros in totals}
