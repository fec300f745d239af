"""Ways to pack one machine, and the configuration program that chooses among them."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from advisor.purchase.instance import NO_LIMIT, Floats, Instance, Ints
from advisor.purchase.linear_program import INFINITE, Program, Terms

HOMELESS = 100.0
"""Price of a pod that is on no machine, in prices of the dearest one."""


@dataclass
class Columns:
    """Ways to pack one machine, each of them once.

    Args:
        instance: what is packed.
    """

    instance: Instance
    kind: list[int] = field(default_factory=list, init=False)
    """Machine type of each."""
    packed: list[Ints] = field(default_factory=list, init=False)
    """(n,) pods of each shape on it."""
    _known: dict[tuple[int, bytes], int] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.kind)

    def add(self, kind: int, packed: Ints) -> int:
        """Which column it is; a new one stands behind all others."""
        key = (kind, packed.tobytes())
        if key not in self._known:
            self._known[key] = len(self.kind)
            self.kind.append(kind)
            self.packed.append(packed.copy())
        return self._known[key]

    @property
    def kinds(self) -> Ints:
        """(c,) machine type of each."""
        return np.array(self.kind, np.int64)

    @property
    def matrix(self) -> Ints:
        """(c, n) pods of each shape."""
        return np.array(self.packed, np.int64).reshape(-1, len(self.instance.shapes.pods))

    @property
    def price(self) -> Floats:
        """(c,) of each one's machine."""
        return self.instance.types.price[self.kinds]

    @property
    def homeless(self) -> float:
        """What a pod on no machine costs."""
        return HOMELESS * max(float(self.instance.types.price.max(initial=0.0)), 1.0)


class Wanted(NamedTuple):
    """What is to be packed, and onto how many machines.

    Args:
        pods: (n,) of each shape.
        most: (m,) machines of each type.
    """

    pods: Ints
    most: Ints


def limited_types(most: Ints) -> Ints:
    """Types of which not any number can be had; each has a row behind those of shapes."""
    return np.flatnonzero(most < NO_LIMIT)


def entries_of(columns: Columns, at: int, most: Ints) -> tuple[Ints, Floats]:
    """Rows and factors of a column."""
    rows = np.flatnonzero(columns.packed[at])
    factors = columns.packed[at][rows].astype(np.float64)
    if most[columns.kind[at]] < NO_LIMIT:
        row = len(columns.packed[at]) + int(np.searchsorted(limited_types(most), columns.kind[at]))
        rows, factors = np.append(rows, row), np.append(factors, 1.0)
    return rows, factors


def configuration_program(columns: Columns, wanted: Wanted) -> Program:
    """The least cost of machines that hold pods; over-full coverage is free.

    Args:
        columns: c ways to pack one machine.
        wanted: pods and machines.

    Returns:
        The program. Its variables are pods of each shape on no machine, then machines of each column; its rows are
        shapes, then limited types.

    Raises:
        Nothing.

    Source: Gilmore and Gomory, "A linear programming approach to the cutting stock problem", 1961.
    """
    n, limited = len(wanted.pods), limited_types(wanted.most)
    found = [entries_of(columns, at, wanted.most) for at in range(len(columns))]
    length = np.array([len(rows) for rows, _ in found], np.int64)
    return Program(
        cost=np.concatenate([np.full(n, columns.homeless), columns.price]),
        most=np.full(n + len(columns), INFINITE),
        low=np.concatenate([wanted.pods.astype(np.float64), np.full(len(limited), -INFINITE)]),
        high=np.concatenate([np.full(n, INFINITE), wanted.most[limited].astype(np.float64)]),
        terms=Terms(
            np.concatenate([np.arange(n), *(rows for rows, _ in found)]),
            np.concatenate([np.arange(n), n + np.repeat(np.arange(len(columns)), length)]),
            np.concatenate([np.ones(n), *(factors for _, factors in found)]),
        ),
    )
