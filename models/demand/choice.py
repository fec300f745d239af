"""Choice: which rule foresees each series, by its quantile loss at earlier origins. Kernel."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from models.demand.rolling_origin import Origins, Rolled
from models.demand.spread import Spread

Floats = NDArray[np.float64]

LEVELS = (0.1, 0.5, 0.9)
"""Of the loss."""
OWN = 0.25
"""How much a series' own loss decides; the rest is the mean of all series that are forecast together."""
CLEARLY = 0.08
"""Relative gain over the default that another rule needs: windows are few, and the best of many looks too good."""


def quantile_loss(actual: Floats, quantiles: Floats, levels: Sequence[float] = LEVELS) -> float:
    """Weighted quantile loss.

    Args:
        actual: (…, k) what came; NaN is left out.
        quantiles: (levels, …, k) what was said.
        levels: of the quantiles.

    Returns:
        Mean over levels of twice the pinball loss, over the sum of what came; no unit. NaN where nothing came.

    Raises:
        Nothing.

    Source: Makridakis et al., M5 uncertainty, IJF 2022; Salinas et al., DeepAR, IJF 2020.
    """
    known = np.isfinite(actual)
    miss = np.where(known, actual, 0.0) - np.where(known, quantiles, 0.0)
    tau = np.reshape(levels, (-1,) + (1,) * actual.ndim)
    loss = 2.0 * np.maximum(tau * miss, (tau - 1.0) * miss).sum() / len(levels)
    total = float(np.abs(actual[known]).sum())
    return float(loss) / total if total else float("nan")


def loss_at_origins(past: Rolled, spread: Spread, where: Origins) -> float:
    """Weighted quantile loss of a rule over earlier origins, newer ones weighing more."""
    width = np.stack([spread.of_hours(int(at), where.horizon) for at in where.at]) * past.unit
    said = past.centre + width * spread.quantile(np.array(LEVELS))[:, None, None]
    root = where.weight[:, None]
    return quantile_loss((past.centre + past.unit * past.error) * root, said * root)


def chosen(loss: Floats, default: int) -> list[int]:
    """The rule of each series.

    Args:
        loss: (series, rules) at earlier origins, > 0; NaN or 0 where nothing is known, which then decides nothing.
        default: rule that stays unless another is better by CLEARLY.

    Returns:
        Column of each series.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0076-demand.md.
    """
    usable = (np.isfinite(loss) & (loss > 0)).all(axis=1)
    relative = np.zeros(loss.shape)
    relative[usable] = np.log(loss[usable]) - np.log(loss[usable, default])[:, None]
    together = relative[usable].mean(axis=0) if usable.any() else np.zeros(loss.shape[1])
    score = OWN * relative + (1.0 - OWN) * together
    best = score.argmin(axis=1)
    clear = score[np.arange(len(loss)), best] < -CLEARLY
    return [int(one) if sure else default for one, sure in zip(best, clear, strict=True)]
