"""Statements: what one team owes for a month, line by line for machines, or to print. An edge."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq
from jinja2 import Environment, PackageLoader, select_autoescape
from sqlalchemy import Engine

from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger import store as ledger_store
from advisor.billing.ledger.breakdown_reader import Drilling
from advisor.billing.ledger.drafts import seen_sentence
from advisor.billing.ledger.months import bounds
from advisor.billing.ledger.periods import wrong_state
from advisor.billing.ledger.spreadsheet_safe import as_text
from advisor.billing.ledger.store import Posted
from advisor.billing.lines.money import MICROS, exponent_of, in_coins
from advisor.database.engine import reading
from cohabit.config.errors import CohabitError
from ingest.schema.atomic_file import written_whole

SUFFIXES = (".html", ".csv", ".parquet")
MAX_SHOWN = 50
"""Containers that a printed statement names; the others are added up."""
MILLIONTH = pa.scalar(Decimal("0.000001"), pa.decimal128(6, 6))
NAMES = ["line", "account", "month", "pool", "hour", "kind", "container", "node", "resource"]
Cell = str | Decimal | int | None


def write_statement(engine: Engine, cluster: str, period: str, team: str, *, folder: Path, out: Path) -> int:
    """Write what an account owes for a closed month.

    Args:
        engine: the store.
        cluster: whose.
        period: month.
        team: account: a team, `platform` or `unattributed`.
        folder: of lines.
        out: .csv or .parquet get every line with its name, .html is to be printed; whole or not at all.

    Returns:
        How many lines it is about.

    Raises:
        Invalid: it is no month.
        Conflict: it is not closed.
        CohabitError: nothing was billed to it, or the file's ending says no form.
        Unavailable: a file of lines is gone, or was changed.
    """
    bounds(period)
    if out.suffix not in SUFFIXES:
        raise CohabitError(f"{out} has no suffix of a supported format: use one of {', '.join(SUFFIXES)}")
    posted = ledger_store.batches(engine, cluster, period)
    if not posted:
        with reading(engine) as connection:
            raise wrong_state(period, ledger_store.period_of(connection, cluster, period).state, "reported")
    found = list(lines_of(posted, team, folder))
    if not found:
        there = ", ".join(
            name
            for name in sorted({p.account for one in posted for p in one.batch.postings})
            if not name.startswith("pool:")
        )
        raise CohabitError(f"account {team[:80]!r} has no charges in {period}; billed accounts: {there[:500]}")
    lines = pa.concat_tables(found)
    with written_whole(out) as file:
        if out.suffix == ".csv":
            pv.write_csv(as_text(_in_seconds(lines)), file.buffer)
        elif out.suffix == ".parquet":
            pq.write_table(lines, file.buffer, compression="zstd")
        else:
            paid = ledger_store.paid(engine, cluster, period)[team]
            facts = _facts(engine, posted) | {
                "team": team,
                "cluster": cluster,
                "seen": _seen(engine, cluster, period, team),
            }
            file.write(_printed(lines, posted, paid, facts))
    return int(lines.num_rows)


def lines_of(posted: list[Posted], team: str, folder: Path) -> Iterator[pa.Table]:
    """Lines of an account, piece by piece, each with its name, and signs as they are billed.

    Returns:
        Columns NAMES; amount, major units of the currency; currency; unit_minutes of the resource, null for what is
        shared out.
    """
    drilling = Drilling(folder)
    for one in posted:
        for lines in drilling.lines([one.batch], team):
            yield _with_accounts(one, lines, team)


def _with_accounts(one: Posted, lines: pa.Table, team: str) -> pa.Table:
    shared = {"account": team, "month": one.batch.about, "pool": one.batch.pool}
    columns = {name: lines[name] for name in NAMES if name not in shared}
    columns |= {name: pa.array([value] * lines.num_rows, pa.string()) for name, value in shared.items()}
    minutes = pc.multiply(lines["micro_unit_minutes"], one.batch.sign)
    currency = pa.array([one.currency] * lines.num_rows, pa.string())
    amounts = {
        "amount": _millionths(lines["amount_micros"]),
        "currency": currency,
        "unit_minutes": _millionths(minutes),
    }
    return pa.table({name: columns[name] for name in NAMES} | amounts)


def _in_seconds(lines: pa.Table) -> pa.Table:
    """Hours without the fractions of a second that no spreadsheet reads."""
    place = lines.column_names.index("hour")
    return lines.set_column(place, "hour", lines["hour"].cast(pa.timestamp("s", "UTC")))


def _millionths(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole millionths as decimals."""
    return pc.multiply(values.cast(pa.decimal128(25, 0)), MILLIONTH)


def _printed(lines: pa.Table, posted: list[Posted], paid: tuple[int, int, str], facts: Mapping[str, object]) -> str:
    """HTML to print, with everything in it."""
    owed, minor, currency = paid
    environment = Environment(
        loader=PackageLoader("cohabit.billing.statements"), autoescape=select_autoescape(default=True)
    )
    return environment.get_template("statement.html").render(
        **facts,
        currency=currency,
        payable=in_coins(minor, exponent_of(currency)),
        owed=f"{Decimal(owed) / MICROS:,.6f}",
        kinds=_sums(lines, ["kind"]),
        containers=_most(_sums(lines, ["container"])),
        corrections=[row for row in _sums(lines, ["month"]) if row[0] != posted[0].period],
        lines=lines.num_rows,
        example=lines["line"][0].as_py(),
        closed=datetime.fromtimestamp(posted[0].at_us / 1e6, UTC),
    )


def _facts(engine: Engine, posted: list[Posted]) -> dict[str, object]:
    """The month, and the price books it was billed by."""
    used = {one.batch.book for one in posted}
    books = [one.book for one in book_store.kept_books(engine) if one.book.version in used]
    return {"period": posted[0].period, "books": books}


def _seen(engine: Engine, cluster: str, period: str, team: str) -> str:
    """For which share of an account's time interference could be seen; empty where nothing is given back for it."""
    with reading(engine) as connection:
        draft = ledger_store.period_of(connection, cluster, period).draft
    if draft is None or draft.seen is None:
        return ""
    return seen_sentence([one for one in draft.seen if one.account == team])


def _sums(lines: pa.Table, by: list[str]) -> list[tuple[Cell, ...]]:
    """Amounts by some columns, the largest first."""
    grouped = lines.group_by(by, use_threads=False).aggregate([("amount", "sum")])
    found = grouped.sort_by([("amount_sum", "descending")]).select([*by, "amount_sum"])
    return [tuple(row.values()) for row in found.to_pylist()]


def _most(rows: list[tuple[Cell, ...]]) -> list[tuple[Cell, ...]]:
    """The first ones, and what the others come to."""
    rest = rows[MAX_SHOWN:]
    if not rest:
        return rows
    return [*rows[:MAX_SHOWN], (f"{len(rest)} others", sum((Decimal(str(row[1])) for row in rest), Decimal(0)))]
