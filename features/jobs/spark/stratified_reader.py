"""Drawing with Spark: the same sample of training rows that one process draws, from more than it may read. An edge."""

from datetime import datetime
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from features.columnar.hashing import label_window_hashes
from features.jobs.spark.steps import of_windows_only, spark_schema, with_sample, with_tally
from features.schema.tables import CONTENTION, NODE_STATE, TRAINING
from features.training.sample_reader import Measured, Sample, rows_there
from features.training.stratified_sample import TALLY, draw_of, in_order, total
from ingest.lake.row_filter import EPOCH, FOREVER, microseconds
from ingest.lake.tables import Lake
from ingest.schema.tables import Table


def draw_with_spark(
    spark: SparkSession, lake: Lake, max_rows: int, *, power: float, seed: int = 0, end: datetime = FOREVER
) -> Sample:
    """As features.training.sample_reader.draw_local; only what is kept comes to this process."""
    if rows_there(lake, end) > max_rows:
        training = rows_of(spark, lake, TRAINING, end)
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


def rows_of(spark: SparkSession, lake: Lake, table: Table, end: datetime = FOREVER) -> DataFrame:
    """All rows of a table of before a time that count, as `Lake.pieces` gives them."""
    schema, time_us = spark_schema(table.schema), F.unix_micros(table.time)
    since_us, end_us = lake.horizon_us(table.name), microseconds(end)
    lake.files(table.name, EPOCH, end)  # refuses those of an older form
    parts = [
        spark.read.schema(schema)
        .parquet(*(str(lake.root / path) for path in part.paths))
        .where((time_us >= max(part.start_us, since_us)) & (time_us < min(part.end_us, end_us)))
        for part in lake.parts(table.name, EPOCH, end)
    ]
    return reduce(DataFrame.unionByName, parts, spark.createDataFrame([], schema))
