"""Replies: what a score table says to prioritize, put together without a loop over nodes. Kernel.

`{"Host":"n17","Score": 7},` is spelled once for every node, all equally long; a reply is those of the offered nodes,
one after the other, with their points filled in. JSON does not mind the blanks.
"""

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from advisor.cluster.assumed_pod_load import Booked
from advisor.cluster.pending_pod import PodClass
from advisor.scoring.score_scale import HIGHEST, points_at
from advisor.scoring.score_table import ScoreTable

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
VETOED = 1e9
"""Added to the cost of nodes without points, so that they come last."""
NO_NODE = -1
"""Row of a node that the table does not hold."""
SMALLEST, LARGEST_BEND = 1e-6, 1e3
DIGITS = np.array([list(b"%2d" % points) for points in range(HIGHEST + 1)], np.uint8)
"""Two places for each number of points."""
END = b"  },"
"""Of each piece, with the places of the points."""
POINTS = slice(-len(END), -len(END) + 2)


@dataclass(frozen=True)
class Spelled:
    """Nodes and the piece of each.

    Args:
        nodes: (n,) names.
        row: of each name.
        pieces: (n, w) bytes of `{"Host":"n17","Score":__},`, blanks before the points.
    """

    nodes: tuple[str, ...]
    row: Mapping[str, int]
    pieces: Bytes


def spell(nodes: tuple[str, ...], before: Spelled | None = None) -> Spelled:
    """The pieces of nodes, taken over where they are the same nodes."""
    if before is not None and before.nodes == nodes:
        return before
    begin = [b'{"Host":%b,"Score":' % msgspec.json.encode(name) for name in nodes]
    widest = max(map(len, begin), default=0)
    text = b"".join(start.ljust(widest) + END for start in begin)
    return Spelled(
        nodes=nodes,
        row={name: row for row, name in enumerate(nodes)},
        pieces=np.frombuffer(text, np.uint8).reshape(len(nodes), widest + len(END)),
    )


@dataclass(frozen=True, slots=True)
class Column:
    """Scores of one node with its assumed pods, in the order of the table's classes.

    `points` are one byte each, `cost` little-endian float64, VETOED more where there are no points. `fix` is how much
    more an assumed pod adds than its step.
    """

    node: str
    points: bytes
    cost: bytes
    fix: float


@dataclass
class Replies:
    """A table, and the assumed pods that it does not count.

    Args:
        table: what is said.
        spelled: of the table's nodes.
    """

    table: ScoreTable
    spelled: Spelled
    row_of: Mapping[PodClass, int] = field(init=False)
    """Row of each class of the table."""
    _points: Bytes = field(init=False)
    _cost: NDArray[np.float64] = field(init=False)
    _all_known: bool = field(init=False)
    _added: dict[int, NDArray[np.float64]] = field(init=False, default_factory=dict)
    """By row of a node the cost that its assumed pods add to every class, by steps."""
    _bend: dict[int, float] = field(init=False, default_factory=dict)
    """By row of a node how much more they truly add."""
    _steps: dict[tuple[int, int], NDArray[np.float64]] = field(init=False, default_factory=dict)
    """By row of an assumed class and platform what one of it adds."""

    def __post_init__(self) -> None:
        self.row_of = {name: row for row, name in enumerate(self.table.classes)}
        self._points = self.table.points.copy()
        self._all_known = bool(self.table.known.all())
        self._cost = self.table.cost + VETOED * (self.table.points == 0)

    def rows(self, names: Sequence[str]) -> Ints:
        """(k,) row of each name, -1 where the table does not hold it or knows no container of it."""
        find = self.spelled.row.get
        if self._all_known:
            with contextlib.suppress(TypeError):  # a name is missing; the slower path finds which
                return np.fromiter(map(find, names), np.int64, len(names))
        rows = np.array([find(name, -1) for name in names], np.int64)
        return np.where(np.append(self.table.known, False)[rows], rows, -1)

    def reply(self, names: Sequence[str], rows: Ints, points: Ints) -> bytes:
        """HostPriorityList of the offered names, in their order.

        Args:
            names: (k,) offered names.
            rows: (k,) from `rows`.
            points: (k,) 0 to 10.

        Returns:
            JSON.

        Raises:
            Nothing.

        Source: ours.
        """
        if not len(names) or (rows < 0).any():
            return spelled_reply(names, points.tolist())
        said = self.spelled.pieces.take(rows, axis=0)
        said[:, POINTS] = DIGITS.take(points, axis=0)
        said[-1, -1] = ord("]")
        return b"[" + said.tobytes()

    def points(self, of: PodClass, rows: Ints) -> Ints:
        """Points of offered nodes.

        Args:
            of: a class of the table.
            rows: (k,) from `rows`.

        Returns:
            (k,) 0 to 10. A node that is not known gets the lower median of the offered ones that are, 0 where none
            is, as in `advisor.scoring.score_scale.points`.

        Raises:
            KeyError: the class is not in the table.

        Source: ours.
        """
        known = rows >= 0
        if not known.any():
            return np.zeros(len(rows), np.int64)
        points: Ints = self._points[self.row_of[of]][rows].astype(np.int64)
        if known.all():
            return points
        there = np.sort(points[known & (np.arange(len(rows)) == _first_of(rows))])
        return np.where(known, points, there[(len(there) - 1) // 2] if len(there) else 0)

    def costs(self, of: PodClass, rows: Ints) -> NDArray[np.float64]:
        """(k,) costs behind the points of known rows, with assumed pods; of vetoed nodes without the veto."""
        costs: NDArray[np.float64] = self._cost[self.row_of[of]][rows]
        return np.where(costs < VETOED / 2, costs, costs - VETOED)

    def column(self, node: str) -> Column | None:
        """Scores of a node for all classes; None where the table does not hold it."""
        if (at := self.spelled.row.get(node)) is None:
            return None
        cost = self._cost[:, at].astype("<f8").tobytes()
        return Column(node, self._points[:, at].tobytes(), cost, self._bend.get(at, 1.0))

    def vetoed(self, of: PodClass, names: Sequence[str]) -> frozenset[str]:
        """Offered nodes without points by the table alone; a node that is not known has none to lose."""
        rows = self.rows(names)
        none = (self.table.points[self.row_of[of]][rows] == 0) & (rows >= 0)
        return frozenset(names[at] for at in np.flatnonzero(none).tolist())

    def best(self, of: PodClass, rows: Ints, points: Ints) -> int:
        """Row of the node of the least cost among those of the most points; NO_NODE where none is known."""
        known = rows >= 0
        best = rows[known & (points == points[known].max(initial=0))]
        return int(best[self._cost[self.row_of[of]][best].argmin()]) if len(best) else NO_NODE

    def arrive(self, booked: Booked) -> None:
        """Count an assumed pod, approximately."""
        self._crowd(booked, 1.0)

    def arrive_all(self, booked: Iterable[Booked]) -> None:
        """`arrive` of many at once, where no assumed pod is counted yet."""
        for (node, of), count in Counter((one.node, one.of) for one in booked).items():
            at, assumed = self.spelled.row.get(node), self.row_of.get(of)
            if at is not None and assumed is not None:
                self._added[at] = self._added.get(at, 0.0) + count * self._added_by(assumed, at)
        if self._added:
            rows = np.fromiter(self._added, np.int64, len(self._added))
            self._say(rows, self._cost[:, rows] + np.array(list(self._added.values())).T)

    def leave(self, booked: Booked) -> None:
        """Take back `arrive`."""
        self._crowd(booked, -1.0)

    def correct(self, node: str, exact: Mapping[PodClass, tuple[int, float]]) -> None:
        """Take exact points and costs of some classes on a node with its assumed pods; others change in proportion.

        The model is not linear: a second assumed pod costs more or less than the first. The exact cost over the
        approximate cost of the known classes corrects the other classes.
        """
        at, rows = self.spelled.row.get(node), [self.row_of[of] for of in exact if of in self.row_of]
        if at is None or at not in self._added or not rows:
            return
        before, added = self.table.cost[:, at].astype(np.float64), self._added[at]
        costs = np.array([cost for of, (_, cost) in exact.items() if of in self.row_of])
        bend = (costs - before[rows]).sum() / max(float(added[rows].sum()), SMALLEST)
        self._bend[at] = float(np.clip(bend, 0.0, LARGEST_BEND))
        self._say(at, before + VETOED * (self.table.points[:, at] == 0) + self._bend[at] * added)
        for of, (points, cost) in exact.items():
            if of in self.row_of:
                self._cost[self.row_of[of], at] = cost if points else cost + VETOED
                self._points[self.row_of[of], at] = points

    def _crowd(self, booked: Booked, sign: float) -> None:
        """Add an assumed pod's cost to every class; a vetoed node stays vetoed."""
        at, assumed = self.spelled.row.get(booked.node), self.row_of.get(booked.of)
        if at is None or assumed is None:
            return
        step = sign * self._added_by(assumed, at)
        self._added[at] = self._added.get(at, 0.0) + step
        self._say(at, self._cost[:, at] + self._bend.get(at, 1.0) * step)

    def _added_by(self, assumed: int, at: int) -> NDArray[np.float64]:
        key = assumed, int(self.table.platform[at])
        if key not in self._steps:
            self._steps[key] = self.table.steps_added_by(*key)
        return self._steps[key]

    def _say(self, at: int | Ints, cost: NDArray[np.float64]) -> None:
        self._cost[:, at] = cost
        points = points_at(cost).astype(np.uint8)
        self._points[:, at] = np.where(cost < VETOED, points, 0)


def singled_out(points: NDArray[np.int64], best: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Points that prefer one node for a pending pod among several equally good ones.

    For a sequence of identical pending pods, each is scored with the previous one on its advised node. A scheduler
    draws among nodes of equal scores: without this it would mostly be elsewhere.

    Args:
        points: (k,) 0 to 10.
        best: (k,) the node that is meant; it has the most points.

    Returns:
        (k,) points: other nodes with the most points lose one, but none falls to 0.

    Raises:
        Nothing.

    Source: ours; `python -m benchmarks herd`.
    """
    others = (points == points[best].max(initial=0)) & ~best & (points > 1)
    return np.asarray(points - others, np.int64)


def spelled_reply(names: Sequence[str], points: Sequence[int]) -> bytes:
    """HostPriorityList of names and their points, node after node."""
    said = (b'{"Host":%b,"Score":%d}' % (msgspec.json.encode(n), p) for n, p in zip(names, points, strict=True))
    return b"[" + b",".join(said) + b"]"


def _first_of(rows: Ints) -> Ints:
    """(k,) where each row comes for the first time: a name offered twice counts once."""
    _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    found: Ints = first[inverse]
    return found
