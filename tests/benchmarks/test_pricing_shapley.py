"""Shapley: laws that its shares obey, and that sampling finds the same ones."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.pricing_shapley import MAX_EXACT, Flags, Floats, Value, exact, leave_one_out, sampled, shapley


def game(players: int, seed: int) -> Value:
    """Any value at all, of 0 for nobody."""
    worth = np.random.default_rng(seed).normal(size=2**players)
    worth[0] = 0.0
    return lambda sets: worth[sets @ (1 << np.arange(players))]


def bent(players: int, seed: int) -> Value:
    """A slowdown that grows faster than the pressure."""
    pressure = np.random.default_rng(seed).uniform(0, 0.5, players)

    def value(sets: Flags) -> Floats:
        found: Floats = np.expm1(sets @ pressure)
        return found

    return value


def by_orders(value: Value, players: int) -> Floats:
    """The definition: what each adds, over all orders."""
    shares = np.zeros(players)
    orders = list(permutations(range(players)))
    for order in orders:
        inside = np.zeros((1, players), np.bool_)
        for player in order:
            before = float(value(inside)[0])
            inside[0, player] = True
            shares[player] += float(value(inside)[0]) - before
    return shares / len(orders)


@given(players=st.integers(0, 5), seed=st.integers(0, 99))
def test_shares_are_the_mean_over_all_orders(players: int, seed: int) -> None:
    assert exact(game(players, seed), players) == pytest.approx(by_orders(game(players, seed), players))


@given(players=st.integers(1, MAX_EXACT), seed=st.integers(0, 99))
def test_shares_sum_to_what_all_make_together(players: int, seed: int) -> None:
    value = game(players, seed)
    whole = float(value(np.ones((1, players), np.bool_))[0])

    assert exact(value, players).sum() == pytest.approx(whole)
    assert sampled(value, players, np.random.default_rng(seed), pairs=2).sum() == pytest.approx(whole)


def test_whoever_adds_nothing_gets_nothing_and_equals_get_the_same() -> None:
    def value(sets: Flags) -> Floats:
        found: Floats = np.where(sets[:, 0] & sets[:, 1], 6.0, 0.0) + 0.0 * sets[:, 2]
        return found

    assert exact(value, 3).tolist() == [3.0, 3.0, 0.0]
    assert leave_one_out(value, 3).tolist() == [6.0, 6.0, 0.0]


@given(seed=st.integers(0, 20))
def test_drawn_orders_come_near_the_exact_shares(seed: int) -> None:
    found = sampled(bent(7, seed), 7, np.random.default_rng(1), pairs=256)

    assert found == pytest.approx(exact(bent(7, seed), 7), rel=0.05, abs=0.01)


def test_an_order_and_its_reverse_are_exact_where_players_act_in_pairs() -> None:
    table = np.random.default_rng(3).uniform(0, 1, (12, 12))

    def value(sets: Flags) -> Floats:
        found: Floats = np.einsum("ki,ij,kj->k", sets, table, sets)
        return found

    found = shapley(value, 12, np.random.default_rng(0))

    assert found == pytest.approx(np.diag(table) + ((table + table.T).sum(axis=1) - 2 * np.diag(table)) / 2)


def test_the_same_seed_gives_the_same_shares() -> None:
    value = game(10, 0)

    first, again, other = (sampled(value, 10, np.random.default_rng(seed), pairs=3) for seed in (5, 5, 6))

    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


def test_many_players_are_not_tried_in_all_combinations() -> None:
    with pytest.raises(ValueError, match="sample their orders"):
        exact(game(9, 0), 9)
