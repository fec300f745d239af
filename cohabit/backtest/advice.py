"""Advice: our own policy: the product's scorer over the snapshot it would have, queried like a scheduler.

What it sees is what was measured; nothing here knows the world's law.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from advisor.cluster.assumed_pod_load import Booked
from advisor.cluster.pending_pod import PodClass
from advisor.cluster.snapshot import Snapshot
from advisor.scoring.loaded_model import open_model
from advisor.scoring.score_table import score_columns, with_assumed
from advisor.scoring.scorer import ModelScorer
from advisor.scoring.served_margins import served_margins
from cohabit.backtest.history import CLUSTER, Learnt
from cohabit.backtest.sight import Floats, Ints, Measured, Sight
from features.contention.node_state import capacities
from features.training.model_input import PROFILE_COLUMNS, node_matrix
from features.training.residents import described
from ingest.simulator.law import PLATFORMS
from ingest.simulator.messages import app_name, node_name, team_name

FAR_FUTURE_US = 2**62
POINT = 1e3
"""One point more is better than any cost less."""


@dataclass(frozen=True)
class Scorers:
    """Makes the product's scorer for what was measured.

    Args:
        empty: a scorer over a snapshot without nodes, with the profiles of all apps.
        facts: (platforms, 4) of nodes, see features.training.model_input.
        capacity: (platforms, resources) of nodes.
        best_effort: (a,) class of each app.
    """

    empty: ModelScorer
    facts: Floats
    capacity: Floats
    best_effort: NDArray[np.bool_]

    def over(self, measured: Measured, platform: Ints) -> ModelScorer:
        """A scorer over the snapshot that a refresher would publish of such residents."""
        order = np.argsort(measured.node, kind="stable")
        count = np.bincount(measured.node, minlength=len(platform))
        app = measured.app[order]
        view = replace(
            self.empty.snapshot,
            nodes=tuple(node_name(node) for node in range(len(platform))),
            containers=tuple(map(str, range(len(order)))),
            cpusets=(None,) * len(order),
            node_platform=platform,
            node_capacity=self.capacity[platform],
            node_facts=self.facts[platform],
            node_seen_us=np.zeros(len(platform), np.int64),
            node_known=np.ones(len(platform), np.bool_),
            first=np.append(0, np.cumsum(count)).astype(np.int64),
            resident_app=app,
            resident_best_effort=self.best_effort[app],
            resident_use=measured.use[order],
        )
        return replace(self.empty, snapshot=view)


def scorers_of(learnt: Learnt, best_effort: NDArray[np.bool_]) -> Scorers:
    """Scorers by what was learnt from a history."""
    bundle = learnt.registry.current()
    assert bundle is not None  # noqa: S101 - a history ends with one
    model = open_model(bundle)
    nodes, names = learnt.lake.read("nodes"), tuple(app_name(app) for app in range(len(best_effort)))
    where = nodes.take(pa.array([pc.index(nodes["platform"], p.name).as_py() for p in PLATFORMS]))
    platforms = tuple(p.name for p in PLATFORMS)
    keys = pa.table(
        {
            "cluster": [CLUSTER] * (len(names) * len(platforms)),
            "app": np.repeat(names, len(platforms)),
            "team": np.repeat([team_name(app) for app in range(len(names))], len(platforms)),
            "platform": list(platforms) * len(names),
        }
    )
    profile = described(keys, np.full(keys.num_rows, FAR_FUTURE_US), learnt.lake.read("profiles"))
    empty = Snapshot(
        version=1,
        as_of_us=0,
        cluster=CLUSTER,
        nodes=(),
        platforms=platforms,
        apps=names,
        containers=(),
        cpusets=(),
        node_platform=np.zeros(0, np.int64),
        node_capacity=np.zeros((0, 0)),
        node_facts=np.zeros((0, 4)),
        node_seen_us=np.zeros(0, np.int64),
        node_known=np.zeros(0, np.bool_),
        first=np.zeros(1, np.int64),
        resident_app=np.zeros(0, np.int64),
        resident_best_effort=np.zeros(0, np.bool_),
        resident_use=np.zeros((0, 0)),
        profile=profile.reshape(len(names), len(platforms), len(PROFILE_COLUMNS)),
    )
    margins = served_margins(model.entry, CLUSTER, names, platforms)
    return Scorers(
        ModelScorer(empty, model.predictor, margins, model.node), node_matrix(where), capacities(where), best_effort
    )


@dataclass
class Advisor:
    """What the product answers, interval after interval.

    Args:
        scorers: by what was learnt.
    """

    scorers: Scorers
    _seen: Measured | None = field(default=None, init=False)
    _scorer: ModelScorer | None = field(default=None, init=False)
    _columns: dict[int, tuple[Floats, Floats]] = field(default_factory=dict, init=False)
    """Points and costs of all nodes by app, without assumed pods."""
    _crowded: dict[tuple[int, int], tuple[bytes, float, float]] = field(default_factory=dict, init=False)
    """By node and app: assumed pods there, and points and cost with them."""

    def blind(self, sight: Sight, app: int, nodes: Ints) -> Floats:
        """Without a guard: what was measured is all there is, and of equal points any will do. See Policy."""
        points, _ = self._scored(sight, app)
        return -points[nodes]

    def guarded(self, sight: Sight, app: int, nodes: Ints) -> Floats:
        """As served: assumed pods count as residents; ties in points are broken by cost. See Policy."""
        points, costs = (column[nodes] for column in self._scored(sight, app))
        coming = sight.pending(nodes)
        rows = np.flatnonzero(coming.any(axis=1))
        self._count(app, [(int(nodes[row]), coming[row]) for row in rows])
        for row in rows:
            _, points[row], costs[row] = self._crowded[int(nodes[row]), app]
        return costs - POINT * points

    def _scored(self, sight: Sight, app: int) -> tuple[Floats, Floats]:
        """Points and costs on nodes as of the last measurement; of the whole queue at once, which is cheaper.

        Nodes without room for the smallest container of the queue are not candidates, and not scored.
        """
        if sight.residents is not self._seen:
            self._seen, self._columns, self._crowded = sight.residents, {}, {}
            self._scorer = self.scorers.over(sight.residents, sight.platform)
        if app not in self._columns:
            asked = list(dict.fromkeys(one for one in (app, *sight.queue) if one not in self._columns))
            roomy = np.flatnonzero((sight.capacity - sight.requested >= sight.request[asked].min(axis=0)).all(axis=1))
            found = score_columns(self._live, [self._class(one) for one in asked], roomy.astype(np.int32))
            points = np.zeros((len(asked), len(sight.platform)))
            costs = np.full_like(points, np.inf)
            points[:, roomy], costs[:, roomy] = found.points, found.cost
            self._columns |= {one: (points[i], costs[i]) for i, one in enumerate(asked)}
        return self._columns[app]

    @property
    def _live(self) -> ModelScorer:
        assert self._scorer is not None  # noqa: S101 - created at the first measurement
        return self._scorer

    def _class(self, app: int) -> PodClass:
        return PodClass(app_name(app), bool(self.scorers.best_effort[app]))

    def _count(self, app: int, coming: Sequence[tuple[int, Ints]]) -> None:
        """Score an app again on nodes whose assumed pods have changed since its last score."""
        none = (b"", 0.0, 0.0)
        stale = [(node, who) for node, who in coming if self._crowded.get((node, app), none)[0] != who.tobytes()]
        if not stale:
            return
        booked = [
            Booked(f"{node}-{one}-{number}", node_name(node), self._class(int(one)), 0)
            for node, who in stale
            for one in np.flatnonzero(who)
            for number in range(int(who[one]))
        ]
        exact = with_assumed(self._live, booked, [node_name(node) for node, _ in stale], [self._class(app)])
        for node, who in stale:
            points, cost = exact[node_name(node)][self._class(app)]
            self._crowded[node, app] = who.tobytes(), points, cost
