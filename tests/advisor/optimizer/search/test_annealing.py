"""Search: the incumbent never worsens, stays legal and within its budget, and the same seed gives the same plan."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.errors import UnusableProblem
from advisor.optimizer.objective import cost
from advisor.optimizer.problem import NOWHERE
from advisor.optimizer.search import array_layout as slots
from advisor.optimizer.search.anneal import anneal
from advisor.optimizer.search.parameters import MIXES, Tuning, begun, counted
from advisor.optimizer.search.search import STEPS, search
from advisor.optimizer.search.state import MAX_MOVED, MOVED
from benchmarks.reassign.bound import bound
from tests.advisor.optimizer.drawn_problems import drawn, is_legal

ALONE = Tuning(workers=1, mixes=MIXES[:1])


@pytest.mark.parametrize("seed", range(6))
def test_what_is_found_is_legal_no_worse_than_the_start_and_no_better_than_the_bound(seed: int) -> None:
    problem = drawn(seed)

    found = search(problem, 1, counted(4 * STEPS), ALONE)

    assert is_legal(problem, found.place)
    assert found.cost == cost(problem, found.place).total
    assert bound(problem) <= found.cost <= cost(problem, problem.start).total
    assert found.tried > 0


@pytest.mark.parametrize("tuning", [ALONE, Tuning(workers=2, mixes=MIXES)])
def test_the_same_seed_gives_the_same_plan_where_moves_are_counted(tuning: Tuning) -> None:
    problem = drawn(1)

    plans = [search(problem, seed, counted(10 * STEPS), tuning) for seed in (1, 1)]

    assert plans[0].place.tolist() == plans[1].place.tolist()
    assert (plans[0].cost, plans[0].tried) == (plans[1].cost, plans[1].tried)


@pytest.mark.parametrize("most", [0, 1, 4])
def test_a_plan_keeps_its_budget_of_moves(most: int) -> None:
    problem = drawn(2, most=most)

    found = search(problem, 1, counted(3 * STEPS), ALONE)

    assert (found.place != problem.start).sum() <= most


def test_a_larger_budget_is_never_worse() -> None:
    costs = [search(drawn(2, most=most), 1, counted(6 * STEPS), ALONE).cost for most in (0, 2, 100)]

    assert costs[0] >= costs[1] >= costs[2]


def test_who_is_nowhere_finds_a_place() -> None:
    problem = drawn(4, homeless=0.2)
    assert (problem.start == NOWHERE).any()

    found = search(problem, 1, counted(3 * STEPS), ALONE)

    assert not (found.place == NOWHERE).any()
    assert is_legal(problem, found.place)


def test_two_workers_are_no_worse_than_the_start() -> None:
    problem = drawn(5)

    found = search(problem, 1, counted(6 * STEPS), Tuning(workers=2))

    assert found.cost <= cost(problem, problem.start).total
    np.testing.assert_array_equal(np.sort(np.unique(problem.app)), np.unique(problem.app[found.place != NOWHERE]))


@given(
    seed=st.integers(0, 10_000),
    heat=st.sampled_from([0.0, 5.0, 100.0]),
    bulks=st.sampled_from([0.0, 0.5]),
    most=st.sampled_from([3, 2**62]),
    homeless=st.sampled_from([0.0, 0.2]),
)
@settings(max_examples=60, deadline=None)
def test_after_many_moves_a_state_is_what_its_assignment_makes_it(
    seed: int, heat: float, bulks: float, most: int, homeless: float
) -> None:
    problem = drawn(seed, most=most, homeless=homeless)
    state, draws = begun(problem, problem.start), np.array([seed], np.uint64)

    anneal(state.at, state.whole, state.real, draws, 300, heat, 0.2, 0.5, bulks)

    anew = begun(problem, state.place())
    assert is_legal(problem, state.place())
    assert is_legal(problem, state.best())
    assert state.total() == pytest.approx(anew.total(), abs=1e-6)
    assert state.best_cost() == pytest.approx(cost(problem, state.best()).total, abs=1e-6)
    assert state.best_cost() <= cost(problem, problem.start).total
    n, c, a, k = problem.nodes, problem.columns, problem.apps, problem.containers
    locations, hoods = int(state.at[slots.LOCATIONS]), int(state.at[slots.HOODS])
    for slot, size in ((slots.LOAD, n * c), (slots.TAKEN, n * c), (slots.COST, n)):
        kept, computed = (one.real[one.at[slot] : one.at[slot] + size] for one in (state, anew))
        np.testing.assert_allclose(kept, computed, atol=1e-6)
    counts = ((slots.COUNT, n), (slots.AT_LOCATION, a * locations), (slots.SPREAD_NOW, a), (slots.IN_HOOD, a * hoods))
    for slot, size in (*counts, (slots.APP_MOVED, a), (slots.WITH_MOVED, k + 1)):
        kept_now, computed_now = (one.whole[one.at[slot] : one.at[slot] + size] for one in (state, anew))
        np.testing.assert_array_equal(kept_now, computed_now)
    assert state.whole[state.at[slots.INFO] + MOVED] == anew.whole[anew.at[slots.INFO] + MOVED]
    assert state.whole[state.at[slots.INFO] + MAX_MOVED] == anew.whole[anew.at[slots.INFO] + MAX_MOVED]


def test_the_race_is_won_by_the_best_and_every_worker_goes_on_by_its_mix() -> None:
    problem = drawn(7)

    found = search(problem, 1, counted(20 * STEPS), Tuning(workers=2, mixes=MIXES))

    assert is_legal(problem, found.place)
    assert found.tried >= 6 * STEPS


@pytest.mark.parametrize("shares", [(0.0, 0.9, 0.95), (0.5, 0.4, 0.95), (0.2, 0.93, 0.8), (0.2, 0.93, 1.1)])
def test_legs_that_end_before_they_begin_are_refused(shares: tuple[float, float, float]) -> None:
    race, cool, exact = shares

    with pytest.raises(UnusableProblem, match="ascending shares"):
        Tuning(race=race, cool=cool, exact=exact)


@pytest.mark.parametrize(
    "tuning",
    [{"workers": 0}, {"mixes": ()}, {"part": 0}, {"cuts": 0}, {"hot": 2.0}, {"cold": float("nan")}, {"cold_part": 0.0}],
)
def test_tunings_that_no_search_can_follow_are_refused(tuning: dict[str, Any]) -> None:
    with pytest.raises(UnusableProblem, match=next(iter(tuning))):
        Tuning(**tuning)
