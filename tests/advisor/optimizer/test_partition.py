"""Parts and arranging: what a part finds is worth the same in the whole, and no order of columns changes a cost."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.optimizer.objective import cost, moved
from advisor.optimizer.partition import divisible, parts_of
from advisor.optimizer.problem import NOWHERE, Excess, Ints, Limits, Moves, Problem
from advisor.optimizer.search import array_layout as slots
from advisor.optimizer.search.anneal import anneal
from advisor.optimizer.search.arrays import arranged, distinct, priced
from advisor.optimizer.search.parallel import STEPS
from advisor.optimizer.search.parameters import Tuning, begun, counted
from advisor.optimizer.search.search import search
from tests.advisor.optimizer.drawn_problems import drawn, is_legal


def unlinked(seed: int, most: int = 2**62) -> Problem:
    """A drawn problem in which only who is where links nodes."""
    problem = drawn(seed, most=most)
    limits = replace(problem.limits, spread=np.zeros(0, np.int64), needs=np.zeros((0, 2), np.int64))
    held = problem.held & ~np.isin(np.arange(problem.columns), [0, 1, *problem.curve.column])
    return replace(problem, held=held, limits=limits, moves=Moves(container=problem.moves.container, most=most))


def shaken(problem: Problem, place: Ints, seed: int, heat: float) -> Ints:
    """The assignment after many random moves."""
    state = begun(problem, place)
    anneal(state.at, state.whole, state.real, np.array([seed], np.uint64), 300, heat, 0.2, 0.3, 0.1)
    return state.place()


@given(seed=st.integers(0, 10_000), parts=st.integers(1, 4), most=st.sampled_from([0, 2, 5, 2**62]))
@settings(max_examples=60, deadline=None)
def test_what_parts_find_is_legal_and_worth_the_same_in_the_whole(seed: int, parts: int, most: int) -> None:
    problem = unlinked(seed, most)
    place = problem.start.copy()
    for turn in range(3):
        before, gained = cost(problem, place).total, 0.0
        for part in parts_of(problem, place, parts, np.random.default_rng([seed, turn])):
            found = shaken(part.problem, part.place, seed + turn, 10.0)
            gained += cost(part.problem, found).total - cost(part.problem, part.place).total
            part.put(place, found)

        assert is_legal(problem, place)
        assert cost(problem, place).total - before == pytest.approx(gained, abs=1e-6)
        assert moved(problem, place).sum() <= most


def test_every_node_and_everybody_is_in_one_part() -> None:
    problem = unlinked(1)

    parts = parts_of(problem, problem.start, 4, np.random.default_rng(0))

    assert sorted(np.concatenate([part.nodes for part in parts])) == list(range(problem.nodes))
    assert sorted(np.concatenate([part.containers for part in parts])) == list(range(problem.containers))


def test_what_links_nodes_is_not_divided() -> None:
    assert divisible(unlinked(2))
    assert not divisible(drawn(2))


def large(containers: int) -> Problem:
    """Twice as many nodes as a part has, and containers of two kinds, a tenth of which is nowhere."""
    rng, nodes = np.random.default_rng(5), 2 * Tuning().part
    use = np.array([[2.0, 1.0], [1.0, 3.0]])[rng.integers(0, 2, containers)]
    start = np.where(rng.random(containers) < 0.1, NOWHERE, rng.integers(0, nodes // 4, containers))
    return Problem(
        use=use,
        capacity=np.full((nodes, 2), 99.0),
        held=np.zeros(2, np.bool_),
        app=rng.integers(0, 9, containers),
        start=start,
        limits=Limits(alike=np.full(9, containers)),
        excess=Excess(np.array([0, 1]), np.ones(2), np.full((nodes, 2), 2.0)),
    )


def test_a_large_problem_is_searched_in_parts_within_its_budget() -> None:
    problem = large(2000)

    found, again = (search(problem, 1, counted(60 * STEPS), Tuning()) for _ in range(2))

    assert found.place.tolist() == again.place.tolist()
    assert is_legal(problem, found.place)
    assert not (found.place == NOWHERE).any()
    home = np.where(problem.start == NOWHERE, found.place, problem.start)
    assert found.cost == cost(problem, found.place).total < cost(problem, home).total


@pytest.mark.parametrize("crowded", [0, NOWHERE])
def test_parts_without_anybody_are_left_alone(crowded: int) -> None:
    few = large(20)
    problem = replace(few, start=np.full(20, crowded), use=few.use * (1 if crowded == 0 else 1000))

    found = search(problem, 1, counted(20 * STEPS), Tuning())

    assert found.cost <= cost(problem, problem.start).total
    assert (found.place == NOWHERE).all() == (crowded == NOWHERE)


def test_nobody_and_nothing_costs_nothing() -> None:
    assert search(large(0), 1, counted(STEPS), Tuning()).cost == 0.0


@given(seed=st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_no_order_of_columns_changes_a_cost(seed: int) -> None:
    problem = drawn(seed)
    rng = np.random.default_rng(seed)

    in_order, place = arranged(problem), rng.integers(0, problem.nodes, problem.containers)

    assert priced(in_order).tolist() == list(range(len(priced(problem))))
    assert cost(in_order, place).total == pytest.approx(cost(problem, place).total)
    assert arranged(in_order) is in_order


@given(seed=st.integers(0, 10_000), crowd=st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_a_node_costs_what_the_formula_says_however_full_it_is(seed: int, crowd: int) -> None:
    problem = unlinked(seed)
    place = np.random.default_rng(seed).integers(0, crowd, problem.containers)

    state = begun(replace(problem, start=place), place)

    begin = int(state.at[slots.COST])
    kept = state.real[begin : begin + problem.nodes].sum()
    assert kept == pytest.approx(cost(replace(problem, start=place), place).total, rel=1e-12)


def test_rows_that_are_alike_are_kept_once() -> None:
    rows = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])

    kept, code = distinct(rows)

    assert len(kept) == 2
    assert kept[code].tolist() == rows.tolist()
