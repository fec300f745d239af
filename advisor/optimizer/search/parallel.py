"""By parts: the search of a large problem, of which workers anneal a part each, cut anew again and again.

Of the first cut only moves are taken that improve, so that there is a plan soon.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from advisor.optimizer.objective import cost
from advisor.optimizer.partition import Part, parts_of
from advisor.optimizer.problem import Ints, Problem
from advisor.optimizer.search.anneal import Seed, anneal
from advisor.optimizer.search.parameters import Found, Spent, Tuning, begun, first_heat, seeded

STEPS = 1 << 11
"""Moves tried between two looks at the time."""
WORTHWHILE = 4
"""How much longer than it takes to begin a part it is searched at least."""


def search_parts(problem: Problem, start: Ints, seed: int, spent: Spent, tuning: Tuning) -> Found:
    """The best assignment found; see advisor.optimizer.search.search.

    Args:
        problem: one that is divisible.
        start: (k,) node of each container.
        seed: of random moves and cuts.
        spent: asked between every few moves.
        tuning: how; moves are of the first mix.

    Returns:
        What costs no more than the start.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0041-reassignment.md.
    """
    rng, count = np.random.default_rng(seed), tuning.workers * max(1, problem.nodes // tuning.part // tuning.workers)
    place, best, least, done, hot = start.copy(), start.copy(), cost(problem, start).total, [0] * tuning.workers, 0.0
    with ThreadPoolExecutor(tuning.workers) as pool:
        while spent(max(done)) < 1.0:
            parts = parts_of(problem, place, count, rng)
            hot = 0.0 if not any(done) else hot or _hot(max(parts, key=_size), seed, tuning)
            for turn in range(0, count, tuning.workers):
                some = parts[turn : turn + tuning.workers]
                seeds = [seeded(seed, tried, worker) for worker, tried in enumerate(done)]
                slot = tuning.workers / count / tuning.cuts
                work = partial(_annealed, tuning=tuning, hot=hot, spent=spent, slot=slot)
                for worker, (found, tried) in enumerate(pool.map(work, some, seeds, done)):
                    some[worker].put(place, found)
                    done[worker] = tried
            if (reached := cost(problem, place).total) < least:
                least, best = reached, place.copy()
    return Found(best, least, sum(done))


def _size(part: Part) -> int:
    return len(part.containers)


def _hot(part: Part, seed: int, tuning: Tuning) -> float:
    """The first temperature of all parts."""
    return first_heat(begun(part.problem, part.place), seeded(seed), tuning)


def _annealed(
    part: Part, seed: Seed, tried: int, *, tuning: Tuning, hot: float, spent: Spent, slot: float
) -> tuple[Ints, int]:
    """Where a part's containers are after a slot of the budget, and how many moves its worker tried by then."""
    begin, mix = spent(tried), tuning.mixes[0]
    if begin >= 1.0 or not len(part.containers):
        return part.place, tried
    state = begun(part.problem, part.place)
    ready = spent(tried)
    end = min(1.0, max(begin + slot, ready + WORTHWHILE * (ready - begin)))
    while (share := spent(tried)) < end:
        heat = hot * tuning.cold_part**share
        anneal(state.at, state.whole, state.real, seed, STEPS, heat, mix.swaps, mix.chains, mix.bulks)
        tried += STEPS
    return state.place(), tried
