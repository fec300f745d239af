"""Search: the best assignment that two cores find in the time there is. Kernel: time is told, never read.

Mixes of moves race first, then all workers anneal by the best mix with their own random numbers, and at last go on,
hardly heated, from the best assignment.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from advisor.reassign.anneal import Seed, anneal, house, typical
from advisor.reassign.moves import node_costs
from advisor.reassign.objective import cost
from advisor.reassign.problem import NOWHERE, Ints, Limits, Problem
from advisor.reassign.state import State, state_of

STEPS = 1 << 17
"""Moves tried between two looks at the time."""
SAMPLED = 20_000
Spent = Callable[[], float]
"""Share of the budget that is spent, 1 when it is over."""


@dataclass(frozen=True)
class Mix:
    """Which moves are tried.

    Args:
        swaps: share of swaps.
        chains: share of chains.
        bulks: share of moves that make room first.
    """

    swaps: float
    chains: float
    bulks: float


MIXES = (Mix(0.5, 0.3, 0.03), Mix(0.05, 0.85, 0.02), Mix(0.2, 0.6, 0.02), Mix(0.3, 0.2, 0.01))


@dataclass(frozen=True)
class Tuning:
    """How to search.

    Args:
        mixes: of moves; which one goes on is decided by a race.
        race: share of the time that the race takes.
        last: share of the time from which it goes on from the best, with little heat.
        hot: share of sampled worsenings that are less than twice the first temperature.
        reheat: first temperature of the last part over that of the others.
        cold: last temperature over the first.
        workers: threads.
    """

    mixes: tuple[Mix, ...] = MIXES
    race: float = 0.2
    last: float = 0.85
    hot: float = 0.9
    reheat: float = 0.02
    cold: float = 3e-5
    workers: int = 2


@dataclass(frozen=True)
class Found:
    """What a search ended with.

    Args:
        place: (k,) the best assignment.
        cost: of it, computed anew.
        tried: moves.
    """

    place: Ints
    cost: float
    tried: int


def search(problem: Problem, seed: int, spent: Spent, tuning: Tuning) -> Found:
    """The best assignment found.

    Args:
        problem: what is to be placed.
        seed: of random moves.
        spent: asked between every few moves.
        tuning: how.

    Returns:
        What costs no more than the start, where everybody is placed there.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0041-reassignment.md.
    """
    start, anneal_all = housed(problem, problem.start), partial(_anneal_all, problem, tuning, seed, spent)
    ran = list[Ran]()
    for leg in _heats(tuning):
        ran += anneal_all(leg, start, 1.0)
    race = tuning.race if ran else 0.0
    mix = (min(ran, key=_cost).mix if ran else tuning.mixes[0],) * tuning.workers
    ran += anneal_all(Leg(race, tuning.last, mix), start, 1.0)
    ran += anneal_all(Leg(tuning.last, 1.0, mix), min(ran, key=_cost).place, tuning.reheat)
    best = min(ran, key=_cost).place
    return Found(best, cost(problem, best).total, sum(one.tried for one in ran))


@dataclass(frozen=True)
class Leg:
    """From one share of the budget to another, each worker by its mix."""

    begin: float
    end: float
    mixes: tuple[Mix, ...]


def _heats(tuning: Tuning) -> list[Leg]:
    """The race, as many mixes at once as there are workers; none where there is one mix."""
    groups = [tuning.mixes[at : at + tuning.workers] for at in range(0, len(tuning.mixes), tuning.workers)]
    if len(tuning.mixes) == 1:
        return []
    ends = np.linspace(0.0, tuning.race, len(groups) + 1).tolist()
    return [Leg(ends[turn], ends[turn + 1], mixes) for turn, mixes in enumerate(groups)]


@dataclass(frozen=True)
class Ran:
    """What it ended with."""

    place: Ints
    mix: Mix
    cost: float
    tried: int


def _cost(one: Ran) -> float:
    return one.cost


def _anneal_all(  # noqa: PLR0917
    problem: Problem, tuning: Tuning, seed: int, spent: Spent, leg: Leg, place: Ints, scale: float
) -> list[Ran]:
    """Workers side by side, from so many times the first temperature."""
    within = partial(_within, spent, leg.begin, leg.end)
    seeds = [_seed(seed, round(1000 * leg.begin), worker) for worker in range(len(leg.mixes))]
    work = partial(_cooled, begin=partial(begun, problem, place), tuning=tuning, scale=scale, spent=within)
    with ThreadPoolExecutor(tuning.workers) as pool:
        return list(pool.map(work, leg.mixes, seeds))


def _within(spent: Spent, begin: float, end: float) -> float:
    return (spent() - begin) / (end - begin)


def _seed(*numbers: int) -> Seed:
    return np.random.SeedSequence(numbers).generate_state(1, np.uint64).astype(np.uint64)


def compile_kernels() -> None:
    """Compile what is not kept from an earlier run, so that nobody's budget is spent on it."""
    smallest = Problem(
        use=np.zeros((1, 1)),
        capacity=np.ones((1, 1)),
        held=np.zeros(1, np.bool_),
        app=np.zeros(1, np.int64),
        start=np.full(1, NOWHERE),
        limits=Limits(alike=np.ones(1, np.int64)),
    )
    search(smallest, 0, _once(), Tuning(mixes=MIXES[:1], workers=1))


def _once() -> Spent:
    """A budget of one step for each of two legs."""
    looks = iter((0.0, 0.9, 0.9, 1.0))
    return lambda: next(looks)


def begun(problem: Problem, place: Ints) -> State:
    """The state of an assignment."""
    state = state_of(problem, place, np.zeros(problem.nodes))
    node_costs(state.at, state.whole, state.real)
    return state


def housed(problem: Problem, place: Ints) -> Ints:
    """The assignment with everybody placed who is nowhere and fits somewhere, the largest first."""
    state = begun(problem, place)
    nowhere = np.flatnonzero(place == NOWHERE)
    most = problem.capacity.max(axis=0)
    size = (problem.use[nowhere] / np.maximum(most, 1e-9)).max(axis=1)
    for who in nowhere[np.argsort(-size, kind="stable")]:
        house(state.at, state.whole, state.real, who)
    return state.place()


def _cooled(mix: Mix, seed: Seed, *, begin: Callable[[], State], tuning: Tuning, scale: float, spent: Spent) -> Ran:
    """One worker's leg."""
    state, tried = begin(), 0
    parts = state.at, state.whole, state.real
    worse = typical(*parts, seed, SAMPLED)
    worse = worse[worse > 0]
    hot = scale * 0.5 * float(np.quantile(worse, tuning.hot)) if len(worse) else 1.0
    while (share := spent()) < 1.0:
        anneal(*parts, seed, STEPS, hot * tuning.cold**share, mix.swaps, mix.chains, mix.bulks)
        tried += STEPS
    return Ran(state.best(), mix, state.best_cost(), tried)
