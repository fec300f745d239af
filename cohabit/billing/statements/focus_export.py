"""FOCUS export: what was billed in a month as a file that any tool for cloud bills reads. An edge."""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import Engine

from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger import store as ledger_store
from advisor.billing.ledger.months import bounds
from advisor.billing.ledger.periods import wrong_state
from advisor.billing.ledger.store import Posted
from advisor.billing.lines.accounts import ROUNDING
from advisor.billing.lines.focus import COLUMNS, Grain, Invoice, Row, focus_rows, rounding_rows
from advisor.billing.lines.money import exponent_of
from advisor.billing.lines.parquet import read_lines
from advisor.billing.pricing.price_book import PriceBook
from ingest.schema.atomic_file import written_whole

Progress = Callable[[str, int], None]
"""Called with each file and its number of rows."""


def export_focus(
    engine: Engine, cluster: str, period: str, *, folder: Path, out: Path, grain: Grain, progress: Progress
) -> int:
    """Write a closed month as FOCUS 1.2, file by file, so that memory does not grow with it.

    Args:
        engine: the store.
        cluster: whose.
        period: month that was billed.
        folder: of lines.
        out: gets the CSV, whole or not at all.
        grain: whether hours of a day are added up.
        progress: called file by file.

    Returns:
        How many rows; BilledCost of each InvoiceId sums to what that account pays, and all of it to what pools cost.

    Raises:
        Invalid: it is no month.
        Conflict: it is not closed.
        Unavailable: a file of lines is gone, or was changed.
    """
    bounds(period)
    posted = ledger_store.batches(engine, cluster, period)
    if not posted:
        raise wrong_state(period, "open", "exported")
    books = {one.book.version: one.book for one in book_store.kept_books(engine)}
    count = 0
    with written_whole(out) as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for one in posted:
            rows = list(_rows(one, cluster, books[one.batch.book], folder, grain))
            writer.writerows(rows)
            count += len(rows)
            progress(f"{one.batch.pool} {one.batch.sha256[:12]}", len(rows))
        rounded = list(_rounding(engine, cluster, period, posted[0]))
        writer.writerows(rounded)
    return count + len(rounded)


def _rows(one: Posted, cluster: str, book: PriceBook, folder: Path, grain: Grain) -> Iterator[Row]:
    lines, _ = read_lines(folder / f"{one.batch.sha256}.parquet")
    units = {price.resource: price.unit for price in book.prices}
    yield from focus_rows(lines, _invoice(one, cluster, units), grain)


def _rounding(engine: Engine, cluster: str, period: str, any_of: Posted) -> Iterator[Row]:
    """What makes invoices whole coins, and what no coin can pay as an invoice of its own."""
    paid = ledger_store.paid(engine, cluster, period)
    accounts = {who: amount for who, amount in paid.items() if who != ROUNDING}
    owed = {who: micros for who, (micros, _, _) in accounts.items()} | {ROUNDING: -paid[ROUNDING][0]}
    minor = {who: coins for who, (_, coins, _) in accounts.items()} | {ROUNDING: 0}
    yield from rounding_rows(_invoice(any_of, cluster, {}), owed, minor, exponent_of(any_of.currency))


def _invoice(one: Posted, cluster: str, units: dict[str, str]) -> Invoice:
    return Invoice(
        cluster=cluster,
        period=(*bounds(one.period), one.period),
        about=one.batch.about,
        currency=one.currency,
        pool=one.batch.pool,
        book=one.batch.book,
        units=units,
        sign=one.batch.sign,
    )
