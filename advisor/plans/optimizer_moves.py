"""Rebalancing: moves found by the search of the whole cluster, without a diagnosed victim. Kernel.

The search sees what no ladder does: one container that slows several others down a little each.
It goes by factors of the model and names who should go; where to, and whether that pays with the model's doubt, the
scorer says of each alone.
"""

from collections.abc import Collection
from functools import partial

import numpy as np

from advisor.errors import UnusableProblem
from advisor.optimizer.assignment_cost import homes
from advisor.optimizer.problem import Limits, Moves, Problem
from advisor.optimizer.search.model_costs import foresee
from advisor.optimizer.search.parameters import MIXES, Tuning, counted
from advisor.optimizer.search.search import search
from advisor.remediation.migration_options import Scene

STAYS = 1e6
"""Cost of moving a container that may not move."""


def better_elsewhere(scene: Scene, stay: Collection[str], most: int, price: float, *, tried: int) -> list[str]:
    """Who is elsewhere in the best assignment that the search finds.

    Args:
        scene: the cluster as it is now.
        stay: uids of who is not to be moved.
        most: moves at most.
        price: of a move, cost an hour.
        tried: moves that the search tries.

    Returns:
        Uids; none where the model does not predict every slowdown.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0041-reassignment.md and 0046-rearranging.md.
    """
    run = partial(search, seed=1, spent=counted(tried), tuning=Tuning(mixes=MIXES[:1]))
    try:
        found = foresee(_problem(scene, stay, most, price), scene.scorer, 1.0, run)
    except UnusableProblem:
        return []
    of, start = scene.snapshot, homes(scene.snapshot)
    return [of.containers[row] for row in np.flatnonzero(found.place != start).tolist()]


def _problem(scene: Scene, stay: Collection[str], most: int, price: float) -> Problem:
    """Residents by what they are promised; nodes by what they have, those beyond that or not known as full."""
    of, start = scene.snapshot, homes(scene.snapshot)
    known = np.asarray(np.isfinite(scene.room.needs).all(axis=1))
    use = np.where(known[:, None], scene.room.needs, 0.0)
    taken = np.zeros(scene.room.free.shape)
    np.add.at(taken, start, use)
    capacity = taken + np.maximum(scene.room.free, 0.0)
    unit = np.maximum(capacity.max(axis=0), 1.0)
    stays = ~known | np.isin(of.containers, list(stay))
    app = np.where(of.resident_app >= 0, of.resident_app, len(of.apps))
    return Problem(
        use=use / unit,
        capacity=capacity / unit,
        held=np.ones(2, np.bool_),
        app=app,
        start=start,
        limits=Limits(alike=np.full(len(of.apps) + 1, len(of.containers))),
        moves=Moves(container=np.where(stays, STAYS, price), most=most),
    )
