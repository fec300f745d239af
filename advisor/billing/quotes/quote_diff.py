"""Quote changes: what one quote is more than another, for another request or another node. Kernel."""

from collections.abc import Callable
from dataclasses import dataclass

from advisor.billing.interference.expected_adjustment import Amounts
from advisor.billing.quotes.cost_estimate import Quote

Minus = Callable[[Amounts, Amounts], Amounts]
"""An amount less another one."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one quote is more than another, each of them negative where it is less.

    Args:
        base_micros: base charge.
        rebate: what is got back; None where it is not known of both.
        surcharge: what is paid for what is added to others; None as the rebate.
        total: base charge, less the rebate, and the surcharge; None as the rebate.
        owed_micros: what is expected to be paid.
    """

    base_micros: int
    rebate: Amounts | None
    surcharge: Amounts | None
    total: Amounts | None
    owed_micros: int


def changed(before: Quote, after: Quote) -> Change:
    """What another request on the same node changes: the slowdown is the same, so ends are compared with like ends."""
    return _change(before, after, _alike)


def moved(here: Quote, there: Quote) -> Change:
    """What another node changes: slowdowns there and here are two guesses, so the ends are the furthest apart."""
    return _change(here, there, _apart)


def _change(before: Quote, after: Quote, minus: Minus) -> Change:
    base, old, new = after.base_micros - before.base_micros, before.transfers, after.transfers
    owed = after.owed_micros - before.owed_micros
    if old is None or new is None:
        return Change(base, None, None, None, owed)
    rebate, surcharge = minus(new.rebate, old.rebate), minus(new.surcharge, old.surcharge)
    total = Amounts(
        base - rebate.high + surcharge.low,
        base - rebate.expected + surcharge.expected,
        base - rebate.low + surcharge.high,
    )
    return Change(base, rebate, surcharge, total, owed)


def _alike(new: Amounts, old: Amounts) -> Amounts:
    ends = new.low - old.low, new.expected - old.expected, new.high - old.high
    return Amounts(min(ends), ends[1], max(ends))


def _apart(new: Amounts, old: Amounts) -> Amounts:
    return Amounts(new.low - old.high, new.expected - old.expected, new.high - old.low)
