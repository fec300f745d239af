"""What Optum predicts, for comparison: slowdown of each app by how full its node is, from small random forests."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestRegressor

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
DEPTH, TREES = 5, 20
FEWEST_ROWS = 20
STEPS = 21
"""Shares of a node, from 0 to 1, that predictions are kept for."""


@dataclass(frozen=True)
class ByFullness:
    """Predicted log slowdown of each app.

    Args:
        grid: (apps, STEPS, STEPS) by share of cores and of memory that others use; 0 for an app never seen.
    """

    grid: Floats

    def predict(self, cpu: Floats, memory: Floats) -> Floats:
        """(n, apps) of every app co-located with others that use these (n,) shares each."""
        at = [np.clip(np.rint(share * (STEPS - 1)), 0, STEPS - 1).astype(np.int64) for share in (cpu, memory)]
        return np.asarray(self.grid[:, at[0], at[1]].T)


def fit_by_fullness(fullness: Floats, app: Ints, log_slowdown: Floats, apps: int) -> ByFullness:
    """Learn from labelled windows.

    Args:
        fullness: (n, 2) share of the node's cores and memory that others used; rows with a gap are left out.
        app: (n,) apps, 0..apps-1; -1 is left out.
        log_slowdown: (n,) labels; NaN is left out.
        apps: how many there are.

    Returns:
        The predictions; none for apps with fewer than FEWEST_ROWS rows, as Optum counts unknown apps as harmless.

    Raises:
        Nothing.

    Source: blinkbear/Optum, a random forest of depth 5 for each app; of its features those that a placement changes.
    """
    usable = np.isfinite(fullness).all(axis=1) & np.isfinite(log_slowdown)
    share = np.linspace(0.0, 1.0, STEPS)
    points = np.column_stack([np.repeat(share, STEPS), np.tile(share, STEPS)])
    grid = np.zeros((apps, STEPS, STEPS))
    for one in range(apps):
        rows = usable & (app == one)
        if rows.sum() >= FEWEST_ROWS:
            forest = RandomForestRegressor(TREES, max_depth=DEPTH, random_state=0, n_jobs=1)
            forest.fit(fullness[rows], log_slowdown[rows])
            grid[one] = forest.predict(points).reshape(STEPS, STEPS)
    return ByFullness(grid)
