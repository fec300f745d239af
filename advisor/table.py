"""Table: scores of every class of newcomers on every node, kept up to date by what changes. Kernel.

A class is an app and whether it is best effort; all newcomers of a class score alike. A node's scores depend on its own
residents only, so after a change of one node only its column is computed again, and the numbers are those of
`ModelScorer.score`, to the bit.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.changes import rows_before, same_apps, same_nodes
from advisor.decision import cost, points
from advisor.scoring import ModelScorer, Newcomer

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
AT_ONCE = 250
"""Nodes computed together: some 10,000 residents, so that memory stays flat."""


class NewcomerClass(NamedTuple):
    """What newcomers of one class have in common; an empty app stands for apps that the snapshot does not know."""

    app: str
    best_effort: bool

    def newcomer(self) -> Newcomer:
        """One of them."""
        return Newcomer(self.app, None, self.best_effort)


@dataclass(frozen=True)
class ScoreTable:
    """Scores by class and node.

    Args:
        version: of the snapshot.
        as_of_us: newest message behind the snapshot, microseconds since 1970.
        bundle: name of the bundle that scored.
        nodes: (n,) names.
        known: (n,) whether it is known who lives there.
        classes: (c,) in no order.
        points: (c, n) 0 to 10.
        cost: (c, n) what the points are of, see advisor.decision.
    """

    version: int
    as_of_us: int
    bundle: str
    nodes: tuple[str, ...]
    known: Flags
    classes: tuple[NewcomerClass, ...]
    points: NDArray[np.uint8]
    cost: NDArray[np.float32]

    def only(self, names: Collection[NewcomerClass]) -> "ScoreTable":
        """The table with no other classes."""
        kept = [row for row, name in enumerate(self.classes) if name in names]
        classes = tuple(self.classes[row] for row in kept)
        return replace(self, classes=classes, points=self.points[kept], cost=self.cost[kept])


@dataclass(frozen=True)
class Columns:
    """(c, k) points and costs of some classes on some nodes."""

    points: NDArray[np.uint8]
    cost: NDArray[np.float32]


def class_of(newcomer: Newcomer, apps: dict[str, int]) -> NewcomerClass:
    """The class of a newcomer among a snapshot's apps."""
    return NewcomerClass(newcomer.app if newcomer.app in apps else "", newcomer.best_effort)


def score_columns(scorer: ModelScorer, classes: Sequence[NewcomerClass], nodes: NDArray[np.int32]) -> Columns:
    """Score classes on nodes.

    Args:
        scorer: scores.
        classes: (c,) classes.
        nodes: (k,) rows of the scorer's snapshot.

    Returns:
        Points and costs, those of `advisor.decision` for each class alone.

    Raises:
        Nothing.

    Source: ours.
    """
    found = Columns(np.zeros((len(classes), len(nodes)), np.uint8), np.zeros((len(classes), len(nodes)), np.float32))
    best_effort = scorer.snapshot.resident_best_effort
    for begin in range(0, len(nodes), AT_ONCE):
        some = slice(begin, begin + AT_ONCE)
        each = scorer.score_each([c.newcomer() for c in classes], nodes[some], now_us=0)
        for row, (of, scores) in enumerate(zip(classes, each, strict=True)):
            costs = cost(scores, best_effort=of.best_effort, resident_best_effort=best_effort)
            found.points[row, some] = points(costs, scores.node_bound, best_effort=of.best_effort)
            found.cost[row, some] = costs
    return found


def begun(scorer: ModelScorer, bundle: str, classes: Sequence[NewcomerClass]) -> ScoreTable:
    """A table of some classes over all nodes of a scorer's snapshot."""
    view = scorer.snapshot
    found = score_columns(scorer, classes, np.arange(len(view.nodes), dtype=np.int32))
    return ScoreTable(
        version=view.version,
        as_of_us=view.as_of_us,
        bundle=bundle,
        nodes=view.nodes,
        known=np.asarray(view.node_known),
        classes=tuple(classes),
        points=found.points,
        cost=found.cost,
    )


def widened(table: ScoreTable, scorer: ModelScorer, classes: Sequence[NewcomerClass]) -> ScoreTable:
    """The table with more classes, over the same snapshot."""
    more = begun(scorer, table.bundle, [name for name in classes if name not in table.classes])
    return replace(
        table,
        classes=table.classes + more.classes,
        points=np.concatenate([table.points, more.points]),
        cost=np.concatenate([table.cost, more.cost]),
    )


def followed(table: ScoreTable, old: ModelScorer, new: ModelScorer) -> tuple[ScoreTable, int]:
    """The table over a newer snapshot, by the same model.

    Args:
        table: over the older snapshot.
        old: scorer over the older snapshot.
        new: scorer over the newer one, with the same predictor and margins of the same model.

    Returns:
        The table, of which nodes that changed and classes whose app changed were computed again, and the number of
        such nodes. Classes of apps that are gone are dropped.

    Raises:
        Nothing.

    Source: ours.
    """
    view = new.snapshot
    stay = dict(zip(view.apps, same_apps(old.snapshot, view).tolist(), strict=True)) | {"": True}
    kept = table.only([name for name in table.classes if stay.get(name.app, False)])
    dirty = np.flatnonzero(~same_nodes(old.snapshot, view) & view.node_known).astype(np.int32)
    at = np.maximum(rows_before(old.snapshot, view), 0)
    points, costs = kept.points[:, at], kept.cost[:, at]
    again = score_columns(new, kept.classes, dirty)
    points[:, dirty], costs[:, dirty] = again.points, again.cost
    moved = replace(
        kept,
        version=view.version,
        as_of_us=view.as_of_us,
        nodes=view.nodes,
        known=np.asarray(view.node_known),
        points=points,
        cost=costs,
    )
    return widened(moved, new, [name for name in table.classes if name.app in stay]), len(dirty)
