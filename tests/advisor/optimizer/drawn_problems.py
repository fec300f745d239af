"""Drawn problems: small ones with every kind of limit and cost, whose start is legal."""

from dataclasses import replace

import numpy as np

from advisor.optimizer.constraints import wrongs
from advisor.optimizer.problem import NOWHERE, Balance, Curve, Excess, Harm, Ints, Limits, Moves, Problem

COLUMNS, NODES, CONTAINERS, APPS = 12, 6, 24, 8
PRESSURE, SENSITIVITY, OWN = np.array([6, 7]), np.array([8, 9]), np.array([10, 11])


def drawn(seed: int, *, homeless: float = 0.0, most: int = 2**62) -> Problem:
    """A problem of whole numbers; a share of containers is nowhere at the start."""
    rng = np.random.default_rng(seed)
    use = rng.integers(0, 9, (CONTAINERS, COLUMNS)).astype(float)
    use[:, OWN] = use[:, PRESSURE] * use[:, SENSITIVITY]
    app = rng.integers(0, APPS, CONTAINERS)
    start = rng.integers(0, NODES, CONTAINERS)
    load = np.zeros((NODES, COLUMNS))
    np.add.at(load, start, use)
    capacity = load + rng.integers(3, 30, (NODES, COLUMNS))
    draft = Problem(
        use=use,
        capacity=capacity,
        held=rng.random(COLUMNS) < 0.4,
        app=app,
        start=start,
        limits=Limits(alike=np.full(APPS, CONTAINERS)),
        excess=Excess(np.array([0, 2]), np.array([3.0, 1.0]), rng.integers(0, 30, (NODES, 2)).astype(float)),
        balance=Balance(np.array([0]), np.array([1]), np.array([2.0]), np.array([5.0])),
        curve=Curve(np.arange(2, 6), fixed=10.0, each=1.0, used=7.0),
        harm=Harm(PRESSURE, SENSITIVITY, OWN, weight=rng.integers(1, 3, (NODES, 2)).astype(float)),
        moves=Moves(
            container=rng.integers(0, 5, CONTAINERS).astype(float),
            most_of_app=4.0,
            site=rng.integers(0, 3, NODES),
            trip=rng.integers(0, 5, (3, 3)).astype(float),
            most=most,
        ),
        homeless=1000.0,
    )
    legal = replace(draft, limits=_limits(draft, rng))
    if not homeless:
        return legal
    free = replace(legal.limits, spread=np.zeros(APPS, np.int64), needs=np.zeros((0, 2), np.int64))
    return replace(legal, limits=free, start=np.where(rng.random(CONTAINERS) < homeless, NOWHERE, start))


def _limits(problem: Problem, rng: np.random.Generator) -> Limits:
    """Limits that the start keeps."""
    count = np.zeros((NODES, APPS), np.int64)
    np.add.at(count, (problem.start, problem.app), 1)
    pair = np.array([(a, b) for a, b in rng.integers(0, APPS, (10, 2)).tolist() if a != b]).reshape(-1, 2)
    most = np.array([count[count[:, a] > 0, b].max(initial=0) for a, b in pair.tolist()], np.int64)
    location, hood = rng.integers(0, 3, NODES), rng.integers(0, 2, NODES)
    at = np.zeros((APPS, 3), np.bool_)
    at[problem.app, location[problem.start]] = True
    holds = np.zeros((APPS, 2), np.bool_)
    holds[problem.app, hood[problem.start]] = True
    needs = [(a, b) for a, b in rng.integers(0, APPS, (12, 2)).tolist() if a != b and not (holds[a] & ~holds[b]).any()]
    return Limits(
        alike=count.max(axis=0) + rng.integers(0, 2, APPS),
        pair=pair,
        most=most,
        location=location,
        spread=np.maximum(at.sum(axis=1) - rng.integers(0, 2, APPS), 0),
        neighbourhood=hood,
        needs=np.array(needs, np.int64).reshape(-1, 2),
    )


def is_legal(problem: Problem, place: Ints) -> bool:
    """Whether no rule is broken; whoever is nowhere breaks none here."""
    return not [one for one in wrongs(problem, place) if one.rule != "homeless"]
