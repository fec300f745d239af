"""Container windows: what each container did in each minute, its mean and its peak. Kernel."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from features.columnar.arrow_columns import Floats, Ints, floats, micros, numbers, side_by_side
from features.columnar.composite_keys import joint, ranks
from features.columnar.group_means import GroupMeans, group_starts
from features.columnar.windows import WINDOW_US, order_once, window_end
from features.schema.catalog import NAMES, RESOURCES
from features.schema.tables import SIGNAL_NAMES
from ingest.schema.tables import TIMESTAMP

KEYS = ("cluster", "node", "container")
IDENTITY = ("app", "team", "qos")
USED = frozenset(name for r in RESOURCES for name in r.usage)


class ContainerWindows(NamedTuple):
    """One row per container and minute, sorted by cluster, node, window, container.

    Args:
        rows: cluster, node, container, identity as last seen, `window_end`, `samples`, `age_s` (from the last sample to
            the window's end), `arrived_at`, and the mean of each signal, weighted by interval, missing left out.
        use: (n, resources) mean use in absolute units; NaN where a signal behind it is missing.
        peak: (n, resources) largest sample of it in the window.
        group: (n,) code 0..g-1 of the node-window, rising.
    """

    rows: pa.Table
    use: Floats
    peak: Floats
    group: Ints


def container_windows(samples: pa.Table) -> ContainerWindows:
    """Means and peaks over one-minute windows.

    Args:
        samples: rows of `usage`, any order, duplicates allowed, at least one.

    Source: ours; the windows of features.columnar.windows.
    """
    ts = micros(samples["ts"])
    ends = window_end(ts, WINDOW_US)
    cluster, node, container = (ranks(samples[name]) for name in KEYS)
    place = joint([cluster, node, (ends - ends.min()) // WINDOW_US])
    key = joint([place, container])
    order = order_once(samples, key, ts)
    starts = group_starts(key[order])
    last = order[np.append(starts[1:], len(order)) - 1]
    signals = _Signals(samples, order, starts)
    columns = {name: samples[name].take(pa.array(last)) for name in (*KEYS, *IDENTITY)}
    arrived = np.maximum.reduceat(micros(samples["arrived_at"])[order], starts)
    facts = {
        "window_end": pa.array(ends[last], TIMESTAMP),
        "samples": pa.array(np.diff(np.append(starts, len(order)))),
        "age_s": pa.array((ends[last] - ts[last]) / 1e6),
        "arrived_at": pa.array(arrived, TIMESTAMP),
    }
    means = {name: signals.mean(name) for name in SIGNAL_NAMES}
    rows = pa.table({**columns, **facts, **{name: numbers(mean) for name, mean in means.items()}})
    use = side_by_side([_sum([means[name] for name in r.usage]) for r in RESOURCES])
    peak = side_by_side([signals.peak(r.usage) for r in RESOURCES])
    return ContainerWindows(rows, use, peak, np.cumsum(np.diff(place[last], prepend=place[last[0]]) != 0))


class _Signals:
    """Signals of samples, put in order and reduced to windows, column by column."""

    def __init__(self, samples: pa.Table, order: Ints, starts: Ints) -> None:
        self._samples, self._order, self._starts = samples, order, starts
        self._mean = GroupMeans(floats(samples["interval_s"])[order], starts)
        self._used: dict[str, Floats] = {}

    def mean(self, name: str) -> Floats:
        """(g,) mean of a signal, weighted by interval; NaN where it was never measured."""
        if self._unknown(name):
            return np.full(len(self._starts), np.nan)
        return self._mean(self._column(name))

    def peak(self, names: tuple[str, ...]) -> Floats:
        """(g,) largest sum of some signals in one sample; NaN where there was none."""
        if any(map(self._unknown, names)):
            return np.full(len(self._starts), np.nan)
        return self._mean.runs.largest(_sum([self._column(name) for name in names]))

    def _column(self, name: str) -> Floats:
        """(n,) a signal in order; those that make up a use are needed twice."""
        if name in self._used:
            return self._used[name]
        column = floats(self._samples[name])[self._order]
        if name in USED:
            self._used[name] = column
        return column

    def _unknown(self, name: str) -> bool:
        return bool(self._samples[name].null_count == self._samples.num_rows)


def _sum(columns: Sequence[Floats]) -> Floats:
    """(n,) sum of columns; NaN where one is missing."""
    return columns[0] if len(columns) == 1 else np.sum(columns, axis=0)


def demand_columns(use: Floats, peak: Floats, capacity: Floats) -> dict[str, Floats]:
    """Own mean and peak use of each resource as a share of the node; NaN where either is not known."""
    columns = {f"demand_{name}": use[:, i] / capacity[:, i] for i, name in enumerate(NAMES)}
    return columns | {f"peak_{name}": peak[:, i] / capacity[:, i] for i, name in enumerate(NAMES)}
