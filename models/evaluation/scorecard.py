"""Scorecard: all metrics of one question: points, bounds, apps and ranking, each with its interval. Kernel."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from models.bundle.margins import Margins
from models.metrics.errors_and_ranks import (
    Estimate,
    Resamples,
    covered,
    error_of_log,
    estimate,
    point_metrics,
    resamples_of,
)
from models.metrics.ranking import CandidateSets, chosen_rows, regret_at_1
from models.training.trainer import OURS, Metrics, Outcome

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]

HIGH_SLOWDOWN = 1.10
"""Ratio from which a row counts as harmed."""
LEVEL = 0.9
"""Promised by the bound."""
APP_COVERAGE = 0.85
"""An app below this share of covered rows is one to which the promise was not kept."""
MIN_APP_ROWS = 10
"""Apps with fewer judged rows say nothing about their own coverage."""


def scorecard(
    outcome: Outcome, sets: CandidateSets, cluster: Ints, rng: np.random.Generator, *, resamples: int = 200
) -> Metrics:
    """Every metric of docs/evaluation.md that judged rows allow.

    Args:
        outcome: n judged rows.
        sets: candidates among them.
        cluster: (n,) what is independent of the rest.
        rng: source of the resamples.
        resamples: bootstrap repetitions.

    Returns:
        By predictor: mae_log, mape_ratio, spearman, mae_log_high (rows of at least HIGH_SLOWDOWN, where there are
        any), regret_at_1 (where there are sets). For ours also skill (where every baseline errs), the metrics of
        `bound_metrics` and coverage90_selected (where there are sets).

    Raises:
        ValueError: there are no rows.

    Source: docs/evaluation.md; cluster bootstrap, Cameron et al., REStat 2008.
    """
    again, truth = resamples_of(cluster, rng, resamples), outcome.rows.log_slowdown
    by_set = resamples_of(outcome.rows.group[sets.first_rows()], rng, resamples) if sets.count else None
    found: Metrics = {}
    for name, predicted in outcome.predicted.items():
        found[name] = point_metrics(truth, predicted, again) | _high(truth, predicted, again)
        if by_set is not None:
            compared = outcome.choice if name == OURS else predicted
            found[name]["regret_at_1"] = by_set.mean(regret_at_1(sets, truth, compared))
    if found[best_baseline(found)]["mae_log"].value > 0:
        found[OURS]["skill"] = skill(truth, outcome.predicted, again)
    found[OURS] |= bound_metrics(outcome, again, rng) | selected_coverage(outcome, sets, again)
    return found


def best_baseline(metrics: Metrics) -> str:
    """The predictor other than ours with the smallest mean absolute error."""
    return min((name for name in metrics if name != OURS), key=lambda name: metrics[name]["mae_log"].value)


def skill(truth: Floats, predicted: Mapping[str, Floats], again: Resamples) -> Estimate:
    """1 - our MAE over that of the best baseline: 0 is no better, 1 is perfect; all (n,) in log slowdown.

    The baseline that is best on all rows stays the one compared with in every resample.
    """
    errors = {name: error_of_log(truth, values) for name, values in predicted.items()}
    best = min((values.mean(), name) for name, values in errors.items() if name != OURS)[1]
    ratio = again.ratio(errors[OURS], errors[best])
    return Estimate(1 - ratio.value, 1 - ratio.high, 1 - ratio.low)


def pinball(truth: Floats, upper: Floats, level: float = LEVEL) -> Floats:
    """Loss of a quantile forecast, per row: (n,) and (n,) log slowdown to (n,); its mean is least at the quantile.

    Source: Koenker and Bassett, Econometrica 1978.
    """
    short = truth - upper
    return np.maximum(level * short, (level - 1) * short)


def bound_metrics(outcome: Outcome, again: Resamples, rng: np.random.Generator) -> dict[str, Estimate]:
    """How our bound does.

    Args:
        outcome: n judged rows.
        again: their resamples.
        rng: draws apps for the metrics that are about apps.

    Returns:
        pinball90; coverage90; coverage90_own (of apps with an own margin, where there are any); width (median of
        bound over expectation, a ratio); width_vs_oracle and margin_vs_oracle (the mean of that ratio, and of its
        logarithm, over those of `oracle_margin`, the latter where that is above 0); apps_covered (share of apps of
        which at least APP_COVERAGE of the rows are covered) and worst_decile (mean coverage of the worst tenth of the
        apps), where some app has MIN_APP_ROWS.

    Raises:
        Nothing.

    Source: docs/evaluation.md.
    """
    truth, upper = outcome.rows.log_slowdown, outcome.upper
    inside = covered(truth, upper)
    found = {
        "pinball90": again.mean(pinball(truth, upper)),
        "coverage90": again.mean(inside),
        "width": again.each(lambda rows: float(np.exp(np.median(outcome.margin[rows])))),
    } | _compared_to_oracle(outcome, again)
    own = (outcome.tier == Margins.OWN).astype(np.float64)
    if own.any():
        found["coverage90_own"] = again.ratio(inside * own, own)
    by_app = app_coverage(outcome)[1]
    if not len(by_app):
        return found
    drawn = by_app[rng.integers(len(by_app), size=(len(again.draws), len(by_app)))]
    kept = (drawn >= APP_COVERAGE).mean(axis=1)
    return found | {
        "apps_covered": estimate(float((by_app >= APP_COVERAGE).mean()), kept),
        "worst_decile": estimate(float(_worst_tenth(by_app[None])[0]), _worst_tenth(drawn)),
    }


def selected_coverage(outcome: Outcome, sets: CandidateSets, again: Resamples) -> dict[str, Estimate]:
    """Coverage of the candidates that we would choose, nothing without sets of them."""
    chosen = np.zeros(len(outcome.upper))
    chosen[chosen_rows(sets, outcome.choice)] = 1.0
    inside = covered(outcome.rows.log_slowdown, outcome.upper)
    return {"coverage90_selected": again.ratio(inside * chosen, chosen)} if chosen.any() else {}


def oracle_margin(outcome: Outcome) -> Floats:
    """(n,) the narrowest margin of our form, chosen with the outcomes known, log ratio, >= 0.

    For each app one multiplier of our scale, the LEVEL quantile of what its judged rows needed, on our predictions. It
    knows every app's error before it happens; no bound for an app never seen can.
    """
    apps, place = np.unique(outcome.rows.group, return_inverse=True)
    needed: Floats = np.array([np.quantile(outcome.score[place == app], LEVEL) for app in range(len(apps))])
    margin: Floats = np.maximum(needed, 0.0)[place] * outcome.scale
    return margin


def _compared_to_oracle(outcome: Outcome, again: Resamples) -> dict[str, Estimate]:
    ours, oracle = outcome.margin, oracle_margin(outcome)
    found = {"width_vs_oracle": again.ratio(np.exp(ours), np.exp(oracle))}
    return found | ({"margin_vs_oracle": again.ratio(ours, oracle)} if oracle.any() else {})


def app_coverage(outcome: Outcome) -> tuple[NDArray[np.int64], Floats]:
    """Apps with at least MIN_APP_ROWS judged rows, (a,), and the share of their rows that is covered, (a,)."""
    apps, place, sizes = np.unique(outcome.rows.group, return_inverse=True, return_counts=True)
    inside = np.bincount(place, covered(outcome.rows.log_slowdown, outcome.upper)) / sizes
    enough = sizes >= MIN_APP_ROWS
    return apps[enough], inside[enough]


def _high(truth: Floats, predicted: Floats, again: Resamples) -> dict[str, Estimate]:
    harmed = (truth >= np.log(HIGH_SLOWDOWN)).astype(np.float64)
    return {"mae_log_high": again.ratio(error_of_log(truth, predicted) * harmed, harmed)} if harmed.any() else {}


def _worst_tenth(coverage: Floats) -> Floats:
    """(r,) mean of the lowest tenth, at least one, of each row of (r, a)."""
    count = max(1, round(coverage.shape[1] / 10))
    worst: Floats = np.sort(coverage, axis=1)[:, :count].mean(axis=1)
    return worst
