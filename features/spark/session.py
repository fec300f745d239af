"""One Spark session, with the settings that local runs and clusters both need. An edge."""

import os
import sys
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from ingest.jars import jar_paths
from ingest.java import java_home

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.showConsoleProgress": "false",
}
ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    "spark.log.level": "ERROR",
}


@contextmanager
def spark_session(master: str = "local[2]", settings: Mapping[str, str] | None = None) -> "Iterator[SparkSession]":
    """A session, stopped on any exit.

    Args:
        master: Spark master; local ones get small defaults (4 shuffle partitions, 2 GB).
        settings: Spark settings that go before the defaults.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("JAVA_HOME", str(java_home()))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName("cohabit")
    chosen = {**ALWAYS, **(LOCAL if master.startswith("local") else {}), **(settings or {})}
    chosen["spark.jars"] = ",".join(str(path) for path in jar_paths("spark"))
    for name, value in chosen.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()
