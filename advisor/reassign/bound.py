"""Bound: what no assignment can cost less than. NumPy only.

Every term of a node is convex in what its containers take together, so that it is least where the load is divided
freely among nodes; what hinders that, limits and moves, only costs more.
"""

import numpy as np

from advisor.reassign.problem import Floats, Problem

ASCENTS = 400
FIRST_STEP = 0.05


def bound(problem: Problem) -> float:
    """A cost below which no assignment of all containers is.

    Args:
        problem: what is to be placed.

    Returns:
        The bound; 0 where nothing is known.

    Raises:
        Nothing.

    Source: Jensen's inequality for load and balance, as in the bounds of the ROADEF/EURO Challenge; Lagrangian duality
    for load profiles. Harm and moves cost nothing at least.
    """
    total = problem.use.sum(axis=0)
    return _excess(problem, total) + _balance(problem, total) + _curve(problem, total)


def _excess(problem: Problem, total: Floats) -> float:
    of = problem.excess
    return float(np.maximum(total[of.column] - of.safe.sum(axis=0), 0.0) @ of.weight) if len(of.column) else 0.0


def _balance(problem: Problem, total: Floats) -> float:
    of, left = problem.balance, problem.capacity.sum(axis=0) - total
    return float(np.maximum(of.ratio * left[of.first] - left[of.second], 0.0) @ of.weight)


def _curve(problem: Problem, total: Floats) -> float:
    """The largest dual value found: prices of load at each time, at which each node takes what it likes best."""
    of = problem.curve
    if not len(of.column):
        return 0.0
    load = total[of.column]
    capacity, nodes = np.unique(problem.capacity[:, of.column], axis=0, return_counts=True)
    height = (of.fixed + of.each) / len(load)
    share = load / (nodes @ capacity)
    price = np.maximum(height * np.exp(np.maximum(share - of.knee, 0.0)), 1e-12) / (nodes @ capacity) * nodes.sum()
    best = 0.0
    for turn in range(ASCENTS):
        value, taken = _dual(price, load, capacity, nodes.astype(np.float64), problem)
        best = max(best, value)
        price = price * np.exp(FIRST_STEP / (1 + turn / 20) * np.clip((load - taken) / load.mean(), -1.0, 1.0))
    return best


def _dual(price: Floats, load: Floats, capacity: Floats, nodes: Floats, problem: Problem) -> tuple[float, Floats]:
    """The dual value of (t,) prices, and (t,) what nodes take at them."""
    of = problem.curve
    height = (of.fixed + of.each) / len(load)
    gain = price * capacity
    with np.errstate(divide="ignore"):
        share = of.knee + np.maximum(np.log(gain / height), 0.0) if height > 0 else np.ones_like(gain)
    share = np.minimum(share, 1.0)
    worth = of.used + (height * np.expm1(np.maximum(share - of.knee, 0.0)) - gain * share).sum(axis=1)
    used = worth < 0
    value = float(price @ load + nodes[used] @ worth[used])
    return value, np.asarray((nodes * used) @ (share * capacity))
