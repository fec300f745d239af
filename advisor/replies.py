"""Replies: what a score table says to prioritize, put together without a loop over nodes. Kernel.

`{"Host":"n17","Score":7},` is spelled once for every node, all equally long; a reply is those of the offered nodes, one
after the other, with their points filled in. JSON does not mind the blanks.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from advisor.booking import Booked
from advisor.decision import HIGHEST
from advisor.newcomers import NewcomerClass
from advisor.table import ScoreTable

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
VETOED = 1e9
"""Added to the cost of nodes without points, so that they come last."""
DIGITS = np.array([list(b"%-2d" % points) for points in range(HIGHEST + 1)], np.uint8)
"""Two places for each number of points."""


@dataclass(frozen=True)
class Spelled:
    """Nodes and the piece of each.

    Args:
        nodes: (n,) names.
        row: of each name.
        pieces: (n, w) bytes of `{"Host":"n17","Score":__},`, blanks before the comma.
        places: (n, 2) where the points go.
    """

    nodes: tuple[str, ...]
    row: Mapping[str, int]
    pieces: Bytes
    places: Ints


def spell(nodes: tuple[str, ...], before: Spelled | None = None) -> Spelled:
    """The pieces of nodes, taken over where they are the same nodes."""
    if before is not None and before.nodes == nodes:
        return before
    begin = [b'{"Host":%b,"Score":' % msgspec.json.encode(name) for name in nodes]
    widest = max(map(len, begin), default=0) + len(b"10},")
    text = b"".join((start + b"  }").ljust(widest - 1) + b"," for start in begin)
    place = np.array([len(start) for start in begin], np.int64).reshape(-1, 1)
    return Spelled(
        nodes=nodes,
        row={name: row for row, name in enumerate(nodes)},
        pieces=np.frombuffer(text, np.uint8).reshape(len(nodes), widest),
        places=place + np.arange(2),
    )


@dataclass
class Replies:
    """A table, and the newcomers on their way that it does not count.

    Args:
        table: what is said.
        spelled: of the table's nodes.
    """

    table: ScoreTable
    spelled: Spelled
    _row: dict[NewcomerClass, int] = field(init=False)
    _points: Bytes = field(init=False)
    _cost: NDArray[np.float64] = field(init=False)
    _all_known: bool = field(init=False)

    def __post_init__(self) -> None:
        self._row = {name: row for row, name in enumerate(self.table.classes)}
        self._points = self.table.points.copy()
        self._all_known = bool(self.table.known.all())
        self._cost = self.table.cost + VETOED * (self.table.points == 0)

    def has(self, of: NewcomerClass) -> bool:
        """Whether the class is in the table."""
        return of in self._row

    def rows(self, names: Sequence[str]) -> Ints:
        """(k,) row of each name, -1 where the table does not hold it or knows nobody of it."""
        find = self.spelled.row.get
        if self._all_known:
            with contextlib.suppress(TypeError):  # of a name that is not there, and the slower way tells which
                return np.fromiter(map(find, names), np.int64, len(names))
        rows = np.array([find(name, -1) for name in names], np.int64)
        return np.where(np.append(self.table.known, False)[rows], rows, -1)

    def reply(self, of: NewcomerClass, names: Sequence[str], rows: Ints) -> bytes:
        """HostPriorityList of the offered names, in their order.

        Args:
            of: a class of the table.
            names: (k,) offered names.
            rows: (k,) from `rows`.

        Returns:
            JSON. A node that is not known gets the lower median of the offered ones that are, 0 where none is, as in
            `advisor.decision.points`.

        Raises:
            KeyError: the class is not in the table.

        Source: ours.
        """
        points = self.points(of, rows)
        if not len(names) or (rows < 0).any():
            return spelled_reply(names, points.tolist())
        said = self.spelled.pieces[rows]
        said[np.arange(len(rows))[:, None], self.spelled.places[rows]] = DIGITS[points]
        said[-1, -1] = ord("]")
        return b"[" + said.tobytes()

    def points(self, of: NewcomerClass, rows: Ints) -> Ints:
        """(k,) the points of `reply`."""
        points: Ints = self._points[self._row[of]][rows].astype(np.int64)
        known = rows >= 0
        if known.all():
            return points
        there = np.sort(points[known & (np.arange(len(rows)) == _first_of(rows))])
        return np.where(known, points, there[(len(there) - 1) // 2] if len(there) else 0)

    def best(self, of: NewcomerClass, rows: Ints) -> int:
        """Row of the node of the least cost, those without points last; -1 where none is known."""
        known = rows[rows >= 0]
        return int(known[self._cost[self._row[of]][known].argmin()]) if len(known) else -1

    def arrive(self, booked: Booked) -> None:
        """Count a newcomer that is on its way."""
        self._crowd(booked, 1.0)

    def leave(self, booked: Booked) -> None:
        """Take back `arrive`."""
        self._crowd(booked, -1.0)

    def _crowd(self, booked: Booked, sign: float) -> None:
        """Add what a guest costs every class; a node that was vetoed stays so."""
        node, guest = self.spelled.row.get(booked.node), self._row.get(booked.of)
        if node is None or guest is None:
            return
        cost = self._cost[:, node] + sign * self.table.steps_beside(guest, int(self.table.platform[node]))
        self._cost[:, node] = cost
        points = np.rint(HIGHEST * np.exp(-np.maximum(cost, 0.0))).astype(np.uint8)
        self._points[:, node] = np.where(cost < VETOED, points, 0)


def spelled_reply(names: Sequence[str], points: Sequence[int]) -> bytes:
    """HostPriorityList of names and their points, node after node."""
    said = (b'{"Host":%b,"Score":%d}' % (msgspec.json.encode(n), p) for n, p in zip(names, points, strict=True))
    return b"[" + b",".join(said) + b"]"


def _first_of(rows: Ints) -> Ints:
    """(k,) where each row comes for the first time: a name offered twice counts once."""
    _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    found: Ints = first[inverse]
    return found
