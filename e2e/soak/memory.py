"""Memory: how much processes hold while they run, and how surely it grows. Kernel but for `resident` and `Samples`."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
PAGE = 4096
BLOCK_S = 300.0
"""Samples of so long are drawn together: memory of one moment is that of the next."""
DRAWS = 500
NEARLY = 0.9


@dataclass(frozen=True, slots=True)
class Slope:
    """Growth in per cent of the mean an hour, with its 95 % interval."""

    value: float
    low: float
    high: float


def resident(pid: int) -> tuple[int, int]:
    """What a process holds in memory, and how much of that are pages of files, in bytes; 0 where it is gone."""
    try:
        _, held, of_files, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
    except (OSError, ValueError):
        return 0, 0
    return held * PAGE, of_files * PAGE


@dataclass
class Samples:
    """What each process held, when.

    Args:
        told: where each sample is written, as comma-separated values.
    """

    told: TextIO
    at_s: dict[str, list[float]] = field(default_factory=dict)
    held: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rows = csv.writer(self.told, lineterminator="\n")
        self._rows.writerow(("process", "seconds", "resident_bytes", "file_bytes"))

    def take(self, since_s: float, pids: Mapping[str, int]) -> None:
        """Look at each process once."""
        for name, pid in pids.items():
            held, of_files = resident(pid)
            self.at_s.setdefault(name, []).append(since_s)
            self.held.setdefault(name, []).append(float(held))
            self._rows.writerow((name, f"{since_s:.2f}", held, of_files))


def least(seconds: Floats, held: Floats, of_s: float) -> tuple[Floats, Floats]:
    """What is held for good: the least of each piece of time, as what is taken for a piece of work comes and goes.

    Args:
        seconds: (n,) times, rising.
        held: (n,) bytes.
        of_s: how long a piece of time is; as long as it takes until the same work comes again.

    Returns:
        (m,) the first time and (m,) the least of each piece of time; what is left at the end is none, unless it is
        nearly as long: nothing may have been given back in it.
    """
    piece = np.floor((seconds - seconds[0]) / of_s)
    first = np.flatnonzero(np.diff(piece, prepend=-1.0))
    if seconds[-1] - seconds[first[-1]] < NEARLY * of_s:
        held, first = held[: first[-1]], first[:-1]
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
