"""What people see: one console, tables, and bars for work of known length."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

console = Console(highlight=False, markup=False, emoji=False)
"""No markup and no emoji: what is printed may come from records, and a name may hold `:key:`."""
complaints = Console(stderr=True, highlight=False, emoji=False)
MAX_WHOLE = 24
"""Letters of a word that is not folded in a table of amounts, however narrow the terminal."""


def show_error(error: Exception) -> None:
    """Print an error verbatim: square brackets in it are no markup."""
    complaints.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; all columns but the first are figures."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*map(printable, row))
    console.print(table)


def show_names(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of words, of which none that one may have to type is ever cut off."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(printable, row))
    console.print(table)


def show_amounts(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of which no amount is ever cut off, though it were wider than the terminal then."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        words = [word for cell in (column, *(row[i] for row in rows)) for word in cell.split()]
        width = min(MAX_WHOLE, max(map(len, words), default=0))
        table.add_column(column, justify="left" if i == 0 else "right", min_width=width, overflow="fold")
    for row in rows:
        table.add_row(*map(printable, row))
    console.print(table, crop=False)


def printable(text: str) -> str:
    """What comes from records, without what a terminal would obey; "?" stands in its place."""
    return "".join(c if c.isprintable() else "?" for c in text)


@contextmanager
def steps(what: str) -> Iterator[Callable[[str], None]]:
    """Show what is being done while working; in a log one line for each step."""
    with console.status(Text(what)) as status:

        def advance(step: str) -> None:
            if not console.is_terminal:
                complaints.print(step, markup=False, soft_wrap=True)
            status.update(Text(step))

        advance(what)
        yield advance


class Bar:
    """A progress bar."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def reach(self, done: int, total: int | None = None) -> None:
        """Show that much as done."""
        self._progress.update(self._task, completed=done, total=total)

    def advance(self, what: str, done: int, total: int) -> None:
        """Show what is being done, and that much of it as done; in a log a line for each part."""
        if not console.is_terminal:
            complaints.print(f"{what}: {done} of {total}", markup=False)
        self._progress.update(self._task, description=what, completed=done, total=total)


@contextmanager
def bar(what: str) -> Iterator[Bar]:
    """Show a bar while working."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    hidden = not console.is_terminal  # else a line without anything is left in a log
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        yield Bar(progress, progress.add_task(what, total=None))


def money(micros: int) -> str:
    """An amount, to a hundredth."""
    from advisor.billing.lines.money import MICROS

    return f"{Decimal(micros) / MICROS:,.2f}"
