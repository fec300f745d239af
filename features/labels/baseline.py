"""The app's baseline: what a signal reads at a given load without pressure. Kernel."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats
from features.schema.errors import refuse_other_lengths

CALM_QUANTILE = 0.2
MIN_CALM = 8
MIN_BIN = 8
MAX_BINS = 8


@dataclass(frozen=True, slots=True)
class Curve:
    """A signal's normal against load: knots joined by straight lines; no load known means one knot for all.

    Args:
        load: (k,) loads of the knots, rising; empty for a signal without load.
        value: (k,) or (1,) normal values.
        low: smallest load the curve stands for.
        high: largest load the curve stands for.
    """

    load: Floats
    value: Floats
    low: float
    high: float


def calm_rows(pressure: Floats) -> NDArray[np.bool_]:
    """Which rows are calm: total pressure not above its 20th percentile.

    Args:
        pressure: (n, p) pressures; a missing one adds nothing.

    Returns:
        (n,) booleans.

    Source: ours, docs/decisions/0006-profiles.md.
    """
    if not len(pressure):
        return np.zeros(0, np.bool_)
    total = np.nansum(pressure, axis=1)
    calm: NDArray[np.bool_] = total <= np.quantile(total, CALM_QUANTILE)
    return calm


def fit_curve(load: Floats, value: Floats) -> Curve | None:
    """Normal of a signal against load, from calm rows.

    Args:
        load: (n,) load, 1/s; all NaN for an app without requests.
        value: (n,) signal; NaN where it was not measured.

    Returns:
        The curve (medians in equal-count bins of load, never falling with it), or None with fewer than MIN_CALM rows.

    Raises:
        FeaturesError: the arrays differ in length.

    Source: ours; a latency curve that falls with load would be confounding, so bins are made monotone.
    """
    refuse_other_lengths(load=load, value=value)
    measured = np.isfinite(value)
    loaded = measured & np.isfinite(load)
    if loaded.sum() < MIN_CALM:
        return (
            Curve(np.zeros(0), np.array([middle(value[measured])]), -np.inf, np.inf)
            if measured.sum() >= MIN_CALM
            else None
        )
    order = np.flatnonzero(loaded)[np.argsort(load[loaded], kind="stable")]
    bins = np.array_split(order, max(1, min(MAX_BINS, len(order) // MIN_BIN)))
    knots = np.array([middle(load[rows]) for rows in bins])
    values = np.maximum.accumulate([middle(value[rows]) for rows in bins])
    return Curve(knots, values, float(load[order[0]]) * 0.8, float(load[order[-1]]) * 1.25)


def middle(values: Floats) -> float:
    """Median of (n,) values, n >= 1, none of them NaN: np.median to the bit, without its checks."""
    rising, half = np.sort(values), len(values) // 2
    return float(rising[half] if len(values) % 2 else (rising[half - 1] + rising[half]) / 2)


def normal_at(curve: Curve, load: Floats) -> Floats:
    """The curve's value at each load.

    Args:
        curve: see fit_curve.
        load: (n,) loads; NaN where not known.

    Returns:
        (n,) normal values; NaN outside the loads that the curve was fitted on, and where a needed load is missing.

    Source: linear interpolation between medians.
    """
    if not len(curve.load):
        return np.full(len(load), curve.value[0])
    inside = (load >= curve.low) & (load <= curve.high)
    return np.where(inside, np.interp(np.where(inside, load, 0.0), curve.load, curve.value), np.nan)
