"""Antagonists: neighbours whose use correlates with a container's slowdown, by one matrix product a node. Kernel."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats, Ints, floats, micros, table
from features.columnar.composite_keys import joint, ranks, rising
from features.columnar.group_means import group_starts
from features.columnar.windows import WINDOW_US, window_end
from features.schema.catalog import NAMES
from features.schema.tables import ANTAGONISTS
from ingest.schema.tables import TIMESTAMP

LOOK_BACK_US = 1800 * 1_000_000
MIN_MINUTES = 10
"""Fewer common minutes say nothing."""
TOP = 3
SIGNALS = ("cpi", "rt_mean_ms", "cpu_us_per_request", "run_delay_frac")
"""Signals of a slowdown; the first that was measured often enough is compared."""
USES = tuple(f"demand_{name}" for name in NAMES)


def antagonists(state: pa.Table) -> pa.Table:
    """The neighbours that go along most with each container, half hour by half hour.

    Args:
        state: rows of `node_state`, whole nodes, any order.

    Returns:
        Table `antagonists`, at most TOP rows a container: of each neighbour the resource with the highest correlation,
        if it is above 0; fewer than MIN_MINUTES common minutes are left out. Of equal ones the first by name counts.

    Source: correlation of a victim's CPI with its neighbours' use, Zhang et al., "CPI2", EuroSys 2013; pairwise
    complete sums by matrix product are ours.
    """
    if not state.num_rows:
        return ANTAGONISTS.schema.empty_table()
    ends = window_end(micros(state["window_end"]), LOOK_BACK_US)
    place = joint([ranks(state["cluster"]), ranks(state["node"]), (ends - ends.min()) // LOOK_BACK_US])
    container = ranks(state["container"])
    order = rising(place, container)
    starts = np.append(group_starts(place[order]), len(order))
    values = _Values(
        minute=(micros(state["window_end"]) // WINDOW_US)[order],
        container=container[order],
        signals=np.column_stack([floats(state[c]) for c in SIGNALS])[order],
        uses=np.column_stack([floats(state[c]) for c in USES])[order],
    )
    found = [pairs for a, b in pairwise(starts) for pairs in _top_pairs(values, a, b)]
    pairs = np.array(found, np.float64).reshape(len(found), len(Pair._fields))
    return _as_table(state.take(pa.array(order)).select(NAMED), ends[order], pairs)


NAMED = ["cluster", "node", "container", "app"]


class _Values(NamedTuple):
    """Columns of a state sorted by node-half-hour, then container."""

    minute: Ints
    container: Ints
    signals: Floats
    uses: Floats


class Pair(NamedTuple):
    """One row of the result: rows of victim and antagonist, and what was found."""

    victim: int
    antagonist: int
    rank: int
    signal: int
    resource: int
    correlation: float
    minutes: int


def _top_pairs(values: _Values, start: int, end: int) -> Iterator[Pair]:
    """The best pairs among the containers of one node in one half hour."""
    first = start + group_starts(np.cumsum(np.diff(values.container[start:end], prepend=-1) != 0))
    if len(first) < 2:
        return
    row = np.searchsorted(first, np.arange(start, end), side="right") - 1
    minute = np.unique(values.minute[start:end], return_inverse=True)[1]
    shape = (minute.max() + 1, len(first))
    signals = _grid(values.signals[start:end], minute, row, shape)
    uses = _grid(values.uses[start:end], minute, row, shape)
    chosen, signal = _chosen_signal(signals)
    correlation, minutes = pairwise_correlation(signal, uses)
    same = np.arange(len(first))
    correlation[same, same] = np.nan
    usable = np.where((minutes >= MIN_MINUTES) & (correlation > 0), correlation, -np.inf)
    resource = usable.argmax(axis=2)
    best = np.take_along_axis(usable, resource[:, :, None], axis=2)[:, :, 0]
    ranked = np.argsort(-best, axis=1, kind="stable")[:, :TOP]
    for victim, neighbours in enumerate(ranked):
        for rank, other in enumerate(neighbours, start=1):
            if np.isfinite(best[victim, other]):
                r = resource[victim, other]
                where = int(first[victim]), int(first[other]), rank, int(chosen[victim]), int(r)
                yield Pair(*where, float(best[victim, other]), int(minutes[victim, other, r]))


def _grid(columns: Floats, minute: Ints, container: Ints, shape: tuple[int, int]) -> Floats:
    """(minutes, containers, columns) values; NaN where there is no row."""
    grid = np.full((*shape, columns.shape[1]), np.nan)
    grid[minute, container] = columns
    return grid


def _chosen_signal(signals: Floats) -> tuple[Ints, Floats]:
    """(containers,) which signal stands for each container, and (minutes, containers) its values."""
    enough = np.isfinite(signals).sum(axis=0) >= MIN_MINUTES
    chosen = np.where(enough.any(axis=1), enough.argmax(axis=1), 0)
    return chosen, np.take_along_axis(signals, chosen[None, :, None], axis=2)[:, :, 0]


def pairwise_correlation(signal: Floats, uses: Floats) -> tuple[Floats, Ints]:
    """Correlation of each container's signal with every container's use, over the minutes that both have.

    Args:
        signal: (m, n) by minute and container; NaN where missing.
        uses: (m, n, r) by minute, container and resource; NaN where missing.

    Returns:
        (n, n, r) correlations by victim, neighbour and resource, NaN where either does not vary; (n, n, r) common
        minutes.

    Source: Pearson's correlation, pairwise complete.
    """
    n, r = uses.shape[1:]
    x, has_x = _centred(signal)
    y, has_y = _centred(uses.reshape(len(uses), n * r))
    count = has_x.T @ has_y
    sum_x, sum_y = x.T @ has_y, has_x.T @ y
    with np.errstate(invalid="ignore", divide="ignore"):
        covariance = x.T @ y - sum_x * sum_y / count
        spread_x = _spread((x * x).T @ has_y, sum_x, count)
        spread_y = _spread(has_x.T @ (y * y), sum_y, count)
        correlation = np.clip(covariance / np.sqrt(spread_x * spread_y), -1.0, 1.0)
    return correlation.reshape(n, n, r), count.reshape(n, n, r).astype(np.int64)


def _centred(values: Floats) -> tuple[Floats, Floats]:
    """Values in units of their spread less their mean, 0 where missing; and 1.0 where not missing."""
    known = np.isfinite(values)
    count = np.maximum(known.sum(axis=0), 1)
    shifted = np.where(known, values - np.where(known, values, 0.0).sum(axis=0) / count, 0.0)
    scale = np.sqrt((shifted * shifted).sum(axis=0) / count)
    return shifted / np.where(scale > 0, scale, 1.0), known.astype(np.float64)


def _spread(squares: Floats, total: Floats, count: Floats) -> Floats:
    """Sum of squares about the mean; NaN where it is nothing but rounding."""
    spread: Floats = squares - total * total / count
    return np.where(spread > 1e-9 * np.maximum(count, 1), spread, np.nan)


def _as_table(named: pa.Table, ends: Ints, pairs: NDArray[np.float64]) -> pa.Table:
    by_name = dict(zip(Pair._fields, pairs.T, strict=True))
    victim, other = (by_name[name].astype(np.int64) for name in ("victim", "antagonist"))
    columns: dict[str, object] = {c: named[c].take(pa.array(victim)) for c in NAMED}
    columns |= {"antagonist": named["container"].take(pa.array(other)), "window_end": pa.array(ends[victim], TIMESTAMP)}
    columns |= {"antagonist_app": named["app"].take(pa.array(other)), "correlation": by_name["correlation"]}
    columns |= {c: by_name[c].astype(np.int64) for c in ("rank", "minutes")}
    columns |= {"signal": pa.array(SIGNALS).take(pa.array(by_name["signal"].astype(np.int64)))}
    columns |= {"resource": pa.array(NAMES).take(pa.array(by_name["resource"].astype(np.int64)))}
    return table(columns, ANTAGONISTS.schema)
