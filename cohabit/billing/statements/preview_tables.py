"""Preview tables: a month by two price books, as people read it in a terminal."""

from advisor.billing.lines.money import written
from cohabit.billing.preview import Changed, Preview
from cohabit.terminal.console import console, money, show_amounts


def show_preview(found: Preview) -> None:
    """What accounts owe by either, the difference, and that both come to what the pools cost."""
    in_force = ", ".join(found.books)
    whole = Changed(
        "together",
        sum(one.before_micros for one in found.accounts),
        sum(one.after_micros for one in found.accounts),
    )
    columns: tuple[str, ...] = ("account", f"by {in_force}, in force", f"by {found.book}", "difference", "")
    rows = [_row(one) for one in (*found.accounts, whole)]
    if not found.books:
        columns, rows = ("account", columns[2]), [(row[0], row[2]) for row in rows]
    show_amounts(f"{found.period} by price book {found.book}, {found.currency}", columns, rows)
    same, cost = (
        whole.before_micros == whole.after_micros == found.cost_micros,
        written(found.cost_micros, found.currency),
    )
    note = "both come" if found.books else "no version is in force yet; it comes"
    console.print(
        f"{note} to what the pools cost, {cost}; nothing of this is kept"
        if same
        else f"pools cost {cost}: THAT IS NOT THE SAME",
        soft_wrap=True,
    )


def _row(one: Changed) -> tuple[str, ...]:
    more, before = one.more_micros, one.before_micros
    share = f"{more / before:+.1%}" if before > 0 and more else ""
    sign = "+" if more > 0 else ""
    return one.account, money(before), money(one.after_micros), f"{sign}{money(more)}", share
