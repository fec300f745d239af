"""Table: scores of every pod class on every node, updated by what changes. Kernel.

A class is an app, or of unknown apps a team, and whether it is best effort; all pending pods of a class score alike. A
node's scores depend on its own residents only, so after a change of one node only its column is computed again, and the
numbers are those of `ModelScorer.score`, to the bit.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.cluster.assumed_pod_load import Booked, crowded
from advisor.cluster.pending_pod import PodClass
from advisor.cluster.snapshot_diff import rows_before, same_apps, same_nodes, same_prior
from advisor.scoring.best_effort_room import after_assumed, lacks_room
from advisor.scoring.score_scale import VETO_SLOWDOWN, cost, points
from advisor.scoring.scorer import ModelScorer

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
REFERENCE = PodClass("", False)
"""By its steps classes are compared; always in a table."""
SMALLEST_STEP = 1e-4
"""A reference that adds less to itself says nothing of others."""
SAMPLED = 6
"""Nodes of each platform that steps are the mean of."""
AT_ONCE = 250
"""Nodes computed together: some 10,000 residents, so that memory stays flat."""


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
        cost: (c, n) what the points are of, see advisor.scoring.score_scale.
        platform: (n,) of each node, 0..p-1, -1 where not known.
        steps: (3, c, p) by platform how much an assumed pod on a node adds to costs there: what one of the
            reference adds to each class, what each class adds to the reference, over what that adds to itself, and what
            each class adds to itself.
    """

    version: int
    as_of_us: int
    bundle: str
    nodes: tuple[str, ...]
    known: Flags
    classes: tuple[PodClass, ...]
    points: NDArray[np.uint8]
    cost: NDArray[np.float32]
    platform: NDArray[np.int16]
    steps: NDArray[np.float32]

    def steps_added_by(self, assumed: int, platform: int) -> Floats:
        """(c,) approximate cost that an assumed pod adds to each class on a node, by class row and platform.

        Exact steps need new scores for every assumed pod. This approximation is sensitivity times pressure, until the
        pod is a resident and counts exactly. Zero where the platform is not known.

        Source: Mars et al., "Bubble-Up", MICRO 2011.
        """
        if platform < 0:
            return np.zeros(len(self.classes))
        felt, weight, alike = self.steps[:, :, platform].astype(np.float64)
        steps: Floats = felt * weight[assumed]
        steps[assumed] = alike[assumed]
        return steps

    def only(self, names: Collection[PodClass]) -> "ScoreTable":
        """The table with no other classes."""
        kept = [row for row, name in enumerate(self.classes) if name in names]
        classes = tuple(self.classes[row] for row in kept)
        return replace(self, classes=classes, points=self.points[kept], cost=self.cost[kept], steps=self.steps[:, kept])


@dataclass(frozen=True)
class Columns:
    """(c, k) points and costs of some classes on some nodes."""

    points: NDArray[np.uint8]
    cost: NDArray[np.float32]


def score_columns(scorer: ModelScorer, classes: Sequence[PodClass], nodes: NDArray[np.int32]) -> Columns:
    """Score classes on nodes.

    Args:
        scorer: scores.
        classes: (c,) classes.
        nodes: (k,) rows of the scorer's snapshot.

    Returns:
        Points and costs, those of `advisor.scoring.score_scale` for each class alone.

    Raises:
        Nothing.

    Source: ours.
    """
    found = Columns(np.zeros((len(classes), len(nodes)), np.uint8), np.zeros((len(classes), len(nodes)), np.float32))
    best_effort = scorer.snapshot.resident_best_effort
    for begin in range(0, len(nodes), AT_ONCE):
        some = slice(begin, begin + AT_ONCE)
        each = scorer.compare_each([c.pending_pod() for c in classes], nodes[some], limit=VETO_SLOWDOWN)
        for row, (of, compared) in enumerate(zip(classes, each, strict=True)):
            costs = cost(compared, best_effort=of.best_effort, resident_best_effort=best_effort)
            given = points(costs, compared.exceeds, best_effort=of.best_effort)
            found.points[row, some] = np.where(lacks_room(scorer.snapshot, of.pending_pod(), nodes[some]), 0, given)
            found.cost[row, some] = costs
    return found


def with_assumed(
    scorer: ModelScorer, booked: Iterable[Booked], nodes: Collection[str], classes: Sequence[PodClass]
) -> dict[str, dict[PodClass, tuple[int, float]]]:
    """Exact points and costs by node and class, those booked there counted as residents."""
    coming = list(booked)
    view = after_assumed(crowded(scorer.snapshot, nodes, coming), coming)
    found = score_columns(replace(scorer, snapshot=view), classes, np.arange(len(view.nodes), dtype=np.int32))
    return {
        name: {of: (int(found.points[row, at]), float(found.cost[row, at])) for row, of in enumerate(classes)}
        for at, name in enumerate(view.nodes)
    }


def begun(scorer: ModelScorer, bundle: str, classes: Sequence[PodClass]) -> ScoreTable:
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
        platform=view.node_platform.astype(np.int16),
        steps=steps_of(scorer, classes),
    )


def steps_of(scorer: ModelScorer, classes: Sequence[PodClass]) -> NDArray[np.float32]:
    """(3, c, p) steps of classes, see ScoreTable; means over a few nodes of each platform, never negative."""
    view, found = scorer.snapshot, np.zeros((3, len(classes), len(scorer.snapshot.platforms)), np.float32)
    for platform in range(len(view.platforms)):
        nodes = np.flatnonzero(view.node_known & (view.node_platform == platform))
        if len(nodes):
            some = nodes[np.linspace(0, len(nodes) - 1, min(SAMPLED, len(nodes))).astype(np.int64)]
            found[:, :, platform] = _steps_on(scorer, [view.nodes[row] for row in some], classes)
    return found


def _steps_on(scorer: ModelScorer, names: Sequence[str], classes: Sequence[PodClass]) -> Floats:
    """(3, c) steps of classes, means over nodes."""

    def costs(assumed: PodClass | None, asked: Sequence[PodClass]) -> Floats:
        assumed_pods = [] if assumed is None else [Booked("", name, assumed, 0) for name in names]
        view = crowded(scorer.snapshot, names, assumed_pods)
        rows = np.arange(len(view.nodes), dtype=np.int32)
        mean: Floats = score_columns(replace(scorer, snapshot=view), asked, rows).cost.mean(axis=1, dtype=np.float64)
        return mean

    before = costs(None, [REFERENCE, *classes])
    with_reference = costs(REFERENCE, [REFERENCE, *classes]) - before
    co_located = np.array([costs(of, [REFERENCE, of]) for of in classes]).reshape(-1, 2)
    weight = (co_located[:, 0] - before[0]) / max(float(with_reference[0]), SMALLEST_STEP)
    steps: Floats = np.maximum([with_reference[1:], weight, co_located[:, 1] - before[1:]], 0.0)
    return steps


def widened(table: ScoreTable, scorer: ModelScorer, classes: Sequence[PodClass]) -> ScoreTable:
    """The table with more classes, over the same snapshot."""
    more = begun(scorer, table.bundle, [name for name in classes if name not in table.classes])
    return replace(
        table,
        classes=table.classes + more.classes,
        points=np.concatenate([table.points, more.points]),
        cost=np.concatenate([table.cost, more.cost]),
        steps=np.concatenate([table.steps, more.steps], axis=1),
    )


def followed(table: ScoreTable, old: ModelScorer, new: ModelScorer) -> tuple[ScoreTable, int]:
    """The table over a newer snapshot, by the same model.

    Args:
        table: over the older snapshot.
        old: scorer over the older snapshot.
        new: scorer over the newer one, with the same predictor and margins of the same model.

    Returns:
        The table, of which changed nodes and classes with a changed app or cold-start prior were computed again, and
        the number of such nodes. Classes of apps and teams that are gone are dropped.

    Raises:
        Nothing.

    Source: ours.
    """
    view = new.snapshot
    apps = dict(zip(view.apps, same_apps(old.snapshot, view).tolist(), strict=True))
    prior = same_prior(old.snapshot, view)
    kept = table.only([of for of in table.classes if (apps.get(of.app) if of.app else prior.get(of.team))])
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
        platform=view.node_platform.astype(np.int16),
        steps=kept.steps if old.snapshot.platforms == view.platforms else steps_of(new, kept.classes),
    )
    return widened(moved, new, [of for of in table.classes if of.is_known(apps, prior)]), len(dirty)
