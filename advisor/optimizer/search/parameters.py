"""Tuning: how to search, and what every search begins with."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from advisor.errors import UnusableProblem
from advisor.optimizer.problem import NOWHERE, Ints, Problem
from advisor.optimizer.repair import leavers
from advisor.optimizer.search.anneal import Seed, house, typical
from advisor.optimizer.search.neighbourhood import node_costs
from advisor.optimizer.search.state import State, state_of

SAMPLED = 20_000
"""Moves that the first temperature is found by."""
LOOKED = 256
"""Candidate nodes tried for a container without a node."""
Spent = Callable[[int], float]
"""Share of the budget that is spent, 1 when it is over; gets the number of moves that the worker has tried."""


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
        cool: share of the time from which it goes on from the best, without heat.
        exact: share from which few nodes at a time are divided anew exactly.
        hot: share of sampled worsenings that are less than twice the first temperature.
        cold: last temperature over the first.
        part: nodes of a part, where a problem is searched in parts.
        cuts: how often it is cut anew at most.
        cold_part: last temperature over the first, in parts.
        workers: threads.

    Raises:
        UnusableProblem: shares of the time are not in their order, or numbers are none that can be searched by.
    """

    mixes: tuple[Mix, ...] = MIXES
    race: float = 0.2
    cool: float = 0.93
    exact: float = 0.97
    hot: float = 0.9
    cold: float = 3e-5
    part: int = 375
    cuts: int = 40
    cold_part: float = 1e-3
    workers: int = 2

    def __post_init__(self) -> None:
        """Refuse legs that end before they begin, which a search would never leave, and what no search can do."""
        if not 0.0 < self.race < self.cool < self.exact <= 1.0:
            raise UnusableProblem(
                f"race {self.race}, cool {self.cool}, exact {self.exact}: ascending shares of the time"
            )
        if min(self.workers, self.part, self.cuts, len(self.mixes)) < 1:
            raise UnusableProblem("workers, part, cuts and mixes: one at least of each")
        if not (0.0 <= self.hot <= 1.0 and 0.0 < self.cold <= 1.0 and 0.0 < self.cold_part <= 1.0):
            raise UnusableProblem(f"hot {self.hot}, cold {self.cold}, cold_part {self.cold_part}: shares up to 1")


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


def begun(problem: Problem, place: Ints) -> State:
    """The state of an assignment."""
    state = state_of(problem, place, np.zeros(problem.nodes))
    node_costs(state.at, state.whole, state.real)
    return state


def mended(problem: Problem) -> Ints:
    """The start with containers that break a rule moved, and those without a node placed, if they fit."""
    return housed(problem, _placed(problem, problem.start, leavers(problem, problem.start)))


def housed(problem: Problem, place: Ints) -> Ints:
    """The assignment with containers without a node placed where they fit, largest first."""
    return _placed(problem, place, np.flatnonzero(place == NOWHERE))


def _placed(problem: Problem, place: Ints, those: Ints) -> Ints:
    if not len(those):
        return place.copy()
    state = begun(problem, place)
    most = problem.capacity.max(axis=0)
    size = (problem.use[those] / np.maximum(most, 1e-9)).max(axis=1)
    for turn, who in enumerate(those[np.argsort(-size, kind="stable")].tolist()):
        house(state.at, state.whole, state.real, who, turn * LOOKED % problem.nodes, LOOKED)
    return state.place()


def first_heat(state: State, seed: Seed, tuning: Tuning) -> float:
    """The temperature to begin with."""
    worse = typical(state.at, state.whole, state.real, seed, SAMPLED)
    worse = worse[worse > 0]
    return 0.5 * float(np.quantile(worse, tuning.hot)) if len(worse) else 1.0


def counted(moves: int) -> Spent:
    """A budget of so many moves that each worker tries: the same seed gives the same plan, on any machine."""
    return lambda tried: tried / max(moves, 1)


def seeded(*numbers: int) -> Seed:
    """The state of a generator of its own for some numbers."""
    return np.random.SeedSequence(numbers).generate_state(1, np.uint64).astype(np.uint64)
