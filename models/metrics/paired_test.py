"""Paired: how much larger one predictor's error is than another's on the same rows, and how sure that is."""

import numpy as np
from numpy.typing import NDArray

from models.metrics.errors_and_ranks import Estimate, Resamples, error_of_log

Floats = NDArray[np.float64]


def above(truth: Floats, ours: Floats, other: Floats, again: Resamples) -> Estimate:
    """Mean absolute error of another predictor minus ours.

    Args:
        truth: (n,) measured log slowdown.
        ours: (n,) what we predict of the same rows.
        other: (n,) what the other predicts.
        again: resamples of the rows' clusters; both predictors are judged on the same draws.

    Returns:
        Log slowdown; an interval above zero is a win that is not luck, one below zero a loss.

    Raises:
        Nothing.

    Source: paired percentile cluster bootstrap, Cameron et al., REStat 2008.
    """
    return again.mean(error_of_log(truth, other) - error_of_log(truth, ours))
