"""Quantity: what is billed of request and use, and what becomes of minutes of which nobody knows either."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from advisor.pricing.errors import BadQuantities
from advisor.pricing.money import MICROS
from advisor.pricing.quantity import (
    LARGER,
    REQUEST_ONLY,
    USAGE_ONLY,
    Floats,
    Rule,
    best_quantile,
    billable,
    by_hour,
    rule_for,
)

NAN = float("nan")
UNITS = st.floats(0, 1e4)
RULES = st.builds(Rule, st.floats(0.01, 1), st.floats(1, 50))
MINUTES = st.lists(st.tuples(UNITS, UNITS), min_size=1, max_size=60)


def columns(*pairs: tuple[float, float]) -> tuple[Floats, Floats]:
    return np.array([request for request, _ in pairs]), np.array([use for _, use in pairs])


def billed(request: float, use: float, rule: Rule) -> float:
    return float(billable(*columns((request, use)), rule)[0])


def test_a_part_of_the_request_and_a_part_of_the_use_are_billed_and_more_beyond_it() -> None:
    assert billable(*columns((4.0, 2.0), (4.0, 4.0), (4.0, 6.0)), Rule(0.5, 3.0)).tolist() == [3.0, 4.0, 10.0]


@given(pairs=MINUTES)
def test_the_rules_of_others_are_settings_of_the_same_kernel(pairs: list[tuple[float, float]]) -> None:
    request, use = columns(*pairs)

    assert billable(request, use, LARGER) == pytest.approx(np.maximum(request, use))
    assert (billable(request, use, REQUEST_ONLY) == request).all()
    assert billable(request, use, USAGE_ONLY) == pytest.approx(use)


@pytest.mark.parametrize("rule", [LARGER, REQUEST_ONLY, USAGE_ONLY, Rule(0.5, 3.0)])
def test_where_one_is_missing_the_other_is_billed_and_nothing_is_invented(rule: Rule) -> None:
    found = billable(*columns((4.0, NAN), (NAN, 3.0), (NAN, NAN), (0.0, 0.0)), rule)

    assert found[:2].tolist() == [4.0, 3.0]
    assert np.isnan(found[2])
    assert found[3] == 0.0, "nothing requested and nothing used is a fact, not a gap"


@given(request=UNITS, use=UNITS, more=st.floats(0.01, 100), rule=RULES)
def test_whoever_uses_more_beyond_its_request_is_billed_more(
    request: float, use: float, more: float, rule: Rule
) -> None:
    """I6, of use."""
    assume(use > request)

    assert billed(request, use + more, rule) > billed(request, use, rule)
    assert billed(request, use, rule) >= billed(use, use, rule), "a request would have been cheaper"


@pytest.mark.parametrize(("request_", "use"), [(-1.0, 1.0), (1.0, -1.0), (1e10, 1.0), (1.0, float("inf"))])
def test_what_nobody_can_have_requested_or_used_is_refused(request_: float, use: float) -> None:
    with pytest.raises(BadQuantities, match="look at what was metered"):
        billable(*columns((request_, use)), LARGER)


@given(pairs=MINUTES, cut=st.integers(0, 60), seed=st.integers(0, 9))
def test_an_hour_is_the_sum_of_its_minutes_however_they_are_cut_and_ordered(
    pairs: list[tuple[float, float]], cut: int, seed: int
) -> None:
    """I11; and I3, since minutes arrive in any order."""
    minute = billable(*columns(*pairs), Rule(0.5, 3.0))
    one, order = np.zeros(len(minute), np.int64), np.random.default_rng(seed).permutation(len(minute))

    whole = by_hour(one, minute, 1).known[0]

    assert whole == sum(by_hour(one[part], minute[part], 1).known[0] for part in (slice(cut), slice(cut, None)))
    assert whole == by_hour(one, minute[order], 1).known[0]
    assert whole == sum(by_hour(one[:1], minute[i : i + 1], 1).known[0] for i in range(len(minute)))


def test_the_mean_of_the_larger_is_not_the_larger_of_the_means() -> None:
    """Why minutes are billed, and the statement says so."""
    request, use = columns((2.0, 0.0), (2.0, 4.0))

    by_minute = by_hour(np.zeros(2, np.int64), billable(request, use, LARGER), 1).known[0]

    assert by_minute == 6 * MICROS
    assert 2 * billed(2.0, 2.0, LARGER) == 4.0


def test_minutes_of_which_nothing_is_known_are_gaps_of_the_containers_mean() -> None:
    """I12, of minutes: never billed to the container, never zero."""
    container = np.array([0, 0, 0, 1, 1])

    found = by_hour(container, np.array([1.0, 3.0, NAN, NAN, NAN]), 3)

    assert found.known.tolist() == [4 * MICROS, 0, 0]
    assert found.gap.tolist() == [2 * MICROS, 0, 0]
    assert found.gap_minutes.tolist() == [1, 2, 0]


@pytest.mark.parametrize("container", [[0, 3], [-1, 0], [0]])
def test_minutes_of_containers_that_there_are_not_are_refused(container: list[int]) -> None:
    with pytest.raises(BadQuantities):
        by_hour(np.array(container), np.ones(2), 2)


@pytest.mark.parametrize(
    ("rule", "quantile"),
    [(LARGER, 0.0), (Rule(1, 2), 0.5), (Rule(0.5, 3), 0.8), (Rule(0.2, 4.8), 0.95), (Rule(0.1, 2.9), 0.95)],
)
def test_whoever_wants_to_pay_least_requests_the_quantile_that_finance_chose(rule: Rule, quantile: float) -> None:
    """I9, by trying requests against demand that was drawn."""
    demand = np.random.default_rng(7).lognormal(0.0, 0.7, 20_000)
    levels = np.arange(0, 1000) / 1000
    requests = np.quantile(demand, levels)

    cost = [billable(np.full(len(demand), request), demand, rule).mean() for request in requests]

    assert levels[int(np.argmin(cost))] == pytest.approx(quantile, abs=0.01)
    assert best_quantile(rule) == pytest.approx(quantile)


@given(quantile=st.floats(0, 0.99), kappa=st.floats(0.05, 1))
def test_finance_names_a_quantile_and_gets_its_rule(quantile: float, kappa: float) -> None:
    assert best_quantile(rule_for(quantile, kappa)) == pytest.approx(quantile, abs=1e-9)


def test_rules_that_ask_for_no_request_at_all_have_no_quantile() -> None:
    for rule in (REQUEST_ONLY, USAGE_ONLY):
        with pytest.raises(BadQuantities):
            best_quantile(rule)
    with pytest.raises(BadQuantities):
        rule_for(1.0, 0.5)
