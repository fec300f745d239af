"""Evaluation: every question of docs/evaluation.md asked of a lake, with the noise floor and a leak alarm."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cohabit.training.train_model import training_table
from features.columnar.arrow_columns import floats, micros
from features.columnar.asof_join import key_codes, row_of
from features.columnar.group_means import group_codes
from features.columnar.windows import LABEL_US
from features.labels.slowdown import NO_SIGNAL
from features.schema.catalog import PRESSURES
from ingest.lake.tables import Lake
from models.errors import InconsistentDataset
from models.estimator.feature_matrix import Rows, read_rows
from models.evaluation.prequential import adapted_metrics
from models.evaluation.protocols import Asked, Depth, Keys, protocol, read_keys
from models.evaluation.scorecard import scorecard
from models.metrics.errors_and_ranks import error_of_log, resamples_of
from models.metrics.noise_floor import NoiseFloor, noise_floor, replicates
from models.metrics.ranking import CandidateSets, candidate_sets
from models.training.fit import TrainConfig
from models.training.trainer import OURS, Metrics, Outcome, Trainer

Progress = Callable[[str], None]
"""Called with the split and question being fitted."""
LEAST_LEAK, MAX_LEAK = 1.2, 6.0
"""Unseen apps should be this many times as hard as random rows, and no more."""
WINDOW_KEY = ["cluster", "node", "window_end", "container"]


@dataclass(frozen=True, slots=True)
class Thoroughness:
    """How much work goes into an evaluation: 11,800 rows take some two minutes of two cores."""

    config: TrainConfig = field(default_factory=lambda: TrainConfig(rounds=100, learning_rate=0.1, folds=3))
    depth: Depth = field(default_factory=Depth)
    resamples: int = 200


@dataclass(frozen=True)
class Answer:
    """One question and what came out.

    Args:
        asked: the question.
        outcome: the judged rows; None where there is no answer.
        metrics: see models.evaluation.scorecard; empty where there is no answer.
        sets: candidates among the judged rows.
        reason: why there is no answer.
    """

    asked: Asked
    outcome: Outcome | None = None
    metrics: Metrics = field(default_factory=dict)
    sets: CandidateSets = field(default_factory=lambda: CandidateSets(np.zeros(0, np.int64), np.zeros(0, np.int64)))
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Modelled:
    """Five-minute windows of containers.

    Args:
        windows: how many there are.
        modelled: of apps that have a usable signal; the others count as undisturbed.
        labelled: of them, those with a label: not warming up, not throttled, at a load seen in calm windows.
        by_kind: labelled ones by signal.
    """

    windows: int
    modelled: int
    labelled: int
    by_kind: dict[str, int]

    @property
    def share(self) -> float:
        """Share of container-hours of apps that are modelled."""
        return self.modelled / self.windows if self.windows else 0.0


@dataclass(frozen=True)
class Findings:
    """All of an evaluation.

    Args:
        keys: of all training rows.
        apps: names of apps by their code in `keys`.
        answers: by id of the question, every question in it.
        floor: None where no windows are replicates.
        modelled: labels and windows.
    """

    keys: Keys
    apps: tuple[str, ...]
    answers: dict[str, Answer]
    floor: NoiseFloor | None
    modelled: Modelled

    @property
    def leak_ratio(self) -> float | None:
        """How many times as large the error on unseen apps is as on random rows; None where either is missing."""
        errors = [mae(self.answers[name]) for name in ("S2", "S0")]
        return errors[0] / errors[1] if errors[0] is not None and errors[1] else None

    @property
    def beyond_ratio(self) -> float | None:
        """Error beyond the learnt pressures over that on the same rows by models that saw such pressures elsewhere."""
        far, near = self.answers["S6"].outcome, self.answers["S3"].outcome
        if far is None or near is None:
            return None
        same = np.isin(near.where, far.where)
        return _mean_error(far) / _mean_error(near, same) if same.any() else None


def evaluate_lake(lake: Lake, how: Thoroughness, progress: Progress, *, training: pa.Table | None = None) -> Findings:
    """Ask every question of a lake's training rows.

    Args:
        lake: holds training, labels and, for loads, contention.
        how: how much work.
        progress: called with each split.
        training: a sample of the training rows, where not all are asked; every one by default.

    Returns:
        Answers, and reasons where there is none.

    Raises:
        InconsistentDataset: the lake holds no training rows.
    """
    table = training_table(lake) if training is None else training
    rows, keys = read_rows(table), read_keys(table)
    labels = lake.read("labels")
    names = dict(zip(keys.app.tolist(), table["app"].to_pylist(), strict=True))
    return Findings(
        keys=keys,
        apps=tuple(str(names[code]) for code in range(len(names))),
        answers=answers(rows, keys, how, progress),
        floor=floor_of(labels, lake.read("contention", columns=[*WINDOW_KEY, "load_of_peak"])),
        modelled=modelled_share(labels),
    )


def answers(rows: Rows, keys: Keys, how: Thoroughness, progress: Progress) -> dict[str, Answer]:
    """Every question of the protocol, judged where the data allow it."""
    trainer, rng = Trainer(rows, how.config), np.random.default_rng(how.depth.seed)
    asked = protocol(keys, how.depth)
    found = {}
    for number, one in enumerate(asked, 1):

        def advance(what: str, one: Asked = one, number: int = number) -> None:
            progress(f"question {number} of {len(asked)}, {one.id} {one.title}: {what}")

        try:
            outcome = None if one.question is None else trainer.judge(one.question, advance)
        except InconsistentDataset as error:
            found[one.id] = Answer(one, reason=f"{error.problem}: {error.remedy}")
        else:
            found[one.id] = _answer(one, outcome, keys, rng=rng, resamples=how.resamples)
    return found


def floor_of(labels: pa.Table, contention: pa.Table) -> NoiseFloor | None:
    """The noise floor of labels, loads from `contention` where it has the window.

    Args:
        labels: rows of `labels`.
        contention: the key of a window and load_of_peak.

    Returns:
        See models.metrics.noise_floor.
    """
    known = labels.filter(pc.is_valid(labels["log_slowdown"])).combine_chunks()
    if not known.num_rows:
        return None
    at = row_of(*key_codes(known, contention, WINDOW_KEY))
    load = floats(contention["load_of_peak"].take(pa.array(at, mask=at < 0)))
    pairs = replicates(
        group_codes(known, ["cluster", "node", "container"]),
        micros(known["window_end"]) // LABEL_US,
        np.column_stack([floats(known[name]) for name in PRESSURES]),
        load,
    )
    return noise_floor(floats(known["log_slowdown"]), pairs)


def modelled_share(labels: pa.Table) -> Modelled:
    """How much of all container time is of apps that are modelled, and how much has a label, by which signal."""
    known = labels.filter(pc.is_valid(labels["log_slowdown"]))
    kinds = pc.value_counts(known["kind"]).to_pylist()
    modelled = pc.sum(pc.not_equal(labels["kind"], NO_SIGNAL)).as_py() or 0
    by_kind = {str(k["values"]): int(k["counts"]) for k in kinds}
    return Modelled(labels.num_rows, modelled, known.num_rows, by_kind)


def leak_words(ratio: float | None) -> str:
    """What the ratio of the error on unseen apps to that on random rows says."""
    if ratio is None:
        return "no leak alarm: unseen apps or random rows could not be judged"
    text = f"unseen apps are {ratio:.2f} times as hard as random rows"
    if ratio < LEAST_LEAK:
        return (
            f"ALARM: {text}, less than {LEAST_LEAK}: either the same app runs under several names, so that it was seen "
            "after all and S2 is too good, or the model has little from knowing an app beyond its profile, which S2 "
            "leaves in; SC takes it away"
        )
    if ratio > MAX_LEAK:
        return (
            f"ALARM: {text}, more than {MAX_LEAK:.0f}: random rows are far too easy, so some feature reveals which "
            f"row "
            "it is; look for one that is only known afterwards"
        )
    return f"no sign of a leak: {text} (expected {LEAST_LEAK} to {MAX_LEAK:.0f})"


def mae(answer: Answer, predictor: str = OURS) -> float | None:
    """Mean absolute error of log slowdown; None where there is no answer."""
    return answer.metrics[predictor]["mae_log"].value if answer.metrics else None


def _answer(asked: Asked, outcome: Outcome | None, keys: Keys, *, rng: np.random.Generator, resamples: int) -> Answer:
    if outcome is None:
        return Answer(asked, reason=asked.reason)
    sets = candidate_sets(keys.decision[outcome.where], keys.node[outcome.where])
    cluster = asked.cluster[outcome.where]
    metrics = scorecard(outcome, sets, cluster, rng, resamples=resamples)
    if asked.id == "S1":
        again = resamples_of(cluster, rng, resamples)
        metrics[OURS] |= adapted_metrics(outcome, sets, keys.platform[outcome.where], again)
    return Answer(asked, outcome, metrics, sets)


def _mean_error(outcome: Outcome, chosen: np.ndarray | None = None) -> float:
    errors = error_of_log(outcome.rows.log_slowdown, outcome.predicted[OURS])
    return float((errors if chosen is None else errors[chosen]).mean())
