"""Search: the best assignment that two cores find within the budget. Kernel: time is an input, never read.

Mixes of moves race first; then all workers anneal by the best mix with their own random numbers, slowly where its costs
fell in the race. From the best assignment they go on without heat, and at last a few nodes at a time are divided anew
exactly, where that can be done.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from advisor.optimizer.objective import cost
from advisor.optimizer.partition import divisible
from advisor.optimizer.problem import NOWHERE, Floats, Ints, Limits, Problem
from advisor.optimizer.search.anneal import Seed, anneal
from advisor.optimizer.search.mip import is_linear, refined
from advisor.optimizer.search.parallel import search_parts
from advisor.optimizer.search.parameters import (
    MIXES,
    Found,
    Mix,
    Spent,
    Tuning,
    begun,
    counted,
    first_heat,
    mended,
    seeded,
)
from advisor.optimizer.search.schedule import NO_HEAT, Cooling, even, learnt

STEPS = 1 << 14
"""Moves tried between two looks at the time."""
DIVISION = 1 << 16
"""Moves that take about as long to try as an exact division."""


def search(problem: Problem, seed: int, spent: Spent, tuning: Tuning) -> Found:
    """The best assignment found.

    Args:
        problem: what is to be placed.
        seed: of random moves.
        spent: asked between every few moves; by advisor.optimizer.search.parameters.counted the same seed gives the
        same plan.
        tuning: how.

    Returns:
        What costs no more than the start, where everybody is placed there and no rule is broken. No move breaks one.
        What the start breaks is mended first, at any cost, where there is room; see advisor.optimizer.repair for what
        stays broken, and advisor.optimizer.constraints.wrongs for what is.

    Raises:
        ValueError: the seed is less than 0.

    The first search of an installation compiles for half a minute first, which a clock would count: call
    `compile_kernels` before it starts.

    Source: ours, docs/decisions/0041-reassignment.md.
    """
    start = mended(problem)
    if (start == NOWHERE).all():
        return Found(start, cost(problem, start).total, 0)
    if divisible(problem) and problem.nodes >= 2 * tuning.part:
        return search_parts(problem, start, seed, spent, tuning)
    ran, anneal_all = list[Ran](), partial(_anneal_all, problem, tuning, seed, spent)
    for leg in _heats(tuning):
        ran += anneal_all(start, ran, leg)
    won = min(ran, key=_cost)
    log_heats, costs = won.costs.T
    cooling = learnt(log_heats, costs, cost(problem, start).total) if len(costs) else None
    mixes, end = (won.mix,) * tuning.workers, tuning.exact if is_linear(problem) else 1.0
    ran += anneal_all(start, ran, Leg(tuning.race, tuning.cool, mixes, cooling))
    ran += anneal_all(min(ran, key=_cost).place, ran, Leg(tuning.cool, end, mixes, NO_HEAT))
    best, tried = min(ran, key=_cost).place, _tried(ran, 0)
    if is_linear(problem):
        rng = np.random.default_rng(seed)
        best = refined(problem, best, rng, lambda divisions: spent(tried + divisions * DIVISION) >= 1.0)
    return Found(best, cost(problem, best).total, sum(one.tried for one in ran))


@dataclass(frozen=True)
class Leg:
    """From one share of the budget to another, each worker by its mix; evenly cooled where nothing else is said."""

    begin: float
    end: float
    mixes: tuple[Mix, ...]
    cooling: Cooling | None = None


def _heats(tuning: Tuning) -> list[Leg]:
    """The race, as many mixes at once as there are workers."""
    groups = [tuning.mixes[at : at + tuning.workers] for at in range(0, len(tuning.mixes), tuning.workers)]
    ends = np.linspace(0.0, tuning.race, len(groups) + 1).tolist()
    return [Leg(ends[turn], ends[turn + 1], mixes) for turn, mixes in enumerate(groups)]


@dataclass(frozen=True)
class Ran:
    """What a worker's leg ended with, and (m, 2) log temperatures and costs on its way."""

    worker: int
    place: Ints
    mix: Mix
    cost: float
    tried: int
    costs: Floats


def _tried(ran: list[Ran], worker: int) -> int:
    return sum(one.tried for one in ran if one.worker == worker)


def _cost(one: Ran) -> float:
    return one.cost


def _anneal_all(  # noqa: PLR0917
    problem: Problem, tuning: Tuning, seed: int, spent: Spent, place: Ints, ran: list[Ran], leg: Leg
) -> list[Ran]:
    """Workers side by side."""
    cooled = partial(_cooled, problem, place, tuning=tuning, leg=leg, spent=spent)
    seeds = [seeded(seed, round(1000 * leg.begin), worker) for worker in range(len(leg.mixes))]
    tried = [_tried(ran, worker) for worker in range(len(leg.mixes))]
    with ThreadPoolExecutor(tuning.workers) as pool:
        return list(pool.map(cooled, range(len(leg.mixes)), seeds, tried))


def compile_kernels() -> None:
    """Compile what an earlier run has not cached, so that no search spends its budget on it."""
    smallest = Problem(
        use=np.zeros((1, 1)),
        capacity=np.ones((1, 1)),
        held=np.zeros(1, np.bool_),
        app=np.zeros(1, np.int64),
        start=np.full(1, NOWHERE),
        limits=Limits(alike=np.ones(1, np.int64)),
    )
    search(smallest, 0, counted(1), Tuning(mixes=MIXES[:1], workers=1))


def _cooled(
    problem: Problem, place: Ints, worker: int, seed: Seed, before: int, *, tuning: Tuning, leg: Leg, spent: Spent
) -> Ran:
    """One worker's leg, after so many moves that it tried before."""
    state, tried, mix, costs = begun(problem, place), 0, leg.mixes[worker], list[tuple[float, float]]()
    hot = first_heat(state, seed, tuning)
    cooling = leg.cooling or even(hot, hot * tuning.cold)
    while (share := (spent(before + tried) - leg.begin) / (leg.end - leg.begin)) < 1.0:
        heat = cooling.heat(share)
        anneal(state.at, state.whole, state.real, seed, STEPS, heat, mix.swaps, mix.chains, mix.bulks)
        tried += STEPS
        costs.append((np.log(heat) if heat else -np.inf, state.total()))
    return Ran(worker, state.best(), mix, state.best_cost(), tried, np.array(costs).reshape(-1, 2))
