"""Objective: what an assignment costs, term by term. NumPy only: the oracle of every compiled kernel."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.reassign.problem import NOWHERE, Floats, Ints, Problem


@dataclass(frozen=True)
class Cost:
    """What an assignment costs, by term."""

    excess: float
    balance: float
    curve: float
    harm: float
    moves: float
    homeless: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.excess + self.balance + self.curve + self.harm + self.moves + self.homeless


def loads(problem: Problem, place: Ints) -> Floats:
    """(n, c) what the containers on each node take together."""
    home = place != NOWHERE
    found = np.zeros((problem.nodes, problem.columns))
    for column in range(problem.columns):
        weights = problem.use[home, column]
        found[:, column] = np.bincount(place[home], weights, minlength=problem.nodes)
    return found


def cost(problem: Problem, place: Ints) -> Cost:
    """What an assignment costs.

    Args:
        problem: what is to be placed.
        place: (k,) node of each container, NOWHERE where it has none.

    Returns:
        The cost, legal or not.

    Raises:
        Nothing.

    Source: load, balance and move costs as of the Google ROADEF/EURO Challenge 2012; the curve as of Alibaba's
    scheduling contest of 2018; harm is ours.
    """
    load, count = loads(problem, place), np.bincount(place[place != NOWHERE], minlength=problem.nodes)
    return Cost(
        excess=float(_excess(problem, load).sum()),
        balance=float(_balance(problem, load).sum()),
        curve=float(_curve(problem, load, count).sum()),
        harm=float(_harm(problem, load, place).sum()),
        moves=_moves(problem, place),
        homeless=problem.homeless * int((place == NOWHERE).sum()),
    )


def _excess(problem: Problem, load: Floats) -> Floats:
    """(n,) of each node."""
    of = problem.excess
    if not len(of.column):
        return np.zeros(len(load))
    return np.asarray(np.maximum(load[:, of.column] - of.safe, 0.0) @ of.weight)


def _balance(problem: Problem, load: Floats) -> Floats:
    """(n,) of each node."""
    of, left = problem.balance, problem.capacity - load
    missing = np.maximum(of.ratio * left[:, of.first] - left[:, of.second], 0.0)
    return np.asarray(missing @ of.weight)


def _curve(problem: Problem, load: Floats, count: Ints) -> Floats:
    """(n,) of each node."""
    of = problem.curve
    if not len(of.column):
        return np.asarray(np.where(count > 0, of.used, 0.0))
    above = np.maximum(load[:, of.column] / problem.capacity[:, of.column] - of.knee, 0.0)
    height = of.fixed + of.each * count
    return np.asarray(np.where(count > 0, of.used + height * np.expm1(above).mean(axis=1), 0.0))


def _harm(problem: Problem, load: Floats, place: Ints) -> Floats:
    """(n,) of each node."""
    of = problem.harm
    if not len(of.pressure):
        return np.zeros(len(load))
    home = place != NOWHERE
    own = np.bincount(place[home], of.own[home], minlength=len(load))
    return np.asarray(of.weight * ((load[:, of.pressure] * load[:, of.sensitivity]).sum(axis=1) - own))


def moved(problem: Problem, place: Ints) -> NDArray[np.bool_]:
    """(k,) containers that are elsewhere than at the start; those placed nowhere at the start do not count."""
    return np.asarray((place != problem.start) & (problem.start != NOWHERE) & (place != NOWHERE))


def _moves(problem: Problem, place: Ints) -> float:
    of, gone = problem.moves, moved(problem, place)
    total = float(of.container[gone].sum()) if len(of.container) else 0.0
    if of.most_of_app and gone.any():
        total += of.most_of_app * int(np.bincount(problem.app[gone]).max())
    if len(of.trip):
        total += float(of.trip[of.site[problem.start[gone]], of.site[place[gone]]].sum())
    return total
