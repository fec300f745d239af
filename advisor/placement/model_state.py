"""Serving: the newest snapshot and bundle, and what to answer when one of them is missing or old. An edge."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import structlog
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Gauge

from advisor.cluster.pending_pod import PendingPod
from advisor.cluster.snapshot import Snapshot, current_version, directory_name, load_current
from advisor.diagnosis.coverage import Coverage
from advisor.diagnosis.report_file import DiagnosisReport
from advisor.diagnosis.report_reader import NewestReport
from advisor.errors import AdvisorError, Contained, NothingDiagnosed, UnreadableDiagnoses
from advisor.placement.decision_log import Explorer
from advisor.placement.feature_log import ServedLog
from advisor.scoring.best_effort_room import lacks_room
from advisor.scoring.loaded_model import Model, believed, open_model
from advisor.scoring.score_scale import VETO_SLOWDOWN, cost, points
from advisor.scoring.scorer import ModelScorer, Scores
from advisor.scoring.served_margins import served_margins
from models.bundle.signing import Trust
from models.drift.drift_status import STATES, DriftStatus, status_of
from models.errors import ModelsError
from models.registry.registry import Registry

log = structlog.get_logger()

MAX_AHEAD_S = 300.0
"""A snapshot dated further into the future would never grow stale."""


@dataclass(frozen=True, slots=True)
class Scored:
    """What was scored, and by whom.

    Args:
        scorer: who scored; `rows` are rows of its snapshot.
        known: (k,) positions among the offered nodes of those the snapshot holds.
        rows: (k,) their rows.
        scores: (k) their scores.
    """

    scorer: ModelScorer
    known: NDArray[np.int64]
    rows: NDArray[np.int32]
    scores: Scores


@dataclass(frozen=True, slots=True)
class Answer:
    """Points of the offered nodes.

    Args:
        names: (n) the offered nodes.
        points: (n,) 0 to 10 for each, all 0 when the answer is neutral.
        reason: why the answer is neutral; empty otherwise.
        counted: source and reason under which it is counted.
        scored: what the points were made of; None when the answer is neutral.
    """

    names: Sequence[str]
    points: NDArray[np.int64]
    reason: str
    counted: tuple[str, str]
    scored: Scored | None


@dataclass
class Serving:
    """Holds what is current and answers from it. One thread reloads; any number answer meanwhile.

    Args:
        snapshots: folder that the refresher publishes to.
        registry: folder of bundles.
        max_age_s: maximum age of a snapshot.
        now_us: the clock.
        metrics: where counters are registered.
        served: keeps some of the feature vectors that were scored with; None keeps none.
        explorer: draws the advice of some decisions, and keeps some; None does neither.
    """

    snapshots: Path
    registry: Registry
    max_age_s: float
    now_us: Callable[[], int]
    metrics: CollectorRegistry
    served: ServedLog | None = None
    explorer: Explorer | None = None
    scorer: ModelScorer | None = field(default=None, init=False)
    by_load: bool = field(default=False, init=False)
    """Whether the load-aware fallback is active, since the model has drifted."""
    refused: dict[str, str] = field(default_factory=dict, init=False)
    """What the last reload could not load: `no_bundle`, `no_snapshot` or `no_drift`, and the error."""
    _open: Callable[[Path, Trust], Model] = field(default_factory=lambda: open_model, init=False)
    _opened: Model | None = field(default=None, init=False)
    """As its bundle has it."""
    _model: Model | None = field(default=None, init=False)
    """The same in the serving mode that drift allows."""
    _by: str = field(default="", init=False)
    """Name of the model that the scorer scores by."""
    _drift: DriftStatus | None = field(default=None, init=False)
    _snapshot: Snapshot | None = field(default=None, init=False)
    _running: tuple[tuple[DiagnosisReport, Snapshot] | None, DiagnosisReport | None] = field(
        default=(None, None), init=False
    )
    """A report and a snapshot, and what of the report is of containers that run."""

    def __post_init__(self) -> None:
        self.diagnoses = NewestReport(self.snapshots)
        self.answers = Counter(
            "cohabit_score_requests",
            "Score requests, by source and reason.",
            ["source", "reason"],
            registry=self.metrics,
        )
        self.refusals = Counter(
            "cohabit_reloads_failed", "Failed reloads, by reason.", ["reason"], registry=self.metrics
        )
        self.turned_away = Counter(
            "cohabit_node_score_requests_rejected",
            "Score requests rejected because too many were in flight.",
            ["nodes"],
            registry=self.metrics,
        )
        self.quotes_turned_away = Counter(
            "cohabit_quote_requests_rejected",
            "Quote requests rejected because too many were in flight.",
            registry=self.metrics,
        )
        self.gangs_turned_away = Counter(
            "cohabit_gang_requests_rejected",
            "Gang requests rejected because too many were in flight.",
            registry=self.metrics,
        )
        age = Gauge("cohabit_snapshot_age_seconds", "Age of the snapshot in use, in seconds.", registry=self.metrics)
        age.set_function(self.age_s)
        self._report_drift()
        self._report_coverage()

    def reload(self) -> None:
        """Load a newer bundle and a newer snapshot independently; an unreadable one leaves the loaded one in place."""
        parts = {"no_bundle": self._take_bundle, "no_drift": self._take_drift, "no_snapshot": self._take_snapshot}
        refused = {reason: self._take(part) for reason, part in parts.items()}
        for reason, error in refused.items():
            if error:
                self.refusals.labels(reason).inc()
            if error and self.refused.get(reason) != error:
                log.warning("reload failed; the loaded version stays", reason=reason, error=error)
        self.refused = {reason: error for reason, error in refused.items() if error}
        model, snapshot = self._model, self._snapshot
        if model and snapshot and not (self.scorer and self.scorer.snapshot is snapshot and self._by == model.name):
            known = model.entry, snapshot.cluster, snapshot.apps, snapshot.platforms
            margins = served_margins(*known, widening=model.widening)
            self.scorer, self._by = ModelScorer(snapshot, model.predictor, margins, model.node), model.name
            self.by_load = self.scorer.by_load

    def open_by(self, opener: Callable[[Path, Trust], Model]) -> None:
        """Open bundles by another opener from now on, and the loaded one again for the next reload.

        Raises:
            ModelsError, AdvisorError: the loaded one cannot be opened again; it stays, and so does the opener.
        """
        if self._opened is not None:
            self._opened, self._model, self._by = opener(self._opened.bundle, self.registry.trust), None, ""
        self._open = opener

    def _take(self, part: Callable[[], None]) -> str:
        """Why the part was not loaded; empty when it was."""
        try:
            part()
        except (AdvisorError, ModelsError, OSError) as error:
            return str(error)
        return ""

    def _take_bundle(self) -> None:
        wanted = self.registry.current()
        if wanted is None:
            raise AdvisorError(
                f"no promoted bundle in {self.registry.root}: run `cohabit model train`, or set COHABIT_REGISTRY"
            )
        if self._opened is None or self._opened.bundle != wanted:
            self._opened = self._open(wanted, self.registry.trust)

    def _take_drift(self) -> None:
        if (opened := self._opened) is None:
            return
        if self._model is None or self._model.bundle != opened.bundle:
            self._model = opened  # without a drift status, a bundle is trusted
        self._drift = status_of(self.registry, opened.bundle.name)
        found = believed(opened, self._drift)
        if self._model.name != found.name:
            self._model = found

    def _report_coverage(self) -> None:
        """Gauges of how much the newest diagnoses looked at."""
        share = Gauge(
            "cohabit_label_coverage_ratio",
            "Share of running container time with a label in the newest published diagnoses; 0 without any.",
            registry=self.metrics,
        )
        share.set_function(lambda: found.share if (found := self.coverage()) else 0.0)
        ended = Gauge(
            "cohabit_diagnosed_timestamp_seconds",
            "End of the newest window in the published diagnoses; 0 for never.",
            registry=self.metrics,
        )
        ended.set_function(lambda: report.at_us / 1e6 if (report := self._published()) else 0.0)

    def _published(self) -> DiagnosisReport | None:
        """The newest diagnoses; None where there are none, or they cannot be read."""
        try:
            return self.diagnoses.report()
        except (NothingDiagnosed, UnreadableDiagnoses):
            return None

    def coverage(self) -> Coverage | None:
        """How much the newest diagnoses looked at; None where that is not known."""
        report = self._published()
        return report.coverage if report is not None else None

    def _report_drift(self) -> None:
        """Gauges of what the last check found."""
        state = Gauge(
            "cohabit_drift_state",
            "Serving mode: 0 full, 1 widened margins, 2 load-aware fallback.",
            registry=self.metrics,
        )
        state.set_function(lambda: STATES.index(self._drift.state) if self._drift else 0)
        widening = Gauge("cohabit_drift_margin_factor", "Factor on the conformal margins.", registry=self.metrics)
        widening.set_function(lambda: self._drift.widening if self._drift else 1.0)
        checked = Gauge(
            "cohabit_drift_checked_timestamp_seconds",
            "Time of the last drift check, of the model in use, that had new labels; 0 for never.",
            registry=self.metrics,
        )
        checked.set_function(lambda: self._drift.checked_at.timestamp() if self._drift else 0.0)

    def _take_snapshot(self) -> None:
        if self._snapshot is None or current_version(self.snapshots) != directory_name(self._snapshot.version):
            self._snapshot = load_current(self.snapshots)

    @property
    def bundle(self) -> str:
        """Name of the bundle in use, with its serving mode; empty without one."""
        return self._model.name if self._model is not None else ""

    @property
    def cluster(self) -> str:
        """Of the snapshot in use; empty without one."""
        return self._snapshot.cluster if self._snapshot is not None else ""

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest snapshot that could be read, with or without a bundle to score it by."""
        return self._snapshot

    def report(self) -> DiagnosisReport:
        """The newest diagnoses, of the containers that run by the newest snapshot; the same object while both stay.

        Raises:
            NothingDiagnosed: no diagnosis was run yet.
            UnreadableDiagnoses: the file cannot be read.
        """
        report, snapshot = self.diagnoses.report(), self._snapshot
        if snapshot is None or snapshot.cluster != report.cluster:
            return report
        made_of, made = self._running
        if made_of is None or made_of[0] is not report or made_of[1] is not snapshot:
            made = report.running(frozenset(snapshot.containers))
            self._running = ((report, snapshot), made)
        return made or report

    def age_s(self) -> float:
        """Seconds since the newest message behind the snapshot; infinite without one."""
        scorer = self.scorer
        return float("inf") if scorer is None else self._age_of(scorer)

    def problem(self) -> str:
        """Why the next answer will be neutral; empty when it will not."""
        return self._problem_of(self.scorer)

    def answer(self, pending_pod: PendingPod, names: Sequence[str] | None) -> Answer:
        """Score the offered nodes, or all when None; neutral, with the reason, when that cannot be done honestly."""
        answer = self._answer(pending_pod, names)
        self.count(answer)
        return answer

    def count(self, answer: Answer) -> None:
        """Count an answer that a client gets."""
        self.answers.labels(*answer.counted).inc()

    def _answer(self, pending_pod: PendingPod, names: Sequence[str] | None) -> Answer:
        scorer = self.scorer
        offered = names if names is not None else scorer.snapshot.nodes if scorer else ()
        reason = self._problem_of(scorer)
        if scorer is None or reason:
            return self._neutral(offered, reason)
        rows = scorer.snapshot.indices(offered)
        known = np.flatnonzero(rows >= 0)
        if len(offered) and not len(known):
            return self._neutral(offered, "unknown_nodes")
        scored = Scored(scorer, known, rows[known], self._scores(scorer, pending_pod, rows[known]))
        if self.served is not None and self.served.drawn():
            self.served.note(scorer.snapshot, pending_pod, scored.rows)
        counted = scored.scores.source, next(iter(self.refused), "")
        return Answer(offered, _points(scored, pending_pod, len(offered)), "", counted, scored)

    def note(self, pending_pod: PendingPod, names: Sequence[str]) -> None:
        """Keep the features behind a table's answer; the answer itself does not compute them."""
        scorer = self.scorer
        if scorer is not None and self.served is not None:
            rows = scorer.snapshot.indices(names)
            self.served.note(scorer.snapshot, pending_pod, rows[rows >= 0])

    def answer_anyway(self, pending_pod: PendingPod, names: Sequence[str]) -> Answer:
        """As `answer`, but neutral whatever goes wrong, and not counted: it may come too late for who asked."""
        with Contained(log, "scoring failed; replied with no preference"):
            return self._answer(pending_pod, names)
        return self._neutral(names, "error")

    def _neutral(self, offered: Sequence[str], reason: str) -> Answer:
        return Answer(offered, np.zeros(len(offered), np.int64), reason, ("neutral", reason), None)

    def _scores(self, scorer: ModelScorer, pending_pod: PendingPod, rows: NDArray[np.int32]) -> Scores:
        """Scores, named `last_good` while something newer was refused."""
        scores = scorer.score(pending_pod, rows, now_us=self.now_us())
        return replace(scores, source="last_good") if self.refused and not scorer.by_load else scores

    def _age_of(self, scorer: ModelScorer) -> float:
        return (self.now_us() - scorer.snapshot.as_of_us) / 1e6

    def _problem_of(self, scorer: ModelScorer | None) -> str:
        if scorer is None:
            return next(iter(self.refused), "not_loaded")
        age_s = self._age_of(scorer)
        return "stale" if age_s > self.max_age_s else "ahead" if age_s < -MAX_AHEAD_S else ""


def _points(scored: Scored, pending_pod: PendingPod, offered: int) -> NDArray[np.int64]:
    costs, exceeds = np.full(offered, np.nan), np.zeros(offered, np.bool_)
    residents = scored.scorer.snapshot.resident_best_effort
    costs[scored.known] = cost(scored.scores, best_effort=pending_pod.best_effort, resident_best_effort=residents)
    exceeds[scored.known] = scored.scores.node_bound > VETO_SLOWDOWN
    given = points(costs, exceeds, best_effort=pending_pod.best_effort)
    given[scored.known] = np.where(lacks_room(scored.scorer.snapshot, pending_pod, scored.rows), 0, given[scored.known])
    return given
