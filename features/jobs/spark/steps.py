"""Steps: DataFrame in, DataFrame out, each a thin wrapper that hands whole nodes or apps to a kernel.

No reads, no actions.

Batches put whole nodes (or apps) into one partition each and hand the kernel everything in it at once: one call for
thousands of groups costs what one for a single group does. Streams collect the samples of each node and minute.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from features.columnar.arrow_columns import Ints, micros
from features.columnar.asof_join import NEVER
from features.columnar.composite_keys import joint
from features.columnar.group_means import group_codes
from features.columnar.hashing import Hashes, of_windows
from features.columnar.packed_rows import packed, unpacked
from features.columnar.windows import WINDOW_US, window_end
from features.contention.container_resolution import MOVED, OWN, moved_in, resolved
from features.contention.correlation import antagonists
from features.contention.node_state import Facts, node_state
from features.contention.series_minutes import LOOK_BACK_US
from features.contention.stream_state import MESSAGE, messages
from features.contention.usage_rates import count_within, rates
from features.jobs.job_plan import Stretch
from features.labels.waited_cpus import NODE_WAITS, node_waits
from features.metering.units import COLUMNS, READ, Hours
from features.metering.usage_hours import metered, nodes_in
from features.profiles.per_app import labels_of, profiles_of
from features.schema.tables import ANTAGONISTS, CONTENTION, LABELS, METERED, NODE_STATE, PROFILES, TRAINING
from features.training.five_minute import MINUTES, contention
from features.training.residents import Sources
from features.training.rows import training_rows
from features.training.stratified_sample import COUNTED, TALLY, Draw, chosen, chosen_of, tally, total, weighted
from ingest.lake.row_filter import within
from ingest.schema.tables import NODE_USAGE, SAMPLES, TIMESTAMP, UNKNOWN_NODE, USAGE, Table

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator

Batches = Iterator[pa.RecordBatch]
Kernel = Callable[[pa.Table], pa.Table]
Read = Callable[[Batches], Iterator[pa.Table]]
"""Makes rows of a table, such as of messages."""
APP_KEYS = ["cluster", "app"]
NODE_KEYS = ["cluster", "node"]
MINUTES_PACKED = pa.schema(
    [
        ("cluster", pa.string()),
        ("node", pa.string()),
        ("window_end", TIMESTAMP),
        ("usage", pa.binary()),
        ("sample", pa.binary()),
    ]
)
"""Rows of usage, or samples, of a node and minute, as one value."""
WINDOWS = 1_000
"""Windows of nodes that are computed at once."""


def _part(table: Table, names: Sequence[str]) -> pa.Schema:
    """Some columns of a table."""
    return pa.schema([table.schema.field(name) for name in names])


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of a table."""
    return from_arrow_schema(schema)


def whole_partitions(kernel: Kernel, schema: pa.Schema) -> Callable[[Batches], Batches]:
    """A function for mapInArrow that hands a partition to a kernel in one piece.

    Args:
        kernel: table in, table out; not called for an empty partition.
        schema: of the tables that come in.
    """

    def run(batches: Batches) -> Batches:
        if held := [batch for batch in batches if batch.num_rows]:
            yield from kernel(in_schema(pa.Table.from_batches(held), schema)).to_batches()

    return run


def in_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows, with nulls in columns that were left out since nothing is in them."""
    there = set(rows.column_names)
    columns = [rows[one.name] if one.name in there else pa.nulls(rows.num_rows, one.type) for one in schema]
    return pa.table(columns, names=schema.names).cast(schema)


def by_node(rows: DataFrame, partitions: int) -> DataFrame:
    """The same rows, all of a node in one partition."""
    return rows.repartition(partitions, *NODE_KEYS)


def on_placed_nodes(samples: DataFrame, facts: Facts) -> DataFrame:
    """The samples, those of pods under the node on which they were placed; unchanged where all are.

    In:  rows of table samples.
    Out: rows of table samples.
    """
    reports = samples.groupBy(*OWN, F.date_trunc("hour", "ts")).agg(F.max("ts").alias("ts")).select(*OWN, "ts")
    moved = moved_in(reports.toArrow().cast(pa.schema([SAMPLES.schema.field(name) for name in (*OWN, "ts")])), facts)
    if not moved.num_rows:
        return samples

    def kernel(batches: Batches) -> Batches:
        for rows in _samples(batches):
            yield from resolved(rows, facts, moved).samples.to_batches()

    return samples.mapInArrow(kernel, spark_schema(SAMPLES.schema))


def _samples(batches: Batches) -> Iterator[pa.Table]:
    return (rows.select(SAMPLES.schema.names).cast(SAMPLES.schema) for rows in tables(batches))


def by_app(state: DataFrame, partitions: int) -> DataFrame:
    """The rows whose app and platform have a name, all of an app in one partition."""
    named = state.where("app is not null and platform is not null")
    return named.repartition(partitions, *APP_KEYS)


def with_rates(samples: DataFrame, facts: Facts, stretch: Stretch) -> DataFrame:
    """Usage of pods, made of samples.

    In:  rows of table samples, from on_placed_nodes and by_node, series_minutes.LOOK_BACK_US more than what is wanted.
    Out: rows of table usage.
    """
    inside = within("ts", *stretch.samples())

    def kernel(rows: pa.Table) -> pa.Table:
        return rates(rows, facts, moved=MOVED.empty_table()).usage.filter(inside)

    return samples.mapInArrow(whole_partitions(kernel, SAMPLES.schema), spark_schema(USAGE.schema))


def with_all_rates(samples: DataFrame, facts: Facts) -> DataFrame:
    """Usage of pods, made of samples however late they arrived, with what metering reads of it.

    In:  rows of table samples, from on_placed_nodes and by_node, series_minutes.LOOK_BACK_US more than what is wanted.
    Out: features.metering.usage_hours.COLUMNS.
    """

    def kernel(rows: pa.Table) -> pa.Table:
        made = rates(rows, facts, moved=MOVED.empty_table(), lateness_us=NEVER, trim=True)
        return made.usage.select(COLUMNS)

    return samples.mapInArrow(whole_partitions(kernel, SAMPLES.schema), spark_schema(READ))


def with_metered(usage: DataFrame, facts: Facts, hours: Hours) -> DataFrame:
    """What containers on nodes with any usage reserved and used, hour by hour.

    In:  features.metering.usage_hours.COLUMNS of table usage, from by_node; an hour more than what is wanted.
    Out: rows of table metered.
    """
    kernel = whole_partitions(lambda rows: metered(rows, facts, hours, nodes_in(rows)), READ)
    return usage.mapInArrow(kernel, spark_schema(METERED.schema))


def with_node_usage(samples: DataFrame, facts: Facts, stretch: Stretch, impossible: "Accumulator[int]") -> DataFrame:
    """Usage of nodes, made of samples; impossible values of the stretch, of pods too, are added to a counter.

    In:  rows of table samples, from on_placed_nodes and by_node.
    Out: rows of table node_usage.
    """

    def kernel(rows: pa.Table) -> pa.Table:
        rated = rates(rows, facts, moved=MOVED.empty_table())
        start, end = stretch.samples()
        impossible.add(count_within(rated, start, end))
        return rated.node_usage.filter(within("ts", start, end))

    return samples.mapInArrow(whole_partitions(kernel, SAMPLES.schema), spark_schema(NODE_USAGE.schema))


def with_node_state(usage: DataFrame, facts: Facts) -> DataFrame:
    """Node state of whole nodes.

    In:  rows of table usage, from by_node; columns without any value may be left out.
    Out: rows of table node_state; partitions still hold whole nodes.
    """
    kernel = whole_partitions(lambda rows: node_state(rows, facts), USAGE.schema)
    return usage.mapInArrow(kernel, spark_schema(NODE_STATE.schema))


def with_contention(state: DataFrame, profiles: pa.Table) -> DataFrame:
    """Five-minute windows.

    In:  rows of table node_state, from with_node_state.
    Out: rows of table contention.
    """
    kernel = whole_partitions(lambda rows: contention(rows, profiles), _part(NODE_STATE, MINUTES))
    return state.select(*MINUTES).mapInArrow(kernel, spark_schema(CONTENTION.schema))


def with_antagonists(state: DataFrame) -> DataFrame:
    """Neighbours whose use correlates with a container's slowdown.

    In:  rows of table node_state, from with_node_state.
    Out: rows of table antagonists.
    """
    return state.mapInArrow(whole_partitions(antagonists, NODE_STATE.schema), spark_schema(ANTAGONISTS.schema))


def with_node_waits(state: DataFrame, node_usage: pa.Table, nodes: pa.Table) -> DataFrame:
    """What apps and their whole nodes waited for CPU.

    In:  rows of table node_state, from with_node_state, of table node_usage, and of table nodes.
    Out: rows of features.labels.waited_cpus.NODE_WAITS.
    """
    kernel = whole_partitions(lambda rows: node_waits(rows, node_usage, nodes), NODE_STATE.schema)
    return state.mapInArrow(kernel, spark_schema(NODE_WAITS))


def with_labels(state: DataFrame, placements: pa.Table, cpus: pa.Table) -> DataFrame:
    """Labels of every app on every platform.

    In:  rows of table node_state, from by_app, of table placements, and of features.labels.waited_cpus.CPUS.
    Out: rows of table labels.
    """
    kernel = whole_partitions(lambda rows: labels_of(rows, placements, cpus), NODE_STATE.schema)
    return state.mapInArrow(kernel, spark_schema(LABELS.schema))


def with_profiles(state: DataFrame, as_of_us: Ints, cpus: pa.Table) -> DataFrame:
    """Profiles of every app on every platform, as of each time.

    In:  rows of table node_state, from by_app, and of features.labels.waited_cpus.CPUS.
    Out: rows of table profiles.
    """
    kernel = whole_partitions(lambda rows: profiles_of(rows, as_of_us, cpus), NODE_STATE.schema)
    return state.mapInArrow(kernel, spark_schema(PROFILES.schema))


def with_training(labels: DataFrame, state: DataFrame, sources: Sources, groups: int) -> DataFrame:
    """Training rows, many whole nodes at a time.

    In:  rows of labels and of node_state.
    Out: rows of table training. `sources` lends nodes, placements and profiles; its state is not used.
    """

    def kernel(left: pa.Table, right: pa.Table) -> pa.Table:
        own_labels, own_state = left.select(LABELS.schema.names), right.select(NODE_STATE.schema.names)
        return training_rows(own_labels.cast(LABELS.schema), replace(sources, state=own_state.cast(NODE_STATE.schema)))

    bucket = F.pmod(F.hash(*NODE_KEYS), F.lit(groups)).alias("bucket")
    both = labels.groupBy(bucket).cogroup(state.groupBy(bucket))
    return both.applyInArrow(kernel, spark_schema(TRAINING.schema))


def with_tally(training: DataFrame) -> DataFrame:
    """How many rows lie in each stratum.

    In:  rows of table training.
    Out: features.training.stratified_sample.TALLY, a stratum once for every partition it lies in.
    """

    def kernel(batches: Batches) -> Batches:
        yield from total(map(tally, tables(batches))).to_batches()

    return training.select(*COUNTED).mapInArrow(kernel, spark_schema(TALLY))


def with_sample(training: DataFrame, draw: Draw, partitions: int) -> DataFrame:
    """The rows that a draw keeps, weighted; partitions first let go what cannot be among them.

    In:  rows of table training, and a draw of all of them.
    Out: rows of table training.
    """

    def kernel(batches: Batches) -> Batches:
        yield from chosen_of((part.cast(TRAINING.schema) for part in tables(batches)), draw).to_batches()

    candidates = training.select(*TRAINING.schema.names).mapInArrow(kernel, spark_schema(TRAINING.schema))
    keep = whole_partitions(lambda rows: weighted(chosen(rows, draw), draw), TRAINING.schema)
    return candidates.repartition(partitions, *APP_KEYS).mapInArrow(keep, spark_schema(TRAINING.schema))


def of_windows_only(rows: DataFrame, wanted: Hashes) -> DataFrame:
    """Those rows that lie in wanted five-minute windows.

    In:  rows with features.columnar.hashing.WINDOW; hashes of windows.
    Out: some of the same rows.
    """

    def kernel(batches: Batches) -> Batches:
        for part in of_windows(tables(batches), wanted):
            yield from part.to_batches()

    return rows.mapInArrow(kernel, rows.schema)


def tables(batches: Batches) -> Iterator[pa.Table]:
    """Batches that hold any rows, a table each."""
    return (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)


def node_minutes(source: DataFrame, table: Table, read: Read, keep: Kernel) -> DataFrame:
    """Pack usage by the minute it lies in, and samples for every minute whose rates may need them.

    In:  whatever `read` makes rows of table usage, or samples, of, of which `keep` keeps some.
    Out: MINUTES_PACKED: rows of a node and minute, either `usage` or `sample` (the other is null). Samples of apps that
         do not know their node are left out: of requests no live state is made, and a part of a node is not the node.
    """
    column, later = ("usage", 0) if table is USAGE else ("sample", LOOK_BACK_US // WINDOW_US)

    def kernel(batches: Batches) -> Batches:
        kept = (keep(rows).select(table.schema.names) for rows in read(batches))
        if table is not USAGE:
            kept = (rows.filter(pc.not_equal(rows["node"], UNKNOWN_NODE)) for rows in kept)
        return (_packed(rows.cast(table.schema), column, later) for rows in kept if rows.num_rows)

    return source.mapInArrow(kernel, spark_schema(MINUTES_PACKED))


def _packed(rows: pa.Table, column: str, later: int) -> pa.RecordBatch:
    """Rows packed for their own minute, and for so many later ones."""
    ends = window_end(micros(rows["ts"]), WINDOW_US)
    code = joint([group_codes(rows, NODE_KEYS), (ends - ends.min()) // WINDOW_US])
    first, values = zip(*packed(rows, code), strict=True)
    at, again = np.repeat(first, later + 1), np.tile(np.arange(later + 1), len(first))
    columns = {name: rows[name].take(pa.array(at)).combine_chunks() for name in NODE_KEYS}
    columns["window_end"] = pa.array(ends[at] + again * WINDOW_US, TIMESTAMP)
    columns |= dict.fromkeys(("usage", "sample"), pa.nulls(len(at), pa.binary()))
    columns[column] = pa.array(values, pa.binary()).take(pa.array(np.repeat(np.arange(len(first)), later + 1)))
    return pa.RecordBatch.from_pydict(columns, schema=MINUTES_PACKED)


def node_windows(minutes: DataFrame) -> DataFrame:
    """Collect what belongs to each node and minute into one row, as streams need it.

    In:  node_minutes.
    Out: cluster, node, window_end, usage and samples (arrays of packed rows).
    """
    rows = F.collect_list("usage").alias("usage"), F.collect_list("sample").alias("samples")
    return minutes.groupBy(*NODE_KEYS, "window_end").agg(*rows)


def with_windows_state(windows: DataFrame, facts: Facts) -> DataFrame:
    """Node state of collected windows.

    In:  node_windows.
    Out: rows of table node_state.
    """

    def kernel(batches: Batches) -> Batches:
        for part in _parts(batches):
            yield from windows_state(part, facts).to_batches()

    return windows.select("window_end", "usage", "samples").mapInArrow(kernel, spark_schema(NODE_STATE.schema))


def with_messages(windows: DataFrame, facts: Facts) -> DataFrame:
    """Messages to refreshers from collected windows.

    In:  node_windows.
    Out: key and value of messages for topic node_state.
    """

    def kernel(batches: Batches) -> Batches:
        for part in _parts(batches):
            yield from messages(windows_state(part, facts)).to_batches()

    return windows.select("window_end", "usage", "samples").mapInArrow(kernel, spark_schema(MESSAGE))


def _parts(batches: Batches) -> Batches:
    """The batches, cut so that their rows fit into the processor's caches."""
    return (batch.slice(at, WINDOWS) for batch in batches for at in range(0, batch.num_rows, WINDOWS))


def windows_state(batch: pa.RecordBatch, facts: Facts) -> pa.Table:
    """Node state of a batch of collected windows: usage, and usage made of samples minute by minute."""
    made = [rated_in(batch.filter(pc.equal(batch.column("window_end"), end)), end, facts) for end in _ends(batch)]
    usage = pa.concat_tables([flattened(batch, "usage", USAGE.schema), *made])
    return node_state(usage, facts)


def rated_in(batch: pa.RecordBatch, end: pa.Scalar, facts: Facts) -> pa.Table:
    """Usage made of the samples of many nodes, in the one minute they were collected for."""
    made = rates(flattened(batch, "samples", SAMPLES.schema), facts).usage
    return made.filter(pc.equal(made["ts"], end.cast(TIMESTAMP)))


def flattened(batch: pa.RecordBatch, column: str, schema: pa.Schema) -> pa.Table:
    """The rows of all windows of a batch."""
    return unpacked(batch.column(column).flatten().to_pylist(), schema)


def _ends(batch: pa.RecordBatch) -> pa.Array:
    """Minutes in which there are samples."""
    sampled = batch.filter(pc.greater(pc.list_value_length(batch.column("samples")), 0))
    return sampled.column("window_end").unique()
