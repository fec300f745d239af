"""Spec: which windows share a normal: those of one image version, within a fortnight where there are enough. Kernel.

A new version may be slower or faster by itself. Its windows are not held against an old version's normal: until it has
SUPPORT windows of its own it has no label, where another version has.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.columnar.arrow_columns import Ints, micros
from features.columnar.composite_keys import ranks
from features.contention.node_state import known_at

SUPPORT = 50
"""Five-minute windows behind a normal: with two samples a minute, five containers of a hundred samples each."""
PERIOD_US = 14 * 86_400 * 1_000_000
"""A normal expires: windows of another fortnight count only where those of the same one are too few."""
UNKNOWN = -1
KEYS = ["cluster", "container"]


def versions(windows: pa.Table, placements: pa.Table) -> Ints:
    """Image version of each window's container at its end.

    Args:
        windows: label windows, any order.
        placements: rows of `placements`.

    Returns:
        (n,) code of the version, the same for the same name; UNKNOWN where no event has one.

    Source: the newest event before the window's end.
    """
    versioned = placements.filter(pc.is_valid(placements["image_version"]))
    names = known_at(windows, micros(windows["window_end"]), versioned, KEYS)["image_version"]
    return np.where(np.asarray(names.is_valid()), ranks(names), UNKNOWN)


def specs(version: Ints, time_us: Ints) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Which windows are held against the normal of which.

    Args:
        version: (n,) from `versions`.
        time_us: (n,) ends of the windows, microseconds.

    Returns:
        Pairs of (n,) flags: windows that get labels, and those their normal is fitted on. Where no version has SUPPORT
        windows, or only one is known, all share a normal. A window is in at most one first part. Where any version has
        SUPPORT windows, versions with fewer are in none.

    Source: ours, docs/decisions/0006-profiles.md; keys and support follow CPI2 (Zhang et al., EuroSys 2013).
    """
    codes, counts = np.unique(version[version != UNKNOWN], return_counts=True)
    every = np.ones(len(version), np.bool_)
    if len(codes) < 2 or counts.max() < SUPPORT:
        parts = [(every, every)]
    else:
        parts = [(version == code, version == code) for code in codes[counts >= SUPPORT]]
        parts.append((version == UNKNOWN, every))
    return [(start & when, _enough(fitted, when)) for start, fitted in parts for when in _periods(time_us, start)]


def _periods(time_us: Ints, chosen: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    number = time_us // PERIOD_US
    return [number == one for one in np.unique(number[chosen])]


def _enough(fitted: NDArray[np.bool_], period: NDArray[np.bool_]) -> NDArray[np.bool_]:
    both = fitted & period
    return both if np.count_nonzero(both) >= SUPPORT else fitted
