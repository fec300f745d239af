"""Learn: train a placement model from training rows, and measure it honestly on apps and times it never saw."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from features.schema.catalog import RAW_NAMES
from features.training.model_input import training_fills
from models.bundle.leakage_guard import known_at_decision
from models.data.dataset import Dataset
from models.data.impute import impute
from models.data.splits import EMBARGO_US, Split, leave_group_out, time_forward
from models.estimator.feature_matrix import Rows, with_fills
from models.estimator.fitted_model import Placement
from models.estimator.predictor import Predictor, predictor_of_fitted
from models.metrics.baselines import BASELINES
from models.metrics.errors_and_ranks import Estimate, coverage, evaluate
from models.onnx_export.exporter import export_placement
from models.training.fit import TrainConfig, train
from models.training.fit_choice import fit_choice
from models.training.fit_known_apps import fit_familiar, look_ahead
from models.training.fit_margins import fit_margins

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
OURS = "ours"

Metrics = dict[str, dict[str, Estimate]]
"""By predictor and metric."""
Progress = Callable[[str], None]
"""Called with the model that is being trained."""


@dataclass(frozen=True)
class Outcome:
    """What models that never saw the rows say of them, (n,) each, in log slowdown; `ours` and every baseline.

    Args:
        rows: the judged rows.
        predicted: by predictor.
        upper: our bound.
        where: number of each judged row among all rows.
        scale: what the bound is a multiple of above our prediction, log ratio, > 0.
        tier: how much was known of the row's app, see models.bundle.margins.
        choice: what we would compare nodes by.
    """

    rows: Rows
    predicted: dict[str, Floats]
    upper: Floats
    where: Ints
    scale: Floats
    tier: NDArray[np.int8]
    choice: Floats

    @property
    def margin(self) -> Floats:
        """(n,) bound minus our prediction, log ratio, >= 0."""
        return self.upper - self.predicted[OURS]

    @property
    def score(self) -> Floats:
        """(n,) what the bound would have had to be a multiple of `scale` of."""
        return (self.rows.log_slowdown - self.predicted[OURS]) / self.scale

    def metrics(self, rng: np.random.Generator) -> Metrics:
        """Errors of every predictor, and the coverage and width of our bound, with 95 % intervals over groups."""
        truth, cluster = self.rows.log_slowdown, self.rows.group
        found = evaluate(truth, self.predicted, cluster, rng=rng)
        found[OURS]["coverage90"] = coverage(truth, self.upper, cluster, rng=rng)
        return found


def fit(rows: Rows, config: TrainConfig) -> Placement:
    """Train on all rows, with margins by app; serving completes raw features with these rows' fills.

    Raises:
        ModelsError: a column is known only after the decision.
    """
    fills = training_fills(rows.raw)
    trained = train(known_at_decision(rows.dataset(fills)), config)
    placement = with_fills(trained.placement, fills)
    ahead = look_ahead(trained.known, len(placement.residual.roots), config)
    return replace(
        placement,
        choice=fit_choice(rows.together, rows.log_slowdown, rows.weight, rows.alike()),
        margins=fit_margins(rows, fills, trained, ahead, config=config),
        familiar=None if ahead is None else fit_familiar(trained.known, placement.base(), ahead.rounds, config),
    )


def open_fitted(placement: Placement) -> Predictor:
    """The predictor that serving would use: the exported graphs, not the trainer's trees."""
    return predictor_of_fitted(placement, export_placement(placement))


@dataclass(frozen=True)
class Question:
    """One way to ask how good the model is.

    Args:
        splits: what to learn from and what to judge.
        cold: whether the judged apps have never run anywhere, so that nothing but the node is known.
    """

    splits: list[Split]
    cold: bool = False


@dataclass(frozen=True)
class Trainer:
    """Trains on the first parts of splits of the same rows, on the same part only once.

    Args:
        rows: all rows.
        config: how to train.
        done: models by the rows they learnt from.
    """

    rows: Rows
    config: TrainConfig
    done: dict[bytes, Placement] = field(default_factory=dict)

    def model_of(self, split: Split) -> Placement:
        """The model that learnt from a split's first part."""
        key = np.packbits(split.train).tobytes()
        if key not in self.done:
            self.done[key] = fit(self.rows.take(split.train), self.config)
        return self.done[key]

    def judge(self, question: Question, progress: Progress) -> Outcome:
        """Train on each split's first part and predict its second; ours through the exported graphs.

        Args:
            question: what to learn from and what to judge.
            progress: called for each split.

        Returns:
            The judged rows of all splits, one after the other.

        Raises:
            InconsistentDataset: a split's first part cannot be learnt from.

        Source: docs/evaluation.md.
        """
        parts = []
        for number, split in enumerate(question.splits, 1):
            progress(f"split {number} of {len(question.splits)}")
            parts.append(self._judge_one(split, cold=question.cold))
        arrays = {
            n: np.concatenate([getattr(p, n) for p in parts]) for n in ("upper", "where", "scale", "tier", "choice")
        }
        return Outcome(
            rows=reduce(Rows.followed_by, (p.rows for p in parts)),
            predicted={name: np.concatenate([p.predicted[name] for p in parts]) for name in parts[0].predicted},
            **arrays,
        )

    def _judge_one(self, split: Split, *, cold: bool) -> Outcome:
        placement, seen, whole = self.model_of(split), self.rows.take(split.train), self.rows.take(split.test)
        unseen = whole.without_profile() if cold else whole
        fills = placement.medians[: len(RAW_NAMES)]
        test = unseen.dataset(fills)
        margins, group, profiled = placement.bounds(), unseen.group, unseen.profiled()
        predictor = open_fitted(placement)
        said = predictor.predict(test.features, margins.known(group))
        scale = said.spread + margins.floor
        return Outcome(
            rows=unseen,
            predicted={OURS: said.log_mean, **_baselines(seen.dataset(fills), test, placement.medians)},
            upper=said.log_mean + margins.multipliers(group, profiled) * scale,
            where=np.flatnonzero(split.test),
            scale=scale,
            tier=margins.tier(group, profiled),
            choice=predictor.log_choice(unseen.together, lambda rows: test.features[rows]),
        )


def judge(rows: Rows, question: Question, config: TrainConfig, progress: Progress) -> Outcome:
    """As Trainer.judge, for one question alone."""
    return Trainer(rows, config).judge(question, progress)


def _baselines(seen: Dataset, unseen: Dataset, medians: Floats) -> dict[str, Floats]:
    known = seen.with_features(impute(seen.features, medians))
    judged = unseen.with_features(impute(unseen.features, medians))
    return {name: fit_baseline(known).predict(judged) for name, fit_baseline in BASELINES.items()}


def standard_questions(rows: Rows, *, folds: int, origins: int) -> dict[str, Question]:
    """What every report answers: tomorrow, apps the model never saw, and apps that never ran anywhere."""
    apps = leave_group_out(rows.group, folds=folds)
    return {
        "time_forward": Question(time_forward(rows.time, origins=origins, embargo_us=EMBARGO_US)),
        "leave_app_out": Question(apps),
        "cold_app": Question(apps, cold=True),
    }
