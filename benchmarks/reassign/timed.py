"""Timed: a search by the clock. An edge."""

import sys
from argparse import ArgumentTypeError
from dataclasses import dataclass
from math import inf
from pathlib import Path
from time import monotonic

from advisor.reassign.bound import bound
from advisor.reassign.objective import cost
from advisor.reassign.problem import Ints, Problem
from advisor.reassign.search import compile_kernels, search
from advisor.reassign.tuning import Tuning

EVERY_S = 10.0
"""Between two words of how far a search is."""


@dataclass(frozen=True)
class Timed:
    """What a search by the clock ended with.

    Args:
        place: (k,) the best assignment.
        cost: of it.
        start: cost of the assignment it began with.
        bound: no assignment costs less.
        seconds: that it took.
        per_s: moves tried a second.
    """

    place: Ints
    cost: float
    start: float
    bound: float
    seconds: float
    per_s: float

    def figures(self) -> dict[str, float]:
        """As a benchmark tells them."""
        return {
            "cost": self.cost,
            "start": self.start,
            "bound": self.bound,
            "seconds": self.seconds,
            "evaluations_per_s": self.per_s,
        }


def seconds(text: str) -> float:
    """A time for searching, s."""
    found = float(text)
    if not 0 < found < inf:
        raise ArgumentTypeError("a number of seconds above 0")
    return found


def seed(text: str) -> int:
    """A seed of random moves."""
    found = int(text)
    if found < 0:
        raise ArgumentTypeError("a whole number from 0 on")
    return found


def writable(text: str) -> Path:
    """A file in a folder that is there, told before the search and not after it."""
    found = Path(text)
    if found.is_dir() or not found.parent.is_dir():
        raise ArgumentTypeError(f"a file in a folder that is there, which {found.parent} is not")
    return found


def timed(problem: Problem, number: int, budget_s: float, tuning: Tuning) -> Timed:
    """Search for so many seconds. The first time on a machine it is compiled before, which takes some 20 s."""
    compile_kernels()
    begin = monotonic()
    told = [begin]

    def spent(_: int) -> float:
        now = monotonic()
        if now - told[0] >= EVERY_S:
            told[0] = now
            print(f"searching: {now - begin:.0f} of {budget_s:.0f} s", file=sys.stderr, flush=True)
        return (now - begin) / budget_s

    found = search(problem, number, spent, tuning)
    took = monotonic() - begin
    start = cost(problem, problem.start).total
    return Timed(found.place, found.cost, start, bound(problem), took, found.tried / took)
