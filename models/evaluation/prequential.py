"""Prequential: what margins that follow labels would have covered, on judged rows in the order of time. Kernel."""

import numpy as np
from numpy.typing import NDArray

from models.bundle.margin_updates import needed, tracking_key
from models.calibration.adaptive_conformal import replay, untouched
from models.metrics.errors_and_ranks import Estimate, Resamples, covered
from models.metrics.ranking import CandidateSets, chosen_rows
from models.training.trainer import OURS, Outcome

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LATE = 12
"""Windows that labels come late: an hour, as often as `cohabit model recalibrate` should run."""


def followed(outcome: Outcome, platform: Ints, *, observed: NDArray[np.bool_] | None = None) -> Floats:
    """Let margins follow the judged rows.

    Args:
        outcome: n judged rows of times after the one that was learnt from.
        platform: (n,) code of each row's platform, 0..p-1.
        observed: (n,) whose labels come true; None for all.

    Returns:
        (n,) log slowdown of the bound that each would have had, by labels LATE windows old.
    """
    key = tracking_key(outcome.tier, platform)
    scores = needed(outcome.rows.log_slowdown - outcome.predicted[OURS], outcome.margin)
    if observed is not None:
        scores[~observed] = np.nan
    _, stretch = replay(untouched(int(key.max()) + 1, 0.9), key, scores, time=outcome.rows.time, late=LATE)
    return outcome.predicted[OURS] + stretch * outcome.margin


def adapted_metrics(outcome: Outcome, sets: CandidateSets, platform: Ints, again: Resamples) -> dict[str, Estimate]:
    """Coverage and width of bounds that follow labels.

    Args:
        outcome: n judged rows of times after those learnt from.
        sets: candidates among them.
        platform: (n,) code of each row's platform, 0..p-1.
        again: resamples of the rows.

    Returns:
        coverage90_adapted and width_adapted, as coverage90 and width, by the labels of all rows; where there are sets
        also coverage90_selected_adapted, of the candidates that we would choose, by the labels of those alone.
    """
    truth, upper = outcome.rows.log_slowdown, followed(outcome, platform)
    found = {
        "coverage90_adapted": again.mean(covered(truth, upper)),
        "width_adapted": again.each(lambda rows: float(np.exp(np.median((upper - outcome.predicted[OURS])[rows])))),
    }
    chosen = np.zeros(len(truth), np.bool_)
    chosen[chosen_rows(sets, outcome.choice)] = True
    if chosen.any():
        inside = covered(truth, followed(outcome, platform, observed=chosen)) * chosen
        found["coverage90_selected_adapted"] = again.ratio(inside, chosen.astype(np.float64))
    return found
