"""Scoring: a pending pod's expected slowdown on each candidate node, and that of the node's residents. Kernel."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from advisor.cluster.pending_pod import PendingPod
from advisor.cluster.snapshot import Snapshot
from advisor.scoring.candidates import Crowd, Harms, felt_by_pending, harms_of, home_of, joined_pressure, seats_of
from advisor.scoring.served_margins import ServedMargins
from features.contention.pressure import pressures
from features.schema.catalog import NAMES, RAW_NAMES
from features.training.model_input import complete
from models.calibration.log_link import upper_ratio
from models.estimator.load_fallback import LoadAware
from models.estimator.predictor import Prediction, Predictor

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Source = Literal["model", "last_good", "heuristic", "neutral"]
WINDOWS = RAW_NAMES.index("profile_windows")
CERTAIN = 1 - 1e-9
"""Of a limit; sums of the same uses in another order differ by less."""
PRESSURE_ON = {name: {f"pressure_{name}"} for name in NAMES} | {
    "cpu": {"pressure_cpu", "pressure_cpu_elsewhere", "max_neighbour_cpu"}
}
"""Raw features that stand for the pressure on a resource."""


@dataclass(frozen=True, slots=True)
class Harm:
    """Effect of the pending pod on residents, node after node.

    Args:
        offsets: (n + 1,) the residents of candidate i are rows offsets[i] to offsets[i + 1].
        resident: (k,) row of each resident in the snapshot.
        ratio: (k,) its expected slowdown with the pending pod over the one without, by which nodes are compared, >= 1.
        before: (k,) its expected slowdown without the pending pod, ratio to its baseline.
    """

    offsets: NDArray[np.int32]
    resident: NDArray[np.int32]
    ratio: Floats
    before: Floats


@dataclass(frozen=True, slots=True)
class Scores:
    """Answer for n candidate nodes, in the order asked.

    Args:
        mean: (n,) expected slowdown of the pending pod, ratio to its baseline.
        choice: (n,) the same as nodes are compared by, see models.estimator.predictor.
        upper: (n,) bound it stays below nine times in ten.
        node_bound: (n,) upper prediction bound over all containers on the node, at 90 %.
        harm: interference cost of the residents.
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


@dataclass(frozen=True, slots=True)
class Compared:
    """What n candidate nodes are compared by.

    Args:
        mean: see Scores.
        choice: see Scores.
        harm: interference cost of the residents.
        exceeds: (n,) whether the upper prediction bound over all containers on the node exceeds a limit.
    """

    mean: Floats
    choice: Floats
    harm: Harm
    exceeds: Flags


@dataclass(frozen=True, slots=True)
class Bounded:
    """Expected slowdown of containers, and its bounds.

    Args:
        low: (k,) slowdown ratio that each stays above nine times in ten, its error being as large either way.
        mean: (k,) expected slowdown ratio.
        high: (k,) what each stays below nine times in ten.
    """

    low: Floats
    mean: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected slowdown of residents.

    Args:
        ratio: (k,) expected slowdown of each.
        log_choice: (k,) log slowdown that nodes are compared by.
    """

    ratio: Floats
    log_choice: Floats


class Scorer(Protocol):
    """Anything that scores candidates."""

    def score(self, pending_pod: PendingPod, nodes: NDArray[np.int32], *, now_us: int) -> Scores:
        """Score the pending pod on each node, rows of the snapshot, at a time."""


@dataclass(frozen=True)
class ModelScorer:
    """Scores with a trained model over a snapshot."""

    snapshot: Snapshot
    predictor: Predictor | LoadAware
    margins: ServedMargins
    """For one container's bound."""
    node: float
    """Multiplier of spread for the bound over all containers of a node."""

    def score(self, pending_pod: PendingPod, nodes: NDArray[np.int32], *, now_us: int) -> Scores:
        """See Scorer. The pending pod's only inputs are its app's profile by platform, or its cold-start prior.

        Args:
            pending_pod: what is to be placed.
            nodes: (n,) rows of the snapshot's nodes; the same one may be asked for twice.
            now_us: the time, for the age.

        Source: ours; harm counted in both directions.
        """
        home, seats = home_of(self.snapshot, nodes), seats_of(self.snapshot, pending_pod, nodes)
        crowded, count = home.raw(joined_pressure(home, seats)), len(home.resident)
        alone = seats.raw(felt_by_pending(self.snapshot, home, nodes))
        harms = self.harms(home, len(nodes))
        app = np.concatenate([self.snapshot.resident_app[home.resident], self._app(pending_pod, len(nodes))])
        asked = self._predict(np.concatenate([crowded, alone]), app)
        worst = np.full(len(nodes), -np.inf)
        np.maximum.at(worst, np.append(home.members.group, seats.members.group), self._node_log(asked))
        return Scores(
            mean=asked.ratio()[count:],
            choice=np.exp(self._log_choice(alone, harms.felt(seats))),
            upper=self._upper(asked, pending_pod, nodes, windows=seats.profile[:, -1]),
            node_bound=np.exp(worst),
            harm=_harm(home, self.expected(home, harms), self._log_choice(crowded, harms.after(seats)), len(nodes)),
            source="heuristic" if self.by_load else "model",
            version=self.snapshot.version,
            age_s=max(0.0, (now_us - self.snapshot.as_of_us) / 1e6),
        )

    def compare_each(
        self, pending_pods: Sequence[PendingPod], nodes: NDArray[np.int32], *, limit: float
    ) -> Iterator[Compared]:
        """Values by which nodes are compared, for each pending pod alone; trees only where a bound may pass the limit.

        Args:
            pending_pods: what might be placed.
            nodes: (n,) rows of the snapshot's nodes.
            limit: slowdown ratio.

        Returns:
            For each pending pod the result equals that of `score`, to the bit.

        Raises:
            Nothing.

        Source: ours, docs/decisions/0035-trees-for-the-veto.md.
        """
        if not pending_pods:
            return
        home = home_of(self.snapshot, nodes)
        harms = self.harms(home, len(nodes))
        before = self.expected(home, harms)
        felt = felt_by_pending(self.snapshot, home, nodes)
        all_seats = [seats_of(self.snapshot, pending_pod, nodes) for pending_pod in pending_pods]
        app, count = self.snapshot.resident_app[home.resident], len(nodes)
        doubtful = np.flatnonzero(self._doubtful(home, all_seats, limit))
        group = np.append(np.arange(count), home.members.group[doubtful])
        for pending_pod, seats in zip(pending_pods, all_seats, strict=True):
            crowded = home.raw(joined_pressure(home, seats))
            alone = seats.raw(felt)
            asked = np.concatenate([alone, crowded[doubtful]])
            said = self._predict(asked, np.append(self._app(pending_pod, count), app[doubtful]))
            exceeds = np.zeros(count, np.bool_)
            exceeds[group[np.exp(self._node_log(said)) > limit]] = True
            harm = _harm(home, before, self._log_choice(crowded, harms.after(seats)), count)
            choice = np.exp(self._log_choice(alone, harms.felt(seats)))
            yield Compared(said.ratio()[:count], choice, harm, exceeds)

    def _doubtful(self, home: Crowd, all_seats: Sequence[Crowd], limit: float) -> Flags:
        """(k,) residents that at least one of the pending pods may push above the limit.

        More use by a neighbour never lowers a bound. So one pending pod with the largest use of all, residents
        included, stands for every one. The shortcut fails where no neighbour's use is known to a resident: the model
        then reads the training median. For a single pending pod the full computation is cheaper.
        """
        if len(all_seats) == 1:
            return np.ones(len(home.resident), np.bool_)
        use, group = np.stack([seats.members.use for seats in all_seats]), home.members.group
        finite, residents = np.isfinite(use), np.zeros(use.shape[1:])
        np.add.at(residents, group, np.isfinite(home.members.use))
        certain = finite.all(axis=0) | (residents > 1) | (~finite.any(axis=0) & (residents == 0))
        largest = np.fmax.reduce(use, axis=0)
        np.fmax.at(largest, group, home.members.use)
        everybody = replace(all_seats[0].members, use=largest, best_effort=np.ones(len(largest), np.bool_))
        crowded = home.raw(joined_pressure(home, replace(all_seats[0], members=everybody)))
        bounds = np.exp(self._node_log(self._predict(crowded, self.snapshot.resident_app[home.resident])))
        found: Flags = (bounds > limit * CERTAIN) | ~certain.all(axis=1)[group]
        return found

    @property
    def by_load(self) -> bool:
        """Whether nodes are compared without a model."""
        return isinstance(self.predictor, LoadAware)

    def pending_features(self, pending_pod: PendingPod, nodes: NDArray[np.int32]) -> Floats:
        """(n, raw features) of the pending pod on each node; bit-equal to features.training.rows for a label."""
        return pending_features(self.snapshot, pending_pod, nodes)

    def factors(self, pending_pod: PendingPod, nodes: NDArray[np.int32]) -> Floats:
        """(n, resources) how much of the pending pod's slowdown goes away without the pressure on one resource."""
        raw, app = self.pending_features(pending_pod, nodes), self._app(pending_pod, len(nodes))
        whole = self._predict(raw, app).ratio()
        return np.column_stack([whole - self._predict(_relieved(raw, name), app).ratio() for name in NAMES])

    def _upper(
        self, asked: Prediction, pending_pod: PendingPod, nodes: NDArray[np.int32], *, windows: Floats
    ) -> Floats:
        """(n,) bound of the pending pod on each node, from the last n predictions and its profile's window counts."""
        platform = self.snapshot.node_platform[nodes]
        multiplier = self.margins.multipliers(self._app(pending_pod, len(nodes)), windows, platform)
        last = len(asked.log_mean) - len(nodes)
        return upper_ratio(asked.log_mean[last:], asked.spread[last:] + self.margins.floor, multiplier)

    def _app(self, pending_pod: PendingPod, count: int) -> Ints:
        """(count,) the pending pod's app, -1 where the snapshot does not know it."""
        return np.full(count, self.snapshot.app_index.get(pending_pod.app, -1))

    def _predict(self, raw: Floats, app: Ints) -> Prediction:
        return self.predictor.predict(self._complete(raw), self.margins.own[app])

    def expected(self, home: Crowd, harms: Harms, seats: Crowd | None = None) -> Expected:
        """Residents of candidates as they are, or co-located with a pending pod on each."""
        raw = home.raw(pressures(home.members) if seats is None else joined_pressure(home, seats))
        said = self._predict(raw, self.snapshot.resident_app[home.resident])
        together = harms.before() if seats is None else harms.after(seats)
        return Expected(said.ratio(), self._log_choice(raw, together))

    def bounded(self, raw: Floats, app: Ints, platform: Ints) -> Bounded:
        """Expected slowdown of containers, one by one.

        Args:
            raw: (k, raw features) of each.
            app: (k,) row of its app in the snapshot, -1 where not known.
            platform: (k,) of its node, -1 where not known.

        Returns:
            Bounds of each by the margins of its own app, as `score` bounds a pending pod.

        Raises:
            Nothing.

        Source: ours; the lower bound mirrors the upper one in logarithms, as advisor.remediation takes errors.
        """
        said = self._predict(raw, app)
        multiplier = self.margins.multipliers(app, raw[:, WINDOWS], platform)
        mean, high = said.ratio(), upper_ratio(said.log_mean, said.spread + self.margins.floor, multiplier)
        return Bounded(mean * mean / high, mean, high)

    def harms(self, home: Crowd, candidates: int) -> Harms:
        """What neighbours do to residents of so many candidates, where the model compares nodes by it."""
        return harms_of(home, candidates, wanted=self.predictor.choice is not None)

    def _log_choice(self, raw: Floats, together: Floats) -> Floats:
        return self.predictor.log_choice(together, lambda rows: self._complete(raw[rows]))

    def _node_log(self, said: Prediction) -> Floats:
        """(n,) log of the bound over all containers of a node, for one of them."""
        bound: Floats = said.log_mean + self.node * said.spread
        return bound

    def _complete(self, raw: Floats) -> Floats:
        return complete(raw, self.predictor.medians[: len(RAW_NAMES)])


def pending_features(snapshot: Snapshot, pending_pod: PendingPod, nodes: NDArray[np.int32]) -> Floats:
    """(n, raw features) of a pending pod on each node of a snapshot."""
    return seats_of(snapshot, pending_pod, nodes).raw(felt_by_pending(snapshot, home_of(snapshot, nodes), nodes))


def _relieved(raw: Floats, resource: str) -> Floats:
    """Rows with no pressure on one resource."""
    relieved = raw.copy()
    relieved[:, [i for i, name in enumerate(RAW_NAMES) if name in PRESSURE_ON[resource]]] = 0.0
    return relieved


def _harm(home: Crowd, before: Expected, after: Floats, nodes: int) -> Harm:
    """Harm to residents of so many nodes, from predictions without the pending pod and (k,) log choice with it."""
    return Harm(
        offsets=np.append(0, np.cumsum(np.bincount(home.members.group, minlength=nodes))).astype(np.int32),
        resident=home.resident.astype(np.int32),
        ratio=np.maximum(np.exp(after - before.log_choice), 1.0),
        before=before.ratio,
    )
