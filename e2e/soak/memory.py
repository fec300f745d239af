"""Memory: how much processes hold, and how surely it grows. Kernel but for `resident`, `Samples`, `held_in`."""

import csv
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TextIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from e2e.soak.errors import SoakFailed

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


@dataclass(frozen=True, slots=True)
class Held:
    """What one process held, when."""

    at_s: Floats
    """(n,) seconds since the first look, rising."""
    bytes: Floats
    """(n,) resident; 0 where the process was gone."""

    def since(self, at_s: float) -> Self:
        """What was looked at from then on."""
        later = self.at_s >= at_s
        return type(self)(self.at_s[later], self.bytes[later])

    def there(self) -> Self:
        """What was looked at while the process was there."""
        return type(self)(self.at_s[self.bytes > 0], self.bytes[self.bytes > 0])


COLUMNS = ("process", "seconds", "resident_bytes", "file_bytes")


@dataclass
class Samples:
    """What each process held, when; also written down as it is looked at.

    Args:
        told: where each sample is written, as comma-separated values.
    """

    told: TextIO
    taken: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self._rows = csv.writer(self.told, lineterminator="\n")
        self._rows.writerow(COLUMNS)

    def take(self, since_s: float, pids: Mapping[str, int]) -> None:
        """Look at each process once."""
        for name, pid in pids.items():
            held, of_files = resident(pid)
            self.taken[name].append((since_s, float(held)))
            self._rows.writerow((name, f"{since_s:.2f}", held, of_files))

    def held(self) -> dict[str, Held]:
        """By process."""
        return {name: Held(*np.array(pairs).T) for name, pairs in self.taken.items()}


def held_in(file: Path) -> dict[str, Held]:
    """What each process held, from a file that `Samples` wrote; a line that was cut short is left out.

    Raises:
        SoakFailed: the file cannot be read or holds no samples.
    """
    try:
        rows = pl.read_csv(file, schema_overrides={"seconds": pl.Float64, "resident_bytes": pl.Float64})
        whole = rows.select(COLUMNS).drop_nulls().sort("seconds", maintain_order=True)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise SoakFailed(f"no samples of a soak in {file}: {error}") from error
    by_process = whole.partition_by("process", as_dict=True)
    return {
        str(name): Held(one["seconds"].to_numpy(), one["resident_bytes"].to_numpy())
        for (name,), one in by_process.items()
    }


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
