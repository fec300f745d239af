"""Serving: the newest snapshot and bundle, and what to answer when one of them is missing or old. An edge."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import structlog
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Gauge

from advisor.decision import cost, points
from advisor.errors import NoSnapshot
from advisor.scoring import ModelScorer, Newcomer, Scores, neutral
from advisor.snapshot import current_version, load_current
from features.catalog import catalogue_hash
from models.bundle import load_bundle
from models.errors import ModelsError
from models.predictor import open_predictor
from models.registry import Registry

log = structlog.get_logger()
MODEL = "placement"


@dataclass(frozen=True, slots=True)
class Answer:
    """Scores of the offered nodes and the points made of them.

    Args:
        scores: of the known nodes.
        known: (k,) positions of the known nodes among those offered.
        points: (n,) 0 to 10 for each offered node, in the order offered.
        reason: why the answer is neutral; empty otherwise.
    """

    scores: Scores
    known: NDArray[np.int64]
    points: NDArray[np.int64]
    reason: str


@dataclass
class Serving:
    """Holds what is current and answers from it.

    Args:
        snapshots: folder that the refresher publishes to.
        registry: folder of bundles.
        max_age_s: snapshots older than this are not believed.
        now_us: the clock.
        metrics: where counters are registered.
    """

    snapshots: Path
    registry: Registry
    max_age_s: float
    now_us: Callable[[], int]
    metrics: CollectorRegistry
    scorer: ModelScorer | None = field(default=None, init=False)
    reason: str = field(default="not_loaded", init=False)
    _loaded: tuple[str | None, Path | None] = field(default=(None, None), init=False)

    def __post_init__(self) -> None:
        self.answers = Counter(
            "cohabit_answers_total", "Answers by source and reason.", ["source", "reason"], registry=self.metrics
        )
        age = Gauge("cohabit_snapshot_age_seconds", "Age of the snapshot in use.", registry=self.metrics)
        age.set_function(self.age_s)

    def reload(self) -> None:
        """Take up a newer snapshot or bundle; what cannot be read leaves the old one in place, and says why."""
        wanted = (current_version(self.snapshots), self.registry.current())
        if wanted == self._loaded:
            return
        try:
            self.scorer = self._open(wanted[1])
        except (NoSnapshot, ModelsError) as error:
            self.reason = "no_snapshot" if isinstance(error, NoSnapshot) else "no_bundle"
            log.warning("kept what was loaded", reason=self.reason, error=str(error))
        else:
            self.reason = "" if self.scorer else "no_bundle"
            self._loaded = wanted

    def _open(self, bundle: Path | None) -> ModelScorer | None:
        if bundle is None:
            return None
        verified = load_bundle(bundle, catalogue_hash())
        margins = verified.manifest.models[MODEL].calibration
        snapshot = load_current(self.snapshots)
        return ModelScorer(snapshot, open_predictor(verified, MODEL), margins.hierarchical, margins.node)

    def age_s(self) -> float:
        """Seconds since the newest message behind the snapshot; infinite without one."""
        return float("inf") if self.scorer is None else (self.now_us() - self.scorer.snapshot.as_of_us) / 1e6

    def problem(self) -> str:
        """Why the next answer will be neutral; empty when it will not."""
        if self.scorer is None:
            return self.reason
        return "stale" if self.age_s() > self.max_age_s else ""

    def answer(self, newcomer: Newcomer, names: Sequence[str]) -> Answer:
        """Score the offered nodes; neutral, with the reason, when that cannot be done honestly."""
        reason = self.problem()
        rows = self.scorer.snapshot.indices(names) if self.scorer else np.zeros(0, np.int32)
        known = np.flatnonzero(rows >= 0)
        if not reason and not len(known) and len(names):
            reason = "unknown_nodes"
        if reason or self.scorer is None:
            self.answers.labels("neutral", reason).inc()
            return Answer(neutral(0), known[:0], np.zeros(len(names), np.int64), reason)
        scores = self.scorer.score(newcomer, rows[known], now_us=self.now_us())
        self.answers.labels(scores.source, "").inc()
        return Answer(scores, known, self._points(scores, newcomer, known, len(names)), "")

    def _points(self, scores: Scores, newcomer: Newcomer, known: NDArray[np.int64], offered: int) -> NDArray[np.int64]:
        assert self.scorer is not None  # noqa: S101
        costs, bounds = np.full(offered, np.nan), np.full(offered, np.nan)
        residents = self.scorer.snapshot.resident_best_effort
        costs[known] = cost(scores, best_effort=newcomer.best_effort, resident_best_effort=residents)
        bounds[known] = scores.node_bound
        return points(costs, bounds, best_effort=newcomer.best_effort)
