"""Prequential: what margins that adapt to labels would have covered, on judged rows in the order of time. Kernel."""

import numpy as np
from numpy.typing import NDArray

from models.adapt import Tracked, replay, untouched
from models.evaluate import Estimate, Resamples, covered
from models.learn import OURS, Outcome
from models.margins import Margins

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
TIERS = Margins.OWN + 1


def tracking_key(tier: NDArray[np.int8], platform: Ints) -> Ints:
    """(n,) one key for each tier and platform, platforms being 0..p-1."""
    return platform.astype(np.int64) * TIERS + tier


def followed(state: Tracked, outcome: Outcome, key: Ints, *, late: int = 1) -> tuple[Tracked, Floats]:
    """Let margins follow the judged rows.

    Args:
        state: before the first row.
        outcome: n judged rows of times after the one that was learnt from.
        key: (n,) from `tracking_key`.
        late: how many windows labels come late.

    Returns:
        The state after all rows, and (n,) log slowdown of the bound that each would have had.
    """
    margin, error = outcome.margin, outcome.rows.log_slowdown - outcome.predicted[OURS]
    needed = np.divide(error, margin, out=np.full(len(margin), np.nan), where=margin > 0)
    state, stretch = replay(state, key, needed, time=outcome.rows.time, late=late)
    return state, outcome.predicted[OURS] + stretch * margin


def adapted_metrics(outcome: Outcome, platform: Ints, again: Resamples) -> dict[str, Estimate]:
    """Coverage and width of bounds that adapt.

    Args:
        outcome: n judged rows of times after those learnt from.
        platform: (n,) code of each row's platform, 0..p-1.
        again: resamples of the rows.

    Returns:
        coverage90_adapted and width_adapted, as coverage90 and width.
    """
    key = tracking_key(outcome.tier, platform)
    _, upper = followed(untouched(int(key.max()) + 1, 0.9), outcome, key)
    return {
        "coverage90_adapted": again.mean(covered(outcome.rows.log_slowdown, upper)),
        "width_adapted": again.mean(np.exp(upper - outcome.predicted[OURS])),
    }
