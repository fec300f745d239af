"""The configuration program without whole numbers, solved by finding ever more ways to pack one machine."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from advisor.purchase.instance import Floats, Ints
from advisor.purchase.linear_program import INFINITE, model_of, quiet, read
from advisor.purchase.packed_columns import Columns, Wanted, configuration_program, entries_of, limited_types
from advisor.purchase.pricing import filled

TRIALS, MOST_TRIALS = 32, 1_024
"""Fillings of a machine type in a round; doubled while nothing new is found, and the end above that."""
LOOKED_AT, KEPT = 40, 4
"""Fillings of the most worth that are looked at, and columns of a type that enter in a round."""
SMOOTH = 0.7
"""Weight of older prices in every other round: plain ones swing."""
LEAST_WIN = 1e-6
SEEDS = 2**62


class Relaxed(NamedTuple):
    """The configuration program where machines are divisible.

    Args:
        cost: with the columns known.
        used: (c,) machines of each column.
        worth: (n,) what one pod more of each shape costs.
        scarce: (m,) what one machine more of a limited type saves.
    """

    cost: float
    used: Floats
    worth: Floats
    scarce: Floats


def generated(
    columns: Columns, wanted: Wanted, worth: Floats, rng: np.random.Generator, over: Callable[[], bool]
) -> Relaxed:
    """Find columns until none is found that pays, or time is over.

    Args:
        columns: those known; new ones are added, none with more pods than wanted.
        wanted: pods and machines.
        worth: (n,) first guess of what a pod of each shape costs.
        rng: of the fillings.
        over: whether to end; one round is always made.

    Returns:
        The program's solution with all columns. Its cost is no bound: better columns may exist.

    Raises:
        Nothing.

    Source: column generation of Gilmore and Gomory, 1961, with smoothed prices, Wentges, "Weighted Dantzig-Wolfe
    decomposition for linear mixed-integer programming", 1997.
    """
    master, finder = _Master(columns, wanted), _Finder(columns, wanted.pods, rng)
    found, smooth, trials, round_ = Relaxed(0.0, np.zeros(0), worth, np.zeros(len(wanted.most))), worth, TRIALS, 0
    while trials <= MOST_TRIALS:
        new = finder.add(found, smooth if round_ % 2 else found.worth, trials)
        found = master.solve()
        smooth = SMOOTH * smooth + (1.0 - SMOOTH) * found.worth
        trials, round_ = trials if new else 2 * trials, round_ + 1
        if over():
            break
    return found


class _Master:
    """The program with its columns so far; each solution begins from the one before."""

    def __init__(self, columns: Columns, wanted: Wanted) -> None:
        self._columns, self._most, self._shapes = columns, wanted.most, len(wanted.pods)
        self._solver, self._known = quiet(INFINITE, 0), len(columns)
        self._solver.passModel(model_of(configuration_program(columns, wanted), None))

    def solve(self) -> Relaxed:
        """With all columns that there are now."""
        price = self._columns.price
        for at in range(self._known, len(self._columns)):
            rows, factors = entries_of(self._columns, at, self._most)
            self._solver.addCol(float(price[at]), 0.0, INFINITE, len(rows), rows.astype(np.int32), factors)
        self._known = len(self._columns)
        self._solver.run()
        found = read(self._solver, mixed=False)
        scarce = np.zeros(len(self._most))
        scarce[limited_types(self._most)] = np.maximum(-found.price[self._shapes :], 0.0)
        worth = np.maximum(found.price[: self._shapes], 0.0)
        return Relaxed(found.value, found.variable[self._shapes :], worth, scarce)


class _Finder:
    """Fills machines of every type, and keeps what pays."""

    def __init__(self, columns: Columns, pods: Ints, rng: np.random.Generator) -> None:
        of, types = columns.instance.shapes, columns.instance.types
        self._columns, self._pods, self._rng = columns, pods, rng
        self._sizes = np.column_stack([of.cpu, of.memory, of.devices, of.share])
        self._machines = np.column_stack([types.cpu, types.memory, types.devices])

    def add(self, now: Relaxed, worth: Floats, trials: int) -> int:
        """Add fillings that pay by the prices now, found by the given ones; how many were new."""
        before = len(self._columns)
        for kind, price in enumerate(self._columns.instance.types.price.tolist()):
            least = price + now.scarce[kind] + LEAST_WIN if before else 0.0
            self._add(kind, worth, trials, now.worth, least)
        return len(self._columns) - before

    def _add(self, kind: int, worth: Floats, trials: int, now: Floats, least: float) -> None:
        """The same of one type, for fillings worth more than `least`."""
        packed, value = np.zeros((trials, len(self._pods)), np.int64), np.zeros(trials)
        may = np.where(self._columns.instance.allowed[:, kind], worth, 0.0)
        seed = int(self._rng.integers(1, SEEDS))
        filled(self._sizes, may, self._pods, self._machines[kind], seed, packed, value)
        before = len(self._columns)
        for at in np.argsort(-value)[:LOOKED_AT].tolist():
            if len(self._columns) - before < KEPT and packed[at] @ now > least:
                self._columns.add(kind, packed[at])
