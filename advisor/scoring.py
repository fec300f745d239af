"""Scoring: what a newcomer would suffer on each candidate node, and what it would do to its residents. Kernel."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from advisor.margins import ServedMargins
from advisor.newcomers import Newcomer
from advisor.snapshot import Snapshot
from features.catalog import NAMES, RAW_NAMES
from features.placement import complete, raw_features
from features.pressure import Members, pressures
from features.residents import DEMAND, EXPECTED_THERE
from features.training import joining_pressure
from models.link import upper_ratio
from models.predictor import Prediction, Predictor

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Source = Literal["model", "last_good", "heuristic", "neutral"]
PRESSURE_ON = {name: {f"pressure_{name}"} for name in NAMES} | {
    "cpu": {"pressure_cpu", "pressure_cpu_elsewhere", "max_neighbour_cpu"}
}
"""Raw features that stand for the pressure on a resource."""


@dataclass(frozen=True, slots=True)
class Harm:
    """What the newcomer does to residents, node after node.

    Args:
        offsets: (n + 1,) the residents of candidate i are rows offsets[i] to offsets[i + 1].
        resident: (k,) row of each resident in the snapshot.
        ratio: (k,) its expected slowdown with the newcomer over the one without, as nodes are compared by, >= 1.
    """

    offsets: NDArray[np.int32]
    resident: NDArray[np.int32]
    ratio: Floats


@dataclass(frozen=True, slots=True)
class Scores:
    """Answer for n candidate nodes, in the order asked.

    Args:
        mean: (n,) expected slowdown of the newcomer, ratio to its own normal.
        choice: (n,) the same as nodes are compared by, see models.predictor.
        upper: (n,) bound it stays below nine times in ten.
        node_bound: (n,) bound that everybody on the node stays below nine times in ten.
        harm: what happens to the residents.
        source: who answered.
        version: of the snapshot.
        age_s: since the snapshot's newest message.
    """

    mean: Floats
    choice: Floats
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
    margins: ServedMargins
    """For one container's bound."""
    node: float
    """Multiplier of spread for the bound on everybody of a node."""

    def score(self, newcomer: Newcomer, nodes: NDArray[np.int32], *, now_us: int) -> Scores:
        """See Scorer. The newcomer is known by its app's profile on each node's platform, or by its kin, only.

        Args:
            newcomer: what is to be placed.
            nodes: (n,) rows of the snapshot's nodes; the same one may be asked for twice.
            now_us: the time, for the age.

        Source: ours; harm counted in both directions.
        """
        return next(self.score_each([newcomer], nodes, now_us=now_us))

    def score_each(self, newcomers: Iterable[Newcomer], nodes: NDArray[np.int32], *, now_us: int) -> Iterator[Scores]:
        """As `score` for each newcomer alone, to the bit; what does not depend on the newcomer is computed once."""
        home = _home(self.snapshot, nodes)
        before = self._predict(home.raw(pressures(home.members)), self.snapshot.resident_app[home.resident])
        felt = _felt(self.snapshot, home, nodes)
        for newcomer in newcomers:
            yield self._scored(newcomer, nodes, _Nodes(home, before.log_choice, felt), now_us)

    def _scored(self, newcomer: Newcomer, nodes: NDArray[np.int32], found: "_Nodes", now_us: int) -> Scores:
        home, seats, count = found.home, _seats(self.snapshot, newcomer, nodes), len(found.home.members.group)
        crowded = home.raw(pressures(_joined(home.members, seats.members))[:count])
        residents, own = self.snapshot.resident_app[home.resident], self._app(newcomer, len(nodes))
        asked = self._predict(np.concatenate([crowded, seats.raw(found.felt)]), np.concatenate([residents, own]))
        worst = np.full(len(nodes), -np.inf)
        group = np.append(home.members.group, seats.members.group)
        np.maximum.at(worst, group, asked.log_mean + self.node * asked.spread)
        counts = np.bincount(home.members.group, minlength=len(nodes))
        return Scores(
            mean=asked.ratio()[count:],
            choice=np.exp(asked.log_choice[count:]),
            upper=self._upper(asked, newcomer, nodes, windows=seats.profile[:, -1]),
            node_bound=np.exp(worst),
            harm=Harm(
                offsets=np.append(0, np.cumsum(counts)).astype(np.int32),
                resident=home.resident.astype(np.int32),
                ratio=np.maximum(np.exp(asked.log_choice[:count] - found.before), 1.0),
            ),
            source="model",
            version=self.snapshot.version,
            age_s=max(0.0, (now_us - self.snapshot.as_of_us) / 1e6),
        )

    def is_of(self, snapshot: Snapshot, predictor: Predictor) -> bool:
        """Whether it scores with these very parts."""
        return self.snapshot is snapshot and self.predictor is predictor

    def newcomer_features(self, newcomer: Newcomer, nodes: NDArray[np.int32]) -> Floats:
        """(n, raw features) of the newcomer on each node; the bits that features.training computes for a label."""
        return newcomer_features(self.snapshot, newcomer, nodes)

    def factors(self, newcomer: Newcomer, nodes: NDArray[np.int32]) -> Floats:
        """(n, resources) how much of the newcomer's slowdown goes away without the pressure on one resource."""
        raw, app = self.newcomer_features(newcomer, nodes), self._app(newcomer, len(nodes))
        whole = self._predict(raw, app).ratio()
        return np.column_stack([whole - self._predict(_relieved(raw, name), app).ratio() for name in NAMES])

    def _upper(self, asked: Prediction, newcomer: Newcomer, nodes: NDArray[np.int32], *, windows: Floats) -> Floats:
        """(n,) bound of the newcomer on each node, from the last n predictions and the windows behind its profile."""
        platform = self.snapshot.node_platform[nodes]
        multiplier = self.margins.multipliers(self._app(newcomer, len(nodes)), windows, platform)
        last = len(asked.log_mean) - len(nodes)
        return upper_ratio(asked.log_mean[last:], asked.spread[last:] + self.margins.floor, multiplier)

    def _app(self, newcomer: Newcomer, count: int) -> Ints:
        """(count,) the newcomer's app, -1 where the snapshot does not know it."""
        return np.full(count, self.snapshot.app_index.get(newcomer.app, -1))

    def _predict(self, raw: Floats, app: Ints) -> Prediction:
        features = complete(raw, self.predictor.medians[: len(RAW_NAMES)])
        return self.predictor.predict(features, self.margins.own[app])


def newcomer_features(snapshot: Snapshot, newcomer: Newcomer, nodes: NDArray[np.int32]) -> Floats:
    """(n, raw features) of a newcomer on each node of a snapshot."""
    return _seats(snapshot, newcomer, nodes).raw(_felt(snapshot, _home(snapshot, nodes), nodes))


def _relieved(raw: Floats, resource: str) -> Floats:
    """Rows with no pressure on one resource."""
    relieved = raw.copy()
    relieved[:, [i for i, name in enumerate(RAW_NAMES) if name in PRESSURE_ON[resource]]] = 0.0
    return relieved


@dataclass(frozen=True, slots=True)
class _Crowd:
    """Containers on the candidate nodes, candidate after candidate; `resident` is -1 for a newcomer."""

    members: Members
    resident: Ints
    profile: Floats
    facts: Floats

    def raw(self, pressure: Floats) -> Floats:
        """(n, raw features) under the given pressures."""
        return raw_features(pressure, self.profile, self.facts)


@dataclass(frozen=True, slots=True)
class _Nodes:
    """What is the same for every newcomer: who is there, their log slowdown before, and the pressure there is."""

    home: _Crowd
    before: Floats
    felt: Floats


def _home(snapshot: Snapshot, nodes: NDArray[np.int32]) -> _Crowd:
    """The residents of each candidate."""
    start, counts = snapshot.first[nodes], snapshot.first[nodes + 1] - snapshot.first[nodes]
    group = np.repeat(np.arange(len(nodes)), counts)
    resident = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(start, counts)
    nobody = np.full(len(resident), -1)
    profile, capacity = _profiles(snapshot, snapshot.resident_app[resident], nobody, nodes[group])
    own = snapshot.resident_use[resident]
    members = Members(
        group=group,
        use=np.where(np.isfinite(own), own, profile[:, DEMAND] * capacity),
        capacity=capacity,
        best_effort=snapshot.resident_best_effort[resident],
        cpuset=[snapshot.cpusets[row] for row in resident],
    )
    return _Crowd(members, resident, profile, snapshot.node_facts[nodes[group]])


def _seats(snapshot: Snapshot, newcomer: Newcomer, nodes: NDArray[np.int32]) -> _Crowd:
    """The newcomer, once on each candidate."""
    app = np.full(len(nodes), snapshot.app_index.get(newcomer.app, -1))
    team = np.full(len(nodes), -1 if newcomer.team is None else snapshot.team_index.get(newcomer.team, -1))
    profile, capacity = _profiles(snapshot, app, team, nodes)
    members = Members(
        group=np.arange(len(nodes)),
        use=profile[:, DEMAND] * capacity,
        capacity=capacity,
        best_effort=np.full(len(nodes), newcomer.best_effort),
        cpuset=[None] * len(nodes),
    )
    return _Crowd(members, np.full(len(nodes), -1), profile, snapshot.node_facts[nodes])


def _felt(snapshot: Snapshot, home: _Crowd, nodes: NDArray[np.int32]) -> Floats:
    """(n, pressures) that any newcomer feels on each candidate. Its own use stays out of the sums, as in training."""
    return joining_pressure(home.members, np.arange(len(nodes)), snapshot.node_capacity[nodes])


def _joined(home: Members, seats: Members) -> Members:
    return Members(
        group=np.concatenate([home.group, seats.group]),
        use=np.concatenate([home.use, seats.use]),
        capacity=np.concatenate([home.capacity, seats.capacity]),
        best_effort=np.concatenate([home.best_effort, seats.best_effort]),
        cpuset=[*home.cpuset, *seats.cpuset],
    )


def _profiles(snapshot: Snapshot, app: Ints, team: Ints, nodes: NDArray[np.int32]) -> tuple[Floats, Floats]:
    """Profiles of apps on the nodes' platforms, and capacities.

    Of an app that the snapshot does not know there is what is expected of its team, and 0 windows.
    """
    apps, platforms, width = snapshot.profile.shape
    platform = snapshot.node_platform[nodes]
    profile = np.full((len(app), width), np.nan)
    profile[:, -1] = 0.0
    known = (app >= 0) & (platform >= 0)
    new = app < 0
    profile[new, EXPECTED_THERE] = snapshot.expected(team[new], platform[new])
    profile[known] = snapshot.profile.reshape(apps * platforms, width)[app[known] * platforms + platform[known]]
    return profile, snapshot.node_capacity[nodes]
