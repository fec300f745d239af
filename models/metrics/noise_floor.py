"""Noise: the error that no predictor can avoid, estimated from windows that should measure the same. Kernel."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]
Pairs = NDArray[np.int64]

PRESSURE_TOLERANCE = 0.02
"""Shares of the node; beyond it two windows are not of near-equal state."""
LOAD_TOLERANCE = 0.05
"""Shares of the app's peak."""
MIN_PAIRS = 30
"""Fewer say nothing about noise."""


@dataclass(frozen=True)
class NoiseFloor:
    """The mean absolute error in log slowdown that no predictor can be below.

    Args:
        guaranteed: whatever the noise looks like.
        if_normal: where the noise is normal; larger.
        pairs: how many pairs of windows it rests on.
    """

    guaranteed: float
    if_normal: float
    pairs: int


def replicates(container: Ints, window: Ints, pressure: Floats, load: Floats) -> Pairs:
    """Pairs of windows that should have measured the same: the same container, one window on, near-equal state.

    Args:
        container: (n,) id of each row's container and node.
        window: (n,) number of its window; neighbours in time differ by one.
        pressure: (n, p) shares of the node; NaN where not measured in both windows is ignored.
        load: (n,) load as a share of the app's peak; NaN where an app has none.

    Returns:
        (m, 2) row numbers, each pair once, the earlier first.

    Raises:
        Nothing.

    Source: ours, docs/evaluation.md; near replicates as in Daniel and Wood, "Fitting Equations to Data", 1980.
    """
    order = np.lexsort((window, container))
    first, second = order[:-1], order[1:]
    adjacent = (container[first] == container[second]) & (window[second] - window[first] == 1)
    first, second = first[adjacent], second[adjacent]
    moved = np.abs(pressure[second] - pressure[first])
    calm = ~(moved > PRESSURE_TOLERANCE).any(axis=1) & ~(np.abs(load[second] - load[first]) > LOAD_TOLERANCE)
    alike = calm & (np.isnan(pressure[second]) == np.isnan(pressure[first])).all(axis=1)
    return np.column_stack([first[alike], second[alike]]).astype(np.int64)


def noise_floor(log_slowdown: Floats, pairs: Pairs) -> NoiseFloor | None:
    """The floor that the differences within pairs prove.

    Args:
        log_slowdown: (n,) labels, finite where paired.
        pairs: (m, 2) from `replicates`.

    Returns:
        With D the difference within a pair, whose two labels are one truth plus independent noise e of any
        distribution: any constant c has |D| <= |e1 - c| + |e2 - c|, so E|e - c| >= E|D| / 2, which is guaranteed. For
        normal noise of standard deviation s, E|D| = 2 s / sqrt(pi) and the best predictor's error s sqrt(2 / pi), so
        the floor is E|D| / sqrt(2). None with fewer than MIN_PAIRS pairs.

    Raises:
        Nothing.

    Source: triangle inequality; mean difference of the normal distribution, Nair, Biometrika 1936. Where noise lasts
    longer than a window the floor is too low, and what changed between the windows makes it too high.
    """
    if len(pairs) < MIN_PAIRS:
        return None
    apart = float(np.abs(log_slowdown[pairs[:, 1]] - log_slowdown[pairs[:, 0]]).mean())
    return NoiseFloor(apart / 2, float(apart / np.sqrt(2)), len(pairs))
