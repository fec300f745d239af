"""Rates: samples of counters and gauges, one value each, to rows of usage, one per pod and minute. Kernel.

Exporters scrape at different seconds, and the containers of one pod at different ones too. So every series becomes one
value a minute first; then series are added up, then the containers of a pod, then ratios are taken.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats, Ints, floats, micros, numbers
from features.columnar.asof_join import key_codes, newest_known
from features.columnar.composite_keys import dense, joint, ranks, rising
from features.columnar.group_means import group_means, group_starts
from features.columnar.windows import LATENESS_US, WINDOW_US, in_time, window_end
from features.contention.container_resolution import resolved
from features.contention.node_state import INFERRED, Facts
from ingest.lake.row_filter import microseconds
from ingest.pipeline.plausibility import Capacities, without_impossible
from ingest.schema.tables import (
    EXPORTER_PREFERENCE,
    INGREDIENTS,
    NODE_USAGE,
    SIGNALS,
    TIMESTAMP,
    USAGE,
    WHOLE_NODE,
    Table,
)

Bools = NDArray[np.bool_]
MAX_GAP_US = 180 * 1_000_000
"""A counter's value before that is too old to take a difference with."""
LOOK_BACK_US = MAX_GAP_US + WINDOW_US
"""What runners read before the first minute they build: a minute may lean on the one before, and that on a reading."""
METRICS = tuple(c.name for c in (*SIGNALS, *INGREDIENTS))
AT = {name: i for i, name in enumerate(METRICS)}
LIMITS = np.array([[c.low, c.high] for c in (*SIGNALS, *INGREDIENTS)])
LARGEST = frozenset(
    {"cpu_throttled_frac", "run_delay_frac", "run_queue_frac", "rt_p95_ms", "rt_p99_ms"}
    | {m for m in METRICS if m.startswith("psi_")}
)
"""Of several containers of a pod the largest counts; the others of METRICS add up, but for WEIGHTED."""
WEIGHTED = {
    "cpi": "instructions_s",
    "llc_mpki": "instructions_s",
    "rt_mean_ms": "qps",
    "cpu_us_per_request": "qps",
    "disk_await_ms": "disk_ios_s",
}
"""Means: of several containers weighted by this, and not known where that is not."""
RATIOS = (
    ("cpi", 1.0, "cycles_s", "instructions_s"),
    ("llc_mpki", 1e3, "llc_misses_s", "instructions_s"),
    ("rt_mean_ms", 1e3, "rt_s", "qps"),
    ("disk_await_ms", 1e3, "disk_io_s", "disk_ios_s"),
    ("cpu_us_per_request", 1e6, "cpu_cores", "qps"),
)
CLIPPED = tuple(c.name for c in SIGNALS if c.unit == "s/s" and c.high == 1)
"""Shares of time, that sums over threads and jitter push above 1."""
RESET_RATIO = 0.5
"""A counter that falls below this share of its value was reset; above, collectors whose clocks differ wrote it."""
SHORTEST_US = 1_000_000
"""A pod's first sample, alone in its minute, speaks of so long."""
ORIGIN = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class Rated:
    """What samples amount to.

    Args:
        usage: rows of table `usage`, one per pod and minute in which it was sampled, at the minute's end.
        node_usage: rows of table `node_usage`, of samples of nodes themselves.
        impossible_us: (k,) minute's end of each value outside the catalogue's range or beyond what the node can do;
            such values are missing in the rows.
    """

    usage: pa.Table
    node_usage: pa.Table
    impossible_us: Ints


@dataclass(frozen=True, slots=True)
class _Cells:
    """Values of many keys by minute: rows sorted by key, then minute.

    Args:
        row: (n,) a row of the samples that stands for the key.
        minute: (n,) minutes since the first one.
        value: (n,) NaN where it was sampled without a value.
    """

    row: Ints
    minute: Ints
    value: Floats


def rates(samples: pa.Table, facts: Facts, *, lateness_us: int = LATENESS_US, trim: bool = False) -> Rated:
    """Usage of pods and nodes, from samples.

    Args:
        samples: rows of `samples`, any order, duplicates allowed; LOOK_BACK_US before the first minute that matters.
        facts: placements say which pod a name was and on which node, see `container_resolution`; capacities of nodes
            show what is impossible.
        lateness_us: samples that arrived later than this after their time are left out.
        trim: whether rows of minutes before and after which a pod was not sampled begin and end with its samples.

    Returns:
        See Rated. The pod's own cgroup counts where it was sampled, else its containers: added up, or the largest, or
        weighted means. One container without a value makes the sum missing; one that was not sampled in a minute
        counts with its minute before. Of several reports of the same, by other exporters or replicas of a collector,
        one is used, see `_reported`; of several runs of a container the newest, see `_running`. The first value of a
        run is what it used since the run before, or since its pod was placed.

    Source: ours, docs/decisions/0009-samples.md.
    """
    known = in_time(samples, lateness_us)
    known = known.filter(pc.is_in(known["metric"], pa.array(METRICS)))
    if not known.num_rows:
        return Rated(USAGE.schema.empty_table(), NODE_USAGE.schema.empty_table(), np.zeros(0, np.int64))
    sampled = _Sampled(resolved(known, facts).samples)
    per_minute, seconds = _per_minute(sampled, facts.placements)
    running = _running(sampled, per_minute, _held(sampled, per_minute), seconds)
    grid = _grid(sampled, _added_up(sampled, _reported(sampled, running)))
    values, outside = within_range(with_ratios(pods(grid)))
    usage, node_usage = _rows(sampled, grid, values, trim=trim)
    possible, over_us = _within_capacity(usage, facts.nodes)
    minute = np.repeat(grid.minute[group_starts(grid.pod)], outside)
    return Rated(possible, node_usage, np.append(sampled.first_end + minute * WINDOW_US, over_us))


def counter_rates(value: Floats, ts_us: Ints, key: Ints) -> tuple[Floats, Floats]:
    """Rates per second of counters.

    Args:
        value: (n,) counter values; NaN where not read.
        ts_us: (n,) times, microseconds.
        key: (n,) series; rows sorted by series, then time, each time once.

    Returns:
        (n,) rate since the last reading of the series; NaN for its first, after more than MAX_GAP_US, and where it was
        reset: fell below RESET_RATIO of its value. (n,) seconds each rate stands for, 1.0 where there is none.

        A smaller fall is no reset: two writers whose clocks differ take turns. What the earlier reading counted too
        much, the next one counted too little, so the largest value since the last reset stands, and the mean over time
        is right whatever the clocks.

    Source: ours; a reset, a restart and a wrap all hide what was counted before.
    """
    index = np.arange(len(value))
    read = np.isfinite(value)
    latest = np.maximum.accumulate(np.where(read, index, -1))
    before = np.append([-1], latest[:-1])
    usable = (before >= 0) & read
    usable[usable] = key[before[usable]] == key[usable]
    gap_us = np.where(usable, ts_us - ts_us[before], 0)
    reset = usable & (value < RESET_RATIO * value[before])
    level = _largest_since(value, read & (reset | ~usable)) if (usable & (value < value[before])).any() else value
    grown = np.where(usable & ~reset, level - level[before], np.nan)
    good = (gap_us > 0) & (gap_us <= MAX_GAP_US) & (grown >= 0)
    seconds = np.where(good, gap_us / 1e6, 1.0)
    return np.where(good, grown / seconds, np.nan), seconds


def _largest_since(value: Floats, begins: Bools) -> Floats:
    """(n,) largest value from the last row that begins anew until each row; NaN is skipped."""
    kinds, rank = np.unique(np.nan_to_num(value, nan=-np.inf), return_inverse=True)
    segment = np.cumsum(begins)
    largest: Floats = kinds[np.maximum.accumulate(segment * len(kinds) + rank) % len(kinds)]
    return largest


@dataclass(frozen=True)
class _Sampled:
    """Samples, and codes of what they belong to."""

    rows: pa.Table

    @cached_property
    def pod(self) -> Ints:
        """(n,) code of the pod."""
        return joint([ranks(self.rows[c]) for c in ("cluster", "node", "container")])

    @cached_property
    def container(self) -> Ints:
        """(n,) code of the container in the pod; the pod's own cgroup is one too."""
        return dense(joint([self.pod, ranks(self.rows["part"])]))

    @cached_property
    def metric(self) -> Ints:
        """(n,) place of the metric in METRICS."""
        return np.asarray(pc.index_in(self.rows["metric"], pa.array(METRICS)).to_numpy(), np.int64)

    @cached_property
    def series(self) -> Ints:
        """(n,) code of the series."""
        return dense(joint([self.run, self.metric, ranks(self.rows["series"])]))

    @cached_property
    def reporter(self) -> Ints:
        """(n,) code of exporter and replica of the collector, the preferred one first."""
        place = pc.index_in(self.rows["exporter"], pa.array(EXPORTER_PREFERENCE))
        known = np.asarray(pc.fill_null(place, len(EXPORTER_PREFERENCE)).to_numpy(), np.int64)
        rank = np.where(np.asarray(self.rows["exporter"].is_null()), 0, known + 1)
        return joint([rank, ranks(self.rows["replica"])])

    @cached_property
    def run(self) -> Ints:
        """(n,) code of a run of a container, from its start to its end, as one reporter sees it."""
        return dense(joint([self.container, dense(self.reporter), ranks(self.rows["instance"])]))

    @cached_property
    def minute(self) -> Ints:
        """(n,) minutes since the first one."""
        ends = window_end(micros(self.rows["ts"]), WINDOW_US)
        return np.asarray((ends - ends.min()) // WINDOW_US, np.int64)

    @cached_property
    def first_end(self) -> int:
        """End of the first minute, microseconds."""
        return int(window_end(micros(self.rows["ts"]), WINDOW_US).min())


def _per_minute(sampled: _Sampled, placements: pa.Table) -> tuple[_Cells, Floats]:
    """Mean of each series in each minute, of counters their rate; duplicates counted once, by lowest origin.

    And of each counter for how many seconds of the minute it rose.
    """
    rows, ts = sampled.rows, micros(sampled.rows["ts"])
    order = rising(sampled.series, ts, *(ranks(rows[name]) for name in ORIGIN))
    order = order[np.append([True], (np.diff(sampled.series[order]) != 0) | (np.diff(ts[order]) != 0))]
    series, ts, minute = sampled.series[order], ts[order], sampled.minute[order]
    value = floats(rows["value"])[order]
    counter = np.asarray(pc.fill_null(pc.equal(rows["kind"], "counter"), fill_value=False))[order]
    rate, seconds = counter_rates(np.where(counter, value, np.nan), ts, series)
    first, before_us = _begun(np.where(counter, value, np.nan), ts, series)
    moved = np.append([True], (np.diff(series) != 0) | (np.diff(value) != 0))
    alive_us = np.where(np.append([True], np.diff(series) != 0), ts, np.append([0], ts[:-1]))
    since_us = _alive_before(sampled, order[first], order[moved], alive_us[moved])
    since_us = np.maximum(since_us, _placed_before(sampled, order[first], placements))
    gap_us = ts[first] - since_us
    good = (gap_us > 0) & (gap_us <= MAX_GAP_US) & (since_us >= before_us)
    first, gap_us = first[good], gap_us[good]
    rate[first], seconds[first] = value[first] / (gap_us / 1e6), gap_us / 1e6
    starts = group_starts(joint([series, minute]))
    rose = np.add.reduceat(np.where(counter & (rate > 0), seconds, 0.0), starts)
    return _Cells(order[starts], minute[starts], group_means(np.where(counter, rate, value), seconds, starts)), rose


def _begun(value: Floats, ts_us: Ints, series: Ints) -> tuple[Ints, Ints]:
    """(f,) readings of counters that may be all that was counted, and when each series was read before; else long ago.

    They are a series' first, the next one after more than MAX_GAP_US, and what was reset: all that look-back shows.
    """
    read = np.flatnonzero(np.isfinite(value))
    follows = np.append([False], np.diff(series[read]) == 0)
    before = np.append([0], read[:-1])
    since_us = np.where(follows, ts_us[before], -MAX_GAP_US)
    begun = (ts_us[read] - since_us > MAX_GAP_US) | (value[read] < RESET_RATIO * value[before])
    return read[begun], since_us[begun]


def _alive_before(sampled: _Sampled, rows: Ints, changed: Ints, alive_us: Ints) -> Ints:
    """(n,) when the run before that of each row was alive for sure, if its container restarted since; else long ago.

    Counters of a cgroup begin at 0 with it, so the first value of a later run is what it has used since. A run that
    changed between two samples was alive at the first of them, (c,) `alive_us` of the rows that changed.
    """
    ts, group = micros(sampled.rows["ts"]), joint([sampled.container, dense(sampled.reporter)])
    having = np.asarray(sampled.rows["instance"].take(pa.array(changed)).is_valid())
    named, alive_us = changed[having], alive_us[having]
    if not len(named):
        return np.full(len(rows), -MAX_GAP_US)
    found = newest_known(group[rows], ts[rows] - 1, group[named], ts[named])
    known = (found >= 0) & np.asarray(sampled.rows["instance"].take(pa.array(rows)).is_valid())
    before = named[found]
    known[known] = sampled.run[before[known]] != sampled.run[rows[known]]
    return np.where(known, alive_us[found], -MAX_GAP_US)


def _placed_before(sampled: _Sampled, rows: Ints, placements: pa.Table) -> Ints:
    """(n,) when the pod of each row was placed, as it was known when the row arrived; else long ago.

    Counters of a pod begin at 0 with it.
    """
    added = placements.filter(
        pc.and_(pc.equal(placements["event"], "add"), pc.not_equal(placements["topic"], INFERRED))
    )
    asked = sampled.rows.take(pa.array(rows))
    left, right = key_codes(asked, added, ["cluster", "container"])
    at_us, order = micros(added["ts"]), np.argsort(micros(added["ts"]), kind="stable")
    found = np.append(order, -1)[newest_known(left, micros(asked["ts"]), right[order], at_us[order])]
    known = (found >= 0) & (np.append(micros(added["arrived_at"]), 0)[found] <= micros(asked["arrived_at"]))
    return np.where(known, np.append(at_us, 0)[found], -MAX_GAP_US)


def _held(sampled: _Sampled, cells: _Cells) -> _Cells:
    """The cells, and each series' last value in the minute after it, where its pod was sampled but it was not."""
    series, pod = sampled.series[cells.row], sampled.pod[cells.row]
    span = int(cells.minute.max()) + 2
    followed = np.append((np.diff(series) == 0) & (np.diff(cells.minute) == 1), [False])
    last = np.flatnonzero(~followed)
    held = last[np.isin(pod[last] * span + cells.minute[last] + 1, pod * span + cells.minute)]
    return _Cells(
        np.append(cells.row, cells.row[held]),
        np.append(cells.minute, cells.minute[held] + 1),
        np.append(cells.value, cells.value[held]),
    )


def _running(sampled: _Sampled, seen: _Cells, cells: _Cells, seconds: Floats) -> _Cells:
    """Of several runs of a container in a minute the cells of the one that changed last, counters with those before.

    A counter's rate is the mean over all runs, by the (seen,) seconds in which each rose. Exporters report a run that
    has ended for some minutes more; then its values stand still. A run's first value is a change too; of two that
    changed last at once the one that came later is taken.
    """
    container = joint([sampled.container, dense(sampled.reporter)])
    run = sampled.run[cells.row]
    if len(np.unique(run)) == len(np.unique(container[cells.row])):
        return cells
    changed, first = _changes(sampled)
    span = int(cells.minute.max()) + 1
    known = np.full((int(run.max()) + 1, span), -1)
    np.maximum.at(known, (sampled.run[seen.row], seen.minute), changed)
    last = np.maximum.accumulate(known, axis=1)[run, cells.minute]
    place = joint([container[cells.row], cells.minute])
    order = rising(place, last, first[run], run)
    ends = np.append(np.diff(place[order]) != 0, [True])
    best = run[order][ends][np.cumsum(np.append([0], ends[:-1]))]
    kept = np.sort(order[run[order] == best])
    series = joint([container, sampled.metric, ranks(sampled.rows["series"])])[cells.row]
    key = dense(joint([series, cells.minute]))
    weight = np.append(seconds, np.zeros(len(key) - len(seconds)))
    several = np.bincount(key, weight > 0)[key] > 1
    total = np.bincount(key, weight * np.nan_to_num(cells.value))
    mean = (total / np.clip(np.bincount(key, weight), 1e-9, WINDOW_US / 1e6))[key]  # a gap between runs counts once
    value = np.where(several, mean, cells.value)
    return _Cells(cells.row[kept], cells.minute[kept], value[kept])


def _changes(sampled: _Sampled) -> tuple[Ints, Ints]:
    """When each cell of _per_minute changed last, and when each run came, in microseconds since the first minute."""
    order = rising(sampled.series, micros(sampled.rows["ts"]))
    ts = micros(sampled.rows["ts"])[order] - sampled.first_end + WINDOW_US
    series, value = sampled.series[order], floats(sampled.rows["value"])[order]
    same = np.append([False], (np.diff(series) == 0) & (np.diff(value) == 0))
    cell = joint([series, sampled.minute[order]])
    starts = group_starts(cell)
    changed = np.maximum.reduceat(np.where(same, -1, ts), starts)
    first = np.full(int(sampled.run.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, sampled.run[order], ts)
    return changed, first


def _reported(sampled: _Sampled, cells: _Cells) -> _Cells:
    """Of each pod, metric and minute the cells of one reporter: the preferred one of those that know most."""
    reporter = dense(sampled.reporter)[cells.row]
    if not reporter.any():
        return cells
    place = joint([sampled.pod[cells.row], sampled.metric[cells.row], cells.minute])
    group = dense(joint([place, reporter]))
    known = np.bincount(group, np.isfinite(cells.value))
    unknown = np.where(known == 0, 2, known < np.bincount(group)).astype(np.int64)
    order = rising(place, unknown[group], reporter)
    starts = group_starts(place[order])
    best = np.repeat(reporter[order][starts], np.diff(np.append(starts, len(order))))
    kept = np.sort(order[reporter[order] == best])
    return _Cells(cells.row[kept], cells.minute[kept], cells.value[kept])


def _added_up(sampled: _Sampled, cells: _Cells) -> _Cells:
    """Series of the same metric, container and minute added up, or the largest taken; NaN where one of them is."""
    metric = joint([sampled.container, sampled.metric])[cells.row]
    order = rising(metric, cells.minute, sampled.series[cells.row])
    starts = group_starts(joint([metric[order], cells.minute[order]]))
    row, value = cells.row[order][starts], cells.value[order]
    largest = np.isin(sampled.metric[row], [AT[name] for name in LARGEST])
    together = np.where(largest, np.maximum.reduceat(value, starts), np.add.reduceat(value, starts))
    return _Cells(row, cells.minute[order][starts], together)


@dataclass(frozen=True, slots=True)
class Grid:
    """Containers by minute, metrics side by side; rows sorted by pod and minute.

    Args:
        row: (n,) a row of the samples that stands for the container.
        minute: (n,) minutes since the first one.
        pod: (n,) code of pod and minute, 0..p-1, rising.
        own: (n,) whether the row is the pod's own cgroup.
        value: (n, metrics) NaN where not known.
        sampled: (n, metrics) whether there was a sample, be it without a value.
    """

    row: Ints
    minute: Ints
    pod: Ints
    own: Bools
    value: Floats
    sampled: Bools


def _grid(sampled: _Sampled, cells: _Cells) -> Grid:
    """Metrics of each container and minute side by side."""
    pod_minute = joint([sampled.pod[cells.row], cells.minute])
    container = sampled.container[cells.row]
    order = rising(pod_minute, container)
    starts = group_starts(joint([pod_minute, container])[order])
    line = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
    metric = sampled.metric[cells.row[order]]
    value, known = np.full((len(starts), len(METRICS)), np.nan), np.zeros((len(starts), len(METRICS)), np.bool_)
    value[line, metric], known[line, metric] = cells.value[order], True
    row = cells.row[order][starts]
    pod = np.cumsum(np.diff(pod_minute[order][starts], prepend=-1) != 0) - 1
    own = np.asarray(sampled.rows["part"].take(pa.array(row)).is_null())
    return Grid(row, cells.minute[order][starts], pod, own, value, known)


def pods(grid: Grid) -> Floats:
    """(p, metrics) values of pods: their own cgroup's where it was sampled, else their containers' together."""
    starts = group_starts(grid.pod)
    own = grid.sampled & grid.own[:, None]
    of_pod = np.add.reduceat(np.where(own, grid.value, 0.0), starts)
    counted = grid.sampled & ~grid.own[:, None]
    of_parts = _together(counted, np.where(counted, grid.value, 0.0), starts)
    return np.where(np.logical_or.reduceat(own, starts), of_pod, of_parts)


def _together(counted: Bools, value: Floats, starts: Ints) -> Floats:
    """(p, metrics) of the containers that count, 0.0 elsewhere: sums, the largest, or weighted means."""
    together = np.add.reduceat(value, starts)
    for name in LARGEST:
        together[:, AT[name]] = np.maximum.reduceat(value[:, AT[name]], starts)
    count = np.add.reduceat(counted.astype(np.int64), starts)
    for name, by in WEIGHTED.items():
        weight = np.where(counted[:, AT[by]], value[:, AT[by]], np.nan)
        weighed = np.add.reduceat(np.where(counted[:, AT[name]], value[:, AT[name]] * weight, 0.0), starts)
        total = np.add.reduceat(np.where(counted[:, AT[name]], weight, 0.0), starts)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(total > 0, weighed / total, np.nan)
        together[:, AT[name]] = np.where(count[:, AT[name]] > 1, mean, together[:, AT[name]])
    return np.where(count > 0, together, np.nan)


def with_ratios(values: Floats) -> Floats:
    """(n, metrics) with CPI and the like from their ingredients where they were not measured as such.

    A ratio to zero is missing. Run delay is the time in the run queue less the time throttled, none without a limit.
    """
    result = values.copy()
    for name, scale, above, below in RATIOS:
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(values[:, AT[below]] > 0, scale * values[:, AT[above]] / values[:, AT[below]], np.nan)
        result[:, AT[name]] = np.where(np.isnan(values[:, AT[name]]), ratio, values[:, AT[name]])
    waited = np.maximum(values[:, AT["run_queue_frac"]] - np.nan_to_num(values[:, AT["cpu_throttled_frac"]]), 0.0)
    delay = values[:, AT["run_delay_frac"]]
    result[:, AT["run_delay_frac"]] = np.where(np.isnan(delay), waited, delay)
    return result


def within_range(values: Floats) -> tuple[Floats, Ints]:
    """Values within the catalogue's range, NaN elsewhere, and (n,) how many those were; shares of time end at 1."""
    clipped = values.copy()
    columns = [AT[name] for name in CLIPPED]
    clipped[:, columns] = np.minimum(clipped[:, columns], 1.0)
    outside = (clipped < LIMITS[:, 0]) | (clipped > LIMITS[:, 1])
    return np.where(outside, np.nan, clipped), outside.sum(axis=1)


def _rows(sampled: _Sampled, grid: Grid, values: Floats, *, trim: bool) -> tuple[pa.Table, pa.Table]:
    """Rows of `usage` and of `node_usage`."""
    starts = group_starts(grid.pod)
    row, minute = grid.row[starts], grid.minute[starts]
    first = sampled.rows.take(pa.array(row))
    columns = {c: first[c] for c in ("cluster", "node", "container", "app", "team", "qos", *ORIGIN)}
    end_us = sampled.first_end + minute * WINDOW_US
    start_us = end_us - WINDOW_US
    if trim:
        start_us, end_us = _trimmed(sampled, row, minute)
    columns |= {
        "ts": pa.array(end_us, TIMESTAMP),
        "arrived_at": pa.array(_of_cells(sampled, row, minute, "arrived_at", np.maximum), TIMESTAMP),
        "interval_s": pa.array((end_us - start_us) / 1e6),
    }
    whole = np.asarray(pc.equal(first["container"], WHOLE_NODE))
    columns |= {c.name: numbers(values[:, AT[c.name]]) for c in SIGNALS}
    return _select(columns, USAGE, ~whole), _select(columns, NODE_USAGE, whole)


def _within_capacity(usage: pa.Table, nodes: pa.Table) -> tuple[pa.Table, Ints]:
    """The rows without what their node cannot have done, and (k,) the time of each such value."""
    numbered = usage.append_column("message", pa.array(np.arange(usage.num_rows, dtype=np.int32)))
    possible, rejects = without_impossible(numbered, Capacities().updated(nodes))
    return possible.drop_columns(["message"]), micros(usage["ts"])[[reject.message for reject in rejects]]


def count_within(rated: Rated, start: datetime, end: datetime) -> int:
    """How many values in [start, end) were impossible."""
    first, last = microseconds(start), microseconds(end)
    return int(((rated.impossible_us >= first) & (rated.impossible_us < last)).sum())


def _select(columns: dict[str, pa.Array], kind: Table, rows: Bools) -> pa.Table:
    """The rows in a table's schema; a column that is not given is null."""
    arrays = [columns[f.name] if f.name in columns else pa.nulls(len(rows), f.type) for f in kind.schema]
    return pa.table(arrays, schema=kind.schema).filter(pa.array(rows))


def _trimmed(sampled: _Sampled, row: Ints, minute: Ints) -> tuple[Ints, Ints]:
    """(p,) start and end of each minute of a pod; those of its first sample, and its last, at the ends of a run.

    A run goes on over minutes without samples that a counter may lean over, see MAX_GAP_US.
    """
    pod, end = sampled.pod[row], sampled.first_end + minute * WINDOW_US
    goes_on = (np.diff(pod) == 0) & (np.diff(minute) <= MAX_GAP_US // WINDOW_US)
    first, last = (_of_cells(sampled, row, minute, "ts", pick) for pick in (np.minimum, np.maximum))
    stop = np.where(np.append(goes_on, [False]), end, last)
    begin = end - WINDOW_US
    start = np.where(np.append([False], goes_on), begin, np.minimum(first, stop - SHORTEST_US))
    return np.maximum(start, begin), stop


def _of_cells(sampled: _Sampled, row: Ints, minute: Ints, name: str, pick: np.ufunc) -> Ints:
    """(p,) the least, or the largest, time in a column of each pod's samples in each minute."""
    pods, minutes = np.append(sampled.pod, sampled.pod[row]), np.append(sampled.minute, minute)
    own, asked = np.split(dense(joint([pods, minutes])), [len(sampled.pod)])
    us = micros(sampled.rows[name])
    found = np.full(int(max(own.max(), asked.max())) + 1, us.max() if pick is np.minimum else 0)
    pick.at(found, own, us)
    return found[asked]
