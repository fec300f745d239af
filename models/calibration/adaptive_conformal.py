"""Adapt: margins that follow what came true, one step for every label. Kernel.

One number is tracked for each key, such as a platform and how well an app is known: the logarithm of what multipliers
are stretched by. A miss stretches, a case that held shrinks a little, so that in the long run as many miss as promised,
however the errors drift.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]

STEP = 0.02
"""How much one label moves the logarithm; a miss weighs nine times as much as a case that held, at level 0.9."""
MAX_AT_ONCE = 10
"""Labels of one window and key count as so many at most: containers of one moment err alike, and thousands of them
would throw the bound from one limit to the other."""
WIDEST, NARROWEST = float(np.log(4.0)), float(np.log(0.6))
"""Multipliers are stretched to four times, so that broken labels do not break bounds, and shrunk by two fifths: rows
that are covered on the whole are covered less often on the node that is chosen."""


@dataclass(frozen=True)
class Tracked:
    """Where tracking stands.

    Args:
        log_stretch: (k,) of each key, from NARROWEST to WIDEST; 0 leaves multipliers as calibrated.
        level: share of cases a bound should cover, in (0, 1).
    """

    log_stretch: Floats
    level: float

    def stretch(self, key: Ints) -> Floats:
        """(n,) factor for the multipliers of rows with these keys, 0..k-1."""
        return np.exp(self.log_stretch[key])


def untouched(keys: int, level: float) -> Tracked:
    """The state before any label."""
    return Tracked(np.zeros(keys), level)


def adapt(state: Tracked, key: Ints, scores: Floats) -> Tracked:
    """Take in the labels of one window.

    Args:
        state: where tracking stood when the rows were judged.
        key: (n,) key of each row, 0..k-1.
        scores: (n,) residual over calibrated margin; above the stretch the bound was missed. NaN, where there was no
            margin to miss, is skipped.

    Returns:
        The state after it. Keys without rows stay as they are; the order of rows does not matter. Between the
        limits, misses minus those promised, of windows of at most MAX_AT_ONCE labels, are the rise of log_stretch
        over STEP, so that their mean goes to zero with the number of labels; larger windows count as that many.

    Raises:
        Nothing.

    Source: Gibbs and Candes, "Adaptive Conformal Inference Under Distribution Shift", NeurIPS 2021, in the units of the
    margin: quantile tracking, Angelopoulos, Candes and Tibshirani, NeurIPS 2023. The clamp is ours.
    """
    known = ~np.isnan(scores)
    missed = (scores > state.stretch(key)) - (1 - state.level)
    labels, sums = (np.bincount(key[known], w, minlength=len(state.log_stretch)) for w in (None, missed[known]))
    moved = STEP * sums * np.minimum(1.0, MAX_AT_ONCE / np.maximum(labels, 1))
    return replace(state, log_stretch=np.clip(state.log_stretch + moved, NARROWEST, WIDEST))


def replay(
    state: Tracked, key: Ints, scores: Floats, *, time: NDArray[np.int64], late: int = 1
) -> tuple[Tracked, Floats]:
    """Judge rows in the order of time, each by what had come true before.

    Args:
        state: before the first row.
        key: (n,) key of each row, 0..k-1.
        scores: (n,) as for `adapt`.
        time: (n,) end of each row's window, microseconds.
        late: how many windows labels come late, beyond the one they are of.

    Returns:
        The state after all rows, and (n,) the stretch each row was judged with.

    Raises:
        Nothing.

    Source: prequential evaluation, Dawid, JRSS A 1984.
    """
    order = np.argsort(time, kind="stable").astype(np.int64)
    windows = np.split(order, np.flatnonzero(np.diff(time[order])) + 1) if len(order) else []
    stretch, waiting = np.ones(len(scores)), list[NDArray[np.int64]]()
    for rows in windows:
        stretch[rows] = state.stretch(key[rows])
        waiting.append(rows)
        if len(waiting) > late:
            state = _learnt(state, key, scores, waiting.pop(0))
    for rows in waiting:
        state = _learnt(state, key, scores, rows)
    return state, stretch


def _learnt(state: Tracked, key: Ints, scores: Floats, rows: Ints) -> Tracked:
    return adapt(state, key[rows], scores[rows])
