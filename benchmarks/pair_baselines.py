"""Pair baselines: what simple tables and factorisations predict of a pair, all in log slowdown.

A victim or aggressor that was never seen counts as an average one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.pair_product import fit_product
from models.challengers.pair_model import Cells

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Predict = Callable[[Ints, Ints], Floats]
ROUNDS = 60
RANKS = (0, 1, 2, 3)
FOLDS = 4


@dataclass(frozen=True)
class Seen:
    """Training cells, and the (entities, p) standardised numbers measured alone, p may be 0."""

    cells: Cells
    profiles: Floats

    @property
    def entities(self) -> int:
        """How many workloads and platforms there are."""
        return len(self.profiles)


def constant(seen: Seen) -> Predict:
    """The mean of all pairs."""
    mean = float(seen.cells.log_slowdown.mean())
    return lambda victim, _: np.full(len(victim), mean)


def victim_mean(seen: Seen) -> Predict:
    """The mean of the victim's pairs."""
    table = _means(seen.cells.victim, seen.cells.log_slowdown, seen.entities)
    return lambda victim, _: table[victim]


def aggressor_mean(seen: Seen) -> Predict:
    """The mean of the aggressor's pairs."""
    table = _means(seen.cells.aggressor, seen.cells.log_slowdown, seen.entities)
    return lambda _, aggressor: table[aggressor]


def additive(seen: Seen) -> Predict:
    """Log slowdown = level + victim's part + aggressor's part, by least squares."""
    return _factors(seen.cells, seen.entities, rank=0)


def rank_1(seen: Seen) -> Predict:
    """Excess slowdown = sensitivity of the victim x pressure of the aggressor, by alternating least squares."""
    return fit_product(seen.cells, seen.entities).predict


def rank_k(seen: Seen) -> Predict:
    """Additive and k products more, k chosen by leaving training cells out."""
    cells = seen.cells
    fold = np.random.default_rng(0).permutation(np.arange(len(cells.victim)) % FOLDS)
    losses = []
    for rank in RANKS:
        loss = 0.0
        for k in range(FOLDS):
            learnt = _factors(cells.take(fold != k), seen.entities, rank=rank)
            left = cells.take(fold == k)
            loss += float(np.abs(learnt(left.victim, left.aggressor) - left.log_slowdown).sum())
        losses.append(loss)
    return _factors(cells, seen.entities, rank=RANKS[int(np.argmin(losses))])


def nearest_profile(seen: Seen) -> Predict:
    """The measured pair whose victim and aggressor are nearest to the asked ones, by the numbers measured alone.

    Without such numbers, by how the workloads fared in the pairs both were measured in.
    """
    cells = seen.cells
    about = seen.profiles if seen.profiles.shape[1] else _behaviour(cells, seen.entities)
    apart = np.sqrt(((about[:, None] - about[None]) ** 2).sum(axis=2))

    def predict(victim: Ints, aggressor: Ints) -> Floats:
        distance = apart[victim][:, cells.victim] + apart[aggressor][:, cells.aggressor]
        found: Floats = cells.log_slowdown[distance.argmin(axis=1)]
        return found

    return predict


PAIR_BASELINES: Mapping[str, Callable[[Seen], Predict]] = {
    "constant": constant,
    "victim_mean": victim_mean,
    "aggressor_mean": aggressor_mean,
    "additive": additive,
    "rank_1": rank_1,
    "rank_k": rank_k,
    "nearest_profile": nearest_profile,
}


def _factors(cells: Cells, count: int, *, rank: int) -> Predict:
    """Alternating ridge regressions; the penalty grows with the rank so that empty cells stay near zero."""
    rng = np.random.default_rng(0)
    ridge = np.r_[0.1, np.full(rank, 0.1)]
    level = float(cells.log_slowdown.mean())
    left, right = np.zeros((count, rank + 1)), np.zeros((count, rank + 1))
    left[:, 1:], right[:, 1:] = rng.normal(0, 0.1, (2, count, rank))
    for _ in range(ROUNDS):
        left = _regress(cells.victim, right[cells.aggressor], cells.log_slowdown - level, count, ridge=ridge)
        right = _regress(cells.aggressor, left[cells.victim], cells.log_slowdown - level, count, ridge=ridge)
    return lambda v, a: level + left[v, 0] + right[a, 0] + (left[v, 1:] * right[a, 1:]).sum(axis=1)


def _regress(who: Ints, other: Floats, label: Floats, count: int, *, ridge: Floats) -> Floats:
    """One small ridge regression an entity: its own level, and a weight for each way of the others."""
    found = np.zeros((count, other.shape[1]))
    for entity in np.unique(who):
        mine = who == entity
        x = np.column_stack([np.ones(mine.sum()), other[mine, 1:]])
        pull = x.T @ (label[mine] - other[mine, 0])
        found[entity] = np.linalg.solve(x.T @ x + np.diag(ridge), pull)
    return found


def _means(who: Ints, values: Floats, count: int) -> Floats:
    sizes = np.bincount(who, minlength=count)
    return np.where(sizes > 0, np.bincount(who, values, count) / np.maximum(sizes, 1), values.mean())


def _behaviour(cells: Cells, count: int) -> Floats:
    """(count, 2) mean log slowdown as a victim and as an aggressor."""
    return np.column_stack([_means(who, cells.log_slowdown, count) for who in (cells.victim, cells.aggressor)])
