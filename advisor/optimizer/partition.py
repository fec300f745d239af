"""Parts: a large problem cut into smaller ones whose nodes exchange containers only among themselves. NumPy only.

A part fits into the processor's cache, and parts are searched side by side. Cut anew again and again, at random, they
lose little.
"""

from dataclasses import dataclass, replace

import numpy as np

from advisor.optimizer.objective import moved
from advisor.optimizer.problem import NOWHERE, Flags, Floats, Ints, Limits, Problem


@dataclass(frozen=True)
class Part:
    """Some nodes, and who is on them.

    Args:
        problem: of these alone.
        nodes: (m,) their numbers in the whole problem, ascending.
        containers: (j,) numbers of the containers on them, ascending.
        place: (j,) where they are, by numbers of the part.
    """

    problem: Problem
    nodes: Ints
    containers: Ints
    place: Ints

    def put(self, whole: Ints, place: Ints) -> None:
        """Write an assignment of the part into one of the whole problem."""
        whole[self.containers] = self.nodes[place]


def divisible(problem: Problem) -> bool:
    """Whether nothing links nodes but who is where: neither spread, needs, trips nor the most moved app.

    Capacity still held by a container that left is subtracted from its node's, for profile and balance: of those no
    column may be held.
    """
    limits, moves, balance = problem.limits, problem.moves, problem.balance
    counted = np.concatenate([problem.curve.column, balance.first, balance.second])
    linked = (
        len(limits.needs) > 0,
        len(moves.trip) > 0,
        moves.most_of_app != 0.0,
        bool((limits.spread > 1).any()),
        bool(problem.held[counted].any()),
    )
    return not any(linked)


def parts_of(problem: Problem, place: Ints, parts: int, rng: np.random.Generator) -> list[Part]:
    """Cut at random.

    Args:
        problem: one that is divisible.
        place: (k,) node of each container; containers without a node are in no part.
        parts: how many.
        rng: draws the nodes of each.

    Returns:
        Parts. What each finds is legal in the whole, and improves it by as much as the part. A budget of moves is
        divided among them by what each has used, and the rest evenly.

    Raises:
        Nothing.

    Source: ours.
    """
    where = rng.permutation(np.arange(problem.nodes) % parts)
    own = np.append(where, parts)[place]
    gone = moved(problem, place)
    rest = problem.moves.most - int(gone.sum())
    within = np.append(where, parts)[problem.start] == own
    left = replace(problem, capacity=problem.capacity - _taken_by_others(problem, gone & ~within))
    found = []
    for part in range(parts):
        nodes, containers = np.flatnonzero(where == part), np.flatnonzero(own == part)
        most = int((gone & within)[containers].sum()) + rest // parts
        found.append(_part(left, place, nodes, containers, most))
    return found


def _taken_by_others(problem: Problem, gone: Flags) -> Floats:
    """(n, c) what those who left for another part still take in held columns."""
    found = np.zeros(problem.capacity.shape)
    for column in np.flatnonzero(problem.held):
        use = problem.use[gone, column]
        found[:, column] = np.bincount(problem.start[gone], use, minlength=problem.nodes)
    return found


def _part(problem: Problem, place: Ints, nodes: Ints, containers: Ints, most: int) -> Part:
    number = np.full(problem.nodes + 1, NOWHERE)
    number[nodes] = np.arange(len(nodes))
    start = number[problem.start[containers]]
    apps, app = np.unique(problem.app[containers], return_inverse=True)
    excess, harm, moves = problem.excess, problem.harm, problem.moves
    cut = replace(
        problem,
        use=problem.use[containers],
        capacity=problem.capacity[nodes],
        app=app,
        start=start,
        limits=_limits(problem.limits, apps),
        excess=replace(excess, safe=excess.safe[nodes] if len(excess.column) else excess.safe),
        harm=replace(harm, weight=_of(harm.weight, nodes)),
        moves=replace(moves, container=_of(moves.container, containers), site=moves.site[:0], most=most),
    )
    return Part(cut, nodes, containers, number[place[containers]])


def _of(array: Floats, rows: Ints) -> Floats:
    return array[rows] if len(array) else array


def _limits(limits: Limits, apps: Ints) -> Limits:
    """Of some apps alone."""
    code = np.full(len(limits.alike), NOWHERE)
    code[apps] = np.arange(len(apps))
    pair = code[limits.pair].reshape(-1, 2)
    both = (pair != NOWHERE).all(axis=1)
    return Limits(alike=limits.alike[apps], pair=pair[both], most=limits.most[both])
