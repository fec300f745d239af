"""Forecasts by statsforecast, in the environment that has it: python scripts/demand_peers.py IN OUT.

IN has arrays seen_I (t,) without unknown hours and horizon_I; OUT gets seasonal_naive_I and mstl_I, each (4, horizon):
quantiles .1, .5, .9 and .95.
"""

import sys
import warnings

import numpy as np
from statsforecast.models import MSTL, SeasonalNaive

MODELS = {"seasonal_naive": lambda: SeasonalNaive(168), "mstl": lambda: MSTL([24, 168])}


def main(source: str, target: str) -> None:
    """Forecast every series by every model."""
    warnings.simplefilter("ignore")
    given, found = np.load(source), {}
    for name in [key for key in given.files if key.startswith("seen_")]:
        which = name.removeprefix("seen_")
        for model, make in MODELS.items():
            said = make().forecast(y=given[name], h=int(given[f"horizon_{which}"]), level=[80, 90])
            found[f"{model}_{which}"] = np.stack([said[part] for part in ("lo-80", "mean", "hi-80", "hi-90")])
    np.savez(target, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
