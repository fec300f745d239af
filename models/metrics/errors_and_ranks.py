"""Evaluate: point and rank metrics with their uncertainty, for ours and every baseline on the same rows.

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


@dataclass(frozen=True)
class Resamples:
    """Resamples that estimate how sure a figure is.

    Args:
        place: (n,) cluster of each row, 0..c-1.
        draws: (resamples, c) how often each cluster is drawn.
    """

    place: Ints
    draws: Ints

    def mean(self, rows: Floats) -> Estimate:
        """Mean of (n,) finite values, one a row."""
        return self.ratio(rows, np.ones(len(rows)))

    def ratio(self, above: Floats, below: Floats) -> Estimate:
        """Sum of (n,) values over the sum of (n,) others; resamples whose lower sum is zero say nothing.

        Where none says anything the interval is the value alone.
        """
        count = self.draws.shape[1]
        totals = self.draws @ np.bincount(self.place, above, minlength=count)
        sizes = self.draws @ np.bincount(self.place, below, minlength=count)
        value = above.sum() / below.sum()
        return estimate(float(value), totals[sizes > 0] / sizes[sizes > 0] if sizes.any() else np.array([value]))

    def each(self, metric: Callable[[Ints], float]) -> Estimate:
        """A metric of (m,) row numbers, such as a rank correlation, of all rows and of the rows of each draw."""
        every = np.arange(len(self.place))
        drawn = [metric(np.repeat(every, draw[self.place])) for draw in self.draws]
        return estimate(metric(every), np.array(drawn))


def resamples_of(cluster: Ints, rng: np.random.Generator, resamples: int = 200) -> Resamples:
    """Resamples of whole clusters.

    Args:
        cluster: (n,) id of what is independent of the rest.
        rng: source of the draws.
        resamples: how many.

    Returns:
        The same clusters, as many as there are, drawn with replacement.

    Raises:
        ValueError: there are no rows.

    Source: percentile cluster bootstrap, Cameron et al., REStat 2008.
    """
    names, place = np.unique(cluster, return_inverse=True)
    count = len(names)
    return Resamples(place, rng.multinomial(count, np.full(count, 1 / count), size=resamples))


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
    again = resamples_of(cluster, rng, resamples)
    return {name: point_metrics(truth, values, again) for name, values in predicted.items()}


def point_metrics(truth: Floats, predicted: Floats, again: Resamples) -> dict[str, Estimate]:
    """The row metrics and the rank correlation of one predictor, both in log slowdown, (n,) and (n,)."""
    metrics = {name: again.mean(rows(truth, predicted)) for name, rows in ROW_METRICS.items()}
    first, second = _places(truth), _places(predicted)
    return metrics | {"spearman": again.each(lambda rows: _rank_correlation(first[rows], second[rows]))}


def coverage(
    truth: Floats, upper: Floats, cluster: Ints, *, rng: np.random.Generator, resamples: int = 200
) -> Estimate:
    """Share of rows whose truth stays at or below the upper bound; all in log slowdown, otherwise as `evaluate`."""
    return resamples_of(cluster, rng, resamples).mean(covered(truth, upper))


def spearman(first: Floats, second: Floats) -> float:
    """Rank correlation of two finite (n,) arrays, ties at their mean rank; 0.0 where either is constant."""
    return _rank_correlation(_places(first), _places(second))


def _rank_correlation(first: Ints, second: Ints) -> float:
    """`spearman` of the values that have these places; so resamples need no sorting."""
    centred = [ranks - ranks.mean() for ranks in (_ranks(first), _ranks(second))]
    scale = np.sqrt((centred[0] ** 2).sum() * (centred[1] ** 2).sum())
    return float((centred[0] * centred[1]).sum() / scale) if scale > 0 else 0.0


def estimate(value: float, resampled: Floats) -> Estimate:
    """A value with the middle 95 % of (r,) resampled ones, r >= 1."""
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Estimate(value, float(low), float(high))


def _places(values: Floats) -> Ints:
    """(n,) place of each value among the distinct ones."""
    return np.unique(values, return_inverse=True)[1]


def _ranks(place: Ints) -> Floats:
    count = np.bincount(place)
    mean_rank: Floats = np.cumsum(count) - (count - 1) / 2
    return mean_rank[place]
