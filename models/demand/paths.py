"""Paths: windows as they may come, with the dependence between hours and series that earlier errors had. Kernel."""

import numpy as np
from numpy.typing import NDArray

from models.demand.rolling_origin import Rolled
from models.demand.spread import Spread

Floats = NDArray[np.float64]


def mixtures(count: int, origins: int, blocks: int, rng: np.random.Generator) -> Floats:
    """(blocks, count, origins) weights of earlier windows in each path; half of a block's variance is the window's.

    One draw serves all series with as many origins, so that what rises together in the past rises together in paths.
    """
    shared = rng.standard_normal((count, origins))
    own = rng.standard_normal((blocks, count, origins))
    return (shared + own) / np.sqrt(2.0) if blocks > 1 else shared[None]


def standard_ranks(past: Rolled, spread: Spread, weights: Floats, horizon: int) -> Floats:
    """Where each path stands among the paths of its hour.

    Args:
        past: (r, k) errors at origins; unknown ones count as none.
        spread: of the same rule.
        weights: (blocks, n, r) from `mixtures`; a block has k hours.
        horizon: hours, at most blocks x k.

    Returns:
        (n, horizon) in (0, 1), each hour with the same n values, in an order that follows past errors.

    Raises:
        Nothing.

    Source: Schefzik et al., "Uncertainty quantification in complex simulation models using ensemble copula coupling",
    Statistical Science 2013; mixtures in place of single windows are ours, docs/decisions/0076-demand.md.
    """
    error = np.nan_to_num(past.error / spread.lead)
    mixed = np.concatenate([block @ error for block in weights], axis=1)[:, :horizon]
    order = np.argsort(np.argsort(mixed, axis=0, kind="stable"), axis=0, kind="stable")
    return np.asarray((order + 0.5) / len(mixed))


def lifted(paths: Floats, maximum: Floats) -> Floats:
    """Paths whose largest hours are as given.

    Args:
        paths: (n, k) windows.
        maximum: (n,) ascending; the path with the i-th smallest largest hour gets the i-th.

    Returns:
        (n, k); hours above a path's mean are stretched from there, others stay.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0076-demand.md.
    """
    largest, mean = paths.max(axis=1), paths.mean(axis=1)
    target = np.empty(len(paths))
    target[np.argsort(largest, kind="stable")] = maximum
    above = largest - mean
    stretch = np.where(above > 0, np.maximum(target - mean, 0.0) / np.where(above > 0, above, 1.0), 1.0)
    over = paths - mean[:, None]
    return np.where(over > 0, mean[:, None] + over * stretch[:, None], paths)
