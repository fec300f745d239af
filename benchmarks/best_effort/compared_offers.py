"""Offers: how many cores nodes offer to pods that may be evicted, by us and as others do. Kernel.

Every forecast is of latency-sensitive use alone. What others tune, they tune on the same past that we train on.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cohabit.backtest.sight import CAPACITY, CPU
from cohabit.backtest.world import platforms_of
from ingest.simulator.law import Floats
from models.headroom.peak_baselines import batch_usage, n_sigma, tuned_n
from models.headroom.peak_features import DAY, HOUR, can_be_asked, peak_features
from models.training.fit_peak import forecast_peaks

RISK = 0.05
"""Share of forecasts that may be exceeded."""
TRAINED = 2 * DAY + HOUR
"""Bins before offers begin: a day of use, and one of outcomes, of which the last is known an hour later."""
SHORT, LONG = 2, 24
"""Hours of the past that N-sigma may look at."""
OURS, BATCH_USAGE, N_SIGMA = "ours", "batch_usage", "n_sigma"


@dataclass(frozen=True)
class Offers:
    """Cores that nodes offer at the end of each interval.

    Args:
        cores: (n, t) by method: OURS, BATCH_USAGE and N_SIGMA; 0 where nothing is forecast.
        n: that N-sigma was tuned to.
        hours: of the past that it looks at.
        exceeded: share of forecasts after fit_until that were exceeded, by method.
    """

    cores: Mapping[str, Floats]
    n: float
    hours: int
    exceeded: Mapping[str, float]


def offers_of(use: Floats, *, fit_until: int) -> Offers:
    """What nodes offer for an hour: capacity less the forecast peak of those that are not evicted.

    Args:
        use: (n, t) share of each node's cores that they use, see models.headroom.peak_features.
        fit_until: forecasts are trained, and N is tuned, on outcomes known by this bin.

    Returns:
        Offers of each method. N-sigma takes the past, of 2 or 24 hours, by which it forecasts least.

    Raises:
        ValueError: too few outcomes are known by then to forecast anything.

    Source: Bashir et al., EuroSys 2021 (N-sigma); Koordinator's batch tier, policy usage; ours, docs/headroom.md.
    """
    ours = forecast_peaks(use, HOUR, RISK, fit_until=fit_until)
    if not np.isfinite(ours.peak[:, fit_until:]).any():
        raise ValueError(f"nothing is forecast from {fit_until} bins: give {TRAINED} or more")
    features, asked = peak_features(use, HOUR), can_be_asked(use)
    usable = asked & np.isfinite(ours.outcome)
    after = usable.copy()
    after[:, :fit_until] = False
    usable[:, max(0, fit_until - HOUR) :] = False
    times = {hours: tuned_n(features, ours.outcome, usable, hours, RISK) for hours in (SHORT, LONG)}
    hours = min(times, key=lambda one: float(np.nanmean(n_sigma(features, times[one], one)[usable])))
    peaks = {OURS: ours.peak, BATCH_USAGE: batch_usage(features), N_SIGMA: n_sigma(features, times[hours], hours)}
    cores = CAPACITY[platforms_of(len(use))][:, [CPU]]
    return Offers(
        {name: np.nan_to_num(np.clip(1.0 - peak, 0.0, 1.0)) * cores for name, peak in peaks.items()},
        times[hours],
        hours,
        {name: float((ours.outcome > peak)[after].mean()) if after.any() else np.nan for name, peak in peaks.items()},
    )
