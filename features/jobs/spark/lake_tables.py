"""Tables of a lake under Spark, which reads them as Delta tables and never commits. An edge."""

from datetime import datetime
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from features.jobs.spark.steps import spark_schema
from features.schema.errors import FeaturesError
from ingest.lake.row_filter import EPOCH, FOREVER
from ingest.lake.tables import Lake
from ingest.schema.tables import Table

SCHEMES = {"s3": "s3a", "gs": "gs", "az": "abfss"}
"""What Hadoop calls the schemes of a lake's address."""
MAX_FILES = 200
"""In one micro-batch: back-pressure after a standstill."""


def address(lake: Lake, name: str) -> str:
    """The address of a folder of a lake, as Hadoop writes it."""
    scheme, mark, rest = lake.store.address(name).partition("://")
    return f"{SCHEMES[scheme]}://{rest}" if mark else scheme


def check_client(spark: SparkSession, lake: Lake) -> None:
    """See whether Spark can read the lake's store at all, before anything runs.

    Raises:
        FeaturesError: it has no client of it.
    """
    java: Any = spark._jvm
    try:
        java.org.apache.hadoop.fs.Path(address(lake, "usage")).getFileSystem(spark._jsc.hadoopConfiguration())
    except Py4JError as error:
        raise FeaturesError(
            f"Spark has no client of {lake.uri}, or cannot log in ({_reason(error)}). Either add the client's jars to "
            "folder jars of pyspark, or run `cohabit features` without --spark, --kafka, --follow and "
            "COHABIT_SPARK__MASTER: it computes in its own process. `cohabit refresh` needs no Spark"
        ) from error


def _reason(error: Py4JError) -> str:
    """The first line of what Java says."""
    return str(getattr(error, "java_exception", error)).strip().split("\n", 1)[0][:200]


def rows_of(
    spark: SparkSession, lake: Lake, table: Table, start: datetime = EPOCH, end: datetime = FOREVER
) -> DataFrame:
    """Rows of a table with a time in [start, end) that have not expired, duplicates still in, as of now.

    Raises:
        IngestError: the table has columns of other names.
    """
    lake.files(table.name)  # refuses those of an older form
    schema, version = spark_schema(table.schema), lake.version(table.name)
    if version < 0:
        return spark.createDataFrame([], schema)
    reader = spark.read.format("delta").option("versionAsOf", version)
    time_us, since_us = F.unix_micros(table.time), lake.horizon_us(table.name)
    rows = reader.load(address(lake, table.name)).where(F.col(table.time) >= F.lit(start)).where(time_us >= since_us)
    within = rows if end == FOREVER else rows.where(F.col(table.time) < F.lit(end))
    older = (field for field in schema if field.name not in rows.columns)
    whole = within.withColumns({field.name: F.lit(None).cast(field.dataType) for field in older})
    return whole.select(*table.schema.names)


def stream_of(spark: SparkSession, lake: Lake, table: Table) -> DataFrame:
    """Rows of a table as they land, each once: neither compaction nor expiry shows."""
    lake.fence(table.name).create()
    stream = spark.readStream.format("delta").options(maxFilesPerTrigger=MAX_FILES, skipChangeCommits="true")
    return stream.load(address(lake, table.name)).select(*table.schema.names)
