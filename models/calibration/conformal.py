"""Calibrate: how many spreads above the mean a bound must lie to hold as often as promised.

Scores are out-of-fold residuals in units of spread: (log slowdown - log_mean) / spread, from models that saw
neither the row nor its group. Multipliers are never negative: a bound below the mean would fall as spread rises.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]


@dataclass(frozen=True)
class Calibration:
    """Multipliers of one model at one level, with the counts they rest on.

    Fewer than level / (1 - level) groups (9 at 0.9) cannot prove the level for an unseen group; `hierarchical`
    is then the worst group seen.
    """

    level: float
    pooled: float
    hierarchical: float
    node: float
    rows: int
    groups: int
    node_windows: int


def calibrate(scores: Floats, group: Ints, node_window: Ints, *, level: float) -> Calibration:
    """All multipliers of a model.

    Args:
        scores: (n,) out-of-fold residuals in units of spread, finite.
        group: (n,) app (or kind) of each row.
        node_window: (n,) id of the node and window of each row.
        level: share of cases a bound must cover, in (0, 1).

    Returns:
        `pooled` covers that share of rows of groups like those seen, `hierarchical` that share of rows in that share
        of unseen groups, `node` all containers at once in that share of node-windows. Missing values are not allowed.

    Raises:
        ValueError: no rows.

    Source: Lei et al., JASA 2018 (scaled residuals); Dunn et al., JASA 2023 (groups).
    """
    per_group = np.array([conformal_quantile(part, level) for part in _by(group, scores)])
    per_node = np.array([part.max() for part in _by(node_window, scores)])
    return Calibration(
        level=level,
        pooled=_multiplier(scores, level),
        hierarchical=_multiplier(per_group, level),
        node=_multiplier(per_node, level),
        rows=len(scores),
        groups=len(per_group),
        node_windows=len(per_node),
    )


def conformal_quantile(scores: Floats, level: float) -> float:
    """The order statistic that a new exchangeable score stays at or below with probability >= level.

    Args:
        scores: (n,) n >= 1, unitless, no NaN.
        level: in (0, 1).

    Returns:
        The ceil((n + 1) level)-th smallest score; the largest where n is too small for that.

    Raises:
        ValueError: scores are empty.

    Source: Vovk et al., "Algorithmic Learning in a Random World", 2005.
    """
    if not len(scores):
        msg = "no scores to calibrate on: out-of-fold residuals are empty"
        raise ValueError(msg)
    rank = min(int(np.ceil((len(scores) + 1) * level)), len(scores))
    return float(np.partition(scores, rank - 1)[rank - 1])


def _multiplier(scores: Floats, level: float) -> float:
    return max(0.0, conformal_quantile(scores, level))


def _by(key: Ints, scores: Floats) -> list[Floats]:
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order])) + 1
    return np.split(scores[order], starts)
