"""Mending: a start that breaks rules ends with fewer broken, whatever that costs, and never with another one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.optimizer.constraints import wrongs
from advisor.optimizer.objective import cost
from advisor.optimizer.problem import Curve, Ints, Limits, Moves, Problem
from advisor.optimizer.repair import leavers, mends
from advisor.optimizer.search.parameters import MIXES, Tuning, counted, mended
from advisor.optimizer.search.search import search
from benchmarks.reassign.bound import bound
from benchmarks.reassign.ordering import Pace, ordered
from tests.advisor.optimizer.drawn_problems import NODES, drawn

QUICK = Tuning(mixes=MIXES[:1], workers=1)


def crowded(use: list[float], capacity: list[float], *, alike: int = 9, most: int = 9) -> Problem:
    """Containers of app 0 on node 0; to move one costs 100 and gains nothing."""
    k = len(use)
    return Problem(
        use=np.array(use)[:, None],
        capacity=np.array(capacity)[:, None],
        held=np.zeros(1, np.bool_),
        app=np.zeros(k, np.int64),
        start=np.zeros(k, np.int64),
        limits=Limits(alike=np.array([alike])),
        moves=Moves(container=np.full(k, 100.0), most=most),
    )


def broken(problem: Problem, place: Ints) -> set[tuple[str, int]]:
    """Rules and where each is broken."""
    return {(one.rule, one.where) for one in wrongs(problem, place)}


def overcommitted(seed: int) -> Problem:
    """A drawn problem of which a third of the nodes got smaller and every app may be on a node once less."""
    problem, rng = drawn(seed), np.random.default_rng(seed)
    shrunk = np.where(rng.random((NODES, 1)) < 0.35, 0.8 * problem.capacity, 1.6 * problem.capacity)
    limits = replace(problem.limits, alike=np.maximum(problem.limits.alike - 1, 1))
    return replace(problem, capacity=shrunk, limits=limits)


@pytest.mark.parametrize(
    ("use", "capacity", "gone"),
    [
        ([4.0, 3.0, 2.0], [9.0, 9.0], []),
        ([4.0, 3.0, 2.0], [7.0, 9.0], [2]),
        ([4.0, 3.0, 2.0], [6.0, 9.0], [1]),
        ([4.0, 3.0, 2.0], [3.0, 9.0], [0, 2]),
    ],
)
def test_of_an_overloaded_node_the_least_goes_that_suffices(
    use: list[float], capacity: list[float], gone: list[int]
) -> None:
    assert leavers(crowded(use, capacity), np.zeros(3, np.int64)).tolist() == gone


def test_of_too_many_of_an_app_those_go_that_are_too_many() -> None:
    assert len(leavers(crowded([1.0, 1.0, 1.0], [9.0, 9.0], alike=1), np.zeros(3, np.int64))) == 2


def test_no_more_are_named_than_may_move() -> None:
    assert len(leavers(crowded([1.0, 1.0, 1.0], [9.0, 9.0], alike=1, most=1), np.zeros(3, np.int64))) == 1


def test_of_a_column_that_is_held_nobody_who_goes_gives_anything_back() -> None:
    problem = replace(crowded([4.0, 3.0], [5.0, 9.0]), held=np.ones(1, np.bool_))

    assert leavers(problem, problem.start).tolist() == []


def test_a_search_and_its_plan_mend_at_any_cost() -> None:
    problem = crowded([4.0, 3.0, 2.0], [7.0, 9.0])

    found = search(problem, seed=1, spent=counted(1 << 15), tuning=QUICK)
    plan = ordered(problem, found.place, Pace())

    assert wrongs(problem, found.place) == []
    assert [len(moves) for moves in plan.rounds] == [1]
    assert plan.place.tolist() == found.place.tolist()


def test_a_column_without_limit_says_nothing_of_who_has_to_go() -> None:
    one = crowded([1.0, 1.0, 4.0], [3.0, 9.0])
    problem = replace(
        one,
        use=np.hstack([np.ones((3, 1)), one.use]),
        capacity=np.hstack([np.full((2, 1), np.inf), one.capacity]),
        held=np.zeros(2, np.bool_),
    )

    assert leavers(problem, problem.start).tolist() == [2]


@pytest.mark.parametrize("left", [0.0, 1e-3, 1.0])
def test_a_node_that_is_drained_is_left_by_all_who_fit_elsewhere_though_its_load_costs(left: float) -> None:
    curve = Curve(np.array([0]), fixed=10.0, used=1.0)
    problem = replace(crowded([1.0, 2.0, 3.0], [left, 10.0]), curve=curve)

    found = search(problem, seed=1, spent=counted(1 << 15), tuning=QUICK)

    assert wrongs(problem, found.place) == []
    assert bound(problem) <= found.cost < cost(problem, problem.start).total < np.inf
    assert [len(moves) for moves in ordered(problem, found.place, Pace()).rounds] == [3 - int(left)]


def test_where_there_is_no_room_all_stay() -> None:
    problem = crowded([4.0, 3.0], [5.0, 2.0])

    assert mended(problem).tolist() == [0, 0]


@given(seed=st.integers(0, 5000))
@settings(max_examples=40, deadline=None)
def test_no_rule_is_broken_that_the_start_keeps_neither_at_the_end_nor_after_any_round(seed: int) -> None:
    problem = overcommitted(seed)
    before = broken(problem, problem.start)

    found = search(problem, seed=1, spent=counted(1 << 14), tuning=QUICK)
    plan = ordered(problem, found.place, Pace())

    assert broken(problem, found.place) <= before
    place, now = problem.start.copy(), before
    for moves in plan.rounds:
        for move in moves:
            place[move.container] = move.target
        assert broken(replace(problem, held=np.zeros_like(problem.held)), place) <= now
        now = broken(problem, place)


def test_most_of_what_drawn_starts_break_is_mended() -> None:
    starts = ends = 0
    for seed in range(30):
        problem = overcommitted(seed)
        starts += len(leavers(problem, problem.start))
        ends += len(leavers(problem, mended(problem)))

    assert starts > 50
    assert ends < 0.5 * starts


def test_who_is_where_a_rule_is_broken_mends_by_going() -> None:
    problem = replace(crowded([4.0, 3.0, 0.0], [5.0, 9.0]), app=np.array([0, 0, 0]))

    assert mends(problem, problem.start, np.arange(3)).tolist() == [True, True, False]
