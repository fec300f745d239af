"""Contrast: what replicas of one app show about each other at the same time, without any history. Kernel."""

import numpy as np

from features.columnar.arrow_columns import Floats, Ints
from features.columnar.composite_keys import dense
from features.labels.baseline import CALM_QUANTILE
from features.labels.interference_adjust import SMALLEST, calmness
from features.schema.errors import refuse_other_lengths

MIN_TIMES = 20
"""Windows of time with two replicas or more, behind what replicas are taken to share."""
FLOOR = 0.05
"""What replicas share in log by a wrong form of harm alone, as they share load: only what goes beyond is taken off."""
MAX_DRIFT = 1.0
"""In log: further from the normal than this, a replica counts as being this far."""
LEAST_WEIGHT = 1e-4
"""Of the most pressed replica, relative to the calmest: without a calm replica the replicas are still compared."""
DOUBT = 0.1
"""Sum of squared log harm that speaks for UNTOLD."""
UNTOLD = 0.5
"""How use follows harm where replicas show nothing: between not at all and in full."""


def shared_drift(log: Floats, pressure: Floats, time_us: Ints) -> Floats:
    """How far the app is from its normal at each time for reasons that its replicas share: mixes, data, downstream.

    Args:
        log: (n,) log of a signal over its normal, with the harm believed taken off; NaN where missing.
        pressure: (n, p) pressures; a missing one adds nothing. Calm rows count most.
        time_us: (n,) ends of the windows, microseconds; rows of one time are replicas.

    Returns:
        (n,) what the other replicas at that time say, drawn to 0 by how little replicas share and how few there are; 0
        without others, and everywhere with less than MIN_TIMES times of two replicas.

    Raises:
        FeaturesError: the arrays differ in length.

    Source: ours, docs/decisions/0025-contrast.md; a random effect of time, its variance from products of replicas.
    """
    refuse_other_lengths(log=log, pressure=pressure, time_us=time_us)
    known, when = np.isfinite(log), dense(time_us)
    others = _others(known.astype(np.float64), when)
    if len(np.unique(when[known & (others > 0)])) < MIN_TIMES:
        return np.zeros(len(log))
    weight = np.where(known, _weight(pressure), 0.0)
    apart = np.where(known, log, 0.0) - np.average(log[known], weights=weight[known])
    apart = np.clip(apart, -MAX_DRIFT, MAX_DRIFT)
    said = weight * apart
    heard, sums = _others(weight, when), _others(said, when)
    shared = max(0.0, (said * sums).sum() / (weight * heard).sum() - FLOOR**2)
    alone = max((said * apart).sum() / weight.sum() - shared, SMALLEST)
    support = np.clip(heard**2 / np.maximum(_others(weight**2, when), SMALLEST), 1.0, np.maximum(others, 1.0))
    mean = np.where(others > 0, sums / np.where(others > 0, heard, 1.0), 0.0)
    drift: Floats = mean * shared / (shared + alone / support)
    return drift


def _weight(pressure: Floats) -> Floats:
    """(n,) weights that fall with total pressure, from one to LEAST_WEIGHT."""
    total = np.nansum(pressure, axis=1)
    return np.maximum(calmness(total, float(np.quantile(total, CALM_QUANTILE))) ** 2, LEAST_WEIGHT)


def _others(values: Floats, group: Ints) -> Floats:
    """(n,) sum over the others of each row's group."""
    return np.bincount(group, values)[group] - values


def use_at_rest(use: Floats, harm: Floats, time_us: Ints) -> Floats:
    """Use without what harm adds to it, as replicas show: a slowed container computes longer, or waits.

    Args:
        use: (n,) own use, cores; NaN where it was not measured.
        harm: (n,) how much slower each row is believed to be, >= 1.
        time_us: (n,) ends of the windows, microseconds; rows of one time are replicas.

    Returns:
        (n,) use over harm to a power from 0 to 1: the slope of log use on log harm among replicas of one time, which
        share load. NaN in, NaN out.

    Raises:
        FeaturesError: the arrays differ in length.

    Source: ours, docs/decisions/0025-contrast.md; the within-group (fixed effects) regression.
    """
    refuse_other_lengths(use=use, harm=harm, time_us=time_us)
    known = use > 0
    when = dense(time_us[known])
    slower, more = _within(np.log(harm[known]), when), _within(np.log(use[known]), when)
    slope = ((slower * more).sum() + DOUBT * UNTOLD) / ((slower**2).sum() + DOUBT)
    rest: Floats = use / harm ** np.clip(slope, 0.0, 1.0)
    return rest


def _within(values: Floats, group: Ints) -> Floats:
    """(n,) distance of each value from its group's mean."""
    return values - (np.bincount(group, values) / np.maximum(np.bincount(group), 1))[group]
