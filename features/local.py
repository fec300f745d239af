"""The feature job in one process, without Java: the kernels that Spark runs, over chunks of time. An edge.

Two passes: minutes of containers chunk by chunk, of which the columns that later steps need stay in memory; then
labels, profiles, contention and training rows.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from features import antagonists, labels, profiles
from features.arrow import Ints
from features.catalog import PRESSURES, RESOURCES
from features.grouping import group_starts
from features.job import IMPOSSIBLE, JOB, LATE, Progress, Stretch, facts_until, modelled, profile_ends, profile_times
from features.node_state import Facts, node_state
from features.order import joint, ranks, rising
from features.rates import LOOK_BACK_US, count_within, rates
from features.residents import Sources
from features.spans import contention
from features.tables import LABELS, NODE_STATE, PROFILES
from features.training import training_rows
from features.windows import LABEL_US, in_time
from ingest.lake import Lake
from ingest.schema import NODE_USAGE
from ingest.selection import within

APP_KEYS = ("cluster", "app", "platform")
KEPT = sorted(
    {"cluster", "node", "container", "app", "team", "qos", "platform", "window_end", "arrived_at", "samples"}
    | {"qps", "cpu_throttled_frac", *labels.SIGNALS.values(), *PRESSURES}
    | {*profiles.MEANS, *antagonists.SIGNALS, *antagonists.USES, *(name for r in RESOURCES for name in r.usage)}
)
"""Columns of node state that later steps read; they stay in memory for the whole stretch."""
CHUNK_ROWS = 250_000
"""Samples computed at once: small enough to stay in the processor's caches, large enough not to notice the seams."""
MOST_ROWS = 20_000_000
"""Samples that one process may be asked for: about 6 GB of memory."""


def run_local(lake: Lake, stretch: Stretch, progress: Progress, *, chunk_rows: int = CHUNK_ROWS) -> None:
    """Rebuild every derived table of a stretch of time; running it again gives the same tables.

    Args:
        lake: where usage, nodes and placements lie, and where the tables go.
        stretch: what to rebuild.
        progress: told of each table written.
        chunk_rows: samples computed at once; makes no difference to the tables.
    """
    facts, staged = facts_until(lake, stretch), lake.stage("node_state", JOB)
    late, kept = 0, [NODE_STATE.schema.empty_table().select(KEPT)]
    impossible, whole_nodes = 0, [NODE_USAGE.schema.empty_table()]
    for number, chunk in enumerate(usage_chunks(lake, stretch, facts, chunk_rows)):
        late, impossible = late + chunk.late, impossible + chunk.impossible
        whole_nodes.append(chunk.node_usage)
        rows = node_state(chunk.usage, facts)
        write_file(rows, staged / f"{number:06d}.parquet")
        kept.append(rows.select(KEPT))
    progress(LATE, late)
    if lake.span("samples"):
        progress(IMPOSSIBLE, impossible)
        told = pa.concat_tables(whole_nodes)
        progress("node_usage", lake.replace("node_usage", *stretch.ends(), JOB, told))
    progress("node_state", lake.replace("node_state", *stretch.ends(), JOB, staged))
    state = pa.concat_tables(kept)
    labelled, known = labels_of(state), profiles_of(state, profile_times(stretch))
    progress("profiles", lake.replace("profiles", *profile_ends(stretch), JOB, known))
    progress("contention", _write_contention(lake, stretch, known))
    progress("labels of apps that are modelled", modelled(labelled))
    training = training_rows(labelled, Sources(state, facts.nodes, facts.placements, known))
    who = antagonists.antagonists(state)
    for table, rows in {"labels": labelled, "antagonists": who, "training": training}.items():
        progress(table, lake.replace(table, *stretch.ends(), JOB, rows))


class Chunk(NamedTuple):
    """Usage of a while, as landed and made of samples, duplicates and late rows still in; and what was counted."""

    usage: pa.Table
    node_usage: pa.Table
    late: int
    impossible: int


def usage_chunks(lake: Lake, stretch: Stretch, facts: Facts, rows: int = CHUNK_ROWS) -> Iterator[Chunk]:
    """A stretch in chunks of whole label windows, in the order of time."""
    kinds = ("usage", "samples")
    look_back = timedelta(microseconds=LOOK_BACK_US)
    for start, end in _chunks(lake, kinds, rows, *stretch.samples()):
        usage, samples = lake.rows("usage", start, end), lake.rows("samples", start - look_back, end)
        rated = rates(samples, facts)
        inside = within("ts", start, end)
        yield Chunk(
            usage=pa.concat_tables([usage, rated.usage.filter(inside)]),
            node_usage=rated.node_usage.filter(inside),
            late=_late(usage) + _late(samples.filter(inside)),
            impossible=count_within(rated, start, end),
        )


def _late(rows: pa.Table) -> int:
    return int(rows.num_rows - in_time(rows).num_rows)


def _write_contention(lake: Lake, stretch: Stretch, known: pa.Table) -> int:
    """Five-minute windows, chunk by chunk of the minutes just written; how many."""
    staged = lake.stage("contention", JOB)
    for number, (start, end) in enumerate(_chunks(lake, ("node_state",), CHUNK_ROWS, *stretch.ends())):
        write_file(contention(lake.rows("node_state", start, end), known), staged / f"{number:06d}.parquet")
    return lake.replace("contention", *stretch.ends(), JOB, staged)


def write_file(rows: pa.Table, path: Path) -> None:
    """Write one parquet file of a staged folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, compression="zstd")


def _chunks(
    lake: Lake, tables: Sequence[str], rows: int, first: datetime, last: datetime
) -> Iterator[tuple[datetime, datetime]]:
    """Half-open ranges of whole label windows that hold about so many rows each."""
    window = timedelta(microseconds=LABEL_US)
    there = sum(lake.count(table, first, last) for table in tables)
    step = window * max(1, round((last - first) / window * rows / max(there, 1)))
    while first < last:
        yield first, min(first + step, last)
        first += step


def labels_of(state: pa.Table) -> pa.Table:
    """Labels of every named app and platform in `node_state`."""
    parts = [labels.label_app(labels.label_windows(part)) for part in _by_app(state)]
    return pa.concat_tables([LABELS.schema.empty_table(), *parts])


def profiles_of(state: pa.Table, as_of_us: Ints) -> pa.Table:
    """Profiles of every named app and platform in `node_state`, as of each time."""
    parts = [profiles.profile_app(part, as_of_us) for part in _by_app(state)]
    return pa.concat_tables([PROFILES.schema.empty_table(), *parts])


def _by_app(state: pa.Table) -> Iterator[pa.Table]:
    """Rows of each named app on each platform, apps in the order of their names."""
    named = state.filter(pc.and_(pc.is_valid(state["app"]), pc.is_valid(state["platform"])))
    code = joint([ranks(named[c]) for c in APP_KEYS])
    order = rising(code)
    starts = group_starts(code[order])
    for start, end in zip(starts, np.append(starts[1:], len(order)), strict=True):
        yield named.take(pa.array(order[start:end]))
