"""Cold: apps that never ran, by what is expected of their kin, of any app, and by the mean that training fills in."""

from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.choices import Choices, without_teams
from benchmarks.runner import HIGH, LOW, OURS
from features.columnar.arrow_columns import micros
from features.profiles.cold_start_prior import expected_of_new
from features.schema.catalog import RAW_NAMES
from features.training.model_input import complete
from ingest.lake.tables import Lake
from models.data.splits import Split
from models.estimator.feature_matrix import PRIOR, PROFILE
from models.metrics.ranking import candidate_sets, regret_at_1
from models.training.trainer import Outcome, Question, Trainer, open_fitted

Floats = NDArray[np.float64]
FILLED, ANY = "training_mean", "any_team"
"""Beside what is expected of the team: what training fills in, and what is expected of apps of unknown teams."""
RESAMPLES = 1000


def judged_cold(trainer: Trainer, question: Question, table: pa.Table, lake: Lake) -> dict[str, Outcome]:
    """What the same models say of apps that never ran, by what they are told: our outcome, FILLED and ANY."""
    keys, profiles = without_teams(table.select(["cluster", "app", "team", "platform"])), lake.read("profiles")
    anybody = expected_of_new(keys, micros(table["as_of"]), without_teams(profiles))
    rows = {
        OURS: trainer.rows,
        FILLED: trainer.rows.without_prior(),
        ANY: replace(trainer.rows, expected=anybody),
    }
    return {who: replace(trainer, rows=told).judge(question, lambda _: None) for who, told in rows.items()}


def cold_errors(outcomes: dict[str, Outcome], rng: np.random.Generator) -> dict[str, dict[str, float]]:
    """`sc_mae` by what is told; of ours also how much less than that of the others it is, with intervals over apps."""
    lost = {who: np.abs(o.predicted[OURS] - o.rows.log_slowdown) for who, o in outcomes.items()}
    found = {who: {"sc_mae": float(each.mean())} for who, each in lost.items()}
    app = outcomes[OURS].rows.group
    for who in (FILLED, ANY):
        found[OURS] |= less(f"sc_less_than_{who}", lost[OURS], lost[who], app, rng=rng)
    return found


def cold_regrets(
    trainer: Trainer, drawn: list[tuple[Split, Choices]], name: str, *, rng: np.random.Generator
) -> dict[str, dict[str, float]]:
    """Mean regret under a name for newcomers that never ran, by models that never saw their apps; as `cold_errors`."""
    parts = [_regrets(trainer, split, choices) for split, choices in drawn]
    lost = {who: np.concatenate([part[who] for part in parts]) for who in parts[0]}
    app = np.concatenate([choices.app[np.unique(choices.decision, return_index=True)[1]] for _, choices in drawn])
    found = {who: {name: float(each.mean())} for who, each in lost.items()}
    for who in (FILLED, ANY):
        found[OURS] |= less(f"{name}_less_than_{who}", lost[OURS], lost[who], app, rng=rng)
    return found


def _regrets(trainer: Trainer, split: Split, choices: Choices) -> dict[str, Floats]:
    """(decisions,) by what is told."""
    placement = trainer.model_of(split)
    predictor, fills = open_fitted(placement), placement.medians[: len(RAW_NAMES)]
    sets = candidate_sets(choices.decision, np.arange(len(choices.decision)))
    raw = choices.raw.copy()
    raw[:, PROFILE] = np.nan
    raw[:, RAW_NAMES.index("profile_windows")] = 0.0
    found = {}
    for who, told in ((OURS, choices.expected), (FILLED, np.nan), (ANY, choices.expected_of_any)):
        raw[:, PRIOR] = told
        together, whole = choices.together.harm(np.broadcast_to(told, choices.expected.shape)), complete(raw, fills)
        said = predictor.log_choice(together, partial(np.take, whole, axis=0))
        found[who] = regret_at_1(sets, choices.log_slowdown, said)
    return found


def less(
    name: str, ours: Floats, other: Floats, app: NDArray[np.int64], *, rng: np.random.Generator
) -> dict[str, float]:
    """How much less is lost than by another, as a share of what that loses; with 95 % intervals over apps.

    Args:
        name: of the figure.
        ours: (n,) losses.
        other: (n,) losses of the same rows.
        app: (n,) whose they are; all rows of an app are drawn together.
        rng: draws.
    """
    _, at = np.unique(app, return_inverse=True)
    sums = np.stack([np.bincount(at, ours), np.bincount(at, other)])
    drawn = sums[:, rng.integers(sums.shape[1], size=(RESAMPLES, sums.shape[1]))].sum(axis=2)
    low, high = np.quantile(1 - drawn[0] / drawn[1], [0.025, 0.975])
    return {name: float(1 - ours.sum() / other.sum()), f"{name}{LOW}": float(low), f"{name}{HIGH}": float(high)}
