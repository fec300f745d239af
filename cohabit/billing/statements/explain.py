"""Explaining: a line of a bill, worked out again from what was recorded. An edge."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Engine

from advisor.billing.interference.billed_hours import Known, bill_hours
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger import store as ledger_store
from advisor.billing.ledger.store import Posted
from advisor.billing.lines.parquet import read_lines
from advisor.billing.pricing.idle_cost import CAUSES
from advisor.billing.pricing.price_book import PriceBook
from cohabit.billing.inputs import read_inputs
from cohabit.config.errors import CohabitError

REFERENCE = re.compile(r"([0-9a-f]{12,64})-(\d{1,12})")


@dataclass(frozen=True)
class Explained:
    """A line, and how it comes about.

    Args:
        line: its row, as it was billed.
        again: the same row, worked out again.
        batch: the file it is in.
        book: version of the price book it was billed by.
        metered: rows of `metered` that it is about; none for lines about no container.
        pools: row of `pool_hours` of its hour; of all hours of the file for a line that is about all of them.
        hour_lines: how many lines share that cost.
        idle: rows of `idle` of its cause and hour; none for lines about something else.
    """

    line: dict[str, object]
    again: dict[str, object]
    batch: Posted
    book: PriceBook
    metered: tuple[dict[str, object], ...]
    pools: tuple[dict[str, object], ...]
    hour_lines: int
    idle: tuple[dict[str, object], ...] = ()

    @property
    def same(self) -> bool:
        """Whether it comes out again to the micro-unit."""
        return self.line == self.again


def explain(engine: Engine, cluster: str, reference: str, folder: Path) -> Explained:
    """Work a line out again from what was recorded.

    Args:
        engine: the store.
        cluster: whose.
        reference: what the line is called, see advisor.billing.lines.parquet.reference.
        folder: of lines and what they are made of.

    Raises:
        CohabitError: nothing that was billed is called so.
        Unavailable, CohabitError: the line, or what it was made of, is not there any more or was changed.
    """
    posted, row = _found(engine, cluster, reference)
    lines, _ = read_lines(folder / f"{posted.batch.sha256}.parquet")
    if row >= lines.num_rows:
        raise _no_such_line(reference, f"its file has {lines.num_rows} lines, counted from 0")
    line = lines.slice(row, 1)
    known, spent = read_inputs(folder, posted.batch.inputs_sha256)
    books = [one.book for one in book_store.kept_books(engine) if one.book.version == posted.batch.book]
    if not books:
        raise _no_such_line(reference, f"price book {posted.batch.book!r}, which it was billed by, is not in the store")
    own, before = _needed(known, spent, line)
    again, _ = bill_hours(own, books[0], before)
    return Explained(
        line=line.to_pylist()[0],
        again=_same_place(again, lines, row),
        batch=posted,
        book=books[0],
        metered=_about(own.metered, line),
        pools=tuple(own.pools.to_pylist()),
        hour_lines=again.num_rows,
        idle=tuple(row for row in own.idle.to_pylist() if CAUSES[row["cause"]] == line["kind"][0].as_py()),
    )


def _found(engine: Engine, cluster: str, reference: str) -> tuple[Posted, int]:
    named = REFERENCE.fullmatch(reference)
    if named is None:
        raise _no_such_line(reference, "a line is called by its file and place, as in 3f9c2a1e8b07-1234")
    files: Sequence[Posted] = ledger_store.batch_by_file(engine, cluster, named[1])
    if len({one.batch.sha256 for one in files}) != 1:
        raise _no_such_line(reference, "several files begin so" if files else "no file that was billed begins so")
    return files[0], int(named[2])


def _needed(known: Known, spent: pa.Table, line: pa.Table) -> tuple[Known, dict[str, int]]:
    """What a line's hour is billed from, all of it for a line without an hour; and what the platform added before."""
    start = line["hour"].cast(pa.int64())
    own = known if start[0].as_py() is None else known.in_hours(start)
    if start[0].as_py() is not None:
        spent = spent.filter(pc.equal(spent["hour"], line["hour"][0]))
    first = spent.sort_by([("hour", "descending")]).to_pylist()
    return own, {row["team"]: row["spent_micros"] for row in first}


def _same_place(again: pa.Table, lines: pa.Table, row: int) -> dict[str, object]:
    """The line that stands in an hour's lines where the given one stands in those of its hour."""
    hour = lines["hour"][row]
    if not hour.is_valid:
        before, there = row, again
    else:
        before = pc.sum(pc.equal(lines["hour"].slice(0, row), hour)).as_py() or 0
        there = again.filter(pc.equal(again["hour"], hour))
    return there.slice(before, 1).to_pylist()[0] if before < there.num_rows else {}


def _about(rows: pa.Table, line: pa.Table) -> tuple[dict[str, object], ...]:
    names = ("container", "node", "resource")
    if line["container"][0].as_py() is None:
        return ()
    for name in names:
        rows = rows.filter(pc.equal(rows[name], line[name][0]))
    return tuple(rows.to_pylist())


def _no_such_line(reference: str, reason: str) -> CohabitError:
    return CohabitError(f"no charge record {reference[:80]!r}: {reason}")
