"""Series: samples of counters and gauges as one value a minute, of one run and one reporter each. Kernel."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats, Ints, floats, micros
from features.columnar.asof_join import newest_known
from features.columnar.composite_keys import dense, joint, ranks, rising
from features.columnar.group_means import group_means, group_starts
from features.columnar.windows import WINDOW_US, window_end
from features.contention.node_state import INFERRED, known_by
from features.contention.pod_metrics import AT, LARGEST, METRICS
from ingest.schema.tables import EXPORTER_PREFERENCE

Bools = NDArray[np.bool_]
MAX_GAP_US = 180 * 1_000_000
"""A counter's value before that is too old to take a difference with."""
MEMORY_US = 120 * 1_000_000
"""How long before a reading something may have happened that changes what is made of it."""
LOOK_BACK_US = MAX_GAP_US + WINDOW_US + MEMORY_US
"""What runners read before the first minute they build: a minute may lean on the one before, that on a reading, and
that on what happened before it."""
LOOK_AHEAD_US = MAX_GAP_US
"""What runners read after the last minute they build where rows are trimmed: whether its pod goes on shows there."""
RESET_RATIO = 0.5
"""A counter that falls below this share of its value was reset; above, collectors whose clocks differ wrote it."""
SKEW_US = 15 * 1_000_000
"""A pod's first value sooner after its placement says little: the clocks of exporter and API may differ as much."""
ORIGIN = ("topic", "partition", "offset")
OF_REQUESTS = ("qps", "rt_s", "timed_s", "rt_bucket_s")
"""Metrics whose series are routes and answers of a process: each comes with its first request, while others go on."""
OF_DEVICES = ("gpu_sm_frac", "gpu_memory_bytes", "gpu_dram_frac", "pcie_bytes_s")
"""Metrics whose series are devices, which several containers may share."""
OF_TIMES = ("rt_s", "timed_s")
"""Those of them that are divided by each other."""
PROCESS = r"(?:^|/)(?:service[._]instance[._]id|instance)=(?P<process>[^/]*)"
"""In the series of such metrics: which process of the pod it is of."""


@dataclass(frozen=True, slots=True)
class Cells:
    """Values of many keys by minute: rows sorted by key, then minute.

    Args:
        row: (n,) a row of the samples that stands for the key.
        minute: (n,) minutes since the first one.
        value: (n,) NaN where it was sampled without a value.
    """

    row: Ints
    minute: Ints
    value: Floats


def counter_rates(value: Floats, ts_us: Ints, key: Ints, process: Ints | None = None) -> tuple[Floats, Floats]:
    """Rates per second of counters.

    Args:
        value: (n,) counter values; NaN where not read.
        ts_us: (n,) times, microseconds.
        key: (n,) series; rows sorted by series, then time, each time once.
        process: (n,) code of a process all of whose counters begin anew when one does; 0: of none.

    Returns:
        (n,) rate since the last reading of the series; NaN for its first, and after more than MAX_GAP_US. (n,) seconds
        each rate stands for, 1.0 where there is none.

        What fell below RESET_RATIO of its value was reset: all that it reads was counted since the last reading, and
        what was counted before the reset is lost. A smaller fall is no reset: two writers whose clocks differ take
        turns. What the earlier reading counted too much, the next one counted too little, so the largest value since
        the last reset stands, for MEMORY_US, and the mean over time is right whatever the clocks.

    Source: resets as in Prometheus' rate(); the smaller falls are ours.
    """
    index = np.arange(len(value))
    read = np.isfinite(value)
    latest = np.maximum.accumulate(np.where(read, index, -1))
    before = np.append([-1], latest[:-1])
    usable = (before >= 0) & read
    usable[usable] = key[before[usable]] == key[usable]
    gap_us = np.where(usable, ts_us - ts_us[before], 0)
    reset = usable & (value < RESET_RATIO * value[before])
    if process is not None and (reset & (process > 0)).any():
        moment = joint([dense(process), dense(ts_us)])
        reset |= usable & (value < value[before]) & np.isin(moment, moment[reset & (process > 0)])
    level = value
    if (usable & (value < value[before])).any():
        level = _largest_since(value, ts_us, read & (reset | ~usable))
    grown = np.where(usable, np.where(reset, value, level - level[before]), np.nan)
    good = (gap_us > 0) & (gap_us <= MAX_GAP_US) & (grown >= 0)
    seconds = np.where(good, gap_us / 1e6, 1.0)
    return np.where(good, grown / seconds, np.nan), seconds


def _largest_since(value: Floats, ts_us: Ints, begins: Bools) -> Floats:
    """(n,) largest value from the last row that begins anew until each row, in the last MEMORY_US; NaN is skipped."""
    segment, largest = np.cumsum(begins), value.copy()
    for back in range(1, len(value)):
        near = (segment[back:] == segment[:-back]) & (ts_us[back:] - ts_us[:-back] <= MEMORY_US)
        if not near.any():
            break
        largest[back:] = np.where(near, np.fmax(largest[back:], value[:-back]), largest[back:])
    return largest


@dataclass(frozen=True)
class Sampled:
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
    def device(self) -> Ints:
        """(n,) code of a metric of a device on a node, whatever the container."""
        return dense(joint([*(ranks(self.rows[c]) for c in ("cluster", "node", "series")), self.metric]))

    @cached_property
    def process(self) -> Ints:
        """(n,) code of a process that serves requests, as one reporter sees it; one code for all of other metrics."""
        codes = np.zeros(self.rows.num_rows, np.int64)
        chosen = np.flatnonzero(self.of_requests)
        named = pc.extract_regex(self.rows["series"].take(pa.array(chosen)), PROCESS)
        owners = self.container[chosen], dense(self.reporter)[chosen]
        codes[chosen] = joint([*owners, ranks(pc.struct_field(named, "process"))]) + 1
        return codes

    @cached_property
    def family(self) -> Ints:
        """(n,) code of a metric's series of one process."""
        return joint([self.process, self.metric])

    @cached_property
    def of_requests(self) -> Bools:
        """(n,) whether the metric is one of OF_REQUESTS."""
        return np.isin(self.metric, [AT[name] for name in OF_REQUESTS])

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


def per_minute(sampled: Sampled, placements: pa.Table) -> tuple[Cells, Floats]:
    """Mean of each series in each minute, of counters their rate; duplicates counted once, by lowest origin.

    A counter's 0 is none where another value has its time: decoders make it of the start of a process.
    And of each counter for how many seconds of the minute it rose.
    """
    rows, ts = sampled.rows, micros(sampled.rows["ts"])
    order = rising(sampled.series, ts, *(ranks(rows[name]) for name in ORIGIN))
    starts = np.flatnonzero(np.append([True], (np.diff(sampled.series[order]) != 0) | (np.diff(ts[order]) != 0)))
    largest, order = np.fmax.reduceat(floats(rows["value"])[order], starts), order[starts]
    series, ts, minute = sampled.series[order], ts[order], sampled.minute[order]
    counter = np.asarray(pc.fill_null(pc.equal(rows["kind"], "counter"), fill_value=False))[order]
    value = floats(rows["value"])[order]
    value = np.where(counter & (value == 0), largest, value)
    rate, seconds = counter_rates(np.where(counter, value, np.nan), ts, series, sampled.process[order])
    first, before_us = _begun(np.where(counter, value, np.nan), ts, series)
    fresh = np.append([True], (np.diff(series) != 0) | (np.diff(ts) > MEMORY_US))
    moved = fresh | np.append([True], np.diff(value) != 0)
    alive_us = np.where(fresh, ts, np.append([0], ts[:-1]))
    run_us = _run_before(sampled, order[first], order[moved], alive_us[moved])
    placed_us = _placed_before(sampled, order[first], placements)
    since_us = np.maximum(np.maximum(run_us, placed_us), _siblings_before(sampled, order[first]))
    gap_us = ts[first] - since_us
    good = (gap_us > np.where(placed_us > run_us, SKEW_US, 0)) & (gap_us <= MAX_GAP_US) & (since_us >= before_us)
    first, gap_us = first[good], gap_us[good]
    rate[first], seconds[first] = value[first] / (gap_us / 1e6), gap_us / 1e6
    starts = group_starts(joint([series, minute]))
    rose = np.add.reduceat(np.where(counter & (rate > 0), seconds, 0.0), starts)
    return Cells(order[starts], minute[starts], group_means(np.where(counter, rate, value), seconds, starts)), rose


def _begun(value: Floats, ts_us: Ints, series: Ints) -> tuple[Ints, Ints]:
    """(f,) readings of counters that may be all that was counted, and when each series was read before; else long ago.

    They are a series' first, and the next one after more than MAX_GAP_US: all that look-back shows.
    """
    read = np.flatnonzero(np.isfinite(value))
    follows = np.append([False], np.diff(series[read]) == 0)
    since_us = np.where(follows, ts_us[np.append([0], read[:-1])], -MAX_GAP_US)
    begun = ts_us[read] - since_us > MAX_GAP_US
    return read[begun], since_us[begun]


def _run_before(sampled: Sampled, rows: Ints, changed: Ints, alive_us: Ints) -> Ints:
    """(n,) from when on the run of each row may have used what it reads, if its container restarted; else long ago.

    Counters of a cgroup begin at 0 with it, so the first value of a later run is what it has used since. A run that
    changed between two samples was alive at the first of them, (c,) `alive_us` of the rows that changed, and what it
    used until the second is its own: from there on, but for half of the time since it was alive for sure at least,
    since its end lies somewhere between.
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
    return np.where(known, np.minimum(ts[before], (alive_us[found] + ts[rows]) // 2), -MAX_GAP_US)


def _siblings_before(sampled: Sampled, rows: Ints) -> Ints:
    """(n,) when other series of a row's metric and process were read last, if they are of requests; else long ago.

    A route's or an answer's counter is not there before the first request: it began at 0 since.
    """
    read = np.flatnonzero(sampled.of_requests)
    if not len(read):
        return np.full(len(rows), -MAX_GAP_US)
    ts, family = micros(sampled.rows["ts"]), sampled.family
    read = read[rising(family[read], ts[read])]
    found = newest_known(family[rows], ts[rows] - 1, family[read], ts[read])
    return np.where(sampled.of_requests[rows] & (found >= 0), ts[read[found]], -MAX_GAP_US)


def _placed_before(sampled: Sampled, rows: Ints, placements: pa.Table) -> Ints:
    """(n,) when the pod of each row was placed, as it was known when the row arrived; else long ago.

    Counters of a pod begin at 0 with it.
    """
    asked = sampled.rows.take(pa.array(rows))
    oldest = pc.subtract(pc.min(sampled.rows["ts"]), pa.scalar(MAX_GAP_US, pa.duration("us")))
    added = placements.filter((pc.field("event") == "add") & (pc.field("topic") != INFERRED))
    recent = added.filter(pc.greater_equal(added["ts"], oldest))
    found = known_by(asked, micros(asked["arrived_at"]), recent, ["cluster", "container"])["ts"]
    return np.where(np.asarray(pc.is_valid(found)), micros(pc.fill_null(found, oldest)), -MAX_GAP_US)


def held(sampled: Sampled, cells: Cells) -> Cells:
    """The cells, and each series' last value in the minute after it, where its pod was sampled but it was not.

    Not where another reporter sampled the same in that minute: what is newer stands. Of requests the preferred one's
    value is held then too, since reporters count other things; not where it sampled any series of the metric: a route
    or a process that is reported no more is gone. Nor, of devices, where the device was: its
    container has it no more.
    """
    series, pod = sampled.series[cells.row], sampled.pod[cells.row]
    span = int(cells.minute.max()) + 2
    followed = np.append((np.diff(series) == 0) & (np.diff(cells.minute) == 1), [False])
    last = np.flatnonzero(~followed)
    last = last[np.isin(pod[last] * span + cells.minute[last] + 1, pod * span + cells.minute)]
    what = joint([sampled.container, sampled.metric])
    of_all, own = (dense(code)[cells.row] * span + cells.minute for code in (what, joint([what, sampled.reporter])))
    is_there = np.isin(own[last] + 1, own)
    goes_on = sampled.of_requests[cells.row[last]] ^ is_there
    device = sampled.device[cells.row] * span + cells.minute
    is_left = np.isin(sampled.metric[cells.row[last]], [AT[name] for name in OF_DEVICES]) & np.isin(
        device[last] + 1, device
    )
    held = last[(~np.isin(of_all[last] + 1, of_all) | goes_on) & ~is_left]
    return Cells(
        np.append(cells.row, cells.row[held]),
        np.append(cells.minute, cells.minute[held] + 1),
        np.append(cells.value, cells.value[held]),
    )


def running(sampled: Sampled, seen: Cells, cells: Cells, seconds: Floats) -> Cells:
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
    return Cells(cells.row[kept], cells.minute[kept], value[kept])


def _changes(sampled: Sampled) -> tuple[Ints, Ints]:
    """When each cell of per_minute changed last, and when each run came, in microseconds since the first minute."""
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


def reported(sampled: Sampled, cells: Cells) -> Cells:
    """Of each pod, metric and minute the cells of one reporter: the preferred one of those that know most.

    The one that knows every value of its own before others, then the one that knows more of the pod's containers; who
    knows the pod's own cgroup knows all of them. Response times, and how many requests they are of, come from one.
    """
    reporter = dense(sampled.reporter)[cells.row]
    if not reporter.any():
        return cells
    metric = sampled.metric[cells.row]
    timed = np.isin(metric, [AT[name] for name in OF_TIMES])
    place = joint([sampled.pod[cells.row], np.where(timed, AT[OF_TIMES[0]], metric), cells.minute])
    group = dense(joint([place, reporter]))
    finite = np.isfinite(cells.value)
    known = np.bincount(group, finite)
    unknown = np.where(known == 0, 2, known < np.bincount(group)).astype(np.int64)
    lacking = _containers_lacking(sampled, cells, place, group)
    first = np.unique(joint([group, metric]), return_index=True)[1]
    absent = len(METRICS) - np.bincount(group[first])[group]
    order = rising(place, unknown[group], lacking, absent, reporter)
    starts = group_starts(place[order])
    best = np.repeat(reporter[order][starts], np.diff(np.append(starts, len(order))))
    kept = np.sort(order[reporter[order] == best])
    return Cells(cells.row[kept], cells.minute[kept], cells.value[kept])


def _containers_lacking(sampled: Sampled, cells: Cells, place: Ints, group: Ints) -> Ints:
    """(n,) how many fewer containers of its pod each cell's reporter knows than the one that knows most."""
    container = sampled.container[cells.row]
    first = np.unique(joint([group, container]), return_index=True)[1]
    count = np.bincount(group[first])
    own = np.asarray(sampled.rows["part"].take(pa.array(cells.row)).is_null())
    whole = np.bincount(group, own) > 0
    place = dense(place)
    most = np.zeros(int(place.max()) + 1, np.int64)
    np.maximum.at(most, place, count[group])
    return np.where(whole[group], 0, most[place] - count[group])


def added_up(sampled: Sampled, cells: Cells) -> Cells:
    """Series of the same metric, container and minute added up, or the largest taken; NaN where one of them is."""
    metric = joint([sampled.container, sampled.metric])[cells.row]
    order = rising(metric, cells.minute, sampled.series[cells.row])
    starts = group_starts(joint([metric[order], cells.minute[order]]))
    row, value = cells.row[order][starts], cells.value[order]
    largest = np.isin(sampled.metric[row], [AT[name] for name in LARGEST])
    together = np.where(largest, np.maximum.reduceat(value, starts), np.add.reduceat(value, starts))
    return Cells(row, cells.minute[order][starts], together)
