"""One Spark session, with the settings that local runs and clusters both need. An edge."""

import os
import sys
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from ingest.devkafka.jars import jar_paths
from ingest.devkafka.java import cache_folder, quiet_java_home
from ingest.schema.atomic_file import replace_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCAL_MASTER = "local[2]"
LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.showConsoleProgress": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
}
ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

QUIET_LOGS = """rootLogger.level = error
rootLogger.appenderRef.err.ref = err
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = spark: %d{ISO8601} %p %c{1}: %m%n
"""


@contextmanager
def spark_session(master: str = LOCAL_MASTER, settings: Mapping[str, str] | None = None) -> "Iterator[SparkSession]":
    """A session, stopped on any exit.

    Args:
        master: Spark master; local ones get small defaults (4 shuffle partitions, 2 GB).
        settings: Spark settings that go before the defaults.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["JAVA_HOME"] = str(quiet_java_home())
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:+UseParallelGC")  # a fifth quicker here than Java's own choice
    builder = SparkSession.builder.master(master).appName("cohabit")
    chosen = {**ALWAYS, **(LOCAL if master.startswith("local") else {}), **(settings or {})}
    chosen.setdefault("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_log_settings()}")
    chosen["spark.jars"] = ",".join(str(path) for path in jar_paths("spark"))
    for name, value in chosen.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def _log_settings() -> Path:
    """File that lets Spark's own logs through from errors on; a cache that already holds it may be read-only."""
    path = cache_folder() / "spark-log4j2.properties"
    if not path.is_file() or path.read_text() != QUIET_LOGS:
        replace_atomically(path, QUIET_LOGS.encode())
    return path
