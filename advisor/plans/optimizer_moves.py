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
from advisor.optimizer.problem import Flags, Ints, Limits, Moves, Problem
from advisor.optimizer.search.model_costs import foresee
from advisor.optimizer.search.parameters import MIXES, Tuning, counted
from advisor.optimizer.search.search import search
from advisor.remediation.fits import FITS, node_codes
from advisor.remediation.migration_options import Scene
from advisor.remediation.room import Room

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
    """Residents by what they are promised; nodes by what they have.

    Nodes beyond that, not known, or that accept none of those that may move count as full; a container that no node
    accepts stays.
    """
    of, start = scene.snapshot, homes(scene.snapshot)
    columns = np.isfinite(scene.room.needs).any(axis=0) & ~np.isposinf(scene.room.free).any(axis=0)
    needs, free = scene.room.needs[:, columns], scene.room.free[:, columns]
    known = np.asarray(np.isfinite(needs).all(axis=1))
    use = np.where(known[:, None], needs, 0.0)
    taken = np.zeros(free.shape)
    np.add.at(taken, start, use)
    stays = ~known | np.isin(of.containers, list(stay))
    accepting, accepted = _accepting(scene.room, start, stays)
    capacity = taken + np.where(accepting[:, None], np.maximum(free, 0.0), 0.0)
    unit = np.maximum(capacity.max(axis=0), 1.0)
    stays = stays | ~accepted
    app = np.where(of.resident_app >= 0, of.resident_app, len(of.apps))
    return Problem(
        use=use / unit,
        capacity=capacity / unit,
        held=np.ones(use.shape[1], np.bool_),
        app=app,
        start=start,
        limits=Limits(alike=np.full(len(of.apps) + 1, len(of.containers))),
        moves=Moves(container=np.where(stays, STAYS, price), most=most),
    )


def _accepting(room: Room, start: Ints, stays: Flags) -> tuple[Flags, Flags]:
    """(n,) nodes that accept any container that may move, and (m,) containers that any node accepts.

    Containers of equal rules and home are tried once, by nodes alone; advisor.remediation.room tries each target again.
    """
    if room.occupancy is None:
        return np.ones(len(room.free), np.bool_), np.ones(len(start), np.bool_)
    nodes, tried = np.zeros(len(room.free), np.bool_), dict[tuple[object, ...], bool]()
    found = np.zeros(len(start), np.bool_)
    for row in np.flatnonzero(~stays).tolist():
        pod = room.occupancy.pods[room.uids[row]]
        key = (int(start[row]), pod.tolerations, pod.selector, pod.affinity, pod.claims, pod.readable)
        if key not in tried:
            fits = node_codes(pod, room.occupancy.nodes, int(start[row])) == FITS
            nodes |= fits
            tried[key] = bool(fits.any())
        found[row] = tried[key]
    return nodes, found
