"""Bound: what no assignment can cost less than. NumPy only.

Every term of a node is convex in what its containers take together, so that it is least where the load is divided
freely among nodes; what hinders that, limits and moves, only costs more.
"""

import numpy as np

from advisor.optimizer.problem import Floats, Problem

ASCENTS = 400
PATIENCE = 8
"""Ascents without a better value after which half as much is hoped for."""
CHANGE = (0.2, 5.0)
"""Of a price in one ascent."""


def bound(problem: Problem) -> float:
    """A cost below which no assignment of all containers is.

    Args:
        problem: what is to be placed.

    Returns:
        The bound; 0 where nothing is known. Who is nowhere costs `homeless`, which may be less than a place does.

    Raises:
        Nothing.

    Source: Jensen's inequality for load and balance, as in the bounds of the ROADEF/EURO Challenge; for load profiles
    Lagrangian duality by steps of Polyak, Introduction to Optimization, 1987, 5.3. Harm and moves cost 0 at least.
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
    count, whole = nodes.astype(np.float64), nodes @ capacity
    if not (np.isfinite(whole).all() and whole.all()):
        return 0.0
    target = _even(problem, load / whole)
    best_price = price = np.full(len(load), (of.used or of.fixed + of.each) * count.sum() / whole.sum())
    best, since = 0.0, 0
    for _ in range(ASCENTS):
        value, taken = _dual(price, load, capacity, count, problem)
        best, best_price, since = (value, price, 0) if value > best else (best, best_price, since + 1)
        if since == PATIENCE:
            target, price, since = (best + target) / 2, best_price, 0
            value, taken = _dual(price, load, capacity, count, problem)
        missing = load - taken
        step = (target - value) / max(float(missing**2 @ price), 1e-30)
        price = price * np.clip(1.0 + step * missing, *CHANGE)
    return best


def _even(problem: Problem, share: Floats) -> float:
    """What it costs to load all nodes alike to (t,) shares of their capacity, were containers divisible."""
    of = problem.curve
    above = np.expm1(np.maximum(share - of.knee, 0.0)).mean()
    return float(problem.nodes * of.used + (problem.nodes * of.fixed + problem.containers * of.each) * above)


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
