"""Steps: DataFrame in, DataFrame out, each a thin wrapper that hands whole groups to a kernel. No reads, no actions."""

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from features.arrow import Ints
from features.labels import label_app, label_windows
from features.node_state import Facts, node_state
from features.profiles import profile_app
from features.residents import Sources
from features.tables import LABELS, NODE_STATE, PROFILES, TRAINING
from features.training import training_rows
from features.windows import WINDOW_US
from ingest.schema import USAGE

Batches = Iterator[pa.RecordBatch]
APP_KEYS = ["cluster", "app", "platform"]
NODE_KEYS = ["cluster", "node"]


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of a table."""
    return from_arrow_schema(schema)


def node_windows(usage: DataFrame) -> DataFrame:
    """Collect the samples of each node and minute into one row.

    In:  rows of table usage.
    Out: cluster, node, window_end, and samples (an array of whole usage rows).
    """
    seconds = WINDOW_US // 1_000_000
    window = F.window("ts", f"{seconds} seconds", startTime="1 millisecond")
    return usage.groupBy("cluster", "node", window).agg(F.collect_list(F.struct(*USAGE.schema.names)).alias("samples"))


def with_node_state(windows: DataFrame, facts: Facts) -> DataFrame:
    """Node state of each collected window.

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


def with_labels(state: DataFrame) -> DataFrame:
    """Labels of every app on every platform.

    In:  rows of table node_state.
    Out: rows of table labels; apps or platforms without a name have none.
    """
    named = state.where("app is not null and platform is not null")

    def kernel(rows: pa.Table) -> pa.Table:
        return label_app(label_windows(rows.cast(NODE_STATE.schema)))

    return named.groupBy(*APP_KEYS).applyInArrow(kernel, spark_schema(LABELS.schema))


def with_profiles(state: DataFrame, labels: DataFrame, as_of_us: Ints) -> DataFrame:
    """Profiles of every app on every platform, as of each time.

    In:  rows of node_state and of labels.
    Out: rows of table profiles.
    """
    named = state.where("app is not null and platform is not null")

    def kernel(left: pa.Table, right: pa.Table) -> pa.Table:
        return profile_app(left.cast(NODE_STATE.schema), right.cast(LABELS.schema), as_of_us)

    return _cogroup(named, labels, APP_KEYS, kernel, spark_schema(PROFILES.schema))


def with_training(labels: DataFrame, state: DataFrame, facts: Facts, profiles: pa.Table) -> DataFrame:
    """Training rows, node by node.

    In:  rows of labels and of node_state.
    Out: rows of table training.
    """

    def kernel(left: pa.Table, right: pa.Table) -> pa.Table:
        sources = Sources(right.cast(NODE_STATE.schema), facts.nodes, facts.placements, profiles)
        return training_rows(left.cast(LABELS.schema), sources)

    return _cogroup(labels, state, NODE_KEYS, kernel, spark_schema(TRAINING.schema))


def _cogroup(
    left: DataFrame,
    right: DataFrame,
    keys: list[str],
    kernel: Callable[[pa.Table, pa.Table], pa.Table],
    schema: StructType,
) -> DataFrame:
    return left.groupBy(*keys).cogroup(right.groupBy(*keys)).applyInArrow(kernel, schema)
