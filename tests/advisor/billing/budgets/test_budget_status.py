"""Budgets: the newest row of a month counts, states follow from amounts, and a forecast obeys its laws."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine
from sqlalchemy.exc import DatabaseError

from advisor.auth.audit_log import Entry, entries
from advisor.billing.budgets import store as budget_store
from advisor.billing.budgets.budget_status import (
    Budget,
    Standing,
    amount_of,
    budgets_in,
    currency_in,
    due,
    standings,
    warn_of,
)
from advisor.billing.budgets.forecast import Day, Forecast, daily, forecast_of
from advisor.billing.lines.errors import UnknownCurrency
from advisor.billing.lines.money import MICROS
from advisor.errors import AdvisorError, Invalid
from tests.advisor.billing.billed import START_US
from tests.advisor.billing.billed import book as price_book
from tests.advisor.billing.months_drawn import NOW_US, PERIOD, batch

FIRST = date(2026, 11, 1)
LENGTH = 30
BUDGET = Budget("c", "shop", 100 * MICROS, "EUR", 800_000, PERIOD, NOW_US, "ann")
AMOUNTS = st.lists(st.integers(0, 10**12), min_size=2, max_size=LENGTH)


def known(amounts: Sequence[int], *, last_full: bool = True) -> list[Day]:
    """The first days of the month, all but perhaps the last one full."""
    last = len(amounts) - 1
    return [Day(FIRST + timedelta(days=n), amount, last_full or n < last) for n, amount in enumerate(amounts)]


def forecast(days: Sequence[Day]) -> Forecast:
    found = forecast_of(days, PERIOD)
    assert found is not None
    return found


@given(amount=st.integers(-(10**12), 10**12), count=st.integers(2, LENGTH))
def test_a_forecast_of_days_that_are_all_alike_is_exact(amount: int, count: int) -> None:
    assert forecast(known([amount] * count)) == Forecast(LENGTH * amount, LENGTH * amount, LENGTH * amount)


@given(week=st.lists(st.integers(0, 10**12), min_size=7, max_size=7), count=st.integers(14, LENGTH))
def test_a_forecast_of_weeks_that_are_all_alike_is_exact(week: list[int], count: int) -> None:
    month = [week[n % 7] for n in range(LENGTH)]

    assert forecast(known(month[:count])) == Forecast(sum(month), sum(month), sum(month))


@given(amounts=AMOUNTS, at=st.integers(0, LENGTH - 1), more=st.integers(0, 10**12), last_full=st.booleans())
def test_who_owes_more_for_a_day_is_never_forecast_less(
    amounts: list[int], at: int, more: int, *, last_full: bool
) -> None:
    changed = list(amounts)
    changed[at % len(amounts)] += more

    before, after = (forecast_of(known(of, last_full=last_full), PERIOD) for of in (amounts, changed))

    assert (before is None) == (after is None)
    assert before is None or after is None or before.micros <= after.micros


@given(amounts=AMOUNTS, seed=st.integers(0, 99), last_full=st.booleans())
def test_the_order_of_days_makes_no_difference(amounts: list[int], seed: int, *, last_full: bool) -> None:
    days = known(amounts, last_full=last_full)
    mixed = list(days)
    Random(seed).shuffle(mixed)

    assert forecast_of(mixed, PERIOD) == forecast_of(days, PERIOD)


@given(amounts=AMOUNTS, last_full=st.booleans())
def test_what_is_owed_is_never_above_the_forecast_nor_its_interval(amounts: list[int], *, last_full: bool) -> None:
    found = forecast_of(known(amounts, last_full=last_full), PERIOD)

    if found is not None:
        assert sum(amounts) <= found.low_micros <= found.micros <= found.high_micros


@given(amounts=st.lists(st.integers(-(10**12), 10**12), min_size=LENGTH, max_size=LENGTH))
def test_a_month_that_is_over_comes_to_what_is_owed(amounts: list[int]) -> None:
    assert forecast(known(amounts)) == Forecast(*[sum(amounts)] * 3)


def test_of_fewer_than_two_full_days_nothing_is_forecast() -> None:
    assert forecast_of([], PERIOD) is None
    assert forecast_of(known([5]), PERIOD) is None
    assert forecast_of(known([5, 5], last_full=False), PERIOD) is None
    assert forecast_of([Day(date(2026, 11, 30), 5, True)], PERIOD) == Forecast(5, 5, 5)
    with pytest.raises(Invalid, match="is not a month"):
        forecast_of(known([5, 5]), "2026-13")


def test_days_to_come_are_the_mean_until_a_week_is_known_and_then_its_weekdays() -> None:
    few, week = forecast(known([10, 20])), forecast(known([1, 2, 3, 4, 5, 6, 70]))

    assert few.micros == 30 + 28 * 15
    assert few.high_micros - few.micros == 447  # 3.078 x sqrt(50 x (28 + 28^2 / 2)), up
    assert week.micros == 4 * 91 + 1 + 2  # 30 days are four weeks and two days


def test_a_day_that_is_not_over_counts_as_its_like_or_as_what_it_came_to() -> None:
    assert forecast(known([10, 10, 4], last_full=False)).micros == 300
    assert forecast(known([10, 10, 25], last_full=False)).micros == 315


@pytest.mark.parametrize(("count", "weekly"), [(3, 0.0), (6, 0.0), (14, 40.0), (21, 40.0)])
def test_four_of_five_months_end_within_the_interval(count: int, weekly: float) -> None:
    rng, within = Random(5), 0
    for _ in range(1500):
        month = [round(1e6 * (100 + weekly * (n % 7) + rng.gauss(0, 5))) for n in range(LENGTH)]
        found = forecast(known(month[:count]))
        within += found.low_micros <= sum(month) <= found.high_micros

    assert within / 1500 == pytest.approx(0.8, abs=0.035)


def test_days_are_summed_over_pools_and_are_zero_for_who_owes_nothing() -> None:
    starts = [round(datetime(2026, 11, day, tzinfo=UTC).timestamp() * 1e6) for day in (1, 2)]
    batches = [
        batch("std@a", ("shop", "base", 7), ("shop", "rebate", -2), ("ads", "base", 1), day=starts[0]),
        batch("gpu@a", ("shop", "base", 10), day=starts[0]),
        batch("std@a", ("ads", "base", 3), day=starts[1]),
    ]

    found = daily(batches, {FIRST}, ["shop", "new"])

    second = date(2026, 11, 2)
    assert found["shop"] == [Day(FIRST, 15, True), Day(second, 0, False)]
    assert found["new"] == [Day(FIRST, 0, True), Day(second, 0, False)]
    assert daily(batches[::-1], {FIRST}, ["shop", "new"]) == found


def test_the_budget_of_a_month_is_the_one_that_began_last_and_of_these_the_newest() -> None:
    rows = [
        replace(BUDGET, number=1),
        replace(BUDGET, number=2, since="2027-02", amount_micros=2),
        replace(BUDGET, number=3, amount_micros=3),
        replace(BUDGET, number=4, team="ads", since="2026-12"),
        replace(BUDGET, number=5, team="ads", since="2027-01", amount_micros=0),
    ]

    numbers = {p: [one.number for one in budgets_in(rows[::-1], p).values()] for p in ("2026-10", PERIOD, "2026-12")}

    assert numbers == {"2026-10": [], PERIOD: [3], "2026-12": [4, 3]}
    assert [one.number for one in budgets_in(rows, "2027-03").values()] == [2]


@pytest.mark.parametrize(
    ("owed", "ahead", "state"),
    [
        (79, None, "within"),
        (79, 79, "within"),
        (80, None, "warned"),
        (10, 80, "warned"),
        (10, 500, "warned"),
        (100, 100, "warned"),
        (101, None, "exceeded"),
        (101, 90, "exceeded"),
        (-5, None, "within"),
    ],
)
def test_states_follow_from_what_is_owed_and_foreseen(owed: int, ahead: int | None, state: str) -> None:
    foreseen = {} if ahead is None else {"shop": Forecast(*[ahead * MICROS] * 3)}

    (found,) = standings({"shop": BUDGET}, {"shop": owed * MICROS, "ads": 5}, foreseen, "EUR")

    assert (found.state, found.owed_micros, found.share_ppm(found.owed_micros)) == (
        state,
        owed * MICROS,
        owed * MICROS // 100,
    )


@given(
    low=st.integers(0, 10**15), more=st.integers(0, 10**15), amount=st.integers(1, 10**15), warn=st.integers(1, MICROS)
)
def test_who_owes_more_is_never_in_a_better_state(low: int, more: int, amount: int, warn: int) -> None:
    budget = replace(BUDGET, amount_micros=amount, warn_ppm=warn)
    order = ("within", "warned", "exceeded")

    before, after = (order.index(Standing(budget, of, None, "EUR").state) for of in (low, low + more))

    assert before <= after


@pytest.mark.parametrize(
    ("told", "warned", "exceeded"),
    [
        ((), True, True),
        (("warned",), False, True),
        (("exceeded",), False, False),
        (("warned", "exceeded"), False, False),
    ],
)
def test_somebody_is_told_of_what_is_worse_than_what_was_told(
    told: tuple[str, ...], *, warned: bool, exceeded: bool
) -> None:
    assert (due("warned", told), due("exceeded", told)) == (warned, exceeded)
    assert not due("within", told)
    assert not due("other currency", told)


def test_a_budget_in_another_currency_is_not_compared() -> None:
    assert Standing(BUDGET, 10**12, None, "USD").state == "other currency"


@pytest.mark.parametrize(
    ("told", "currency", "micros"), [("1234.56", "EUR", 1_234_560_000), ("0", "EUR", 0), ("7", "JPY", 7 * MICROS)]
)
def test_amounts_are_read_to_the_micro_unit(told: str, currency: str, micros: int) -> None:
    assert amount_of(told, currency) == micros
    assert warn_of("0.85") == 850_000


@pytest.mark.parametrize(
    ("told", "currency", "says"),
    [
        ("-1", "EUR", "give 0 to"),
        ("NaN", "EUR", "as in 1234.56"),
        ("Infinity", "EUR", "as in 1234.56"),
        ("1e999999", "EUR", "to 1,000,000,000,000"),
        ("1,234", "EUR", "as in 1234.56"),
        ("0.001", "EUR", "EUR has 2 decimals"),
        ("0.5", "JPY", "JPY has 0 decimals"),
        ("lots", "JPY", "as in 123456;"),
    ],
)
def test_what_is_no_amount_is_refused_and_it_is_said_what_to_give(told: str, currency: str, says: str) -> None:
    with pytest.raises(AdvisorError, match=says):
        amount_of(told, currency)


@pytest.mark.parametrize("told", ["0", "1.01", "-0.1", "nan", "80%", "0.0000001"])
def test_what_is_no_share_to_warn_at_is_refused(told: str) -> None:
    with pytest.raises(AdvisorError, match=r"0\.8 for a warning at 80 %"):
        warn_of(told)


def test_the_currency_is_that_of_the_price_book_of_the_month() -> None:
    later = START_US + 40 * 86_400 * MICROS
    books = [price_book(end_us=later), price_book(version="b", currency="USD", start_us=later)]

    assert [currency_in(books, period) for period in (PERIOD, "2026-12", "2027-05")] == ["EUR", "USD", "USD"]
    with pytest.raises(AdvisorError, match="approve-book"):
        currency_in(books, "2026-10")
    with pytest.raises(UnknownCurrency):
        amount_of("1", "EURO")


def entry(action: str = "set budget", subject: str = "shop", outcome: str = "done") -> Entry:
    return Entry(NOW_US, "ann", "finance", action, subject, outcome, "r1")


def test_budgets_are_kept_with_who_set_them_and_never_changed(store: Engine) -> None:
    first = budget_store.set_budget(store, BUDGET, entry())
    second = budget_store.set_budget(store, replace(BUDGET, team="a'; DROP TABLE budgets --"), entry())
    budget_store.set_budget(store, replace(BUDGET, cluster="other"), entry())

    assert budget_store.all_budgets(store, "c") == [first, second]
    assert first == replace(BUDGET, number=first.number)
    assert set(budget_store.budgets_of(store, "c", PERIOD)) == {first.team, second.team}
    assert budget_store.budgets_of(store, "c", "2026-10") == {}
    assert [one.action for one in entries(store)] == ["set budget"] * 3
    for statement in ("UPDATE budgets SET amount_micros = 0", "DELETE FROM budgets"):
        with pytest.raises(DatabaseError, match="only added"), store.begin() as connection:
            connection.exec_driver_sql(statement)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"team": ""}, AdvisorError),
        ({"team": "a\nb"}, AdvisorError),
        ({"team": "x" * 201}, AdvisorError),
        ({"team": "pool:std@a"}, AdvisorError),
        ({"team": "rounding"}, AdvisorError),
        ({"since": "2026-13"}, Invalid),
    ],
)
def test_a_budget_that_cannot_be_set_leaves_nothing(
    store: Engine, change: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        budget_store.set_budget(store, replace(BUDGET, **change), entry())  # type: ignore[arg-type]

    assert (budget_store.all_budgets(store, "c"), list(entries(store))) == ([], [])


def test_what_was_alerted_is_remembered_by_budget_and_month(store: Engine) -> None:
    one, other = (budget_store.set_budget(store, BUDGET, entry()) for _ in range(2))
    for owed in (80 * MICROS, 101 * MICROS):
        standing = Standing(one, owed, None, "EUR")
        subject, outcome = budget_store.alert_subject(one, PERIOD), budget_store.alert_outcome(standing)
        budget_store.remember_alert(store, entry(budget_store.ALERT, subject, outcome))

    assert budget_store.alerted(store, one, PERIOD) == ("warned", "exceeded")
    assert budget_store.alerted(store, one, "2026-12") == ()
    assert budget_store.alerted(store, other, PERIOD) == ()
