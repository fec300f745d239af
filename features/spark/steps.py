"""Steps: DataFrame in, DataFrame out, each a thin wrapper that hands whole nodes or apps to a kernel.

No reads, no actions.

Batches put whole nodes (or apps) into one partition each and hand the kernel everything in it at once: one call for
thousands of groups costs what one for a single group does. Streams collect the samples of each node and minute.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from features.antagonists import antagonists
from features.arrow import Ints
from features.local import labels_of, profiles_of
from features.node_state import Facts, node_state
from features.residents import Sources
from features.spans import contention
from features.tables import ANTAGONISTS, CONTENTION, LABELS, NODE_STATE, PROFILES, TRAINING
from features.training import training_rows
from features.windows import WINDOW_US
from ingest.schema import USAGE

Batches = Iterator[pa.RecordBatch]
Kernel = Callable[[pa.Table], pa.Table]
APP_KEYS = ["cluster", "app", "platform"]
NODE_KEYS = ["cluster", "node"]


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
            yield from kernel(pa.Table.from_batches(held).select(schema.names).cast(schema)).to_batches()

    return run


def by_node(rows: DataFrame, partitions: int) -> DataFrame:
    """The same rows, all of a node in one partition."""
    return rows.repartition(partitions, *NODE_KEYS)


def by_app(state: DataFrame, partitions: int) -> DataFrame:
    """The rows whose app and platform have a name, all of both in one partition."""
    named = state.where("app is not null and platform is not null")
    return named.repartition(partitions, *APP_KEYS)


def with_node_state(usage: DataFrame, facts: Facts) -> DataFrame:
    """Node state of whole nodes.

    In:  rows of table usage, from by_node.
    Out: rows of table node_state; partitions still hold whole nodes.
    """
    kernel = whole_partitions(lambda rows: node_state(rows, facts), USAGE.schema)
    return usage.mapInArrow(kernel, spark_schema(NODE_STATE.schema))


def with_contention(state: DataFrame, profiles: pa.Table) -> DataFrame:
    """Five-minute windows.

    In:  rows of table node_state, from with_node_state.
    Out: rows of table contention.
    """
    kernel = whole_partitions(lambda rows: contention(rows, profiles), NODE_STATE.schema)
    return state.mapInArrow(kernel, spark_schema(CONTENTION.schema))


def with_antagonists(state: DataFrame) -> DataFrame:
    """Neighbours that go along with a container's suffering.

    In:  rows of table node_state, from with_node_state.
    Out: rows of table antagonists.
    """
    return state.mapInArrow(whole_partitions(antagonists, NODE_STATE.schema), spark_schema(ANTAGONISTS.schema))


def with_labels(state: DataFrame) -> DataFrame:
    """Labels of every app on every platform.

    In:  rows of table node_state, from by_app.
    Out: rows of table labels.
    """
    kernel = whole_partitions(labels_of, NODE_STATE.schema)
    return state.mapInArrow(kernel, spark_schema(LABELS.schema))


def with_profiles(state: DataFrame, as_of_us: Ints) -> DataFrame:
    """Profiles of every app on every platform, as of each time.

    In:  rows of table node_state, from by_app.
    Out: rows of table profiles.
    """
    kernel = whole_partitions(lambda rows: profiles_of(rows, as_of_us), NODE_STATE.schema)
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


def node_windows(usage: DataFrame) -> DataFrame:
    """Collect the samples of each node and minute into one row, as streams need it.

    In:  rows of table usage.
    Out: cluster, node, window_end, and samples (an array of whole usage rows).
    """
    seconds = WINDOW_US // 1_000_000
    window = F.window("ts", f"{seconds} seconds", startTime="1 millisecond")
    return usage.groupBy("cluster", "node", window).agg(F.collect_list(F.struct(*USAGE.schema.names)).alias("samples"))


def with_windows_state(windows: DataFrame, facts: Facts) -> DataFrame:
    """Node state of collected windows.

    In:  node_windows.
    Out: rows of table node_state.
    """

    def kernel(batches: Batches) -> Batches:
        for batch in batches:
            yield from node_state(flattened(batch), facts).to_batches()

    return windows.select("samples").mapInArrow(kernel, spark_schema(NODE_STATE.schema))


def flattened(batch: pa.RecordBatch) -> pa.Table:
    """The usage rows of all windows of a batch."""
    rows = pa.RecordBatch.from_struct_array(batch.column("samples").flatten())
    return pa.Table.from_batches([rows]).cast(USAGE.schema)
