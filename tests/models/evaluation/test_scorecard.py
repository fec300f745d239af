"""Scorecard: metrics by hand, and each only where the data allow it."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from features.schema.catalog import EXPECTED, RAW_NAMES
from models.bundle.margins import Margins
from models.estimator.feature_matrix import Rows
from models.evaluation.scorecard import (
    app_coverage,
    best_baseline,
    bound_metrics,
    oracle_margin,
    pinball,
    scorecard,
    skill,
)
from models.metrics.errors_and_ranks import Estimate, resamples_of
from models.metrics.ranking import candidate_sets
from models.training.trainer import OURS, Outcome

Floats = NDArray[np.float64]
APPS = np.repeat(np.arange(4), 10)
TIERS = np.where(APPS == 1, Margins.OWN, Margins.UNSEEN).astype(np.int8)
NO_SETS = candidate_sets(np.arange(40), np.zeros(40, np.int64))


def outcome_of(truth: Floats, said: Floats, upper: Floats, choice: Floats | None = None) -> Outcome:
    n = len(truth)
    every = np.arange(n)
    none = np.full((n, len(EXPECTED)), np.nan)
    rows = Rows(np.zeros((n, len(RAW_NAMES))), truth, np.ones(n), APPS[:n], every, every, APPS[:n], none, none, none)
    return Outcome(
        rows=rows,
        predicted={OURS: said, "constant": np.zeros(n), "worse": np.full(n, 9.0)},
        upper=upper,
        where=every,
        scale=np.full(n, 0.1),
        tier=TIERS[:n],
        choice=said if choice is None else choice,
    )


@pytest.fixture
def outcome() -> Outcome:
    """App 0 is never covered, the others always; a quarter of the rows of each app are harmed."""
    truth = np.where(np.arange(40) % 4 == 0, 0.4, 0.0)
    return outcome_of(truth, truth + 0.1, np.where(APPS == 0, -1.0, 0.5))


def test_errors_of_harmed_rows_stand_apart(outcome: Outcome) -> None:
    found = scorecard(outcome, NO_SETS, APPS, np.random.default_rng(0))

    assert found["constant"]["mae_log_high"].value == pytest.approx(0.4)
    assert found["constant"]["mae_log"].value == pytest.approx(0.1)
    assert "regret_at_1" not in found[OURS]
    assert "skill" not in found["constant"]


def test_without_harmed_rows_or_a_baseline_that_errs_there_is_nothing_to_say_of_them(outcome: Outcome) -> None:
    calm = replace(outcome, rows=replace(outcome.rows, log_slowdown=np.zeros(40)))

    found = scorecard(calm, NO_SETS, APPS, np.random.default_rng(0))[OURS]

    assert not {"mae_log_high", "skill"} & found.keys()


def test_skill_is_measured_against_the_best_baseline(outcome: Outcome) -> None:
    again = resamples_of(APPS, np.random.default_rng(0))

    found = skill(outcome.rows.log_slowdown, outcome.predicted, again)

    assert found.value == pytest.approx(1 - 0.1 / 0.1)
    assert found.low <= found.value <= found.high
    assert best_baseline(scorecard(outcome, NO_SETS, APPS, np.random.default_rng(0))) == "constant"


def test_a_bound_is_judged_app_by_app(outcome: Outcome) -> None:
    found = bound_metrics(outcome, resamples_of(APPS, np.random.default_rng(0)), np.random.default_rng(1))

    assert app_coverage(outcome)[1].tolist() == [0.0, 1.0, 1.0, 1.0]
    assert found["coverage90"].value == 0.75
    assert found["apps_covered"].value == 0.75
    assert found["worst_decile"].value == 0.0
    assert found["width"].value == pytest.approx(np.median(np.exp(outcome.upper - outcome.predicted[OURS])))
    assert found["coverage90_own"].value == 1.0
    assert all(isinstance(e, Estimate) and e.low <= e.high for e in found.values())


def test_apps_with_few_rows_say_nothing_of_their_coverage(outcome: Outcome) -> None:
    few = outcome_of(np.zeros(5), np.zeros(5), np.zeros(5))

    found = bound_metrics(few, resamples_of(np.arange(5), np.random.default_rng(0)), np.random.default_rng(1))

    assert "apps_covered" not in found
    assert found["coverage90"].value == 1.0


def test_the_quantile_has_the_least_pinball_loss() -> None:
    truth = np.linspace(0, 1, 1001)

    losses = [pinball(truth, np.full(1001, bound)).mean() for bound in (0.8, 0.9, 0.95)]

    assert min(losses) == losses[1]
    assert pinball(np.array([1.0, 0.0]), np.array([0.0, 1.0])).tolist() == pytest.approx([0.9, 0.1])


def test_regret_counts_the_sets_that_are_there(outcome: Outcome) -> None:
    sets = candidate_sets(np.arange(40) // 4, np.arange(40) % 4)

    found = scorecard(outcome, sets, APPS, np.random.default_rng(0))

    assert found[OURS]["regret_at_1"].value == 0.0
    assert found["constant"]["regret_at_1"].value == pytest.approx((np.exp(0.4) - 1) / 4)


def test_the_oracle_knows_what_each_app_needed_and_no_more() -> None:
    truth = np.concatenate([np.linspace(0.1, 1.0, 10), np.full(10, -1.0)])
    found = outcome_of(truth, np.zeros(20), np.full(20, 1.8))

    margin = oracle_margin(found)
    metrics = bound_metrics(found, resamples_of(APPS[:20], np.random.default_rng(0)), np.random.default_rng(1))

    assert margin[:10] == pytest.approx(np.full(10, 0.91))
    assert (margin[10:] == 0).all()
    assert (truth[:10] <= margin[:10]).mean() == 0.9
    assert metrics["margin_vs_oracle"].value == pytest.approx(1.8 / (0.91 / 2))
    assert metrics["width_vs_oracle"].value == pytest.approx(np.exp(1.8) / ((np.exp(0.91) + 1) / 2))


def test_coverage_after_selection_counts_the_chosen_candidates_alone(outcome: Outcome) -> None:
    """Of two candidates the cheaper looking one is chosen: here always the one that is not covered."""
    truth = np.tile([0.5, 0.2], 20)
    risky = outcome_of(truth, np.tile([0.1, 0.2], 20), np.full(40, 0.3))
    sets = candidate_sets(np.arange(40) // 2, np.arange(40) % 2)

    found = scorecard(risky, sets, APPS, np.random.default_rng(0))[OURS]

    assert found["coverage90"].value == 0.5
    assert found["coverage90_selected"].value == 0.0
    assert "coverage90_selected" not in scorecard(risky, NO_SETS, APPS, np.random.default_rng(0))[OURS]
