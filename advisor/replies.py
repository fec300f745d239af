"""Replies: a score table as the pieces of JSON that prioritize answers with, ready before anybody asks. Kernel."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from math import inf
from typing import NamedTuple

import msgspec

from advisor.decision import HIGHEST
from advisor.table import NewcomerClass, ScoreTable


class Said(NamedTuple):
    """What is said of a class on a node: its points, and the cost they are of."""

    points: int
    cost: float

    @property
    def order(self) -> float:
        """Lower is better: cost, and nodes of no points last."""
        return self.cost if self.points else self.cost + 1e9


Changed = Mapping[NewcomerClass, Mapping[str, Said]]
"""By class and node name what counts instead of a table."""


class _Order(dict[str, float]):
    """Order of nodes by name; one that is not known comes last."""

    def __missing__(self, _name: str) -> float:
        return inf


@dataclass(frozen=True)
class Spelled:
    """Nodes and all that may be said of each.

    Args:
        nodes: (n,) names.
        pieces: (n,) of each node `{"Host":"n17","Score":7}` with 0 to 10 points.
    """

    nodes: tuple[str, ...]
    pieces: list[tuple[bytes, ...]]


def spell(nodes: tuple[str, ...], before: Spelled | None = None) -> Spelled:
    """The pieces of nodes, taken over where they are the same nodes."""
    return before if before is not None and before.nodes == nodes else Spelled(nodes, [_spelled(n) for n in nodes])


@dataclass(frozen=True)
class _Ready:
    """One class, spelled: pieces, points and order by name of the nodes whose residents are known."""

    pieces: dict[str, bytes]
    points: dict[str, int]
    order: _Order


@dataclass
class Replies:
    """A table and what is said of its classes, spelled when a class is first asked for.

    Args:
        table: what is said.
        spelled: of the table's nodes.
        changed: what counts instead of the table.
    """

    table: ScoreTable
    spelled: Spelled
    changed: Changed = field(default_factory=dict)
    _row: dict[NewcomerClass, int] = field(init=False)
    _index: dict[str, int] = field(init=False)
    _ready: dict[NewcomerClass, _Ready] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._row = {name: row for row, name in enumerate(self.table.classes)}
        self._index = {name: at for at, name in enumerate(self.table.nodes)}

    def has(self, of: NewcomerClass) -> bool:
        """Whether the class is in the table."""
        return of in self._row

    def put(self, changed: Changed) -> None:
        """Say something else of some nodes from now on."""
        for of, said in changed.items():
            if of in self._ready:
                self._change(self._ready[of], said)

    def reply(self, of: NewcomerClass, names: Sequence[str]) -> bytes:
        """HostPriorityList of the offered names, in their order.

        A node that is not known gets the lower median of the offered ones that are, 0 where none is, as in
        `advisor.decision.points`.

        Raises:
            KeyError: the class is not in the table.
        """
        ready = self._of(of)
        found = list(map(ready.pieces.get, names))
        if None in found:
            middle = _middle(ready.points[name] for name in dict.fromkeys(names) if name in ready.points)
            said: list[bytes] = [p or _piece(n, middle) for p, n in zip(found, names, strict=True)]
            return b"[" + b",".join(said) + b"]"
        return b"[" + b",".join(found) + b"]"  # type: ignore[arg-type]  # None is not among them

    def points(self, of: NewcomerClass, names: Sequence[str]) -> list[int]:
        """The points of `reply`."""
        known = self._of(of).points
        middle = _middle(known[name] for name in dict.fromkeys(names) if name in known)
        return [known.get(name, middle) for name in names]

    def best(self, of: NewcomerClass, names: Sequence[str]) -> str | None:
        """The offered node of the least cost, those without points last; None where none is known."""
        order = self._of(of).order
        chosen = min(names, key=order.__getitem__, default=None)
        return chosen if chosen is not None and chosen in order else None

    def foremost(self, of: NewcomerClass, names: Iterable[str], count: int) -> list[str]:
        """So many of the names, in the order of `best`."""
        return nsmallest(count, names, key=self._of(of).order.__getitem__)

    def _of(self, of: NewcomerClass) -> _Ready:
        if of not in self._ready:
            row, table = self._row[of], self.table
            points, costs = table.points[row].tolist(), table.cost[row].tolist()
            rows = [at for at, known in enumerate(table.known.tolist()) if known]
            names = [table.nodes[at] for at in rows]
            made = _Ready(
                pieces={name: self.spelled.pieces[at][points[at]] for name, at in zip(names, rows, strict=True)},
                points={name: points[at] for name, at in zip(names, rows, strict=True)},
                order=_Order({n: Said(points[at], costs[at]).order for n, at in zip(names, rows, strict=True)}),
            )
            self._change(made, self.changed.get(of, {}))
            self._ready[of] = made
        return self._ready[of]

    def _change(self, ready: _Ready, said: Mapping[str, Said]) -> None:
        for name, new in said.items():
            if name in ready.points:
                ready.points[name], ready.order[name] = new.points, new.order
                ready.pieces[name] = self.spelled.pieces[self._index[name]][new.points]


def spelled_reply(names: Sequence[str], points: Mapping[str, int]) -> bytes:
    """HostPriorityList of names, by points of each."""
    return b"[" + b",".join(_piece(name, points[name]) for name in names) + b"]"


def neutral(names: Sequence[str]) -> bytes:
    """0 for every offered name."""
    return b"[" + b",".join(_piece(name, 0) for name in names) + b"]"


def _middle(points: Iterable[int]) -> int:
    known = sorted(points)
    return known[(len(known) - 1) // 2] if known else 0


def _piece(name: str, points: int) -> bytes:
    return b'{"Host":%b,"Score":%d}' % (msgspec.json.encode(name), points)


def _spelled(name: str) -> tuple[bytes, ...]:
    return tuple(_piece(name, points) for points in range(HIGHEST + 1))
