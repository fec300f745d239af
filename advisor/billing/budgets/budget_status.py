"""Budgets: what teams mean to spend in a month, and how what they owe stands to that. Facts and kernel.

Rows are only added. In a month the one counts that begins the latest, of several that begin together the newest; so a
budget applies until the next one begins, as versions of the price book do. An amount of 0 is no budget any more.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Literal

from advisor.billing.budgets.forecast import Forecast, settled
from advisor.billing.ledger.months import bounds
from advisor.billing.ledger.postings import refuse_reserved
from advisor.billing.lines.money import MICROS, exponent_of
from advisor.billing.pricing.price_book import PriceBook
from advisor.errors import AdvisorError

State = Literal["within", "warned", "exceeded", "other currency"]
WORSE: tuple[State, ...] = ("warned", "exceeded")
"""States that cause an alert, the worst last."""
MAX_AMOUNT = 10**12
"""Of a currency; 64 bits hold nine times that in micro-units."""
MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class Budget:
    """What a team means to spend in a month, from a month on.

    Args:
        cluster: whose.
        team: or another account that is billed, such as platform.
        amount_micros: micro-units of the currency, >= 0; 0 takes a budget away.
        currency: ISO 4217.
        warn_ppm: share of it from which on an alert is due, millionths.
        since: first month that it is for, as in 2026-12.
        set_us: when it was set, microseconds since 1970.
        set_by: whom.
        number: by which the store knows it; later ones have larger ones.
    """

    cluster: str
    team: str
    amount_micros: int
    currency: str
    warn_ppm: int
    since: str
    set_us: int
    set_by: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """How what a team owes for a month stands to its budget.

    Args:
        budget: that counts in it.
        owed_micros: so far, or for all of it where it is over.
        forecast: what it will come to; None where too little is known.
        currency: that it is billed in.
    """

    budget: Budget
    owed_micros: int
    forecast: Forecast | None
    currency: str

    @property
    def state(self) -> State:
        """`exceeded` once more is owed than the budget; `warned` once that, or the forecast, reaches the share."""
        if self.budget.currency != self.currency:
            return "other currency"
        if self.owed_micros > self.budget.amount_micros:
            return "exceeded"
        most = self.owed_micros if self.forecast is None else max(self.owed_micros, self.forecast.micros)
        return "warned" if most * MICROS >= self.budget.amount_micros * self.budget.warn_ppm else "within"

    def share_ppm(self, micros: int) -> int:
        """An amount in millionths of the budget, rounded down."""
        return micros * MICROS // self.budget.amount_micros


def budgets_in(rows: Iterable[Budget], period: str) -> dict[str, Budget]:
    """The budgets that count in a month.

    Args:
        rows: all that were ever set, any order.
        period: month, as in 2026-12.

    Returns:
        By team, in the order of their names; a team without, or whose amount is 0, is left out.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0049-billing.md.
    """
    found: dict[str, Budget] = {}
    for one in sorted(rows, key=lambda row: (row.since, row.number)):
        if one.since <= period:
            found[one.team] = one
    return {team: one for team, one in sorted(found.items()) if one.amount_micros}


def standings(
    budgets: Mapping[str, Budget], owed: Mapping[str, int], forecasts: Mapping[str, Forecast], currency: str
) -> tuple[Standing, ...]:
    """How every team that has a budget stands.

    Args:
        budgets: of the month, by team.
        owed: micro-units by account; who is not in it owes nothing.
        forecasts: by team, where there is one.
        currency: that the month is billed in.

    Returns:
        One for each budget, by team.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0049-billing.md.
    """
    return tuple(Standing(one, owed.get(team, 0), forecasts.get(team), currency) for team, one in budgets.items())


def settled_standings(budgets: Mapping[str, Budget], owed: Mapping[str, int], currency: str) -> tuple[Standing, ...]:
    """As `standings`, of a month that is over: what is owed is what it comes to."""
    return standings(budgets, owed, {team: settled(owed.get(team, 0)) for team in budgets}, currency)


def due(state: State, sent: Collection[str]) -> bool:
    """Whether a state needs an alert: it is in WORSE, and no alert as bad was sent in that month."""
    return state in WORSE and not set(sent) & set(WORSE[WORSE.index(state) :])


def amount_of(text: str, currency: str) -> int:
    """Micro-units of an amount as people write it, such as 1234.56.

    Raises:
        AdvisorError: it is no number, negative, above the limit, or finer than the currency.
        UnknownCurrency: there is no such currency.
    """
    digits = exponent_of(currency)
    amount = _number(text, "amount", f"give {currency} as in {Decimal(123456).scaleb(-digits)}; 0 removes the budget")
    if not 0 <= amount <= MAX_AMOUNT:
        raise _bad_budget("amount", text, f"give 0 to {MAX_AMOUNT:,}; 0 removes the budget")
    if amount != round(amount, digits):
        raise _bad_budget("amount", text, f"{currency} has {digits} decimals: round it")
    return int(amount * MICROS)


def warn_of(text: str) -> int:
    """Millionths of a share as people write it, such as 0.8.

    Raises:
        AdvisorError: it is no number above 0 and up to 1, or finer than a millionth.
    """
    instead = "give a number above 0 and up to 1, such as 0.8 for a warning at 80 %"
    share = _number(text, "share to warn at", instead)
    if not 0 < share <= 1 or share != round(share, 6):
        raise _bad_budget("share to warn at", text, instead)
    return int(share * MICROS)


def currency_in(books: Sequence[PriceBook], period: str) -> str:
    """The currency that a month is billed in, of its newest price book.

    Args:
        books: versions in force, by time.
        period: month, as in 2026-12.

    Raises:
        Invalid: it is no month.
        AdvisorError: no version applies in it.
    """
    start_us, end_us = (round(at.timestamp() * 1e6) for at in bounds(period))
    there = [one for one in books if one.start_us < end_us and (one.end_us is None or one.end_us > start_us)]
    if not there:
        raise AdvisorError(
            f"no price book is in force in {period}, so its budget has no currency: see `cohabit bill books`, and "
            "create a version with `cohabit bill propose-book` and `approve-book`"
        )
    return there[-1].currency


def refuse_wrong(budget: Budget) -> None:
    """Nothing, for a budget that can be set.

    Raises:
        Invalid: it begins in no month.
        AdvisorError: its team has no name that an account may have; the team has the name of an account of the ledger
            itself.
    """
    bounds(budget.since)
    if not budget.team.strip() or not budget.team.isprintable() or len(budget.team) > MAX_NAME:
        raise _bad_budget("team", budget.team, f"give an account name of at most {MAX_NAME} characters")
    refuse_reserved(budget.team)


def _number(text: str, what: str, instead: str) -> Decimal:
    try:
        found = Decimal(text)
    except InvalidOperation as error:
        raise _bad_budget(what, text, instead) from error
    if not found.is_finite():
        raise _bad_budget(what, text, instead)
    return found


def _bad_budget(what: str, text: str, instead: str) -> AdvisorError:
    return AdvisorError(f"invalid {what} of a budget {text[:40]!r}: {instead}")
