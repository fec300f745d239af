"""Quantity: what is billed of request and use, and what becomes of minutes of which nobody knows either."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from advisor.billing.lines.money import MICROS
from advisor.billing.pricing.billed_quantity import (
    LARGER,
    REQUEST_ONLY,
    USAGE_ONLY,
    Rule,
    best_quantile,
    billed_quantity,
    gap_quantity,
    rule_for,
)
from advisor.errors import Conflict
from features.columnar.arrow_columns import Floats, Ints
from features.metering.usage_hours import minutes_of

NAN = float("nan")
UNITS = st.floats(0, 1e4)
RULES = st.builds(Rule, st.floats(0.01, 1), st.floats(1, 50))
MINUTES = st.lists(st.tuples(UNITS, UNITS), min_size=1, max_size=60)


def columns(*pairs: tuple[float, float]) -> tuple[Floats, Floats]:
    return np.array([request for request, _ in pairs]), np.array([use for _, use in pairs])


def billable(request: Floats, use: Floats, rule: Rule) -> Floats:
    """Units that are billed of each minute, as it is metered."""
    return quantities(request, use, rule) / MICROS


def quantities(request: Floats, use: Floats, rule: Rule) -> Ints:
    minutes = minutes_of(request, use)
    return billed_quantity(minutes.requested, minutes.within, minutes.beyond, rule)


def bill(sums: Sequence[Sequence[int]], rule: Rule) -> list[int]:
    requested, within, beyond = (np.array(column, np.int64) for column in sums)
    return [int(quantity) for quantity in billed_quantity(requested, within, beyond, rule)]


def billed(request: float, use: float, rule: Rule) -> float:
    return float(billable(*columns((request, use)), rule)[0])


def test_a_part_of_the_request_and_a_part_of_the_use_are_billed_and_more_beyond_it() -> None:
    assert billable(*columns((4.0, 2.0), (4.0, 4.0), (4.0, 6.0)), Rule(0.5, 3.0)).tolist() == [3.0, 4.0, 10.0]


@given(pairs=MINUTES)
def test_the_rules_of_others_are_settings_of_the_same_kernel(pairs: list[tuple[float, float]]) -> None:
    request, use = columns(*pairs)

    assert billable(request, use, LARGER) == pytest.approx(np.maximum(request, use), abs=1e-6)
    assert billable(request, use, REQUEST_ONLY) == pytest.approx(request, abs=1e-6)
    assert billable(request, use, USAGE_ONLY) == pytest.approx(use, abs=1e-6)


@pytest.mark.parametrize("rule", [LARGER, REQUEST_ONLY, USAGE_ONLY, Rule(0.5, 3.0)])
def test_where_one_is_missing_the_other_is_billed(rule: Rule) -> None:
    found = billable(*columns((4.0, NAN), (NAN, 3.0), (0.0, 0.0)), rule)

    assert found.tolist() == [4.0, 3.0, 0.0]


@given(request=UNITS, use=UNITS, more=st.floats(0.01, 100), rule=RULES)
def test_whoever_uses_more_beyond_its_request_is_billed_more(
    request: float, use: float, more: float, rule: Rule
) -> None:
    """I6, of use."""
    assume(use > request)

    assert billed(request, use + more, rule) > billed(request, use, rule)
    assert billed(request, use, rule) >= billed(use, use, rule), "a request would have been cheaper"


@pytest.mark.parametrize("sums", [([-1], [0], [0]), ([2**62], [0], [0]), ([1], [1, 2], [0])])
def test_what_nobody_can_have_requested_or_used_is_refused(sums: Sequence[Sequence[int]]) -> None:
    with pytest.raises(Conflict, match="cannot compute the billed quantity"):
        bill(sums, LARGER)


def test_a_rule_too_steep_to_be_counted_by_is_refused() -> None:
    with pytest.raises(Conflict, match="cannot compute the billed quantity"):
        bill([[1], [1], [1]], Rule(1.0, 1e9))


SUMS = st.integers(0, 2**50)


@given(sums=st.tuples(SUMS, SUMS, SUMS), rule=RULES)
def test_quantities_are_exact_however_large(sums: tuple[int, int, int], rule: Rule) -> None:
    """Beside whole numbers of any size."""
    kappa, beta = round(rule.kappa * MICROS), round(rule.beta * MICROS)

    found = bill([[one] for one in sums], rule)

    exact = kappa * sums[0] + (MICROS - kappa) * sums[1] + beta * sums[2]
    assert found == [(exact + MICROS // 2) // MICROS]


@given(pairs=MINUTES, cut=st.integers(0, 60), seed=st.integers(0, 9), rule=RULES)
def test_an_hour_is_the_sum_of_its_minutes_however_they_are_cut_and_ordered(
    pairs: list[tuple[float, float]], cut: int, seed: int, rule: Rule
) -> None:
    """I11; and I3, since minutes arrive in any order: what is metered adds up exactly, and is billed once."""
    minutes = minutes_of(*columns(*pairs))
    sums = [minutes.requested, minutes.within, minutes.beyond]
    order = np.random.default_rng(seed).permutation(len(pairs))

    def hour(*parts: Ints) -> int:
        return bill([[sum(int(s[p].sum()) for p in parts)] for s in sums], rule)[0]

    every = np.arange(len(pairs))
    whole = hour(every)
    assert whole == hour(every[:cut], every[cut:]) == hour(order) == hour(*(every[i : i + 1] for i in every))
    apart = quantities(*columns(*pairs), rule)
    assert abs(whole - apart.sum()) <= len(pairs) / 2 + 1, "billed minute by minute it differs by rounding alone"


def test_the_mean_of_the_larger_is_not_the_larger_of_the_means() -> None:
    """Why minutes are billed, and the statement says so."""
    request, use = columns((2.0, 0.0), (2.0, 4.0))

    assert quantities(request, use, LARGER).sum() == 6 * MICROS
    assert 2 * billed(2.0, 2.0, LARGER) == 4.0


def test_minutes_of_which_nothing_is_known_are_gaps_of_the_containers_mean() -> None:
    """I12, of minutes: never billed to the container, never zero."""
    known, minutes, gaps = (np.array(column, np.int64) for column in ([4 * MICROS, 0], [2, 0], [1, 60]))

    assert gap_quantity(known, minutes, gaps).tolist() == [2 * MICROS, 0]


@given(known=st.integers(0, 2**61), minutes=st.integers(1, 60), gaps=st.integers(0, 60))
def test_gaps_are_exact_however_large(known: int, minutes: int, gaps: int) -> None:
    assume(known * gaps // minutes < 2**63)

    found = gap_quantity(np.array([known]), np.array([minutes]), np.array([gaps]))

    assert found.tolist() == [known * gaps // minutes]


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
        with pytest.raises(Conflict, match="cannot compute the billed quantity"):
            best_quantile(rule)
    with pytest.raises(Conflict, match="cannot compute the billed quantity"):
        rule_for(1.0, 0.5)
