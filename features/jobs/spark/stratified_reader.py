"""Drawing with Spark: the same sample of training rows that one process draws, from more than it may read. An edge."""

from datetime import datetime

import pyarrow as pa
from pyspark.sql import SparkSession

from features.columnar.hashing import label_window_hashes
from features.jobs.spark.lake_tables import rows_of
from features.jobs.spark.steps import of_windows_only, with_sample, with_tally
from features.schema.tables import CONTENTION, NODE_STATE, TRAINING
from features.training.sample_reader import Measured, Sample, rows_there
from features.training.stratified_sample import TALLY, draw_of, in_order, total
from ingest.lake.row_filter import FOREVER
from ingest.lake.tables import Lake


def draw_with_spark(
    spark: SparkSession, lake: Lake, max_rows: int, *, power: float, seed: int = 0, end: datetime = FOREVER
) -> Sample:
    """As features.training.sample_reader.draw_local; only what is kept comes to this process."""
    if rows_there(lake, end) > max_rows:
        training = rows_of(spark, lake, TRAINING, end=end)
        tallied = total([training.transform(with_tally).toArrow().cast(TALLY)])
        draw = draw_of(tallied, max_rows, power=power, seed=seed)
        if draw.leaves_out:
            partitions = int(str(spark.conf.get("spark.sql.shuffle.partitions")))
            kept = training.transform(with_sample, draw, partitions).toArrow()
            return Sample(in_order(kept.cast(TRAINING.schema)), draw)
    return Sample(lake.read(TRAINING.name, end=end))


def measured_with_spark(spark: SparkSession, lake: Lake, windows: pa.Table, state_columns: tuple[str, ...]) -> Measured:
    """As features.training.sample_reader.measured_in."""
    wanted = label_window_hashes(windows)
    contention = rows_of(spark, lake, CONTENTION).transform(of_windows_only, wanted).toArrow()
    state = rows_of(spark, lake, NODE_STATE).select(*state_columns).transform(of_windows_only, wanted).toArrow()
    return Measured(contention, state)
