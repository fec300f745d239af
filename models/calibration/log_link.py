"""Link: from the two raw outputs of the models to slowdown ratios. Training and serving both call these."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def log_mean(base_sum: Floats, tree_raw: Floats, share: float = 1.0) -> Floats:
    """Expected log slowdown.

    Args:
        base_sum: (n,) excess ratio of the base, > -1.
        tree_raw: (n,) correction of the trees, in log ratio.
        share: of the base's log that the trees start from.

    Returns:
        (n,) log slowdown, 0.0 is the app's baseline. NaN in, NaN out.

    Raises:
        Nothing; a base of -1 or less gives -inf or NaN as NumPy does.

    Source: ours, docs/decisions/0008-model-form.md: additive in slowdown, so that it extrapolates.
    """
    return share * np.log1p(base_sum) + tree_raw


def spread(tree_raw: Floats) -> Floats:
    """Typical size of the error of `log_mean`, from the raw output of the spread model, (n,) -> (n,) > 0."""
    return np.exp(tree_raw)


def upper_ratio(log_mean: Floats, spread: Floats, multiplier: float | Floats) -> Floats:
    """Slowdown that is exceeded only as rarely as the multiplier was calibrated for.

    Args:
        log_mean: (n,) expected log slowdown.
        spread: (n,) size of its error, > 0, log ratio.
        multiplier: conformal multiplier, one for all or (n,), >= 0, so that a rising spread never lowers the bound.

    Returns:
        (n,) ratio, at or above exp(log_mean). NaN in, NaN out.

    Raises:
        Nothing.

    Source: locally weighted conformal bounds, Lei et al., JASA 2018.
    """
    return np.exp(log_mean + multiplier * spread)
