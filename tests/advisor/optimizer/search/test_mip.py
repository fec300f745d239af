"""Exact: the best division of few nodes' containers, beside every division there is."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.optimizer.objective import cost, moved
from advisor.optimizer.problem import Curve, Harm, Ints, Problem
from advisor.optimizer.search.mip import divided, is_linear, refined
from advisor.optimizer.search.parameters import Tuning, counted
from advisor.optimizer.search.search import search
from tests.advisor.optimizer.drawn_problems import drawn, is_legal


def linear(seed: int, most: int = 2**62) -> Problem:
    """A drawn problem of linear terms."""
    problem = drawn(seed, most=most)
    return replace(problem, curve=Curve(), harm=Harm(), moves=replace(problem.moves, most_of_app=0.0))


def unlimited(problem: Problem) -> Problem:
    """Without limits that keep the exact division from trying everything."""
    limits = replace(problem.limits, pair=problem.limits.pair[:0], most=problem.limits.most[:0])
    return replace(problem, limits=replace(limits, spread=limits.spread[:0], needs=limits.needs[:0]))


def best_of_all(problem: Problem, place: Ints, nodes: Ints) -> float:
    """Cost of the best legal division of the nodes' containers, by trying all."""
    who, least = np.flatnonzero(np.isin(place, nodes)), np.inf
    for choice in product(nodes.tolist(), repeat=len(who)):
        tried = place.copy()
        tried[who] = choice
        if is_legal(problem, tried):
            least = min(least, cost(problem, tried).total)
    return least


@given(seed=st.integers(0, 10_000), most=st.sampled_from([0, 1, 3, 2**62]))
@settings(max_examples=25, deadline=None)
def test_no_division_of_two_nodes_is_better(seed: int, most: int) -> None:
    problem = unlimited(linear(seed, most))
    nodes = np.argsort(np.bincount(problem.start, minlength=problem.nodes), kind="stable")[:2]
    nodes.sort()

    found = divided(problem, problem.start, nodes)

    assert found.proven
    assert is_legal(problem, found.place)
    assert cost(problem, found.place).total == pytest.approx(best_of_all(problem, problem.start, nodes), rel=1e-5)


@given(seed=st.integers(0, 10_000), most=st.sampled_from([2, 2**62]))
@settings(max_examples=25, deadline=None)
def test_divisions_break_no_rule_of_any_kind(seed: int, most: int) -> None:
    problem, rng = linear(seed, most), np.random.default_rng(seed)
    place = problem.start
    for _ in range(4):
        nodes = np.sort(rng.choice(problem.nodes, 3, replace=False))

        place = divided(problem, place, nodes).place

        assert is_legal(problem, place)
        assert moved(problem, place).sum() <= most


def test_divisions_save_where_spread_and_needs_leave_them_something_to_try() -> None:
    saved = 0
    for seed in range(40):
        problem = linear(seed)
        limits = replace(problem.limits, pair=problem.limits.pair[:0], most=problem.limits.most[:0])
        problem = replace(problem, limits=limits)
        found = divided(problem, problem.start, np.array([0, 2, 5]))
        saved += cost(problem, found.place).total < cost(problem, problem.start).total
        assert is_legal(problem, found.place)

    assert saved >= 10


@given(seed=st.integers(0, 10_000), turns=st.integers(0, 15))
@settings(max_examples=15, deadline=None)
def test_refining_never_costs_more_and_the_same_draws_give_the_same(seed: int, turns: int) -> None:
    problem = linear(seed)

    found, again = (
        refined(problem, problem.start, np.random.default_rng(seed), lambda tried: tried >= turns) for _ in range(2)
    )

    assert is_legal(problem, found)
    assert cost(problem, found).total <= cost(problem, problem.start).total
    assert found.tolist() == again.tolist()


def test_what_is_not_linear_is_not_divided() -> None:
    assert is_linear(linear(1))
    assert not is_linear(replace(linear(1), harm=drawn(1).harm))
    assert not is_linear(replace(linear(1), curve=drawn(1).curve))
    assert not is_linear(replace(linear(1), curve=Curve(used=1.0)))


def test_a_search_of_a_linear_problem_ends_with_divisions() -> None:
    problem, tuning = linear(3), Tuning(workers=1)

    found = search(problem, 1, counted(1 << 21), tuning)

    again = search(problem, 1, counted(1 << 21), tuning)
    assert is_legal(problem, found.place)
    assert found.place.tolist() == again.place.tolist()
