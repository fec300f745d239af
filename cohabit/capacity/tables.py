"""Recommendations of requests for people: how much was looked at, a row for each app, and the sum."""

from collections.abc import Sequence
from datetime import timedelta
from math import isfinite

from advisor.billing.pricing.price_book import PriceBook
from advisor.capacity.rightsize import FLOOR, Amount, Recommendation, Rule
from cohabit.capacity.rightsize_apps import Sized
from cohabit.terminal.console import console, money, printable, show_amounts
from features.metering.units import GIB

MAX_SHOWN = 40
"""Rows for people; files have all."""
MONTH_H = 730
"""Hours of a month, the mean of a year."""
UNITS = {"core": 1.0, "cores": 1.0, "GiB": GIB, "GB": 1e9}
COLUMNS = ("app", "containers", "cores", "GiB", "frees cores", "frees GiB", "CPU by")


def monthly_micros(one: Recommendation, book: PriceBook) -> int:
    """What the freed requests of an app cost in a month by a price book, micro-units of its currency; below 0 a raise.

    A resource without a price, or in a unit that is not known, counts as none.
    """
    prices = {price.resource: price for price in book.prices}
    total = 0.0
    for name, amount in (("cpu", one.cpu), ("memory", one.memory)):
        if name in prices and isfinite(amount.freed) and prices[name].unit in UNITS:
            total += prices[name].weight_micros * MONTH_H * amount.freed / UNITS[prices[name].unit]
    return round(total)


def show_sized(sized: Sized, rule: Rule, book: PriceBook | None) -> None:
    """Print how much was looked at, then the recommendations, the largest saving first, and the sum."""
    _show_looked_at(sized)
    found = [one for one in sized.found if not one.reason]
    if found:
        title = f"requests a container for review; CPU covers demand in {1.0 - rule.risk:.1%} of minutes"
        show_amounts(title, _columns(book), [_row(one, book) for one in found[:MAX_SHOWN]])
    if len(found) > MAX_SHOWN:
        console.print(f"{len(found) - MAX_SHOWN:,} more apps free less; --json FILE has all")
    for one in found[:MAX_SHOWN]:
        if notes := _notes(one):
            console.print(printable(f"{one.app}: {'; '.join(notes)}"), soft_wrap=True)
    _show_without([one for one in sized.found if one.reason])
    if found:
        _show_sum(found, book)


def _show_looked_at(sized: Sized) -> None:
    days = (sized.until - sized.start) / timedelta(days=1)
    console.print(
        f"{sized.start:%Y-%m-%d %H:%M} to {sized.until:%Y-%m-%d %H:%M} UTC: looked at {sized.minutes:,} minutes of "
        f"{sized.containers:,} containers of {len(sized.found):,} apps; {sized.labelled / sized.minutes:.0%} of them "
        "have a label of slowdown",
        soft_wrap=True,
    )
    if days < 0.9 * sized.asked_days:
        console.print(
            f"{days:.1f} of {sized.asked_days:g} days have minutes to look at: weekly peaks may be missing",
            soft_wrap=True,
        )
    if sized.unnamed:
        console.print(f"left out: {sized.unnamed:,} minutes of containers without an app, or of class SYSTEM")
    if not sized.labelled:
        console.print(
            "no minute has a label: CPU time that neighbours add is not taken off; run `cohabit doctor labels`"
        )


def _columns(book: PriceBook | None) -> tuple[str, ...]:
    return COLUMNS if book is None else (*COLUMNS[:-1], f"{book.currency} a month", COLUMNS[-1])


def _row(one: Recommendation, book: PriceBook | None) -> tuple[str, ...]:
    row = (
        printable(one.app),
        f"{one.containers:,}",
        f"{_number(one.cpu.request)} → {_number(one.cpu.recommended)}",
        f"{_number(one.memory.request / GIB)} → {_number(one.memory.recommended / GIB)}",
        _freed(one.cpu, 1.0),
        _freed(one.memory, GIB),
    )
    priced = () if book is None else (money(monthly_micros(one, book)),)
    return (*row, *priced, one.cpu.rule)


def _number(value: float) -> str:
    return f"{value:.2f}" if isfinite(value) else "?"


def _freed(amount: Amount, unit: float) -> str:
    return f"{amount.freed / unit:+.2f} ({amount.saved_share:+.0%})" if isfinite(amount.freed) else "?"


def why(one: Recommendation) -> str:
    """What the recommendation rests on, in words."""
    by_memory = f"memory by {one.memory.rule}" if one.memory.rule else "memory not measured"
    return "; ".join([f"CPU by {one.cpu.rule}", by_memory, *_notes(one)])


def _notes(one: Recommendation) -> list[str]:
    """What a reviewer has to know besides the amounts."""
    notes = []
    if one.raised:
        notes.append(f"{one.raised:,} of {one.cpu.windows:,} minutes raised, as throttling or a CPU queue hid demand")
    if one.lowered:
        notes.append(f"{one.lowered:,} of {one.cpu.windows:,} minutes lowered, as neighbours added CPU time")
    for name, amount in (("CPU", one.cpu), ("memory", one.memory)):
        if amount.rule == FLOOR:
            notes.append(f"{name}: the floor binds, not use")
        if isfinite(amount.limit) and amount.recommended > amount.limit:
            notes.append(f"above the {name} limit of now: raise that too")
    return notes


def _show_without(left: Sequence[Recommendation]) -> None:
    for one in left[:MAX_SHOWN]:
        console.print(printable(f"no recommendation for {one.app}: {one.reason}"), soft_wrap=True)
    if len(left) > MAX_SHOWN:
        console.print(f"no recommendation for {len(left) - MAX_SHOWN:,} more apps; --json FILE has all")


def _show_sum(found: Sequence[Recommendation], book: PriceBook | None) -> None:
    cores, gibs = [one.cpu for one in found], [one.memory for one in found]
    unknown = sum(one.containers - one.cpu.requesting for one in found)
    if unknown:
        console.print(
            f"of {unknown:,} of {sum(one.containers for one in found):,} running containers no CPU request is known, "
            "so they free nothing here: `cohabit watch` sends requests",
            soft_wrap=True,
        )
    if unknown == sum(one.containers for one in found):
        return
    freed, requested = _sums(cores)
    memory, asked = (total / GIB for total in _sums(gibs))
    month = sum(monthly_micros(one, book) for one in found) if book else 0
    console.print(
        f"together they free {freed:,.2f} of {requested:,.2f} requested cores and {memory:,.2f} of {asked:,.2f} GiB"
        f"{f', {money(month)} {book.currency} a month' if book else ''}; nothing was changed",
        soft_wrap=True,
    )


def _sums(amounts: Sequence[Amount]) -> tuple[float, float]:
    """What is freed, and what is requested now."""
    known = [one for one in amounts if isfinite(one.freed)]
    return sum(one.freed for one in known), sum(one.requested for one in known)
