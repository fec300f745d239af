"""Memory: how much processes hold while they run, and how surely it grows. Kernel but for `resident_bytes`."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
PAGE = 4096
BLOCK_S = 300.0
"""Samples of so long are drawn together: memory of one moment is that of the next."""
DRAWS = 500


@dataclass(frozen=True, slots=True)
class Slope:
    """Growth in per cent of the mean an hour, with its 95 % interval."""

    value: float
    low: float
    high: float


def resident_bytes(pid: int) -> int:
    """What a process holds in memory; 0 where it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def least(seconds: Floats, held: Floats, of_s: float) -> tuple[Floats, Floats]:
    """What is held for good: the least of each piece of time, as what is taken for a piece of work comes and goes.

    Args:
        seconds: (n,) times, rising.
        held: (n,) bytes.
        of_s: how long a piece of time is; as long as it takes until the same work comes again.

    Returns:
        (m,) the first time and (m,) the least of each piece of time in which there are samples.
    """
    piece = np.floor((seconds - seconds[0]) / of_s)
    first = np.flatnonzero(np.diff(piece, prepend=-1.0))
    return seconds[first], np.minimum.reduceat(held, first)


def slope_of(seconds: Floats, held: Floats, rng: np.random.Generator) -> Slope:
    """How fast memory grows.

    Args:
        seconds: (n,) times, rising, of several blocks at least.
        held: (n,) bytes.
        rng: source of resamples.

    Returns:
        The least-squares slope over the mean, in per cent an hour; its interval by drawing blocks of residuals anew.

    Raises:
        ValueError: there are fewer than two samples.

    Source: moving block bootstrap, Künsch, Annals of Statistics 1989.
    """
    hours = (seconds - seconds.mean()) / 3600
    slope, middle = _fit(hours, held), held.mean()
    residual = held - middle - slope * hours
    length = max(1, int(np.searchsorted(seconds - seconds[0], BLOCK_S)))
    blocks = -(-len(held) // length)
    drawn = []
    for _ in range(DRAWS):
        starts = rng.integers(0, max(1, len(held) - length + 1), blocks)
        again = np.concatenate([residual[start : start + length] for start in starts])[: len(held)]
        drawn.append(slope + _fit(hours[: len(again)], again))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Slope(*(float(100 * one / middle) for one in (slope, low, high)))


def _fit(hours: Floats, held: Floats) -> float:
    centred = hours - hours.mean()
    return float((centred * held).sum() / (centred**2).sum())
