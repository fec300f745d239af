"""Mending: who has to go so that a start which breaks rules breaks fewer. NumPy only.

Clusters are overcommitted, and rules come later than the containers that break them. Costs say nothing of that, so the
search begins with an assignment that is legal as far as there is room, and plans begin with what leads there. Mended
are capacity and who may be together. Spread and needs are kept, but what the start lacks of them is not sought.
"""

import numpy as np

from advisor.optimizer.constraints import crowds, occupied
from advisor.optimizer.problem import NOWHERE, SLACK, Flags, Floats, Ints, Problem


def leavers(problem: Problem, place: Ints) -> Ints:
    """Containers without which no node is over its capacity or holds who may not be together.

    Args:
        problem: what is to be placed.
        place: (k,) node of each container, NOWHERE where it has none.

    Returns:
        (m,) no more than the budget of moves allows. In a column held on the old node too, no move frees capacity, so
        no container is named.

    Raises:
        Nothing.

    Source: ours.
    """
    left = place.copy()
    for node in np.unique(np.nonzero(_excess(problem, left) > SLACK)[0]).tolist():
        left[_overloading(problem, left, node)] = NOWHERE
    left[_too_many(problem, left)] = NOWHERE
    gone = np.flatnonzero(left != place)
    return gone[: max(0, problem.moves.most)]


def mends(problem: Problem, place: Ints, who: Ints) -> Flags:
    """(m,) whether each container is where something is broken that is less so without it."""
    excess = _excess(problem, place)
    found = ((excess[place[who]] > SLACK) & (problem.use[who] > 0.0)).any(axis=1)
    for crowd in crowds(problem, place):
        found |= (place[who] == crowd.node) & (problem.app[who] == crowd.app)
    return np.asarray(found & (place[who] != NOWHERE))


def _excess(problem: Problem, place: Ints) -> Floats:
    """(n, c) what is taken beyond the capacity, of columns that leavers give back."""
    return np.where(problem.held, 0.0, np.maximum(occupied(problem, place) - problem.capacity, 0.0))


def _overloading(problem: Problem, place: Ints, node: int) -> list[int]:
    """Containers of a node without which it has room: of the scarcest column the least that suffices, else the most."""
    there, gone = np.flatnonzero(place == node), list[int]()
    excess = occupied(problem, place)[node] - problem.capacity[node]
    capacity = np.maximum(np.nan_to_num(problem.capacity[node], posinf=np.finfo(np.float64).max), SLACK)
    excess[problem.held] = -np.inf
    while (excess > SLACK).any() and len(there):
        column = int(np.argmax(np.where(excess > SLACK, excess / capacity, -np.inf)))
        use = problem.use[there, column]
        enough = np.where(use >= excess[column] - SLACK, use, np.inf)
        at = int(np.argmin(enough)) if np.isfinite(enough).any() else int(np.argmax(use))
        gone.append(int(there[at]))
        excess -= problem.use[there[at]]
        there = np.delete(there, at)
    return gone


def _too_many(problem: Problem, place: Ints) -> list[int]:
    """Containers beyond the limit on their node, of their app or co-located with another app."""
    gone = list[int]()
    for crowd in crowds(problem, place):
        there = np.flatnonzero((place == crowd.node) & (problem.app == crowd.app))
        gone += there[: crowd.holds - crowd.most].tolist()
    return gone
