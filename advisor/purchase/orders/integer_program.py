"""A mixed-integer program that is written row by row, with a label per row."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from advisor.purchase.instance import Floats, Ints
from advisor.purchase.linear_program import Program as LinearProgram
from advisor.purchase.linear_program import Terms, solved

LEAST_S, SEED = 0.1, 1


class Label(NamedTuple):
    """What a row limits: a resource, and where or when; empty for rows that only connect variables."""

    resource: str = ""
    rack: int = -1
    period: int = -1
    item: int = -1


UNNAMED = Label()


class Solution(NamedTuple):
    """A solution and what is proved of it.

    Args:
        value: (v,) variables; empty where no solution was found.
        cost: of the solution; infinite without one.
        bound: no solution costs less.
    """

    value: Floats
    cost: float
    bound: float


@dataclass
class Program:
    """Variables and rows; a minimum is sought."""

    cost: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    variables: list[Ints] = field(default_factory=list)
    factors: list[Floats] = field(default_factory=list)
    bounds: list[tuple[float, float]] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)

    def add(self, cost: Sequence[float] | Floats, high: float = np.inf, *, integer: bool = True) -> Ints:
        """New variables from 0 to `high`, by their index."""
        first = len(self.cost)
        self.cost += [float(one) for one in cost]
        self.low += [0.0] * len(cost)
        self.high += [high] * len(cost)
        self.integer += [integer] * len(cost)
        return np.arange(first, len(self.cost))

    def limit(self, variables: Ints, factors: Floats | float, low: float, high: float, label: Label = UNNAMED) -> None:
        """A sum of variables, each once, between two bounds."""
        self.variables.append(np.asarray(variables, np.int64).ravel())
        self.factors.append(np.broadcast_to(np.asarray(factors, np.float64), self.variables[-1].shape))
        self.bounds.append((low, high))
        self.labels.append(label)

    def solve(self, seconds: float, start: Floats | None = None) -> Solution:
        """The best solution within a time, perhaps from a solution that is known; see `solved`."""
        found = solved(self._program(), np.array(self.integer, bool), max(seconds, LEAST_S), SEED, start)
        return Solution(found.variable, found.value, found.bound)

    def shadow_prices(self, seconds: float) -> Floats:
        """(rows,) what one more of each row's bound costs, below 0 what it saves, when variables may be parts."""
        price = solved(self._program(), None, max(seconds, LEAST_S), SEED).price
        return price if len(price) == len(self.bounds) else np.zeros(len(self.bounds))

    def _program(self) -> LinearProgram:
        bounds = np.array(self.bounds, np.float64).reshape(-1, 2)
        rows = np.repeat(np.arange(len(self.variables)), [len(row) for row in self.variables])
        none = [np.empty(0, np.int64)]
        entries = Terms(rows, np.concatenate(self.variables or none), np.concatenate(self.factors or none))
        cost, high = np.array(self.cost), np.array(self.high)
        return LinearProgram(cost, high, bounds[:, 0], bounds[:, 1], entries, np.array(self.low))
