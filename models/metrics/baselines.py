"""Baselines: what a model must beat before anyone trusts it. All predict log slowdown from the same imputed rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.data.dataset import Dataset

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SMALLEST_RATIO = 0.1
"""A linear baseline may extrapolate below zero; ratios are held above this before the logarithm."""


class Baseline(Protocol):
    """A fitted baseline."""

    def predict(self, data: Dataset) -> Floats:
        """(n,) predicted log slowdown."""
        ...


@dataclass(frozen=True)
class Constant:
    """The same slowdown for everyone."""

    log_slowdown: float

    def predict(self, data: Dataset) -> Floats:
        """(n,) predicted log slowdown."""
        return np.full(len(data.weight), self.log_slowdown)


@dataclass(frozen=True)
class GroupMean:
    """The mean of the row's own group; of all rows where the group is new."""

    overall: float
    groups: Ints
    means: Floats

    def predict(self, data: Dataset) -> Floats:
        """(n,) predicted log slowdown."""
        place = np.searchsorted(self.groups, data.group).clip(max=len(self.groups) - 1)
        return np.where(self.groups[place] == data.group, self.means[place], self.overall)


@dataclass(frozen=True)
class SumOfPressure:
    """Slowdown as a straight line in the sum of the base pressures."""

    intercept: float
    slope: float

    def predict(self, data: Dataset) -> Floats:
        """(n,) predicted log slowdown."""
        excess = self.intercept + self.slope * _total_pressure(data)
        return np.log(np.maximum(1 + excess, SMALLEST_RATIO))


@dataclass(frozen=True)
class Ridge:
    """A penalised straight line of log slowdown in all columns, that goes no further than what was seen."""

    intercept: float
    centre: Floats
    coefficients: Floats
    lowest: float
    highest: float

    def predict(self, data: Dataset) -> Floats:
        """(n,) predicted log slowdown."""
        line = self.intercept + _deviation(data, self.centre) @ self.coefficients
        return np.clip(line, self.lowest, self.highest)


def fit_constant(data: Dataset) -> Constant:
    """The weighted median log slowdown: no other constant has a smaller mean absolute error."""
    return Constant(float(np.quantile(data.log_slowdown, 0.5, weights=data.weight, method="inverted_cdf")))


def fit_group_mean(data: Dataset) -> GroupMean:
    """The weighted mean log slowdown of every group."""
    groups, place = np.unique(data.group, return_inverse=True)
    totals, sizes = np.bincount(place, data.weight * data.log_slowdown), np.bincount(place, data.weight)
    overall = _mean(data.log_slowdown, data.weight)
    return GroupMean(
        overall, groups.astype(np.int64), np.divide(totals, sizes, np.full(len(groups), overall), where=sizes > 0)
    )


def fit_sum_of_pressure(data: Dataset) -> SumOfPressure:
    """Weighted least squares of slowdown ratio minus one."""
    pressure, excess = _total_pressure(data), np.expm1(data.log_slowdown)
    centre = _mean(pressure, data.weight)
    variance = _mean((pressure - centre) ** 2, data.weight)
    slope = _mean((pressure - centre) * excess, data.weight) / variance if variance > 0 else 0.0
    return SumOfPressure(_mean(excess, data.weight) - slope * centre, slope)


def fit_ridge(data: Dataset, penalty: float = 1e-2) -> Ridge:
    """Weighted ridge regression, the penalty relative to each column's variance; missing counts as the mean."""
    centre = _column_means(data)
    deviation = _deviation(data, centre)
    share = data.weight / data.weight.sum()
    covariance = deviation.T @ (deviation * share[:, None])
    spread = np.diag(covariance).copy()
    spread[spread == 0] = 1.0
    mean = _mean(data.log_slowdown, data.weight)
    pull = deviation.T @ (share * (data.log_slowdown - mean))
    coefficients = np.linalg.solve(covariance + penalty * np.diag(spread), pull)
    return Ridge(mean, centre, coefficients, float(data.log_slowdown.min()), float(data.log_slowdown.max()))


BASELINES: Mapping[str, Callable[[Dataset], Baseline]] = {
    "constant": fit_constant,
    "group_mean": fit_group_mean,
    "sum_of_pressure": fit_sum_of_pressure,
    "ridge": fit_ridge,
}


def _mean(values: Floats, weight: Floats) -> float:
    return float(values @ weight / weight.sum())


def _total_pressure(data: Dataset) -> Floats:
    total: Floats = data.features[:, data.base].sum(axis=1)
    return total


def _column_means(data: Dataset) -> Floats:
    known = ~np.isnan(data.features)
    sizes = (known * data.weight[:, None]).sum(axis=0)
    totals = (np.nan_to_num(data.features) * data.weight[:, None]).sum(axis=0)
    means: Floats = np.divide(totals, sizes, np.zeros(len(sizes)), where=sizes > 0)
    return means


def _deviation(data: Dataset, centre: Floats) -> Floats:
    deviation: Floats = np.nan_to_num(data.features - centre)
    return deviation
