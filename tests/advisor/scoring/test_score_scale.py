"""Decision: absolute integer scores, lower for more harm, and a veto for the latency-sensitive."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from advisor.scoring.score_scale import LIMIT_SLOWDOWN, cost, points, violation
from advisor.scoring.scorer import Harm, Scores

Floats = NDArray[np.float64]
COSTS = st.lists(st.floats(0, 1e6) | st.just(np.nan) | st.just(np.inf), max_size=30)


def scores(choice: list[float], harm: list[list[float]]) -> Scores:
    """Scores whose residents are numbered 0, 1, 2, ... over all candidates, none slowed down before."""
    ratio = np.array([r for node in harm for r in node])
    offsets = np.append(0, np.cumsum([len(node) for node in harm])).astype(np.int32)
    of = Harm(offsets, np.arange(len(ratio), dtype=np.int32), ratio, np.ones(len(ratio)))
    value = np.array(choice)
    return Scores(value, value, value, value, of, "model", 1, 0.0)


def calm(count: int) -> NDArray[np.bool_]:
    return np.zeros(count, np.bool_)


def test_cost_adds_the_newcomers_slowdown_and_its_neighbours_by_class() -> None:
    residents_be = np.array([False, True, True])

    found = cost(scores([1.5, 3.0], [[1.2, 2.0], [1.5]]), best_effort=False, resident_best_effort=residents_be)

    own, first = violation(np.array([1.5, 3.0])), violation(np.array([1.2])) - violation(np.ones(1))
    slowdown = np.array([0.5 + 0.2 + 0.2 * 1.0, 2.0 + 0.2 * 0.5])
    assert found.tolist() == pytest.approx((slowdown + own + [first[0], 0.0]).tolist())


def test_a_resident_that_comes_to_exceed_its_limit_costs_more_than_one_that_did_before() -> None:
    harmed = scores([1.0, 1.0], [[1.1], [1.1]])
    crossing = replace(harmed, harm=replace(harmed.harm, before=np.array([1.2, 2.0])))

    found = cost(crossing, best_effort=True, resident_best_effort=calm(2))

    assert found[0] - found[1] == pytest.approx(
        violation(np.array([1.32]))[0] - violation(np.array([1.2]))[0], abs=1e-3
    )
    assert found[0] > found[1] + 0.3


def test_a_violation_is_as_likely_as_not_at_the_limit_and_certain_far_from_it() -> None:
    assert violation(np.array([LIMIT_SLOWDOWN, 0.9, 2.0])).tolist() == pytest.approx([0.5, 0.0, 1.0], abs=0.01)


@given(ratio=st.floats(0.01, 1e9), more=st.floats(1, 10))
def test_more_slowdown_never_makes_a_violation_less_likely(ratio: float, more: float) -> None:
    less_slow, slower = violation(np.array([ratio, ratio * more]))

    assert 0.0 <= less_slow <= slower <= 1.0


def test_a_best_effort_newcomers_own_slowdown_counts_a_fifth() -> None:
    alone = scores([2.0], [[]])

    assert cost(alone, best_effort=True, resident_best_effort=np.zeros(0, np.bool_)).tolist() == [0.2]


def test_one_hopeless_candidate_does_not_spoil_those_after_it() -> None:
    found = cost(scores([1.0, 1.0], [[np.inf], [2.0]]), best_effort=False, resident_best_effort=np.zeros(2, np.bool_))

    crossed = violation(np.array([1.0, 2.0]))
    assert found.tolist() == pytest.approx([np.inf, 1.0 + crossed[1]])
    assert points(found, calm(2), best_effort=False).tolist() == [0, 4]


@given(ratios=st.lists(st.floats(1, 100), min_size=1, max_size=6), before=st.lists(st.floats(1, 1e9), max_size=6))
def test_a_candidates_cost_does_not_depend_on_those_before_it(ratios: list[float], before: list[float]) -> None:
    class_of = np.zeros(len(ratios) + len(before), np.bool_)

    alone = cost(scores([1.0], [ratios]), best_effort=False, resident_best_effort=class_of)
    after = cost(scores([1.0, 1.0], [before, ratios]), best_effort=False, resident_best_effort=class_of)

    assert after[1] == alone[0]


@given(costs=COSTS, best_effort=st.booleans())
def test_points_are_whole_numbers_from_0_to_10(*, costs: list[float], best_effort: bool) -> None:
    found = points(np.array(costs), calm(len(costs)), best_effort=best_effort)

    assert found.dtype == np.int64
    assert ((found >= 0) & (found <= 10)).all()


@given(first=st.floats(0, 50), more=st.floats(0, 50))
def test_more_cost_never_scores_higher(first: float, more: float) -> None:
    cheap, dear = points(np.array([first, first + more]), calm(2), best_effort=False)

    assert dear <= cheap


@given(own=st.floats(0, 5), others=st.lists(st.floats(0, 5), max_size=5))
def test_the_same_cost_scores_the_same_beside_any_others(own: float, others: list[float]) -> None:
    together = points(np.array([own, *others]), calm(1 + len(others)), best_effort=False)

    assert together[0] == points(np.array([own]), calm(1), best_effort=False)[0]


def test_no_harm_scores_10_and_one_container_at_twice_its_normal_4() -> None:
    assert points(np.array([0.0, 1.0, 5.0]), calm(3), best_effort=False).tolist() == [10, 6, 1]


def test_a_latency_sensitive_newcomer_is_kept_from_a_node_that_may_become_too_slow() -> None:
    exceeds = np.array([True, False])

    assert points(np.zeros(2), exceeds, best_effort=False).tolist() == [0, 10]
    assert points(np.zeros(2), exceeds, best_effort=True).tolist() == [10, 10]


def test_a_node_of_which_nothing_is_known_scores_like_the_middle_of_the_others() -> None:
    costs = np.array([0.0, np.nan, 1.0, 5.0])

    assert points(costs, calm(4), best_effort=False).tolist() == [10, 6, 6, 1]


def test_where_nothing_is_known_of_any_node_all_score_0() -> None:
    assert points(np.full(3, np.nan), calm(3), best_effort=False).tolist() == [0, 0, 0]
    assert points(np.zeros(0), calm(0), best_effort=False).tolist() == []
