"""Timed: a search by the clock. An edge."""

import os
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from time import monotonic

from advisor.optimizer.objective import cost
from advisor.optimizer.problem import Ints, Problem
from advisor.optimizer.search.parameters import Tuning
from advisor.optimizer.search.search import compile_kernels, search
from benchmarks.reassign.bound import bound

DIGITS = 40
"""Of a number, and letters of a word, that are looked at."""
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


def whole(low: int, high: int) -> Callable[[str], int]:
    """A reader of whole numbers between two, both allowed."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and low <= int(text[:DIGITS]) <= high):
            raise ArgumentTypeError(f"a whole number from {low} to {high:,}, not {text[:DIGITS]!r}")
        return int(text)

    return read


seed = whole(0, 2**64 - 1)
"""Reads a seed of random moves."""


def writable(text: str) -> Path:
    """A file that can be written, told before the search and not after it."""
    found = Path(text)
    try:
        if not found.exists():
            found.touch()
            found.unlink()
        elif found.is_dir() or not os.access(found, os.W_OK):
            raise ArgumentTypeError(f"a file that can be written, which {text} is not")
    except OSError as error:
        raise ArgumentTypeError(f"a file that can be written, not {text[:80]!r}: {error.strerror}") from error
    return found


def keep(path: Path | None, write: Callable[[Path], None], cost: float) -> None:
    """Write what was found, if it is asked for.

    Raises:
        SystemExit: it cannot be written; with what it costs.
    """
    try:
        if path is not None:
            write(path)
    except OSError as error:
        raise SystemExit(f"{path} cannot be written: {error.strerror}; what was found costs {cost:,.10g}") from error


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
