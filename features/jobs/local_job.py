"""The feature job in one process, without Java: the kernels that Spark runs, over chunks of time. An edge.

Two passes: minutes of containers chunk by chunk, of which the columns that later steps need stay in memory; then
labels, profiles, contention and training rows.
"""

from pathlib import Path

import pyarrow as pa

from features.columnar.arrow_columns import Ints
from features.columnar.thread_map import in_threads
from features.contention import correlation as antagonists
from features.contention.node_state import Facts, node_state
from features.jobs.job_plan import (
    IMPOSSIBLE,
    JOB,
    LATE,
    Progress,
    Stretch,
    antagonist_ends,
    facts_until,
    modelled,
    profile_ends,
    profile_times,
)
from features.jobs.usage_chunks import CHUNK_ROWS, Chunk, Range, ranges, usage_chunks
from features.labels import slowdown as labels
from features.labels.waited_cpus import WHOLE, node_waits, waited_cpus
from features.profiles import app_profile as profiles
from features.profiles.per_app import labels_of, profiles_of
from features.schema.catalog import RESOURCES
from features.schema.tables import NODE_STATE
from features.training.five_minute import contention
from features.training.residents import Sources
from features.training.rows import training_rows
from ingest.lake.data_files import write
from ingest.lake.tables import Lake
from ingest.schema.tables import NODE_USAGE

KEPT = sorted(
    {"cluster", "node", "container", "app", "team", "qos", "platform", "window_end", "arrived_at", "samples"}
    | {*labels.WINDOW_COLUMNS}
    | {*profiles.MEANS, *antagonists.SIGNALS, *antagonists.USES, *(name for r in RESOURCES for name in r.usage)}
)
"""Columns of node state that later steps read; they stay in memory for the whole stretch."""
MAX_ROWS = 20_000_000
"""Samples that one process may be asked for: about 6 GB of memory."""


def run_local(lake: Lake, stretch: Stretch, progress: Progress, *, chunk_rows: int = CHUNK_ROWS) -> None:
    """Rebuild every derived table of a stretch of time; running it again gives the same tables.

    Args:
        lake: where usage, nodes and placements lie, and where the tables go.
        stretch: what to rebuild.
        progress: called for each table written.
        chunk_rows: samples computed at once; makes no difference to the tables.
    """
    facts = facts_until(lake, stretch)
    state = _write_state(lake, stretch, facts, progress, chunk_rows)
    times = profile_times(stretch)
    cpus = _waited_cpus(lake, stretch, state, facts, times)
    labelled, known = labels_of(state, facts.placements, cpus), profiles_of(state, times, cpus)
    progress("profiles", lake.replace("profiles", *profile_ends(stretch), JOB, known))
    progress("contention", _write_contention(lake, stretch, known))
    progress("labels of apps that are modelled", modelled(labelled))
    training = training_rows(labelled, Sources(state, facts.nodes, facts.placements, known))
    who = antagonists.antagonists(state)
    progress("labels", lake.replace("labels", *stretch.ends(), JOB, labelled))
    progress("antagonists", lake.replace("antagonists", *antagonist_ends(stretch), JOB, who))
    progress("training", lake.replace("training", *stretch.ends(), JOB, training))


def _waited_cpus(lake: Lake, stretch: Stretch, state: pa.Table, facts: Facts, times: Ints) -> pa.Table:
    """Over how many CPUs apps wait, by each time."""
    whole = lake.read("node_usage", *stretch.ends(), columns=list(WHOLE))
    return waited_cpus(node_waits(state, whole, facts.nodes), times)


def _write_state(lake: Lake, stretch: Stretch, facts: Facts, progress: Progress, chunk_rows: int) -> pa.Table:
    """Write minutes of containers and nodes; the kept columns of the former."""
    staged, kept = lake.stage("node_state", JOB), [NODE_STATE.schema.empty_table().select(KEPT)]
    whole_nodes, late, impossible = [NODE_USAGE.schema.empty_table()], 0, 0

    def work(chunk: Chunk) -> tuple[Chunk, pa.Table]:
        return chunk._replace(usage=chunk.usage.slice(0, 0)), node_state(chunk.usage, facts)

    done = in_threads(work, usage_chunks(lake, stretch, facts, chunk_rows))
    for number, (chunk, rows) in enumerate(done):
        late, impossible = late + chunk.late, impossible + chunk.impossible
        whole_nodes.append(chunk.node_usage)
        _write_file(rows, staged / f"{number:06d}.parquet")
        kept.append(rows.select(KEPT))
    progress(LATE, late)
    if lake.span("samples"):
        progress(IMPOSSIBLE, impossible)
        whole = pa.concat_tables(whole_nodes)
        progress("node_usage", lake.replace("node_usage", *stretch.ends(), JOB, whole))
    progress("node_state", lake.replace("node_state", *stretch.ends(), JOB, staged))
    return pa.concat_tables(kept)


def _write_contention(lake: Lake, stretch: Stretch, known: pa.Table) -> int:
    """Five-minute windows, chunk by chunk of the minutes just written; how many."""
    staged, (first, last) = lake.stage("contention", JOB), stretch.ends()

    def work(part: Range) -> pa.Table:
        return contention(lake.rows("node_state", *part), known)

    for number, rows in enumerate(
        in_threads(work, ranges(CHUNK_ROWS, lake.count("node_state", first, last), first, last))
    ):
        _write_file(rows, staged / f"{number:06d}.parquet")
    return lake.replace("contention", first, last, JOB, staged)


def _write_file(rows: pa.Table, path: Path) -> None:
    """Write one parquet file of a staged folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, rows.schema, [rows])
