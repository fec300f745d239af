"""Harm: how much pressure slows one app down, as far as its own windows show, so that it can be taken off. Kernel."""

import numpy as np

from features.columnar.arrow_columns import Floats
from features.columnar.nonneg_ridge import non_negative_ridge
from features.labels.baseline import CALM_QUANTILE
from features.schema.errors import refuse_other_lengths

MIN_HARM_ROWS = 40
"""Windows with signal and pressures; fewer say nothing about harm."""
SATURATION = 0.3
"""Pressure at which harm that saturates has mostly set in."""
KNEES = (0.2, 0.5)
"""Pressures from which harm may rise faster than before."""
RIDGE = 0.005
"""Small, since what the penalty takes from the pressures goes to the level, and makes every label too small."""
DOUBT = 1.0
"""How many windows' worth of evidence speak for no harm at all, so that few windows claim little."""
SMALLEST, MAX_SCALES = 1e-9, 100.0
"""Where calm windows have no pressure at all, any other window counts for next to nothing."""
CALM_HARM, SLOPE = 0.2, 1.0
"""Standard deviations of how much slower calm windows are, and how much slower a whole node's use makes an app, as
believed before any evidence: noisy windows that hardly differ in a pressure say nothing of none of it."""


def harm(ratio: Floats, pressure: Floats, so_far: Floats) -> Floats:
    """How much slower each row's pressure makes the app.

    Args:
        ratio: (n,) signal over its normal at the same load; NaN where missing.
        pressure: (n, p) shares of the node; an unmeasured column is left out, and a row with a gap from the fit.
        so_far: (n,) what was believed before, >= 1; ones at first. Rows count by the inverse fourth power of it.

    Returns:
        (n,) ratios >= 1, 1 at no pressure, a gap counting as none; ones with fewer than MIN_HARM_ROWS rows to fit.

    Raises:
        FeaturesError: the arrays differ in length.

    Source: ours, docs/decisions/0006-profiles.md; non-negative regression on bent pressures, calm rows counting most.
    """
    refuse_other_lengths(ratio=ratio, pressure=pressure, so_far=so_far)
    measured = pressure[:, np.isfinite(pressure).any(axis=0)]
    usable = np.isfinite(ratio) & np.isfinite(measured).all(axis=1)
    if usable.sum() < MIN_HARM_ROWS:
        return np.ones(len(ratio))
    columns, total = bent(np.nan_to_num(measured)), np.nansum(measured, axis=1)
    scale = float(np.quantile(total, CALM_QUANTILE))
    root = calmness(total[usable], scale) / so_far[usable] ** 2
    level, slopes = _fit(ratio[usable], columns[usable], root)
    return 1.0 + columns @ slopes / level if level > 0 else np.ones(len(ratio))


def bent(pressure: Floats) -> Floats:
    """(n, p) pressures -> (n, 4 p): as they are, as they saturate, and beyond each knee; sums rise, bent either way."""
    beyond = [np.maximum(pressure - knee, 0.0) for knee in KNEES]
    return np.column_stack([pressure, -np.expm1(-pressure / SATURATION), *beyond])


def calmness(total: Floats, scale: float) -> Floats:
    """(n,) roots of weights that fall with total pressure, the calmest row's being one."""
    above = total - total.min()
    root: Floats = np.exp(-0.5 * np.minimum(above / max(scale, SMALLEST), MAX_SCALES))
    return root


def _fit(ratio: Floats, shapes: Floats, root: Floats) -> tuple[float, Floats]:
    """Intercept and slopes >= 0 of ratios, each row counted by the square of its root, and beliefs as further rows."""
    root = root / np.sqrt((root**2).mean())
    columns, target = np.column_stack([np.ones(len(ratio)), shapes]) * root[:, None], ratio * root
    penalty = np.append(0.0, np.full(shapes.shape[1], RIDGE + DOUBT / len(ratio)))
    error = target - columns @ non_negative_ridge(columns, target, penalty)
    noise = np.sqrt((error**2).mean() * (root**4).mean())  # of one row, as if all counted alike
    beliefs = np.vstack([root @ columns[:, 1:] / len(ratio) / CALM_HARM, np.eye(shapes.shape[1]) / SLOPE])
    columns = np.vstack([columns, np.insert(noise * beliefs, 0, 0.0, axis=1)])
    found = non_negative_ridge(columns, np.append(target, np.zeros(len(beliefs))), penalty)
    return float(found[0]), found[1:]
