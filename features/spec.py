"""Spec: which windows share a normal: those of one image version, within a fortnight where there are enough. Kernel.

A new version may be slower or faster by itself. Its windows are not held against the old version's normal: until it has
SUPPORT windows of its own it has no label.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.arrow import Ints, micros
from features.node_state import known_at
from features.order import ranks

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
        (n,) code of the version, the same for the same name; UNKNOWN where no event told one.

    Source: the newest event before the window's end.
    """
    told = placements.filter(pc.is_valid(placements["image_version"]))
    names = known_at(windows, micros(windows["window_end"]), told, KEYS)["image_version"]
    return np.where(np.asarray(names.is_valid()), ranks(names), UNKNOWN)


def specs(version: Ints, time_us: Ints) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Which windows are held against the normal of which.

    Args:
        version: (n,) from `versions`.
        time_us: (n,) ends of the windows, microseconds.

    Returns:
        Pairs of (n,) flags: windows that get labels, and those their normal is fitted on. Where all windows are of one
        version or of unknown ones the normal is fitted on all; a window is in at most one first part; versions with
        fewer than SUPPORT windows are in none.

    Source: ours, docs/decisions/0006-profiles.md; keys and support follow CPI2 (Zhang et al., EuroSys 2013).
    """
    found, codes = [], np.unique(version)
    for code in codes:
        same = version == code
        if len(codes) > 1 and code != UNKNOWN and np.count_nonzero(same) < SUPPORT:
            continue
        fitted = np.ones(len(version), np.bool_) if code == UNKNOWN else same
        found += [(same & period, _enough(fitted, period)) for period in _periods(time_us, same)]
    return found


def _periods(time_us: Ints, chosen: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    number = time_us // PERIOD_US
    return [number == one for one in np.unique(number[chosen])]


def _enough(fitted: NDArray[np.bool_], period: NDArray[np.bool_]) -> NDArray[np.bool_]:
    both = fitted & period
    return both if np.count_nonzero(both) >= SUPPORT else fitted
