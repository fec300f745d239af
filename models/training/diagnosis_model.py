"""Diagnosis: a model of the slowdown of a container that is running, from all that is measured of it but its label.

The same trainer as the placement model's, on other columns. It serves to explain, never to place.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.schema.catalog import RAW_NAMES
from features.training.diagnosis_rows import DIAGNOSIS, SIGNS, cause_of, diagnosis_rows
from features.training.model_input import training_fills
from models.data.dataset import Dataset
from models.data.impute import impute
from models.data.splits import Split
from models.estimator.feature_matrix import Rows, read_rows, with_fills
from models.estimator.fitted_model import Placement
from models.explain.shap import Attribution
from models.metrics.baselines import BASELINES
from models.metrics.errors_and_ranks import coverage, evaluate, resamples_of
from models.metrics.paired_test import above
from models.training.fit import TrainConfig, fit_placement
from models.training.trainer import OURS, Metrics, Outcome, Progress, open_fitted

Floats = NDArray[np.float64]
WIDTH = len(RAW_NAMES)
SIGNED = np.array([f.sign > 0 for f in SIGNS], np.bool_)


@dataclass(frozen=True)
class DiagnosisRows:
    """Labelled windows and what was measured in them.

    Args:
        rows: as for placement, with the pressures of the window itself.
        signs: (n, len(SIGNS)); NaN where not measured.
    """

    rows: Rows
    signs: Floats

    def take(self, chosen: NDArray[np.bool_]) -> "DiagnosisRows":
        """The chosen rows, (n,) flags."""
        return DiagnosisRows(self.rows.take(chosen), self.signs[chosen])

    def fills(self) -> Floats:
        """(len(RAW) + len(SIGNS),) what stands in for missing values; 0 for what was never measured."""
        return training_fills(np.column_stack([self.rows.raw, self.signs]))

    def dataset(self, fills: Floats) -> Dataset:
        """Complete rows in the order of DIAGNOSIS; signs without a sign of their own stay missing."""
        known = self.rows.dataset(fills[:WIDTH])
        signs = np.where(np.isnan(self.signs) & SIGNED, fills[WIDTH:], self.signs)
        return Dataset(
            features=np.column_stack([known.features, signs]),
            names=tuple(f.name for f in DIAGNOSIS),
            signs=np.array([f.sign for f in DIAGNOSIS], np.int8),
            base=np.array([f.base for f in DIAGNOSIS], np.bool_),
            log_slowdown=known.log_slowdown,
            weight=known.weight,
            group=known.group,
            node_window=known.node_window,
            time=known.time,
        )


@dataclass(frozen=True)
class Explained:
    """What models that never saw the rows say of them, (n,) each, in log slowdown.

    Args:
        rows: the judged rows.
        predicted: by predictor, `ours` and every baseline.
        upper: our bound.
    """

    rows: Rows
    predicted: dict[str, Floats]
    upper: Floats


def read_diagnosis(training: pa.Table, contention: pa.Table, state: pa.Table) -> DiagnosisRows:
    """The rows of table `training`, in their order, with what was measured in their windows."""
    measured = diagnosis_rows(training, contention, state)
    known = read_rows(training)
    rows = replace(known, raw=measured[:, :WIDTH])
    return DiagnosisRows(rows, measured[:, WIDTH:])


def fit_diagnosis(data: DiagnosisRows, config: TrainConfig) -> tuple[Placement, Floats]:
    """Train on all rows.

    Args:
        data: n rows of at least two apps.
        config: as for the placement model.

    Returns:
        The model, and the fills that complete rows it is asked about.

    Raises:
        InconsistentDataset: one app only.

    Source: ours, docs/decisions/0020-diagnosis.md.
    """
    fills = data.fills()
    return with_fills(fit_placement(data.dataset(fills), config), fills), fills


def judge_diagnosis(data: DiagnosisRows, splits: list[Split], config: TrainConfig, progress: Progress) -> Explained:
    """As Trainer.judge: train on each split's first part, predict its second through the exported graphs."""
    parts = []
    for number, split in enumerate(splits, 1):
        progress(f"split {number} of {len(splits)}")
        parts.append(_judge_one(data, split, config))
    return Explained(
        rows=reduce(Rows.followed_by, (p.rows for p in parts)),
        predicted={name: np.concatenate([p.predicted[name] for p in parts]) for name in parts[0].predicted},
        upper=np.concatenate([p.upper for p in parts]),
    )


def compared_to_placement(explained: Explained, placed: Outcome, rng: np.random.Generator) -> Metrics:
    """Metrics of the diagnosis, with the placement model's predictions of the same rows as one more predictor.

    Args:
        explained: of `judge_diagnosis`.
        placed: of the placement model, on the same splits.
        rng: source of the resamples.

    Returns:
        As Outcome.metrics; every predictor but ours also has `above_ours`, see models.metrics.paired_test.
    """
    truth, cluster = explained.rows.log_slowdown, explained.rows.group
    predicted = {**explained.predicted, "placement": placed.predicted[OURS]}
    found = evaluate(truth, predicted, cluster, rng=rng)
    found[OURS]["coverage90"] = coverage(truth, explained.upper, cluster, rng=rng)
    again = resamples_of(cluster, rng)
    for name in found.keys() - {OURS}:
        found[name]["above_ours"] = above(truth, predicted[OURS], predicted[name], again)
    return found


def by_cause(explained: Attribution, names: tuple[str, ...]) -> Mapping[str, Floats]:
    """What each cause adds to the log slowdown.

    Args:
        explained: of n rows, from models.explain.explainer.
        names: (d,) columns of the model.

    Returns:
        By cause, see features.training.diagnosis_rows.cause_of, (n,) sums of its features' contributions; they add up
        to the prediction minus what is expected of an undisturbed row.
    """
    causes = [cause_of(name) for name in names]
    return {
        cause: explained.by_feature[:, [i for i, other in enumerate(causes) if other == cause]].sum(axis=1)
        for cause in dict.fromkeys(causes)
    }


def _judge_one(data: DiagnosisRows, split: Split, config: TrainConfig) -> Explained:
    seen, unseen = data.take(split.train), data.take(split.test)
    model, fills = fit_diagnosis(seen, config)
    train, test = (rows.dataset(fills) for rows in (seen, unseen))
    said = open_fitted(model).predict(test.features)
    new = ~np.isin(unseen.rows.group, seen.rows.group)
    margin = np.where(new, model.calibration.hierarchical, model.calibration.pooled)
    train, test = (rows.with_features(impute(rows.features, model.medians)) for rows in (train, test))
    predicted = {OURS: said.log_mean} | {name: fit(train).predict(test) for name, fit in BASELINES.items()}
    return Explained(unseen.rows, predicted, said.log_mean + margin * said.spread)
