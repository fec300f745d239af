"""Anneal: many random moves at one temperature, and the best move of each container at none. Compiled kernels."""

import math

import numpy as np
from numpy.typing import NDArray

from advisor.optimizer.problem import NOWHERE, Floats, Ints
from advisor.optimizer.search import array_layout as slots
from advisor.optimizer.search.neighbourhood import FORBIDDEN, NO_CONTAINER, delta, go, keep, lift, zones_allow
from advisor.optimizer.search.numba_jit import compiled
from advisor.optimizer.search.state import BEST, HOMELESS, TOTAL

Seed = NDArray[np.uint64]
"""(1,) state of a generator."""
STEP = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S30, S27, S31, S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
UNIT = 1.0 / 2**53
EJECTED = 16


@compiled
def draw(seed: Seed) -> float:
    """A number in [0, 1). Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014."""
    seed[0] += STEP
    z = seed[0]
    z = (z ^ (z >> S30)) * FIRST
    z = (z ^ (z >> S27)) * SECOND
    z = z ^ (z >> S31)
    return float(z >> S11) * UNIT


@compiled
def anneal(
    at: Ints, whole: Ints, real: Floats, seed: Seed, steps: int, heat: float, swaps: float, chains: float, bulks: float
) -> int:
    """Try random moves; take what costs less, and what costs more by the chance of its temperature.

    Args:
        at: see State.
        whole: see State; changed.
        real: see State; changed.
        seed: changed.
        steps: how many moves are tried.
        heat: temperature, in units of cost; 0 takes nothing that costs more.
        swaps: share of moves that are swaps.
        chains: share of moves that are chains.
        bulks: share of them that make room first.

    Returns:
        How many were taken.

    Source: Kirkpatrick, Gelatt and Vecchi, Science 1983.
    """
    no_container = at[slots.NONE]
    nodes, containers, taken = at[slots.NODES], at[slots.CONTAINERS], 0
    journal = np.zeros((2, EJECTED), np.int64)
    for _ in range(steps):
        if draw(seed) < bulks:
            if make_room(at, whole, real, seed, journal, heat):
                taken += 1
                if real[at[slots.NUMBER] + TOTAL] < real[at[slots.NUMBER] + BEST]:
                    keep(at, whole, real)
            continue
        who, kind = int(draw(seed) * containers), draw(seed)
        source, second, third = whole[at[slots.PLACE] + who], no_container, no_container
        if kind < swaps + chains:
            second = int(draw(seed) * containers)
            node = whole[at[slots.PLACE] + second]
            third = source
            if kind >= swaps:
                third = whole[at[slots.START] + second] if draw(seed) < 0.6 else int(draw(seed) * nodes)
            if third in (node, NOWHERE):
                continue
        else:
            node = whole[at[slots.START] + who] if draw(seed) < 0.1 else int(draw(seed) * nodes)
        if node in (source, NOWHERE):
            continue
        limit = -heat * math.log(1.0 - draw(seed))
        more = delta(at, whole, real, who, node, second, third, limit)
        if more <= limit:
            go(at, whole, real, who, node, second, third, more)
            taken += 1
            if real[at[slots.NUMBER] + TOTAL] < real[at[slots.NUMBER] + BEST]:
                keep(at, whole, real)
    return taken


@compiled
def make_room(at: Ints, whole: Ints, real: Floats, seed: Seed, journal: Ints, heat: float) -> bool:
    """A container that costs much goes to a random node once some of those who are there went elsewhere.

    Args:
        at: see State.
        whole: see State; changed.
        real: see State; changed.
        seed: changed.
        journal: (2, m) overwritten; m containers go elsewhere at most.
        heat: temperature.

    Returns:
        Whether that was taken; else all are where they were.

    Source: big process rearrangement, Gavranović, Buljubašić and Demirović, "Variable neighborhood search for Google
    machine reassignment problem", 2012.
    """
    no_container = at[slots.NONE]
    who, node = costly(at, whole, real, seed), int(draw(seed) * at[slots.NODES])
    if who == NO_CONTAINER or whole[at[slots.PLACE] + who] == node:
        return False
    source, before = whole[at[slots.PLACE] + who], real[at[slots.NUMBER] + TOTAL]
    limit, gone, done = before - heat * math.log(1.0 - draw(seed)), 0, False
    homeless = real[at[slots.CONSTANT] + HOMELESS]
    lift(at, whole, real, who)
    while not done:
        left = limit - real[at[slots.NUMBER] + TOTAL]
        more = delta(at, whole, real, who, node, no_container, no_container, left)
        if more <= left:
            go(at, whole, real, who, node, no_container, no_container, more)
            done = zones_allow(at, whole, who, source, node)
            if not done:
                lift(at, whole, real, who)
                break
        elif gone == journal.shape[1] or whole[at[slots.COUNT] + node] == 0 or left + homeless < 0.0:
            break
        else:
            resident = whole[at[slots.SEAT] + node * at[slots.SEATS] + int(draw(seed) * whole[at[slots.COUNT] + node])]
            if not eject(at, whole, real, seed, resident, source):
                break
            journal[0, gone], journal[1, gone] = resident, node
            gone += 1
    if not done:
        for step in range(gone - 1, -1, -1):
            put(at, whole, real, journal[0, step], journal[1, step])
        put(at, whole, real, who, source)
        real[at[slots.NUMBER] + TOTAL] = before
    return done


@compiled
def eject(at: Ints, whole: Ints, real: Floats, seed: Seed, who: int, likely: int) -> bool:
    """A container goes to the best of some random nodes and a likely one; whether it may go to any."""
    no_container = at[slots.NONE]
    best, target = FORBIDDEN, NOWHERE
    other = likely
    for _ in range(at[slots.TRIES]):
        if other != whole[at[slots.PLACE] + who]:
            found = delta(at, whole, real, who, other, no_container, no_container, best)
            if found < best:
                best, target = found, other
        other = int(draw(seed) * at[slots.NODES])
    if target == NOWHERE:
        return False
    go(at, whole, real, who, target, no_container, no_container, best)
    return True


@compiled
def put(at: Ints, whole: Ints, real: Floats, who: int, node: int) -> None:
    """A container goes back to where it was."""
    no_container = at[slots.NONE]
    go(at, whole, real, who, node, no_container, no_container, 0.0)


@compiled
def costly(at: Ints, whole: Ints, real: Floats, seed: Seed) -> int:
    """A random container of the one of some random nodes that costs most, NO_CONTAINER where it is empty."""
    node = int(draw(seed) * at[slots.NODES])
    for _ in range(at[slots.TRIES]):
        other = int(draw(seed) * at[slots.NODES])
        if real[at[slots.COST] + other] > real[at[slots.COST] + node]:
            node = other
    if whole[at[slots.COUNT] + node] == 0:
        return NO_CONTAINER
    who: int = whole[at[slots.SEAT] + node * at[slots.SEATS] + int(draw(seed) * whole[at[slots.COUNT] + node])]
    return who


@compiled
def typical(at: Ints, whole: Ints, real: Floats, seed: Seed, steps: int) -> NDArray[np.float64]:
    """(m,) what allowed random moves of one container would cost more or less."""
    no_container = at[slots.NONE]
    found, count = np.zeros(steps), 0
    for _ in range(steps):
        who, node = int(draw(seed) * at[slots.CONTAINERS]), int(draw(seed) * at[slots.NODES])
        if node != whole[at[slots.PLACE] + who]:
            more = delta(at, whole, real, who, node, no_container, no_container, FORBIDDEN)
            if more != FORBIDDEN:
                found[count] = more
                count += 1
    return found[:count]


@compiled
def house(at: Ints, whole: Ints, real: Floats, who: int, begin: int, enough: int) -> bool:
    """Place a container, or move it, to the cheapest of so many nodes from one on, at any cost; whether one has room.

    Where none of them has, it is the first one that does.
    """
    no_container, nodes = at[slots.NONE], at[slots.NODES]
    best, node = FORBIDDEN, no_container
    for step in range(nodes):
        target = (begin + step) % nodes
        if step >= enough and node != NOWHERE:
            break
        if target != whole[at[slots.PLACE] + who]:
            more = delta(at, whole, real, who, target, no_container, no_container, best)
            if more < best:
                best, node = more, target
    if node != NOWHERE:
        go(at, whole, real, who, node, no_container, no_container, best)
        if real[at[slots.NUMBER] + TOTAL] < real[at[slots.NUMBER] + BEST]:
            keep(at, whole, real)
    housed: bool = node != NOWHERE
    return housed
