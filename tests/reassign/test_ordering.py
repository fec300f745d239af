"""Ordering: every round of a plan can be carried out, and nobody exceeds the pace."""

from collections import Counter

import numpy as np
import pytest
from drawn_problems import drawn, is_legal
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.reassign.ordering import Pace, Plan, costs_of, ordered
from advisor.reassign.problem import NOWHERE, SLACK, Limits, Problem


def feasible(problem: Problem, plan: Plan) -> bool:
    """Whether in every round each node has room for what comes while the old containers are still there."""
    place = problem.start.copy()
    for moves in plan.rounds:
        load = np.zeros(problem.capacity.shape)
        home = place != NOWHERE
        np.add.at(load, place[home], problem.use[home])
        assert all(place[move.container] == move.source != move.target for move in moves)
        for move in moves:
            load[move.target] += problem.use[move.container]
            place[move.container] = move.target
        if (load > problem.capacity + SLACK).any():
            return False
    return bool((place == plan.place).all())


def two_that_swap(spare: float) -> Problem:
    """Two containers of 5 on two full nodes, and a third node with some room."""
    return Problem(
        use=np.array([[5.0], [5.0]]),
        capacity=np.array([[5.0], [5.0], [spare]]),
        held=np.zeros(1, np.bool_),
        app=np.array([0, 1]),
        start=np.array([0, 1]),
        limits=Limits(alike=np.array([9, 9])),
    )


def test_two_that_change_places_without_room_stay() -> None:
    plan = ordered(two_that_swap(5.0), np.array([1, 0]), Pace())

    assert (plan.rounds, plan.left) == ((), (0, 1))


def test_two_that_change_places_take_a_hop_where_hops_are_allowed() -> None:
    plan = ordered(two_that_swap(5.0), np.array([1, 0]), Pace(hops=True))

    assert (plan.moves, len(plan.rounds), plan.left) == (3, 3, ())
    assert plan.place.tolist() == [1, 0]


def test_without_room_for_a_hop_they_stay() -> None:
    plan = ordered(two_that_swap(4.0), np.array([1, 0]), Pace(hops=True))

    assert plan.rounds == ()


@given(seed=st.integers(0, 5000), pace=st.builds(Pace, hops=st.booleans(), per_node=st.integers(1, 4)))
@settings(max_examples=60, deadline=None)
def test_every_round_is_feasible_and_keeps_its_pace(seed: int, pace: Pace) -> None:
    problem = drawn(seed)
    target = np.random.default_rng(seed).permutation(problem.start)

    plan = ordered(problem, target, pace)

    assert feasible(problem, plan)
    assert all(target[who] != plan.place[who] for who in plan.left)
    for moves in plan.rounds:
        busy = Counter(node for move in moves for node in (move.source, move.target))
        assert max(busy.values()) <= max(pace.per_node, 1)
    assert len(costs_of(problem, plan)) == len(plan.rounds) + 1


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_there_are_no_more_rounds_than_allowed(rounds: int) -> None:
    problem = drawn(1)

    plan = ordered(problem, np.random.default_rng(1).permutation(problem.start), Pace(rounds=rounds))

    assert len(plan.rounds) <= rounds
    assert rounds == 0 or is_legal(problem, problem.start)
