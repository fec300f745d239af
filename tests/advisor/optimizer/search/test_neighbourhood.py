"""Moves: what a move is said to cost is what the assignment costs more, and only legal ones are allowed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.optimizer.constraints import occupied
from advisor.optimizer.objective import cost, loads
from advisor.optimizer.problem import NOWHERE, Floats, Ints, Problem
from advisor.optimizer.search import array_layout as slots
from advisor.optimizer.search.arrays import arranged
from advisor.optimizer.search.neighbourhood import FORBIDDEN, NO_CONTAINER, delta, go
from advisor.optimizer.search.parameters import begun
from advisor.optimizer.search.state import State
from tests.advisor.optimizer.drawn_problems import COLUMNS, CONTAINERS, NODES, drawn, is_legal

WHO = st.integers(0, CONTAINERS - 1)
NODE = st.integers(0, NODES - 1)


def moved(place: Ints, who: int, node: int, second: int, third: int) -> Ints:
    """The assignment after a move."""
    after = place.copy()
    after[who] = node
    if second != NO_CONTAINER:
        after[second] = third
    return after


def sums(state: State, begin: int) -> Floats:
    """(n, c) numbers that begin there."""
    return state.real[begin : begin + NODES * COLUMNS].reshape(NODES, COLUMNS)


def tried(problem: Problem, moves: list[tuple[int, int, int, int]]) -> int:
    """Do every allowed one of some moves, each compared with the assignment computed anew; how many were allowed."""
    state, allowed = begun(problem, problem.start), 0
    parts = state.at, state.whole, state.real
    for who, target, other, elsewhere in moves:
        node, second, third = target, other, elsewhere
        if second != NO_CONTAINER:
            node = int(state.place()[second])
            third = int(state.place()[who]) if elsewhere == NODES else elsewhere
        if node in (NOWHERE, state.place()[who]) or (second != NO_CONTAINER and third in (node, NOWHERE)):
            continue
        after = moved(state.place(), who, node, second, third)
        more = delta(*parts, who, node, second, third, FORBIDDEN)
        legal = is_legal(problem, after)
        assert (more != FORBIDDEN) == legal
        if legal:
            before = cost(problem, state.place()).total
            assert more == pytest.approx(cost(problem, after).total - before, abs=1e-6)
            go(*parts, who, node, second, third, more)
            allowed += 1
            assert state.place().tolist() == after.tolist()
            assert state.total() == pytest.approx(cost(problem, after).total, abs=1e-6)
            in_order = arranged(problem)
            np.testing.assert_allclose(sums(state, int(state.at[slots.LOAD])), loads(in_order, after), atol=1e-9)
            np.testing.assert_allclose(sums(state, int(state.at[slots.TAKEN])), occupied(in_order, after), atol=1e-9)
    return allowed


@given(
    seed=st.integers(0, 10_000), moves=st.lists(st.tuples(WHO, NODE, st.just(NO_CONTAINER), st.just(0)), max_size=30)
)
@settings(max_examples=60, deadline=None)
def test_a_move_of_one_costs_what_the_assignment_costs_more_and_is_allowed_where_it_is_legal(
    seed: int, moves: list[tuple[int, int, int, int]]
) -> None:
    tried(drawn(seed, homeless=0.1), moves)


@given(seed=st.integers(0, 10_000), moves=st.lists(st.tuples(WHO, NODE, WHO, st.integers(0, NODES)), max_size=30))
@settings(max_examples=60, deadline=None)
def test_swaps_and_chains_cost_what_the_assignment_costs_more_and_are_allowed_where_they_are_legal(
    seed: int, moves: list[tuple[int, int, int, int]]
) -> None:
    tried(drawn(seed), [(who, node, second, third) for who, node, second, third in moves if who != second])


def test_some_moves_of_drawn_problems_are_allowed_and_some_are_not() -> None:
    rng = np.random.default_rng(0)
    moves = [(int(rng.integers(CONTAINERS)), int(rng.integers(NODES)), NO_CONTAINER, 0) for _ in range(200)]

    allowed = [tried(drawn(seed), moves) for seed in range(10)]

    assert 0 < min(allowed) <= max(allowed) < 150


@pytest.mark.parametrize("most", [0, 1, 3])
def test_no_more_containers_move_than_the_budget_allows(most: int) -> None:
    problem = drawn(3, most=most)
    state = begun(problem, problem.start)
    parts = state.at, state.whole, state.real
    for who in range(CONTAINERS):
        for node in range(NODES):
            if node != state.place()[who] and delta(*parts, who, node, NO_CONTAINER, 0, FORBIDDEN) != FORBIDDEN:
                go(*parts, who, node, NO_CONTAINER, 0, 0.0)

    assert (state.place() != problem.start).sum() == most
