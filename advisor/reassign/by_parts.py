"""By parts: the search of a large problem, of which workers anneal a part each, cut anew again and again."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from advisor.reassign.anneal import Seed, anneal
from advisor.reassign.objective import cost
from advisor.reassign.parts import Part, parts_of
from advisor.reassign.problem import Ints, Problem
from advisor.reassign.tuning import Found, Spent, Tuning, begun, first_heat, seeded, share_within

STEPS = 1 << 11
"""Moves tried between two looks at the time."""


def search_parts(problem: Problem, start: Ints, seed: int, spent: Spent, tuning: Tuning) -> Found:
    """The best assignment found; see advisor.reassign.search.

    Args:
        problem: one that is divisible.
        start: (k,) everybody is somewhere.
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
    hot = first_heat(begun(problem, start), seeded(seed), tuning)
    place, best, least, tried = start.copy(), start.copy(), cost(problem, start).total, 0
    with ThreadPoolExecutor(tuning.workers) as pool:
        for cut in range(tuning.cuts):
            parts = parts_of(problem, place, count, rng)
            for turn in range(0, count, tuning.workers):
                begin = (cut + turn / count) / tuning.cuts
                within = partial(share_within, spent, begin, begin + tuning.workers / count / tuning.cuts)
                work = partial(_annealed, tuning=tuning, hot=hot, spent=spent, within=within)
                seeds = [seeded(seed, cut, turn, worker) for worker in range(tuning.workers)]
                some = parts[turn : turn + tuning.workers]
                for part, (found, moves) in zip(some, pool.map(work, some, seeds), strict=True):
                    part.put(place, found)
                    tried += moves
            if (reached := cost(problem, place).total) < least:
                least, best = reached, place.copy()
    return Found(best, least, tried)


def _annealed(part: Part, seed: Seed, *, tuning: Tuning, hot: float, spent: Spent, within: Spent) -> tuple[Ints, int]:
    """Where a part's containers end, and how many moves were tried."""
    state, tried, mix = begun(part.problem, part.place), 0, tuning.mixes[0]
    while within() < 1.0:
        heat = hot * tuning.cold_part ** spent()
        anneal(state.at, state.whole, state.real, seed, STEPS, heat, mix.swaps, mix.chains, mix.bulks)
        tried += STEPS
    return state.place(), tried
