"""Shapley: what each player adds to a whole that they make together, averaged over all orders in which they may join.

Kernel. A value is asked for many sets at once, so that a model behind it answers in one go.
"""

from collections.abc import Callable
from math import factorial

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

Value = Callable[[Flags], Floats]
"""(k, p) sets, each flags of who is in it -> (k,) what each is worth."""
MAX_EXACT = 8
"""Players up to which all their sets are asked for: 256."""
PAIRS = 64
"""Of an order and its reverse, that are drawn where there are more players; times p + 1 sets each."""


def shapley(value: Value, players: int, rng: np.random.Generator) -> Floats:
    """Exact up to MAX_EXACT players, sampled beyond; see `exact` and `sampled`."""
    return exact(value, players) if players <= MAX_EXACT else sampled(value, players, rng, pairs=PAIRS)


def exact(value: Value, players: int) -> Floats:
    """Shares of players, by all sets.

    Args:
        value: of sets; only differences between sets count.
        players: p >= 0.

    Returns:
        (p,) shares in the value's unit; their sum is the value of all less that of nobody. NaN of any set makes NaN.

    Raises:
        ValueError: more than MAX_EXACT.

    Source: Shapley, "A value for n-person games", 1953.
    """
    if players > MAX_EXACT:
        raise ValueError(f"{players} players exceed the limit of exact attribution ({MAX_EXACT}): sample their orders")
    codes = np.arange(2**players)
    sets = (codes[:, None] >> np.arange(players) & 1).astype(np.bool_)
    worth, size = value(sets), sets.sum(axis=1)
    chance = np.array([factorial(k) * factorial(max(players - k - 1, 0)) for k in range(players + 1)])
    shares = np.empty(players)
    for player in range(players):
        without = ~sets[:, player]
        added = worth[codes[without] | 1 << player] - worth[without]
        shares[player] = (chance[size[without]] * added).sum() / factorial(players)
    return shares


def sampled(value: Value, players: int, rng: np.random.Generator, *, pairs: int) -> Floats:
    """Shares of players, by drawn orders and their reverses.

    Args:
        value: as for `exact`.
        players: p >= 1.
        rng: draws the orders; the same seed gives the same shares.
        pairs: orders that are drawn, each also taken the other way round, >= 1.

    Returns:
        (p,) shares; their sum is exact as far as rounding goes, each share is unbiased. Where players act on each other
        in pairs alone, an order and its reverse already give the exact shares.

    Raises:
        Nothing.

    Source: Castro et al., "Polynomial calculation of the Shapley value based on sampling", 2009; antithetic orders,
        Mitchell et al., "Sampling permutations for Shapley value estimation", JMLR 2022.
    """
    drawn = rng.permuted(np.tile(np.arange(players), (pairs, 1)), axis=1)
    orders = np.concatenate([drawn, drawn[:, ::-1]])
    place = orders.argsort(axis=1)
    steps = np.arange(players + 1)
    sets = place[:, None, :] < steps[None, :, None]
    worth = value(sets.reshape(-1, players)).reshape(len(orders), players + 1)
    added = np.take_along_axis(np.diff(worth, axis=1), place, axis=1)
    mean: Floats = added.mean(axis=0)
    return mean


def leave_one_out(value: Value, players: int) -> Floats:
    """(p,) what would go without each player alone; unlike Shapley's shares these do not sum to the whole."""
    worth = value(np.vstack([np.ones(players, np.bool_), ~np.eye(players, dtype=np.bool_)]))
    lost: Floats = worth[0] - worth[1:]
    return lost
