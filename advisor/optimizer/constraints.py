"""Feasible: what is wrong with an assignment, and of whom. NumPy only: who approves a plan can ask again."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from advisor.optimizer.objective import loads, moved
from advisor.optimizer.problem import NOWHERE, SLACK, Floats, Ints, Problem


@dataclass(frozen=True)
class Wrong:
    """One broken rule.

    Args:
        rule: "capacity", "alike", "pair", "spread", "needs", "budget" or "homeless".
        where: node, app, neighbourhood or container, by rule.
        text: in words.
    """

    rule: str
    where: int
    text: str


class Crowd(NamedTuple):
    """A node with more containers of an app than allowed, co-located with another app where one is named."""

    node: int
    app: int
    holds: int
    most: int
    other: int | None


def wrongs(problem: Problem, place: Ints) -> list[Wrong]:
    """Every broken rule of an assignment; none of a legal one.

    Args:
        problem: what is to be placed.
        place: (k,) node of each container, NOWHERE where it has none.

    Returns:
        Broken rules. Those already broken at the start are included.

    Raises:
        Nothing.

    Source: rules of the Google ROADEF/EURO Challenge 2012 and of Alibaba's scheduling contest of 2018.
    """
    over_budget = int(moved(problem, place).sum()) - problem.moves.most
    budget = [Wrong("budget", 0, f"{over_budget} moves above the limit")] if over_budget > 0 else []
    homeless = [Wrong("homeless", int(who), f"container {who} has no node") for who in np.flatnonzero(place == NOWHERE)]
    return [*homeless, *_over(problem, place), *_together(problem, place), *_apart(problem, place), *budget]


def occupied(problem: Problem, place: Ints) -> Floats:
    """(n, c) use until all moves are done: by present containers, and in held columns by those that left."""
    found, gone = loads(problem, place), moved(problem, place)
    for column in np.flatnonzero(problem.held):
        found[:, column] += np.bincount(problem.start[gone], problem.use[gone, column], minlength=problem.nodes)
    return found


def _over(problem: Problem, place: Ints) -> list[Wrong]:
    taken = occupied(problem, place)
    node, column = np.nonzero(taken > problem.capacity + SLACK)
    return [
        Wrong("capacity", n, f"node {n} has {taken[n, c]:g} of {problem.capacity[n, c]:g} of column {c}")
        for n, c in zip(node.tolist(), column.tolist(), strict=True)
    ]


def together(problem: Problem, place: Ints) -> tuple[Ints, Ints, Ints]:
    """(g,) nodes and apps, and how many containers of the app the node holds."""
    home = place != NOWHERE
    key, count = np.unique(place[home] * problem.apps + problem.app[home], return_counts=True)
    return key // problem.apps, key % problem.apps, count


def crowds(problem: Problem, place: Ints) -> list[Crowd]:
    """Apps of which nodes hold too many, alone or co-located with another app."""
    node, app, count = together(problem, place)
    most, key = problem.limits.alike[app], node * problem.apps + app
    found = [Crowd(int(node[i]), int(app[i]), int(count[i]), int(most[i]), None) for i in np.flatnonzero(count > most)]
    order = np.argsort(app, kind="stable")
    at = np.append(0, np.cumsum(np.bincount(app, minlength=problem.apps)))
    for (first, second), allowed in zip(problem.limits.pair.tolist(), problem.limits.most.tolist(), strict=True):
        held, others = node[order[at[first] : at[first + 1]]], order[at[second] : at[second + 1]]
        many = others[np.isin(key[others], held * problem.apps + second) & (count[others] > allowed)]
        found += [Crowd(int(node[i]), second, int(count[i]), allowed, first) for i in many]
    return found


def _together(problem: Problem, place: Ints) -> list[Wrong]:
    found = list[Wrong]()
    for crowd in crowds(problem, place):
        rule, suffix = ("alike", "") if crowd.other is None else ("pair", f" co-located with app {crowd.other}")
        found.append(Wrong(rule, crowd.node, f"node {crowd.node} has {crowd.holds} of app {crowd.app}{suffix}"))
    return found


def _apart(problem: Problem, place: Ints) -> list[Wrong]:
    limits, found = problem.limits, list[Wrong]()
    home = place != NOWHERE
    if len(limits.spread):
        width = int(limits.location.max(initial=0)) + 1
        seen = np.unique(problem.app[home] * width + limits.location[place[home]]) // width
        places = np.bincount(seen, minlength=problem.apps)
        few = np.flatnonzero(places < limits.spread)
        found += [Wrong("spread", int(app), f"app {app} is at {places[app]} locations") for app in few]
    if len(limits.needs):
        holds = np.zeros((problem.apps, int(limits.neighbourhood.max(initial=0)) + 1), np.bool_)
        holds[problem.app[home], limits.neighbourhood[place[home]]] = True
        first, second = limits.needs.T
        pair, hood = np.nonzero(holds[first] & ~holds[second])
        found += [
            Wrong("needs", int(h), f"neighbourhood {h} has app {first[i]} without app {second[i]}")
            for i, h in zip(pair, hood, strict=True)
        ]
    return found
