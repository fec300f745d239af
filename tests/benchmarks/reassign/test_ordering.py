"""Ordering: every round of a plan can be carried out, and nobody exceeds the pace."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.errors import UnusableProblem
from advisor.optimizer.problem import NOWHERE, SLACK, Excess, Limits, Moves, Problem
from benchmarks.reassign.ordering import Pace, Plan, costs_of, ordered
from tests.advisor.optimizer.drawn_problems import drawn, is_legal


def feasible(problem: Problem, plan: Plan) -> bool:
    """Whether in every round each node has room for what comes while the old containers are still there."""
    place, no_column = problem.start.copy(), np.zeros(problem.columns, np.bool_)
    for moves in plan.rounds:
        load = np.zeros(problem.capacity.shape)
        home = place != NOWHERE
        np.add.at(load, place[home], problem.use[home])
        assert all(place[move.container] == move.source != move.target for move in moves)
        for move in moves:
            load[move.target] += problem.use[move.container]
            place[move.container] = move.target
        if (load > problem.capacity + SLACK).any() or not is_legal(replace(problem, held=no_column), place):
            return False
    return bool((place == plan.place).all())


def two_that_swap(spare: float) -> Problem:
    """Two containers of 5 on two full nodes, each better off on the other's, and a third node with some room."""
    return Problem(
        use=np.array([[5.0, 1.0, 0.0], [5.0, 0.0, 1.0]]),
        capacity=np.array([[5.0, 9, 9], [5.0, 9, 9], [spare, 9, 9]]),
        held=np.zeros(3, np.bool_),
        app=np.array([0, 1]),
        start=np.array([0, 1]),
        limits=Limits(alike=np.array([9, 9])),
        excess=Excess(np.array([1, 2]), np.ones(2), np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])),
    )


def test_two_that_change_places_without_room_stay() -> None:
    plan = ordered(two_that_swap(5.0), np.array([1, 0]), Pace())

    assert (plan.rounds, plan.left) == ((), (0, 1))


@pytest.mark.parametrize("target", [[0], [0, 3], [-2, 0]])
def test_a_target_that_names_no_node_for_somebody_is_refused(target: list[int]) -> None:
    with pytest.raises(UnusableProblem, match="the target has"):
        ordered(two_that_swap(5.0), np.array(target), Pace())


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
    costs = costs_of(problem, plan)
    assert len(costs) == len(plan.rounds) + 1
    assert pace.hops or all(later < earlier for earlier, later in pairwise(costs))


def test_moves_that_pay_together_only_go_in_one_round() -> None:
    problem = replace(two_that_swap(5.0), capacity=np.full((3, 3), 10.0))
    dear = replace(problem, excess=replace(problem.excess, safe=np.array([[0.0, 9.0], [9.0, 0.0], [0.0, 0.0]])))

    plan = ordered(dear, np.array([1, 0]), Pace())

    assert [len(moves) for moves in plan.rounds] == [2]
    assert costs_of(dear, plan) == [2.0, 0.0]


def test_moves_that_do_not_pay_are_left() -> None:
    problem = replace(two_that_swap(5.0), capacity=np.full((3, 3), 10.0), moves=Moves(container=np.array([2.0, 0.5])))

    plan = ordered(problem, np.array([2, 0]), Pace())

    assert [(move.container, move.target) for moves in plan.rounds for move in moves] == [(1, 0)]
    assert plan.left == (0,)


def test_who_gains_most_goes_first() -> None:
    problem = replace(two_that_swap(5.0), capacity=np.full((3, 3), 10.0))
    dear = replace(problem, excess=replace(problem.excess, weight=np.array([1.0, 3.0])))

    plan = ordered(dear, np.array([1, 0]), Pace(per_round=1))

    assert [moves[0].container for moves in plan.rounds] == [1, 0]


def test_the_last_of_an_app_at_a_location_stays_where_it_cannot_be_spared() -> None:
    limits = Limits(alike=np.array([9]), location=np.array([0, 1, 1]), spread=np.array([2]))
    problem = replace(
        two_that_swap(9.0),
        app=np.array([0, 0]),
        limits=limits,
        capacity=np.full((3, 3), 10.0),
        excess=Excess(np.array([1]), np.ones(1), np.array([[0.0], [1.0], [1.0]])),
    )

    assert ordered(problem, np.array([2, 1]), Pace()).left == (0,)
    assert ordered(replace(problem, limits=replace(limits, spread=np.array([1]))), np.array([2, 1]), Pace()).left == ()


def test_who_needs_another_goes_where_it_is_and_the_other_stays() -> None:
    limits = Limits(alike=np.array([9, 9]), neighbourhood=np.array([0, 0, 1]), needs=np.array([[0, 1]]))
    problem = replace(
        two_that_swap(9.0),
        limits=limits,
        capacity=np.full((3, 3), 10.0),
        excess=Excess(np.array([1, 2]), np.ones(2), np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]])),
    )

    assert ordered(problem, np.array([2, 1]), Pace()).left == (0,)
    assert ordered(problem, np.array([0, 2]), Pace()).left == (1,)
    free = replace(problem, limits=replace(limits, needs=np.zeros((0, 2), np.int64)))
    assert ordered(free, np.array([0, 2]), Pace()).left == ()


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_there_are_no_more_rounds_than_allowed(rounds: int) -> None:
    problem = drawn(1)

    plan = ordered(problem, np.random.default_rng(1).permutation(problem.start), Pace(rounds=rounds))

    assert len(plan.rounds) <= rounds
    assert rounds == 0 or is_legal(problem, problem.start)
