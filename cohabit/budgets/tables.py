"""Budget tables: how teams stand to their budgets, as people read it in a terminal."""

from collections.abc import Sequence
from decimal import Decimal

from advisor.billing.budgets.budget_status import Budget, Standing
from advisor.billing.lines.money import MICROS
from cohabit.terminal.console import console, money, show_amounts

CELLS = 20
"""Of a picture: a whole budget."""
WIDE = 100
"""Columns of a terminal that has room for the picture; in a narrower one names and figures come first."""
NONE = "–"
HEADINGS = ("team", "budget", "so far", "of it", "", "forecast", "four times in five", "state")


def show_standings(period: str, found: Sequence[Standing]) -> None:
    """Budgets of a month, what is owed and foreseen, and a picture of both."""
    if not found:
        console.print(f"no team has a budget in {period}: cohabit bill budget --team TEAM --amount AMOUNT")
        return
    shown = [i for i, heading in enumerate(HEADINGS) if heading or console.width >= WIDE]
    rows = [[row[i] for i in shown] for row in map(_row, found)]
    show_amounts(f"budgets of {period}, {found[0].currency}", [HEADINGS[i] for i in shown], rows)
    for one in found:
        if one.state == "other currency":
            console.print(
                f"the budget of {one.budget.team} is in {one.budget.currency}, and {period} is billed in "
                f"{one.currency}: set it anew with cohabit bill budget",
                soft_wrap=True,
            )


def picture(of: Standing) -> str:
    """A budget in cells: owed (█), foreseen beyond that (▒), left (·); it ends with › where that is more than it."""
    owed = _cells(of.share_ppm(of.owed_micros))
    ahead = _cells(of.share_ppm(of.forecast.micros)) if of.forecast is not None else owed
    whole = "█" * owed + "▒" * (ahead - owed) + "·" * (CELLS - max(owed, ahead))
    return f"[{whole[:CELLS]}{'›' if max(owed, ahead) > CELLS else ']'}"


def alert_text(one: Standing, period: str) -> str:
    """A standing in a sentence."""
    currency, ahead = one.currency, one.forecast
    text = (
        f"{one.budget.team} owes {money(one.owed_micros)} of {money(one.budget.amount_micros)} {currency} for {period}"
    )
    if ahead is not None and ahead.high_micros > one.owed_micros:
        between = f"{money(ahead.low_micros)} to {money(ahead.high_micros)}"
        text += f", and by its end {money(ahead.micros)} ({between} four times in five)"
    return f"budget {one.state}: {text}"


def budget_text(budget: Budget, until: str | None) -> str:
    """What was set, in a sentence."""
    if not budget.amount_micros:
        return f"{budget.team} has no budget from {budget.since} on{_until(until)}"
    return (
        f"{budget.team} has a budget of {money(budget.amount_micros)} {budget.currency} a month from {budget.since} "
        f"on{_until(until)}, and is warned at {Decimal(budget.warn_ppm * 100) / MICROS:f} % of it"
    )


def _row(one: Standing) -> tuple[str, ...]:
    budget, ahead = one.budget, one.forecast
    if one.state == "other currency":
        return (
            budget.team,
            f"{money(budget.amount_micros)} {budget.currency}",
            money(one.owed_micros),
            *[NONE] * 4,
            one.state,
        )
    foreseen = (NONE, NONE)
    if ahead is not None:
        foreseen = (money(ahead.micros), f"{money(ahead.low_micros)} to {money(ahead.high_micros)}")
    share = f"{one.share_ppm(one.owed_micros) * 100 // MICROS} %"  # rounded down: 80 % are warned of, 79.7 % are not
    amounts = (money(budget.amount_micros), money(one.owed_micros), share, picture(one))
    return budget.team, *amounts, *foreseen, one.state


def _cells(share_ppm: int) -> int:
    """To the nearest cell, but for the least that is beyond a budget, which shows."""
    return CELLS + 1 if share_ppm > MICROS else max(0, round(share_ppm * CELLS / MICROS))


def _until(period: str | None) -> str:
    return f", until another one begins in {period}" if period is not None else ""
