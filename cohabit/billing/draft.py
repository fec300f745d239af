"""Billing: a month of the lake as files of lines, what they sum to, and any line worked out again. An edge.

A file holds the lines of one pool, day and version of the price book, and lies in the folder of lines under its
SHA-256; its inputs lie next to it. So a closed month can be worked out again when the lake has forgotten it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from advisor.billing.interference.billed_hours import Known, bill_hours
from advisor.billing.ledger import months
from advisor.billing.ledger.drafts import FORMAT, Batch, Draft, not_ready
from advisor.billing.ledger.postings import postings_of, reversed_of
from advisor.billing.ledger.store import Posted
from advisor.billing.lines import schema as line_table
from advisor.billing.lines.parquet import write_lines
from advisor.billing.pricing.price_book import HOUR_US, PriceBook, book_at
from cohabit.billing.inputs import write_inputs
from cohabit.billing.interference_seen import seen_by_team
from cohabit.billing.slowed_days import day_of, unjudged
from cohabit.config.errors import CohabitError
from features.columnar.arrow_columns import micros
from ingest.lake.tables import Lake

Progress = Callable[[str, int], None]
"""Called with each day and its number of charge records."""
MAX_LISTED_POOLS = 20
MAX_SHOWN = 3
"""Hours that a complaint names."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one file is made of: what is known of a pool in hours that one price book covers."""

    pool: str
    book: PriceBook
    known: Known


def draft_of(
    lake: Lake,
    cluster: str,
    period: str,
    *,
    books: Sequence[PriceBook],
    folder: Path,
    progress: Progress,
    corrected: Mapping[str, Sequence[Posted]] = MappingProxyType({}),
) -> Draft:
    """What a month would be closed with, and the files it names.

    Args:
        lake: where hours were metered.
        cluster: whose.
        period: month, as in 2026-11.
        books: versions of the price book in force.
        folder: of lines and what they are made of.
        progress: called day by day.
        corrected: what is billed of closed months that are corrected with it, by month.

    Raises:
        Invalid: it, or what is corrected, is no month.
        Conflict: nothing was metered in it, a pool has no cost in some of its hours, what is corrected is not earlier
            and billed, or currencies differ; containers were metered in a pool and hour without a known cost.
        NotFound: an hour has none.
    """
    found = batches_of(lake, cluster, period, books=books, folder=folder, progress=progress)
    if not found:
        raise not_ready(period, ["it has no metered hours: run `cohabit bill meter`"])
    for month, standing in corrected.items():
        if month >= period or not standing:
            raise not_ready(period, [f"{month} was not billed before it, so nothing in it can be corrected"])
        now = batches_of(lake, cluster, month, books=books, folder=folder, progress=progress)
        found += corrections(now, standing)
    currencies = {book.version: book.currency for book in books}
    used = sorted({currencies[batch.book] for batch in found})
    if len(used) > 1:
        several = f"price books of several currencies cover it ({', '.join(used)}): `cohabit bill books`"
        raise not_ready(period, [several])
    seen = seen_by_team(lake, cluster, period, [book for book in books if book.version in {one.book for one in found}])
    return Draft(FORMAT, cluster, period, used[0], tuple(found), seen)


def batches_of(
    lake: Lake, cluster: str, period: str, *, books: Sequence[PriceBook], folder: Path, progress: Progress
) -> list[Batch]:
    """What a month's hours come to by what is metered now, see draft_of."""
    _refuse_unpriced(lake, cluster, period)
    found, month = list[Batch](), _Month(cluster, period, folder)
    for start, end in months.days(period):
        parts = parts_of(lake, cluster, start, end, books)
        batches = [month.batch(start, part) for part in parts]
        progress(f"{start:%Y-%m-%d}", sum(batch.rows for batch in batches))
        found += batches
    return found


def corrections(now: Sequence[Batch], standing: Sequence[Posted]) -> list[Batch]:
    """What takes back and bills anew what was billed of a month, where it comes to something else by now.

    Args:
        now: what its hours come to, from batches_of.
        standing: what is billed of it, from advisor.billing.ledger.store.standing.

    Returns:
        For each file that changed the old one with other signs, and the new one; nothing where nothing changed. They
        sum to the new cost less the old one.

    Source: ours, docs/decisions/0049-billing.md.
    """
    billed = {one.batch.key: one for one in standing}
    found = list[Batch]()
    for key, one in billed.items():
        if all((new.key, new.sha256) != (key, one.batch.sha256) for new in now):
            found.append(_taken_back(one))
    for new in now:
        old = billed.get(new.key)
        if old is None or old.batch.sha256 != new.sha256:
            found.append(replace(new, corrects=None if old is None else old.number))
    return found


def _taken_back(one: Posted) -> Batch:
    return replace(one.batch, postings=reversed_of(one.batch.postings), corrects=one.number, sign=-1)


def parts_of(lake: Lake, cluster: str, start: datetime, end: datetime, books: Sequence[PriceBook]) -> Iterator[Part]:
    """What the files of a stretch of hours are made of, pool by pool and book by book.

    Raises:
        NotFound: an hour has none.
        CohabitError: a bill is in another one than the price book of its hour.
    """
    pools = _of_cluster(lake.read("pool_hours", start, end), cluster)
    if not pools.num_rows:
        return
    metered = _of_cluster(lake.read("metered", start, end), cluster)
    slowed = _of_cluster(lake.read("slowed", start, end), cluster)
    scarcity = _of_cluster(lake.read("scarcity", start, end), cluster)
    idle = _of_cluster(lake.read("idle", start, end), cluster)
    bills = _of_cluster(lake.read("bills", start, end), cluster)
    for pool in sorted(pc.unique(pools["pool"]).to_pylist()):
        own, taken = _where(pools, "pool", pool), _where(metered, "pool", pool)
        there = slowed.filter(pc.is_in(slowed["node"], pc.unique(taken["node"]))) if slowed.num_rows else slowed
        known = Known(taken, own, there, _where(scarcity, "pool", pool), _where(idle, "pool", pool))
        versions = {hour: book_at(books, hour) for hour in sorted(set(micros(own["hour"]).tolist()))}
        for version in dict.fromkeys(book.version for book in versions.values()):
            hours = pa.array([hour for hour, book in versions.items() if book.version == version])
            book = next(book for book in versions.values() if book.version == version)
            part = Part(pool, book, known.in_hours(hours))
            _refuse_other_currency(part, bills)
            yield part


def _refuse_other_currency(part: Part, bills: pa.Table) -> None:
    """Nothing, if bills of a pool's hours are in the currency that they are shared out in."""
    theirs = _where(bills, "pool", part.pool)
    theirs = theirs.filter(pc.is_in(theirs["hour"], pc.unique(part.known.pools["hour"])))
    for row in theirs.filter(pc.not_equal(theirs["currency"], part.book.currency)).slice(0, 1).to_pylist():
        raise CohabitError(
            f"bill {row['bill']!r} is in {row['currency']}, but price book {part.book.version!r} is in "
            f"{part.book.currency}: propose a price book in {row['currency']}, or convert the bill to "
            f"{part.book.currency} before its import"
        )


def _refuse_unpriced(lake: Lake, cluster: str, period: str) -> None:
    """Nothing, if the cost of each pool is known in each of a month's hours; all that lack one are reported at once."""
    start, end = months.bounds(period)
    pools = _of_cluster(lake.read("pool_hours", start, end, ["cluster", "hour", "pool", "cost_micros"]), cluster)
    lacking = pools.filter(pc.is_null(pools["cost_micros"])).group_by("pool")
    rows = lacking.aggregate([("hour", "count"), ("hour", "min")]).sort_by("pool").to_pylist()
    reasons = [
        f"pool {row['pool']!r} has no cost in {row['hour_count']} of its hours, from {row['hour_min']:%d %H:00} on"
        for row in rows
    ]
    if reasons:
        instead = (
            "set cost_micros_per_hour of its nodes, or import a bill of it with `cohabit bill import`, then "
            f"`cohabit bill meter --from {start:%Y-%m-%d} --to {end:%Y-%m-%d}`"
        )
        raise not_ready(period, [*reasons[:MAX_LISTED_POOLS], instead])


def refuse_unmetered(lake: Lake, cluster: str, period: str, now: datetime) -> None:
    """Nothing, if every hour of a month that is over was metered, from the first hour that ever was.

    Raises:
        Invalid: it is no month.
        Conflict: it is not over, or some of its hours were not metered.
    """
    start, end = months.bounds(period)
    if now < end:
        raise not_ready(period, [f"it is not over before {end:%Y-%m-%d %H:%M} UTC"])
    earlier = _of_cluster(lake.read("pool_hours", end=start, columns=["cluster", "hour"]), cluster).num_rows
    known = set(micros(_of_cluster(lake.read("pool_hours", start, end, ["cluster", "hour"]), cluster)["hour"]).tolist())
    first = round(start.timestamp() * 1e6) if earlier or not known else min(known)
    missing = [hour for hour in range(first, round(end.timestamp() * 1e6), HOUR_US) if hour not in known]
    if not known or missing:
        listed = ", ".join(f"{datetime.fromtimestamp(hour / 1e6, end.tzinfo):%d %H:00}" for hour in missing[:MAX_SHOWN])
        again = f"`cohabit bill meter --from {start:%Y-%m-%d} --to {end:%Y-%m-%d}`"
        raise not_ready(period, [f"{len(missing)} of its hours were not metered ({listed} ...): {again}"])


def unjudged_days(
    lake: Lake, cluster: str, period: str, books: Sequence[PriceBook], *, paying: bool = False
) -> list[datetime]:
    """Metered days of a month that were not judged, though a price book gives something back in them.

    Args:
        lake: where hours were metered and days judged.
        cluster: whose.
        period: month, as in 2026-11.
        books: versions of the price book in force.
        paying: only where that is really paid, not only shown.

    Raises:
        Invalid: it is no month.
    """
    start, end = months.bounds(period)
    giving = [book for book in books if book.policy.theta_ppm and not (paying and book.policy.shadow)]
    hours = micros(_of_cluster(lake.read("pool_hours", start, end, ["cluster", "hour"]), cluster)["hour"])
    days = {day_of(hour) for hour in set(hours.tolist()) if any(book.covers(hour) for book in giving)}
    return [day for day in unjudged(lake, start, end) if day in days]


def refuse_unjudged(lake: Lake, cluster: str, period: str, books: Sequence[PriceBook]) -> None:
    """Nothing, if every metered day of a month was judged on which interference is charged.

    Raises:
        Invalid: it is no month.
        Conflict: some days were not.
    """
    if days := unjudged_days(lake, cluster, period, books, paying=True):
        listed = ", ".join(f"{day:%d}" for day in days[:MAX_SHOWN])
        raise not_ready(period, [f"{len(days)} of its days were not judged ({listed} ...): `cohabit bill judge`"])


@dataclass
class _Month:
    """A month while its files are made, in the order of days and pools.

    Args:
        cluster: whose.
        period: it.
        folder: of files.
        spent: micro-units that the platform added to rebates so far, by team.
    """

    cluster: str
    period: str
    folder: Path
    spent: Mapping[str, int] = field(default_factory=dict)

    def batch(self, start: datetime, part: Part) -> Batch:
        """One file, and what it sums to."""
        lines, moved = bill_hours(part.known, part.book, self.spent)
        self.spent = moved.spent
        model = ",".join(sorted(pc.unique(part.known.slowed["method"]).to_pylist())) if moved.lines.num_rows else ""
        shared = {
            "format": str(line_table.FORMAT),
            "cluster": self.cluster,
            "period": self.period,
            "pool": part.pool,
            "currency": part.book.currency,
            "book": part.book.version,
            "policy": part.book.policy.version,
            "model": model,
        }
        written = write_lines(lines, shared, self.folder)
        return Batch(
            about=self.period,
            pool=part.pool,
            start_us=round(start.timestamp() * 1e6),
            sha256=written.sha256,
            inputs_sha256=write_inputs(part.known, moved.before, self.folder),
            rows=written.rows,
            cost_micros=int(pc.sum(part.known.pools["cost_micros"]).as_py()),
            book=part.book.version,
            policy=part.book.policy.version,
            model=model,
            postings=postings_of(lines, part.pool),
        )


def _of_cluster(rows: pa.Table, cluster: str) -> pa.Table:
    return _where(rows, "cluster", cluster)


def _where(rows: pa.Table, column: str, value: str) -> pa.Table:
    return rows.filter(pc.equal(rows[column], value))
