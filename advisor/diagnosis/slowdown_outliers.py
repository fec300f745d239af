"""Signs: who is slower than allowed, window by window, and shows it in a second way. Kernel.

One signal is not enough: two standard deviations flag one window in twenty. So a window counts where the label says
slower than allowed and another signal, which the label is not made of, says so too; and a container is slowed down
where three of its last five windows count. A label made of waiting has no other signal to confirm it and
counts by itself; and since the CPUs that a container is spread over are not known, its level may be too low, so that
it counts from where it stands out from what is usual of its app.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

LOOKED, ENOUGH = 5, 3
"""Of the last windows so many have to count."""
QUIET = 0.2
"""Share of windows of an app on a platform, those with the least slowdown, that define its usual level."""
RISE = 1.125
"""Of a second signal over its quiet median: half of what the limit allows."""
WAITING = 0.05
"""Minimum share of the time spent waiting; it must also be twice the quiet level."""
THROTTLED = 0.02
"""Share of the time, above which a container's own limit holds it back."""
ALONE = -2
"""Signal of a label that is made of all that is known of the app."""
STANDS_OUT, LEAST_OUT = 2.0, 1.06
"""A label of unknown level counts from so many times the quiet excess of its app, and from so much at least."""
LEAST_QUIET = 3
"""Windows behind a quiet median."""


@dataclass(frozen=True, slots=True)
class Windows:
    """(w,) five-minute windows of containers, in any order; one container has a number once.

    Args:
        container: (w,) code.
        app_platform: (w,) code of app and platform, which define the usual level.
        number: (w,) end of the window over its length.
        slowdown: (w,) ratio to the baseline; NaN where not known.
        label_signal: (w,) column of `working` that the label is made of, ALONE where there is no other to compare it
            with; -1 where there is no label.
        working: (w, s) signals that grow with slowdown: cycles per instruction, latency, CPU time per request.
        waiting: (w, q) shares of time that were spent waiting.
        throttled: (w,) share of time held back by the own limit; NaN where not measured.
    """

    container: Ints
    app_platform: Ints
    number: Ints
    slowdown: Floats
    label_signal: Ints
    working: Floats
    waiting: Floats
    throttled: Floats


@dataclass(frozen=True, slots=True)
class Signs:
    """(w,) what each window shows.

    Args:
        limit: slowdown from which each window is slower than allowed.
        slow: slower than allowed, and a second signal says so.
        known: it has a label.
        worked: the second signal is one of work, not of waiting alone.
        waited: it waited.
        held: the own limit held it back, and it took longer or waited.
    """

    limit: Floats
    slow: Flags
    known: Flags
    worked: Flags
    waited: Flags
    held: Flags


def signs(windows: Windows, limit: float) -> Signs:
    """What each window shows.

    Args:
        windows: of one stretch of time.
        limit: slowdown from which on a container is slower than allowed, ratio.

    Returns:
        Flags; where nothing is measured, False.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0042-diagnosis.md; three of five follows Zhang et al., "CPI2", EuroSys 2013.
    """
    quiet = least(windows.slowdown, windows.app_platform)
    usual = medians(windows.working, windows.app_platform, quiet)
    idle = np.nan_to_num(medians(windows.waiting, windows.app_platform, quiet))
    above = windows.working >= RISE * usual
    other = np.arange(windows.working.shape[1]) != windows.label_signal[:, None]
    worked = (above & other).any(axis=1)
    long: Flags = (windows.waiting >= WAITING) & (windows.waiting >= 2.0 * idle)
    waited: Flags = np.asarray(long.any(axis=1))
    held = (windows.throttled > THROTTLED) & (above.any(axis=1) | waited)
    allowed = limits(windows, limit)
    return Signs(
        limit=allowed,
        slow=(windows.slowdown >= allowed) & (worked | waited | (windows.label_signal == ALONE)),
        known=np.isfinite(windows.slowdown),
        worked=worked,
        waited=waited,
        held=held,
    )


def limits(windows: Windows, limit: float) -> Floats:
    """From which slowdown on each window is slower than allowed.

    Args:
        windows: of one stretch of time.
        limit: the same where the level of a label is known, ratio.

    Returns:
        (w,) ratios: `limit`; of labels that are made of waiting alone STANDS_OUT times the median excess of the app's
        quiet windows on the platform, between LEAST_OUT and `limit`.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0063-waiting.md: such labels order the windows of an app, and are too low by as much
        as its threads are spread over more CPUs than they use.
    """
    alone, excess = windows.label_signal == ALONE, windows.slowdown[:, None] - 1.0
    quiet = alone & least(windows.slowdown, windows.app_platform)
    usual = medians(excess, windows.app_platform, quiet)[:, 0]
    out = np.clip(1.0 + STANDS_OUT * np.nan_to_num(usual, nan=np.inf), LEAST_OUT, limit)
    return np.where(alone, out, limit)


def _groups(group: Ints, order: Ints) -> list[Ints]:
    """Rows of each group, in an order that has groups together."""
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1)


def least(slowdown: Floats, group: Ints) -> Flags:
    """(n,) rows among the QUIET share of their group with the least slowdown; rows without one are not counted."""
    found = np.zeros(len(slowdown), np.bool_)
    order = np.lexsort((slowdown, group))
    for rows in _groups(group, order):
        known = np.isfinite(slowdown[rows])
        found[rows[: math.ceil(QUIET * known.sum())]] = True
    return found


def medians(values: Floats, group: Ints, chosen: Flags) -> Floats:
    """Median of each column over the chosen rows of a row's group.

    Args:
        values: (n, k); NaN is left out.
        group: (n,) codes.
        chosen: (n,) rows that count.

    Returns:
        (n, k); NaN where fewer than LEAST_QUIET values count.

    Raises:
        Nothing.

    Source: the definition of a median.
    """
    found = np.full(values.shape, np.nan)
    for rows in _groups(group, np.argsort(group, kind="stable")):
        counted = values[rows][chosen[rows]]
        enough = np.isfinite(counted).sum(axis=0) >= LEAST_QUIET
        for column in np.flatnonzero(enough):
            found[rows, column] = np.nanmedian(counted[:, column])
    return found
