"""Evaluate: point, rank and coverage metrics with their uncertainty, for ours and every baseline on the same rows.

Uncertainty comes from resampling clusters (apps, or app and node-day), never rows: rows of a cluster are not
independent. All predictors are scored on the same resamples.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]
RowMetric = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True)
class Estimate:
    """A metric and its 95 % interval."""

    value: float
    low: float
    high: float


def error_of_log(truth: Floats, predicted: Floats) -> Floats:
    """Absolute error of the log slowdown, per row: (n,), (n,) -> (n,)."""
    return np.abs(predicted - truth)


def error_of_ratio(truth: Floats, predicted: Floats) -> Floats:
    """Relative error of the slowdown ratio, per row, from logs: (n,), (n,) -> (n,), 0.1 is 10 %."""
    return np.abs(np.expm1(predicted - truth))


def covered(truth: Floats, upper: Floats) -> Floats:
    """1.0 where the truth is at or below the upper bound, per row, both in log slowdown."""
    return (truth <= upper).astype(np.float64)


ROW_METRICS: Mapping[str, RowMetric] = {"mae_log": error_of_log, "mape_ratio": error_of_ratio}


def evaluate(
    truth: Floats, predicted: Mapping[str, Floats], cluster: Ints, *, rng: np.random.Generator, resamples: int = 200
) -> dict[str, dict[str, Estimate]]:
    """MAE of log slowdown, MAPE of the ratio and Spearman correlation of every predictor.

    Args:
        truth: (n,) measured log slowdown, finite.
        predicted: by predictor, (n,) predicted log slowdown of the same rows, finite.
        cluster: (n,) id of what is independent of the rest.
        rng: source of the resamples.
        resamples: bootstrap repetitions.

    Returns:
        predictor -> metric -> estimate. Missing values are not allowed.

    Raises:
        ValueError: lengths differ, or there are no rows.

    Source: percentile cluster bootstrap, Cameron et al., REStat 2008.
    """
    draws = _draws(cluster, rng, resamples)
    return {
        name: {
            **{metric: _mean(rows(truth, values), cluster, draws) for metric, rows in ROW_METRICS.items()},
            "spearman": _rank_correlation(truth, values, cluster, draws),
        }
        for name, values in predicted.items()
    }


def coverage(
    truth: Floats, upper: Floats, cluster: Ints, *, rng: np.random.Generator, resamples: int = 200
) -> Estimate:
    """Share of rows whose truth stays at or below the upper bound; all in log slowdown, otherwise as `evaluate`."""
    return _mean(covered(truth, upper), cluster, _draws(cluster, rng, resamples))


def spearman(first: Floats, second: Floats) -> float:
    """Rank correlation of two finite (n,) arrays, ties at their mean rank; 0.0 where either is constant."""
    centred = [ranks - ranks.mean() for ranks in (_ranks(first), _ranks(second))]
    scale = np.sqrt((centred[0] ** 2).sum() * (centred[1] ** 2).sum())
    return float((centred[0] * centred[1]).sum() / scale) if scale > 0 else 0.0


def _ranks(values: Floats) -> Floats:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    mean_rank: Floats = last - (count - 1) / 2
    return mean_rank[place]


def _draws(cluster: Ints, rng: np.random.Generator, resamples: int) -> Ints:
    """(resamples, clusters): how often each cluster is drawn."""
    count = len(np.unique(cluster))
    return rng.multinomial(count, np.full(count, 1 / count), size=resamples)


def _mean(rows: Floats, cluster: Ints, draws: Ints) -> Estimate:
    _, place = np.unique(cluster, return_inverse=True)
    totals, sizes = np.bincount(place, rows), np.bincount(place)
    return _estimate(float(rows.mean()), (draws @ totals) / (draws @ sizes))


def _rank_correlation(truth: Floats, values: Floats, cluster: Ints, draws: Ints) -> Estimate:
    _, place = np.unique(cluster, return_inverse=True)
    resampled = np.array([_spearman_of(np.repeat(np.arange(len(truth)), draw[place]), truth, values) for draw in draws])
    return _estimate(spearman(truth, values), resampled)


def _spearman_of(rows: Ints, truth: Floats, values: Floats) -> float:
    return spearman(truth[rows], values[rows])


def _estimate(value: float, resampled: Floats) -> Estimate:
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Estimate(value, float(low), float(high))
