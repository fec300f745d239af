"""`cohabit bill`: price books, drafts, closing months, and any line explained."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from time import time_ns
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.cli.admin.token import local_name
from cohabit.terminal.console import console
from cohabit.terminal.db import checked
from cohabit.terminal.options import LakeOption, reports_errors, settings

if TYPE_CHECKING:
    from advisor.auth.audit_log import Entry
    from advisor.billing.ledger.closing import Closing
    from advisor.billing.ledger.drafts import Draft
    from advisor.billing.ledger.periods import Period
    from advisor.billing.pricing.price_book import PriceBook
    from advisor.plans.plan_service import Actor

ledger_app = typer.Typer()
NOT_CLOSED = 3
"""Exit code of a month that is not closed, unlike 1, which means that its state is unknown."""
Month = Annotated[str, typer.Option("--month", metavar="YYYY-MM", help="Month, as in 2026-11.")]
Correct = Annotated[
    list[str] | None,
    typer.Option("--correct", metavar="YYYY-MM", help="Also bill corrections of this closed month; repeatable."),
]
Version = Annotated[str, typer.Argument(help="Version of the price book, as `cohabit bill books` lists them.")]


@dataclass(frozen=True)
class Till:
    """The store of bills, the folder of lines, and who is at it."""

    closing: "Closing"
    actor: "Actor"
    lines: Path

    def entry(self, action: str, subject: str) -> "Entry":
        """For the audit: something that was done now."""
        from advisor.auth.audit_log import Entry

        by = self.actor
        return Entry(self.closing.now_us(), by.who, by.role, action, subject, "done", by.request_id)


@contextmanager
def till() -> Iterator[Till]:
    """Open the ledger of the settings."""
    from advisor.billing.ledger.closing import Closing
    from advisor.plans.plan_service import Actor

    own = settings()
    with checked(own) as engine:
        closing = Closing(engine, own.cluster, lambda: time_ns() // 1000)
        yield Till(closing, Actor(local_name(), "admin", token_hex(8)), own.billing.ledger_dir)


@ledger_app.command("books")
@reports_errors
def books_command() -> None:
    """List all versions of the price book that were ever proposed, by when they begin."""
    from advisor.billing.ledger import price_book_store as book_store
    from cohabit.billing.statements.tables import show_books

    with till() as of:
        show_books(book_store.kept_books(of.closing.engine))


@ledger_app.command("propose-book")
@reports_errors
def propose_book_command(
    file: Annotated[Path | None, typer.Argument(help="TOML file; default: print an example.")] = None,
    month: Annotated[
        str | None,
        typer.Option("--preview", metavar="YYYY-MM", help="Only show a month's charges by it."),
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Propose a version of the price book; it takes effect after a second person approves it.

    It applies from a future full hour until the next version begins, and is immutable; the very first version may
    begin in the past. Without a file it prints an example: cohabit bill propose-book > book.toml
    With --preview it proposes nothing: it prices that month from the lake, by the versions in force and by this one as
    if it had begun with the month, and shows the charges of accounts by either; nothing is saved.
    """
    from advisor.billing.ledger import price_book_store as book_store
    from advisor.billing.ledger.price_book_records import summary
    from advisor.billing.pricing.price_book_toml import EXAMPLE
    from cohabit.billing.price_book_file import read_price_book

    if file is None:
        typer.echo(EXAMPLE.strip())
        return
    with till() as of:
        book = read_price_book(file, of.actor.who)
        if month is not None:
            _preview(of, book, month, lake)
            return
        book_store.propose(of.closing.engine, book, of.closing.now_us(), of.entry("propose price book", book.version))
    console.print(f"price book {book.version} applies {summary(book)}, once another person has approved it")


@ledger_app.command("approve-book")
@reports_errors
def approve_book_command(version: Version) -> None:
    """Approve a version of the price book that another person proposed. It must begin in a future hour."""
    from advisor.billing.ledger import price_book_store as book_store
    from advisor.billing.ledger.price_book_records import summary

    with till() as of:
        entry = of.entry("approve price book", version)
        book = book_store.approve(of.closing.engine, version, of.actor.who, of.closing.now_us(), entry)
    console.print(f"price book {book.version} applies {summary(book)}")


@ledger_app.command("withdraw-book")
@reports_errors
def withdraw_book_command(version: Version) -> None:
    """Withdraw a version of the price book that has not begun."""
    from advisor.billing.ledger import price_book_store as book_store

    with till() as of:
        entry = of.entry("withdraw price book", version)
        book_store.withdraw(of.closing.engine, version, of.actor.who, of.closing.now_us(), entry)
    console.print(f"price book {version} is withdrawn")


@ledger_app.command("months")
@reports_errors
def months_command() -> None:
    """List months with a draft or a closed statement, and check that all postings sum to zero."""
    from advisor.billing.ledger import store as ledger_store
    from cohabit.billing.statements.tables import show_months

    with till() as of:
        engine, cluster = of.closing.engine, of.closing.cluster
        show_months(ledger_store.periods(engine, cluster), ledger_store.total(engine, cluster))


@ledger_app.command("draft")
@reports_errors
def draft_command(month: Month, correct: Correct = None, lake: LakeOption = None) -> None:
    """Show a month's charges by the hours metered so far. Bills nothing."""
    from cohabit.billing.statements.tables import show_draft

    with till() as of:
        show_draft(_drafted(of, month, correct or [], lake))
        _warn_unjudged(of, month, lake)
        if of.closing.one(month).state == "closed":
            console.print(
                f"{month} is closed: this is what it would come to by now, not what was billed", soft_wrap=True
            )


@ledger_app.command("close")
@reports_errors
def close_command(
    month: Month,
    correct: Correct = None,
    confirm: Annotated[
        str | None, typer.Option(metavar="DRAFT", help="Close the month with this draft, by its printed name; final.")
    ] = None,
    renew: Annotated[bool, typer.Option("--renew", help="Replace an unconfirmed draft; see below.")] = False,
    lake: LakeOption = None,
) -> None:
    """Draft the closing of a month, and close it with --confirm.

    The first run makes a draft of all metered hours, late data included, and prints its name: review it. With --confirm
    and that name the month is billed in one transaction and immutable from then on. Correct errors of a closed month,
    such as late data or a changed bill, in a later month: meter it again, and name it with --correct.

    With --renew it can be rerun: an equal draft stays, a different one replaces it, and a closed month stays closed.
    """
    from advisor.billing.ledger import price_book_store as book_store
    from advisor.billing.ledger.breakdown_reader import Drilling
    from cohabit.billing.draft import refuse_unjudged, refuse_unmetered
    from cohabit.billing.statements.tables import show_draft, show_payables
    from cohabit.terminal.locations import existing_lake

    with till() as of:
        if confirm is not None:
            seen = of.closing.one(month)
            if seen.state == "closing" and seen.draft is not None:
                Drilling(of.lines).refuse_missing(month, seen.draft.batches)
            found = of.closing.close(month, _whole(of, month, confirm), of.actor)
            draft = of.closing.one(month).draft
            assert draft is not None  # noqa: S101 - without one it cannot have been closed
            show_payables(month, found, draft.currency)
            return
        before = of.closing.one(month)
        if renew and before.state == "closed":
            console.print(f"{month} is closed: nothing was changed")
            return
        refuse_unmetered(existing_lake(settings(), lake), of.closing.cluster, month, _now(of))
        refuse_unjudged(existing_lake(settings(), lake), of.closing.cluster, month, book_store.books(of.closing.engine))
        draft = _drafted(of, month, correct or [], lake)
        after = _renewed(of, before, draft) if renew else of.closing.begin(draft, before.version, of.actor)
        show_draft(draft)
        _warn_unjudged(of, month, lake)
    console.print(f"{month} is being closed: cohabit bill close --month {month} --confirm {after.digest[:12]}")


@ledger_app.command("closed")
@reports_errors
def closed_command(month: Month) -> None:
    """Report whether a month is closed, since when and by whom. Exits 3 if it is open, 1 if unknown."""
    from cohabit.billing.statements.tables import show_state

    with till() as of:
        found = of.closing.one(month)
    show_state(found)
    raise typer.Exit(0 if found.state == "closed" else NOT_CLOSED)


@ledger_app.command("reopen")
@reports_errors
def reopen_command(month: Month) -> None:
    """Discard the draft of a month; a closed month stays closed."""
    with till() as of:
        of.closing.reopen(month, of.closing.one(month).version, of.actor)
    console.print(f"{month} is open")


@ledger_app.command("explain")
@reports_errors
def explain_command(
    line: Annotated[str, typer.Argument(help="Charge record, by its name in statements, such as 3f9c2a1e8b07-1234.")],
) -> None:
    """Recompute a billed charge record from its saved inputs, step by step."""
    from cohabit.billing.statements.explain import explain
    from cohabit.billing.statements.tables import show_explained

    with till() as of:
        found = explain(of.closing.engine, of.closing.cluster, line, of.lines)
        show_explained(line, found)
    if not found.same:
        raise typer.Exit(1)


@ledger_app.command("statement")
@reports_errors
def statement_command(
    month: Month,
    team: Annotated[str, typer.Option("--team", help="Account: a team, platform or unattributed.")],
    out: Annotated[Path, typer.Option("--out", help=".html to print; .csv or .parquet with every charge record.")],
) -> None:
    """Write the statement of an account for a closed month: to print, or as charge records with their names."""
    from cohabit.billing.statements.statements import write_statement

    with till() as of, console.status(f"adding up {month} of {team}"):
        lines = write_statement(of.closing.engine, of.closing.cluster, month, team, folder=of.lines, out=out)
    console.print(f"{lines:,} lines of {team} in {out}", soft_wrap=True)


@ledger_app.command("focus")
@reports_errors
def focus_command(
    month: Month,
    out: Annotated[Path, typer.Option("--out", help="CSV file to write.")],
    hourly: Annotated[bool, typer.Option("--hourly", help="One row per hour instead of per day.")] = False,
) -> None:
    """Write a closed month as FOCUS 1.2 cost and usage, for any tool that reads cloud bills.

    A row is the charge of one account, container, node, resource and charge type on one day. BilledCost of each
    InvoiceId sums to the payment of that account, and all rows to the cost of the pools.
    """
    from cohabit.billing.statements.focus_export import export_focus

    out.parent.mkdir(parents=True, exist_ok=True)
    with till() as of, console.status(f"exporting {month}") as status:
        engine, cluster = of.closing.engine, of.closing.cluster

        def progress(file: str, rows: int) -> None:
            status.update(f"exporting {month}: {file}, {rows:,} rows")

        rows = export_focus(
            engine, cluster, month, folder=of.lines, out=out, grain="hour" if hourly else "day", progress=progress
        )
    console.print(f"{rows:,} rows of FOCUS 1.2 in {out}", soft_wrap=True)


def _renewed(of: Till, before: "Period", draft: "Draft") -> "Period":
    """A month that is being closed with a draft; with the one that was there, where that comes to the same."""
    from advisor.billing.ledger.drafts import digest_of

    if before.state == "closing":
        if before.digest == digest_of(draft):
            return before
        before = of.closing.reopen(draft.period, before.version, of.actor)
    return of.closing.begin(draft, before.version, of.actor)


def _drafted(of: Till, month: str, corrected: list[str], lake: str | None) -> "Draft":
    from advisor.billing.ledger import price_book_store as book_store
    from advisor.billing.ledger import store as ledger_store
    from cohabit.billing.draft import draft_of
    from cohabit.billing.expired_months import refuse_forgotten
    from cohabit.terminal.locations import existing_lake

    engine, cluster, found = of.closing.engine, of.closing.cluster, existing_lake(settings(), lake)
    for one in (month, *corrected):
        refuse_forgotten(found, one)
    books, standing = book_store.books(engine), {m: ledger_store.standing(engine, cluster, m) for m in corrected}
    with console.status(f"billing {month}") as status:

        def progress(day: str, lines: int) -> None:
            status.update(f"billing {month}: {day}, {lines} lines")

        return draft_of(found, cluster, month, books=books, folder=of.lines, progress=progress, corrected=standing)


def _preview(of: Till, book: "PriceBook", month: str, lake: str | None) -> None:
    from advisor.billing.ledger import price_book_store as book_store
    from cohabit.billing.preview import preview
    from cohabit.billing.statements.preview_tables import show_preview
    from cohabit.terminal.locations import existing_lake

    books, found = book_store.books(of.closing.engine), existing_lake(settings(), lake)
    with console.status(f"billing {month}") as status:

        def progress(day: str, lines: int) -> None:
            status.update(f"billing {month}: {day}, {lines} lines")

        shown = preview(found, of.closing.cluster, month, books=books, proposed=book, progress=progress)
    show_preview(shown)


def _warn_unjudged(of: Till, month: str, lake: str | None) -> None:
    from advisor.billing.ledger import price_book_store as book_store
    from cohabit.billing.draft import unjudged_days
    from cohabit.terminal.locations import existing_lake

    found, books = existing_lake(settings(), lake), book_store.books(of.closing.engine)
    days = unjudged_days(found, of.closing.cluster, month, books)
    if days:
        warning = f"on {len(days)} of its days nothing is given back for interference, since they were not judged"
        console.print(f"{warning}; `cohabit bill judge` judges those that labels cover whole", soft_wrap=True)


def _whole(of: Till, month: str, digest: str) -> str:
    """The name of the draft that begins so; what it is compared with says what is wrong."""
    now = of.closing.one(month).digest
    return now if len(digest) >= 12 and now.startswith(digest) else digest


def _now(of: Till) -> datetime:
    return datetime.fromtimestamp(of.closing.now_us() / 1e6, UTC)
