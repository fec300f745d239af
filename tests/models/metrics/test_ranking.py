"""Ranking: sets of candidates, and what a choice costs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.metrics.ranking import candidate_sets, chosen_rows, regret_at_1

TRUTH = np.log([1.0, 2.0, 1.5, 3.0, 1.2])


def test_a_set_is_one_decision_on_several_nodes() -> None:
    sets = candidate_sets(np.array([7, 3, 7, 3, 5]), np.array([0, 1, 2, 1, 0]))

    assert (sets.row.tolist(), sets.of.tolist()) == ([0, 2], [0, 0])
    assert (sets.count, sets.mean_size, sets.first_rows().tolist()) == (1, 2.0, [0])


def test_regret_is_the_choice_over_the_best() -> None:
    sets = candidate_sets(np.array([0, 0, 1, 1, 1]), np.arange(5))
    wrong_then_right = np.array([1.0, 0.0, 5.0, 6.0, 1.0])

    assert regret_at_1(sets, TRUTH, wrong_then_right) == pytest.approx([1.0, 0.0])


def test_of_equal_predictions_each_is_chosen_as_often() -> None:
    sets = candidate_sets(np.zeros(5, np.int64), np.arange(5))

    assert regret_at_1(sets, TRUTH, np.zeros(5)) == pytest.approx([np.mean([1.0, 2.0, 1.5, 3.0, 1.2]) - 1])


def test_without_sets_there_is_no_regret() -> None:
    sets = candidate_sets(np.arange(5), np.arange(5))

    assert (sets.count, sets.mean_size, sets.first_rows().tolist()) == (0, 0.0, [])
    assert regret_at_1(sets, TRUTH, TRUTH).tolist() == []


rows = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.floats(0, 2), st.integers(0, 5)), max_size=40)


@given(rows)
def test_regret_equals_a_naive_loop_and_the_truth_has_none(given_rows: list[tuple[int, int, float, int]]) -> None:
    decision, node, truth, score = (np.array(c) for c in (zip(*given_rows, strict=True) if given_rows else [[]] * 4))
    sets = candidate_sets(decision.astype(np.int64), node.astype(np.int64))

    naive = []
    for one in np.unique(decision):
        here = np.flatnonzero(decision == one)
        if len(set(node[here])) > 1:
            taken = np.exp(truth[here])[score[here] == score[here].min()].mean()
            naive.append(taken / np.exp(truth[here]).min() - 1)
    assert regret_at_1(sets, truth, score) == pytest.approx(naive)
    assert regret_at_1(sets, truth, truth) == pytest.approx(np.zeros(sets.count))


def test_the_chosen_are_the_lowest_of_each_set_and_all_of_equals() -> None:
    sets = candidate_sets(np.array([0, 0, 1, 1, 1]), np.arange(5))

    assert chosen_rows(sets, np.array([2.0, 1.0, 5.0, 5.0, 6.0])).tolist() == [1, 2, 3]
    assert chosen_rows(candidate_sets(np.arange(5), np.arange(5)), TRUTH).tolist() == []
