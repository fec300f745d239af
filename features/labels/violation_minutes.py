"""Outcome: minutes in which a pod and its co-located pods were slower than allowed, where measured. Kernel.

A resident is compared with itself before the pod came, so that the node's earlier state is not attributed to the pod.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.columnar.windows import LABEL_US
from features.schema.errors import refuse_other_lengths

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
WINDOW_MINUTES = LABEL_US / 60e6


@dataclass(frozen=True, slots=True)
class Windows:
    """Five-minute windows of n containers within a stretch of time.

    Args:
        violating: (n,) windows in which the measured slowdown was above the limit.
        measured: (n,) windows in which it was measured at all.
    """

    violating: Floats
    measured: Floats


def own_minutes(own: Windows) -> Floats:
    """Violation-minutes of containers themselves.

    Args:
        own: (n,) windows after the start.

    Returns:
        (n,) minutes in measured windows above the limit; NaN where nothing was measured.

    Raises:
        FeaturesError: the arrays differ in length.

    Source: ours, docs/decisions/0037-worth.md.
    """
    refuse_other_lengths(violating=own.violating, measured=own.measured)
    return np.where(own.measured > 0, WINDOW_MINUTES * own.violating, np.nan)


def neighbour_minutes(pod: Ints, before: Windows, after: Windows, pods: int) -> Floats:
    """Violation-minutes of residents after a pod came, minus those in the same time at their rate before.

    Args:
        pod: (r,) number of the pod that a resident ran next to; a resident of several pods has a row of each.
        before: (r,) its windows before that pod started.
        after: (r,) its windows after.
        pods: how many pods there are.

    Returns:
        (pods,) minutes, below 0 where residents were slowed down less than before; 0 for a pod without a resident
        measured both before and after: residents that were not measured on either side add nothing, and are the
        caller's to count.

    Raises:
        FeaturesError: the arrays differ in length.

    Source: ours, docs/decisions/0037-worth.md; a difference of differences, resident by resident.
    """
    counts = (before.violating, before.measured, after.violating, after.measured)
    refuse_other_lengths(pod=pod, **dict(zip(("v_before", "n_before", "v_after", "n_after"), counts, strict=True)))
    both = (before.measured > 0) & (after.measured > 0)
    expected = after.measured * before.violating / np.maximum(before.measured, 1)
    added = WINDOW_MINUTES * np.where(both, after.violating - expected, 0.0)
    return np.bincount(pod, added, minlength=pods).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Measured:
    """w five-minute windows of containers on nodes, in any order.

    Args:
        node: (w,) number of the node.
        container: (w,) number of the container.
        number: (w,) of the window: its start over five minutes.
        sensitive: (w,) whether the container is latency-sensitive; others' minutes do not count.
        measured: (w,) whether its slowdown was.
        violating: (w,) whether that was above the limit.
    """

    node: Ints
    container: Ints
    number: Ints
    sensitive: Flags
    measured: Flags
    violating: Flags


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Outcomes of p pods and of their co-located pods.

    Args:
        own: (p,) violation-minutes of the pod itself, NaN where nothing of it was measured.
        neighbours: (p,) what residents had more than before.
        residents: (p,) latency-sensitive containers that were there before and after the start.
        compared: (p,) those of them that were measured both before and after; the others add nothing.
    """

    own: Floats
    neighbours: Floats
    residents: Ints
    compared: Ints


def outcomes(windows: Measured, pod: Ints, node: Ints, start: Ints, *, horizon: int) -> Outcomes:
    """Violation-minutes of pods, and of the residents of the nodes where they landed.

    Args:
        windows: all that may matter: those of the pods, and of everybody on their nodes.
        pod: (p,) the container that each is.
        node: (p,) where it landed.
        start: (p,) number of its first window.
        horizon: windows that count, from the start on, and as many before it.

    Returns:
        (p,) each, pods in the order given.

    Raises:
        FeaturesError: the arrays differ in length.

    Source: ours, docs/decisions/0037-worth.md.
    """
    refuse_other_lengths(pod=pod, node=node, start=start)
    of, row = _rows_of(windows.container, windows.number, pod, start, start + horizon)
    own = _windows(windows, of, row, len(pod))
    of, row = _rows_of(windows.node, windows.number, node, start - horizon, start + horizon)
    there = (windows.container[row] != pod[of]) & windows.sensitive[row]
    of, row = of[there], row[there]
    pairs, pair = np.unique(np.column_stack([of, windows.container[row]]), axis=0, return_inverse=True)
    pair, first = pair.ravel(), pairs[:, 0]
    late = windows.number[row] >= start[of]
    before, after = (_windows(windows, pair[side], row[side], len(pairs)) for side in (~late, late))
    stood = (np.bincount(pair[~late], minlength=len(pairs)) > 0) & (np.bincount(pair[late], minlength=len(pairs)) > 0)
    return Outcomes(
        own_minutes(own),
        neighbour_minutes(first, before, after, len(pod)),
        np.bincount(first[stood], minlength=len(pod)),
        np.bincount(first[(before.measured > 0) & (after.measured > 0)], minlength=len(pod)),
    )


def _windows(of: Measured, group: Ints, row: Ints, groups: int) -> Windows:
    """Rows counted by group."""
    measured = of.measured[row]
    return Windows(
        np.bincount(group, measured & of.violating[row], minlength=groups).astype(np.float64),
        np.bincount(group, measured, minlength=groups).astype(np.float64),
    )


def _rows_of(key: Ints, number: Ints, wanted: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """For each wanted key all rows of it numbered first up to last: which of the wanted it is, and the row."""
    low = min(int(number.min(initial=0)), int(first.min(initial=0)))
    span = max(int(number.max(initial=0)), int(last.max(initial=0))) - low + 1
    place = key * span + number - low
    order = np.argsort(place, kind="stable")
    begin, end = (np.searchsorted(place[order], wanted * span + edge - low) for edge in (first, last))
    count = end - begin
    of = np.repeat(np.arange(len(wanted)), count)
    return of, order[np.arange(len(of)) - np.repeat(np.cumsum(count) - count - begin, count)]
