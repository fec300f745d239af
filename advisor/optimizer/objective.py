"""Objective: what an assignment costs, term by term. NumPy only: the oracle of every compiled kernel."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.optimizer.problem import NOWHERE, STEEPEST, Floats, Ints, Problem


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
    load, count = loads(problem, place), counts(problem, place)
    nodes = np.arange(problem.nodes)
    return Cost(
        excess=float(_excess(problem, nodes, load).sum()),
        balance=float(_balance(problem, nodes, load).sum()),
        curve=float(_curve(problem, nodes, load, count).sum()),
        harm=float(_harm(problem, nodes, load).sum()),
        moves=_moves(problem, place),
        homeless=problem.homeless * int((place == NOWHERE).sum()),
    )


def counts(problem: Problem, place: Ints) -> Ints:
    """(n,) containers on each node."""
    return np.bincount(place[place != NOWHERE], minlength=problem.nodes)


def node_costs(problem: Problem, node: Ints, load: Floats, count: Ints) -> Floats:
    """(m,) what nodes cost whose containers take so much; a node may stand there several times.

    Args:
        problem: what is to be placed.
        node: (m,) which.
        load: (m, c) what containers there take together.
        count: (m,) how many they are.
    """
    of_load = _excess(problem, node, load) + _balance(problem, node, load)
    return np.asarray(of_load + _curve(problem, node, load, count) + _harm(problem, node, load))


def _excess(problem: Problem, node: Ints, load: Floats) -> Floats:
    """(m,) of each node."""
    of = problem.excess
    if not len(of.column):
        return np.zeros(len(load))
    return np.asarray(np.maximum(load[:, of.column] - of.safe[node], 0.0) @ of.weight)


def _balance(problem: Problem, node: Ints, load: Floats) -> Floats:
    """(m,) of each node."""
    of = problem.balance
    if not len(of.first):
        return np.zeros(len(load))
    left = problem.capacity[node] - load
    missing = np.maximum(of.ratio * left[:, of.first] - left[:, of.second], 0.0)
    return np.asarray(missing @ of.weight)


def _curve(problem: Problem, node: Ints, load: Floats, count: Ints) -> Floats:
    """(m,) of each node."""
    of = problem.curve
    if not len(of.column):
        return np.asarray(np.where(count > 0, of.used, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nan_to_num(load[:, of.column] / problem.capacity[node][:, of.column], posinf=np.inf)
    above = np.clip(share - of.knee, 0.0, STEEPEST)
    height = of.fixed + of.each * count
    return np.asarray(np.where(count > 0, of.used + height * np.expm1(above).mean(axis=1), 0.0))


def _harm(problem: Problem, node: Ints, load: Floats) -> Floats:
    """(m,) of each node."""
    of = problem.harm
    if not len(of.pressure):
        return np.zeros(len(load))
    of_others = load[:, of.pressure] * load[:, of.sensitivity] - load[:, of.own]
    return np.asarray((of.weight[node] * of_others).sum(axis=1))


def moved(problem: Problem, place: Ints) -> NDArray[np.bool_]:
    """(k,) containers that are elsewhere than at the start; those placed nowhere at the start do not count."""
    return np.asarray((place != problem.start) & (problem.start != NOWHERE) & (place != NOWHERE))


def move_costs(problem: Problem, who: Ints, place: Ints) -> Floats:
    """(m,) what it costs that containers are on nodes and not where they started; without the most moved app."""
    of, start = problem.moves, problem.start[who]
    gone = (place != start) & (start != NOWHERE) & (place != NOWHERE)
    found = np.zeros(len(who))
    if len(of.container):
        found += of.container[who]
    if len(of.trip):
        found += of.trip[of.site[start], of.site[place]]
    return np.where(gone, found, 0.0)


def _moves(problem: Problem, place: Ints) -> float:
    gone = moved(problem, place)
    total = float(move_costs(problem, np.arange(problem.containers), place).sum())
    if problem.moves.most_of_app and gone.any():
        total += problem.moves.most_of_app * int(np.bincount(problem.app[gone]).max())
    return total
