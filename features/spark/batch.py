"""The batch job: usage in the lake to node state, labels, profiles and training rows. An edge."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from features.arrow import Ints
from features.node_state import Facts
from features.spark.decoding import decoded_usage
from features.spark.steps import node_windows, spark_schema, with_labels, with_node_state, with_profiles, with_training
from features.windows import LABEL_US, LATENESS_US, window_end
from ingest.lake import Lake
from ingest.schema import TIMESTAMP, USAGE

JOB = "features"
PROFILE_EVERY_US = 1800 * 1_000_000

Progress = Callable[[str, int], None]
"""Called with a table's name and its rows when it is written, and with what else was counted."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The time [start, end) a run covers, whole label windows."""

    start: datetime
    end: datetime

    def ends(self, until: timedelta = timedelta(0)) -> tuple[datetime, datetime]:
        """The half-open range that holds the ends of its windows, those in (start, end + until]."""
        tick = timedelta(microseconds=1)
        return self.start + tick, self.end + until + tick

    def samples(self) -> tuple[datetime, datetime]:
        """The half-open range of the times of its samples: a window holds those whose time less 1 ms lies in it."""
        return self.start + timedelta(milliseconds=1), self.end + timedelta(milliseconds=1)


def run_batch(usage: DataFrame, lake: Lake, stretch: Stretch, progress: Progress) -> None:
    """Rebuild every derived table of a stretch of time; running it again gives the same tables.

    Args:
        usage: rows of usage, from landed_usage or kafka_usage.
        lake: where nodes and placements lie, and where the tables go.
        stretch: what to rebuild.
        progress: told of each table written.
    """
    facts = Facts(lake.read("nodes", end=stretch.end), lake.read("placements", end=stretch.end))
    first, last = stretch.samples()
    inside = (F.col("ts") >= F.lit(first)) & (F.col("ts") < F.lit(last))
    seen = Observation()
    late = F.expr(f"arrived_at - ts > interval {LATENESS_US} microseconds")
    counted = usage.where(inside).observe(seen, F.count(F.when(late, 1)).alias("late"))
    state = counted.transform(node_windows).transform(with_node_state, facts).persist()
    labels = state.transform(with_labels).persist()
    _write(lake, "node_state", stretch, state, progress)
    progress(f"samples left out, later than {LATENESS_US // 1_000_000} s after their time", seen.get["late"])
    _write(lake, "labels", stretch, labels, progress)
    progress("labels of apps that are modelled", modelled(lake, stretch))
    profiles = with_profiles(state, profile_times(stretch)).toArrow()
    until = timedelta(microseconds=LATENESS_US)
    progress("profiles", lake.replace("profiles", *stretch.ends(until), JOB, profiles))
    _write(lake, "training", stretch, with_training(labels, state, facts, profiles), progress)
    labels.unpersist()
    state.unpersist()


def modelled(lake: Lake, stretch: Stretch) -> int:
    """How many label windows of a stretch have a slowdown; the others count as 1.0."""
    slowdown = lake.read("labels", *stretch.ends(), ["log_slowdown"])["log_slowdown"]
    return int(len(slowdown) - slowdown.null_count)


def landed_usage(spark: SparkSession, lake: Lake, stretch: Stretch) -> DataFrame:
    """Usage rows landed for the stretch; duplicates and late rows still in."""
    files = lake.files("usage", *stretch.samples())
    schema = spark_schema(USAGE.schema)
    return spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)


def kafka_usage(spark: SparkSession, lake: Lake, bootstrap: str, cluster: str) -> DataFrame:
    """All usage rows that a broker holds, through the decoder that ingest uses."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": USAGE.name, "startingOffsets": "earliest"}
    messages = spark.read.format("kafka").options(**options).load()
    return decoded_usage(messages, lake.read("nodes"), cluster)


def profile_times(stretch: Stretch) -> Ints:
    """Times at which profiles are taken: every half hour of the stretch, and its end with all that arrived in time."""
    start, end = (int(moment.timestamp() * 1e6) for moment in (stretch.start, stretch.end))
    inside = np.arange(start // PROFILE_EVERY_US + 1, end // PROFILE_EVERY_US + 1) * PROFILE_EVERY_US
    return np.unique(np.append(inside, end + LATENESS_US))


def whole_stretch(lake: Lake) -> Stretch | None:
    """The label windows that hold all usage of the lake; None for a lake without usage."""
    ts = lake.read("usage", columns=["ts"])["ts"]
    if not len(ts):
        return None
    span = pc.min_max(ts.cast(pa.int64()))
    first, last = window_end(np.array([span["min"].as_py(), span["max"].as_py()]), LABEL_US).tolist()
    return Stretch(*(pa.scalar(us, TIMESTAMP).as_py() for us in (first - LABEL_US, last)))


def _write(lake: Lake, table: str, stretch: Stretch, rows: DataFrame, progress: Progress) -> None:
    staged = lake.stage(table, JOB)
    rows.write.parquet(str(staged))
    progress(table, lake.replace(table, *stretch.ends(), JOB, staged))
