"""Rates: samples of counters and gauges, one value each, to rows of usage, one per pod and minute. Kernel.

Exporters scrape at different seconds, and the containers of one pod at different ones too. So every series becomes one
value a minute first; then series are added up, then the containers of a pod, then ratios are taken.
"""

from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.columnar.arrow_columns import Floats, Ints, micros, numbers
from features.columnar.composite_keys import dense, joint, rising
from features.columnar.group_means import group_starts
from features.columnar.latency_quantiles import latency_quantiles
from features.columnar.windows import LATENESS_US, WINDOW_US, in_time, window_end
from features.contention.container_resolution import LINGER_US, STATIC, resolved
from features.contention.node_state import INFERRED, Facts, is_delete, known_by
from features.contention.pod_metrics import AT, METRICS, Grid, pods, with_ratios, within_range
from features.contention.series_minutes import (
    MAX_GAP_US,
    OF_REQUESTS,
    ORIGIN,
    Bools,
    Cells,
    Sampled,
    added_up,
    held,
    per_minute,
    reported,
    running,
)
from features.contention.shared_devices import COMPUTE, shared_once
from ingest.lake.row_filter import microseconds
from ingest.pipeline.plausibility import Capacities, without_impossible
from ingest.schema.tables import (
    NODE_USAGE,
    SIGNALS,
    TIMESTAMP,
    USAGE,
    WHOLE_NODE,
    Table,
)

SHORTEST_US = 1_000_000
"""A pod's first sample, alone in its minute, speaks of so long."""


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


def rates(
    samples: pa.Table,
    facts: Facts,
    *,
    moved: pa.Table | None = None,
    lateness_us: int = LATENESS_US,
    trim: bool = False,
) -> Rated:
    """Usage of pods and nodes, from samples.

    Args:
        samples: rows of `samples`, any order, duplicates allowed; LOOK_BACK_US before the first minute that matters,
            and to `trim` LOOK_AHEAD_US after the last one.
        facts: placements say which pod a name was and on which node, see `container_resolution`; capacities of nodes
            show what is impossible.
        moved: as container_resolution.MOVED, of all samples, where these are some of them.
        lateness_us: samples that arrived later than this after their time are left out.
        trim: whether rows of minutes before and after which a pod was not sampled begin and end with its samples.

    Returns:
        See Rated. The pod's own cgroup counts where it was sampled, else its containers: added up, or the largest, or
        weighted means. One container without a value makes the sum missing; one that was not sampled in a minute
        counts with its minute before. Of several reports of the same, by other exporters or replicas of a collector,
        one is used, see `reported`; of several runs of a container the newest, see `running`. The first value of a
        run is what it used since the run before, or since its pod was placed. A pod has no rows for LINGER_US after
        its end was known: exporters report what they remember.

    Source: ours, docs/decisions/0009-samples.md.
    """
    known = in_time(samples, lateness_us)
    known = known.filter(pc.is_in(known["metric"], pa.array(METRICS)))
    ended = pc.and_(pc.is_in(known["metric"], pa.array(OF_REQUESTS)), pc.is_null(known["value"]))
    known = known.filter(pc.invert(ended))  # series of routes and processes that are gone
    if not known.num_rows:
        return Rated(USAGE.schema.empty_table(), NODE_USAGE.schema.empty_table(), np.zeros(0, np.int64))
    sampled, guessed = shared_once(Sampled(resolved(known, facts, moved).samples))
    minutes, seconds = per_minute(sampled, facts.placements)
    cells = running(sampled, minutes, held(sampled, minutes), seconds)
    chosen = reported(sampled, cells)
    grid = _with_percentiles(_grid(sampled, added_up(sampled, chosen)), sampled, chosen)
    values, outside = within_range(with_ratios(pods(grid)))
    usage, node_usage = _rows(sampled, grid, values, _doubted(sampled, chosen, guessed), trim=trim)
    usage = _before_the_end(usage, facts.placements)
    possible, over_us = _within_capacity(usage, facts.nodes)
    minute = np.repeat(grid.minute[group_starts(grid.pod)], outside)
    return Rated(possible, node_usage, np.append(sampled.first_end + minute * WINDOW_US, over_us))


def _grid(sampled: Sampled, cells: Cells) -> Grid:
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


def _with_percentiles(grid: Grid, sampled: Sampled, cells: Cells) -> Grid:
    """The grid with percentiles of response times, of containers that reported buckets and not the percentiles."""
    chosen = np.flatnonzero(sampled.metric[cells.row] == AT["rt_bucket_s"])
    if not len(chosen):
        return grid
    container = np.append(sampled.container[grid.row], sampled.container[cells.row[chosen]])
    codes = joint([container, np.append(grid.minute, cells.minute[chosen])])
    lines, own = np.split(codes, [len(grid.row)])
    series = sampled.rows["series"].take(pa.array(cells.row[chosen]))
    group, found = latency_quantiles(own, series, cells.value[chosen])
    line = np.argsort(lines)[np.searchsorted(np.sort(lines), group)]
    value, known = grid.value.copy(), grid.sampled.copy()
    for column, metric in enumerate((AT["rt_p95_ms"], AT["rt_p99_ms"])):
        new = line[~known[line, metric]]
        value[new, metric], known[new, metric] = found[~known[line, metric], column], True
    return replace(grid, value=value, sampled=known)


def _doubted(sampled: Sampled, cells: Cells, guessed: Bools) -> tuple[Ints, Ints]:
    """Pods and minutes of cells of COMPUTE that stand for samples that were guessed."""
    of = np.flatnonzero(sampled.metric[cells.row] == COMPUTE) if guessed.any() else np.zeros(0, np.int64)
    rows = np.append(cells.row[of], np.flatnonzero(guessed))
    key = joint([sampled.pod[rows], sampled.minute[rows], dense(sampled.reporter)[rows]])
    doubted = of[np.isin(key[: len(of)], key[len(of) :])]
    return sampled.pod[cells.row[doubted]], cells.minute[doubted]


def _rows(
    sampled: Sampled, grid: Grid, values: Floats, doubted: tuple[Ints, Ints], *, trim: bool
) -> tuple[pa.Table, pa.Table]:
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
    here, there = np.split(joint([np.append(sampled.pod[row], doubted[0]), np.append(minute, doubted[1])]), [len(row)])
    columns["gpu_share_unknown"] = pa.array(np.ones(len(row), np.bool_), mask=~np.isin(here, there))
    return _select(columns, USAGE, ~whole), _select(columns, NODE_USAGE, whole)


def _before_the_end(usage: pa.Table, placements: pa.Table) -> pa.Table:
    """The rows but for what exporters go on to report of containers whose recorded end was known, for LINGER_US.

    Static pods stay in: their containers run on, or again, whatever becomes of what mirrors them in the API.
    """
    static = pc.match_substring_regex(placements["container"], STATIC)
    gone = placements.filter(pc.and_(pc.not_equal(placements["topic"], INFERRED), pc.invert(static)))
    if not gone.num_rows or not usage.num_rows:
        return usage
    begin_us = window_end(micros(usage["ts"]), WINDOW_US) - WINDOW_US
    last = known_by(usage, begin_us, gone, ["cluster", "container"])
    lingers = is_delete(last) & (micros(pc.fill_null(last["ts"], pa.scalar(0, TIMESTAMP))) > begin_us - LINGER_US)
    return usage.filter(pa.array(~lingers))


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


def _trimmed(sampled: Sampled, row: Ints, minute: Ints) -> tuple[Ints, Ints]:
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


def _of_cells(sampled: Sampled, row: Ints, minute: Ints, name: str, pick: np.ufunc) -> Ints:
    """(p,) the least, or the largest, time in a column of each pod's samples in each minute."""
    pods, minutes = np.append(sampled.pod, sampled.pod[row]), np.append(sampled.minute, minute)
    own, asked = np.split(dense(joint([pods, minutes])), [len(sampled.pod)])
    us = micros(sampled.rows[name])
    found = np.full(int(max(own.max(), asked.max())) + 1, us.max() if pick is np.minimum else 0)
    pick.at(found, own, us)
    return found[asked]
