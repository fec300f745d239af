"""Scoring: what a newcomer would suffer on each candidate node, and what it would do to its residents. Kernel."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from advisor.snapshot import Snapshot
from features.catalog import NAMES, RAW_NAMES
from features.placement import complete, raw_features
from features.pressure import Members, pressures
from features.residents import DEMAND
from models.predictor import Prediction, Predictor

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Source = Literal["model", "last_good", "heuristic", "neutral"]
PRESSURE_ON = {name: {f"pressure_{name}"} for name in NAMES} | {
    "cpu": {"pressure_cpu", "pressure_cpu_elsewhere", "max_neighbour_cpu"}
}
"""Raw features that stand for the pressure on a resource."""


@dataclass(frozen=True, slots=True)
class Newcomer:
    """The container to be placed."""

    app: str
    team: str | None = None
    best_effort: bool = False


@dataclass(frozen=True, slots=True)
class Harm:
    """What the newcomer does to residents, node after node.

    Args:
        offsets: (n + 1,) the residents of candidate i are rows offsets[i] to offsets[i + 1].
        resident: (k,) row of each resident in the snapshot.
        ratio: (k,) its expected slowdown with the newcomer over the one without, >= 1.
    """

    offsets: NDArray[np.int32]
    resident: NDArray[np.int32]
    ratio: Floats


@dataclass(frozen=True, slots=True)
class Scores:
    """Answer for n candidate nodes, in the order asked.

    Args:
        mean: (n,) expected slowdown of the newcomer, ratio to its own normal.
        upper: (n,) bound it stays below nine times in ten.
        node_bound: (n,) bound that everybody on the node stays below nine times in ten.
        harm: what happens to the residents.
        source: who answered.
        version: of the snapshot.
        age_s: since the snapshot's newest message.
    """

    mean: Floats
    upper: Floats
    node_bound: Floats
    harm: Harm
    source: Source
    version: int
    age_s: float


class Scorer(Protocol):
    """Anything that scores candidates."""

    def score(self, newcomer: Newcomer, nodes: NDArray[np.int32], *, now_us: int) -> Scores:
        """Score the newcomer on each node, rows of the snapshot, at a time."""


@dataclass(frozen=True)
class ModelScorer:
    """Scores with a trained model over a snapshot."""

    snapshot: Snapshot
    predictor: Predictor
    upper: float
    """Multiplier of spread for one container's bound."""
    node: float
    """Multiplier of spread for the bound on everybody of a node."""

    def score(self, newcomer: Newcomer, nodes: NDArray[np.int32], *, now_us: int) -> Scores:
        """See Scorer. The newcomer is known by its app's profile on each node's platform only.

        Args:
            newcomer: what is to be placed.
            nodes: (n,) rows of the snapshot's nodes.
            now_us: the time, for the age.

        Source: the design, section 6; harm counted in both directions.
        """
        crowd = _crowd(self.snapshot, newcomer, nodes)
        home = np.flatnonzero(crowd.resident >= 0)
        asked = self._predict(crowd, np.arange(len(crowd.group)))
        alone = self._predict(crowd, home)
        mine = crowd.resident < 0
        worst = np.full(len(nodes), -np.inf)
        np.maximum.at(worst, crowd.group, asked.log_mean + self.node * asked.spread)
        counts = np.bincount(crowd.group[home], minlength=len(nodes))
        return Scores(
            mean=np.exp(asked.log_mean[mine]),
            upper=np.exp(asked.log_mean + self.upper * asked.spread)[mine],
            node_bound=np.exp(worst),
            harm=Harm(
                offsets=np.append(0, np.cumsum(counts)).astype(np.int32),
                resident=crowd.resident[home].astype(np.int32),
                ratio=np.maximum(np.exp(asked.log_mean[home] - alone.log_mean), 1.0),
            ),
            source="model",
            version=self.snapshot.version,
            age_s=max(0.0, (now_us - self.snapshot.as_of_us) / 1e6),
        )

    def factors(self, newcomer: Newcomer, nodes: NDArray[np.int32]) -> Floats:
        """(n, resources) how much of the newcomer's slowdown goes away without the pressure on one resource."""
        crowd = _crowd(self.snapshot, newcomer, nodes)
        raw = crowd.raw(np.arange(len(crowd.group)))[crowd.resident < 0]
        whole = self._predict_raw(raw).ratio()
        return np.column_stack([whole - self._predict_raw(_relieved(raw, name)).ratio() for name in NAMES])

    def _predict(self, crowd: "_Crowd", rows: Ints) -> Prediction:
        """What the model says of some of the crowd when only these are there."""
        return self._predict_raw(crowd.raw(rows))

    def _predict_raw(self, raw: Floats) -> Prediction:
        return self.predictor.predict(complete(raw, self.predictor.medians[: len(RAW_NAMES)]))


def _relieved(raw: Floats, resource: str) -> Floats:
    """Rows with no pressure on one resource."""
    relieved = raw.copy()
    relieved[:, [i for i, name in enumerate(RAW_NAMES) if name in PRESSURE_ON[resource]]] = 0.0
    return relieved


@dataclass(frozen=True, slots=True)
class _Crowd:
    """Everybody on the candidate nodes, candidate after candidate; `resident` is -1 for the newcomer, last on each."""

    group: Ints
    resident: Ints
    use: Floats
    capacity: Floats
    best_effort: NDArray[np.bool_]
    cpuset: list[str | None]
    profile: Floats
    facts: Floats

    def raw(self, rows: Ints) -> Floats:
        """(len(rows), raw features) of some of the crowd when only these are there."""
        cpuset = [self.cpuset[row] for row in rows]
        present = Members(self.group[rows], self.use[rows], self.capacity[rows], self.best_effort[rows], cpuset)
        return raw_features(pressures(present), self.profile[rows], self.facts[rows])


def _crowd(snapshot: Snapshot, newcomer: Newcomer, nodes: NDArray[np.int32]) -> _Crowd:
    start, end = snapshot.first[nodes], snapshot.first[nodes + 1]
    counts = end - start + 1
    group = np.repeat(np.arange(len(nodes)), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    resident = np.where(within < np.repeat(counts - 1, counts), np.repeat(start, counts) + within, -1)
    node = nodes[group]
    app = np.where(resident < 0, snapshot.app_index.get(newcomer.app, -1), _known(snapshot.resident_app, resident, -1))
    profile = _profiles(snapshot, app, snapshot.node_platform[node])
    capacity = snapshot.node_capacity[node]
    own = _known(snapshot.resident_use, resident, np.nan)
    return _Crowd(
        group=group,
        resident=resident,
        use=np.where(np.isfinite(own), own, profile[:, DEMAND] * capacity),
        capacity=capacity,
        best_effort=np.where(
            resident < 0, newcomer.best_effort, _known(snapshot.resident_best_effort, resident, fill=False)
        ),
        cpuset=[None if row < 0 else snapshot.cpusets[row] for row in resident],
        profile=profile,
        facts=snapshot.node_facts[node],
    )


def _profiles(snapshot: Snapshot, app: Ints, platform: Ints) -> Floats:
    """Profiles of apps on platforms; all missing, 0 windows, where there is none."""
    apps, platforms, width = snapshot.profile.shape
    code = np.where((app >= 0) & (platform >= 0), app * platforms + platform, -1)
    profile = _known(snapshot.profile.reshape(apps * platforms, width), code, np.nan)
    profile[:, -1] = np.nan_to_num(profile[:, -1])
    return profile


def _known(values: NDArray[Any], row: Ints, fill: float) -> NDArray[Any]:
    """Rows of an array, or the fill where the row is negative."""
    result = np.full((len(row), *values.shape[1:]), fill, values.dtype)
    result[row >= 0] = values[row[row >= 0]]
    return result


def neutral(nodes: int, *, version: int = 0, age_s: float = 0.0) -> Scores:
    """The answer that favours nobody: slowdown not known, no harm known."""
    unknown = np.full(nodes, np.nan)
    harm = Harm(np.zeros(nodes + 1, np.int32), np.zeros(0, np.int32), np.zeros(0))
    return Scores(unknown, unknown, unknown, harm, "neutral", version, age_s)
