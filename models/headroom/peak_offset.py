"""Peak offset: how much is added to forecasts of peaks, so that they are exceeded as rarely as promised. Kernel.

The first offset comes from nodes that no forecast had seen; then each node's own follows its outcomes, which are known
a horizon later.
"""

import numpy as np
from numpy.typing import NDArray

from models.calibration.conformal import conformal_quantile
from models.headroom.peak_features import HOUR

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

PROMISED = 0.9
"""Share of the stated risk that is used: outcomes come late, so that offsets swing around what they should be."""
STEP = 0.06
"""How much a stretch as long as the horizon moves an offset at most, in shares of the node: more would overshoot, since
no outcome of it is known before its end. Of horizons below an hour, how much an hour does."""


def first_offset(shortfall: Floats, risk: float) -> float:
    """What to add to forecasts of nodes that were never seen.

    Args:
        shortfall: (k,) peak minus forecast, of nodes that the forecast had not seen; NaN is left out.
        risk: share of forecasts that may be exceeded, in (0, 1).

    Returns:
        Share of the node.

    Raises:
        ValueError: no shortfall is known.

    Source: split conformal prediction, Lei et al., JASA 2018.
    """
    return conformal_quantile(shortfall[np.isfinite(shortfall)], 1 - PROMISED * risk)


def followed(forecast: Floats, outcome: Floats, bins: int, risk: float) -> Floats:
    """Forecasts plus what each node's own past adds, bin after bin.

    Args:
        forecast: (n, t) peaks with the first offset, NaN where not asked.
        outcome: (n, t) peaks as they came true, known `bins` later; NaN where never known.
        bins: horizon.
        risk: share of forecasts that may be exceeded, in (0, 1).

    Returns:
        (n, t) forecasts; NaN where `forecast` is. A bin's forecast uses outcomes of stretches that are over by then, so
        that a run over more bins gives the same for those it shares.

    Raises:
        Nothing.

    Source: Gibbs and Candes, "Adaptive Conformal Inference Under Distribution Shift", NeurIPS 2021, with delay.
    """
    found, offset, step = np.full(forecast.shape, np.nan), np.zeros(len(forecast)), STEP / max(bins, HOUR)
    for now in range(forecast.shape[1]):
        if (over := now - bins) >= 0:
            missed = outcome[:, over] > found[:, over]
            known = np.isfinite(outcome[:, over]) & np.isfinite(found[:, over])
            offset = offset + np.where(known, step * (missed - PROMISED * risk), 0.0)
        found[:, now] = forecast[:, now] + offset
    return found
