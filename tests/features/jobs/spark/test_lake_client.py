"""Spark and the store of a lake: what it cannot read is said before anything runs."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from features.jobs.spark.lake_tables import check_client
from features.schema.errors import FeaturesError
from features.schema.tables import TABLES
from ingest.lake.tables import Lake


def test_a_bucket_that_spark_has_no_client_of_is_named_with_what_to_do_instead(spark: SparkSession) -> None:
    with pytest.raises(FeaturesError, match=r"no client of s3://bucket/lake.*S3AFileSystem.*without --spark"):
        check_client(spark, Lake.to_read("s3://bucket/lake", TABLES))


def test_a_folder_needs_no_client(spark: SparkSession, tmp_path: Path) -> None:
    check_client(spark, Lake.open(tmp_path, TABLES))
