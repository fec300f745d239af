"""Features: the job in one process and with Spark, beside the same features by hand in Polars and DuckDB."""

import resource
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import pyarrow as pa

from benchmarks.runner import OURS, Benchmark, Result
from benchmarks.usage_data import CONTAINERS, Size, write_lake
from features.schema.tables import PROFILES, TABLES
from ingest.lake.tables import Lake

Work = Callable[[Lake, Size], None]
ROUNDS = 3
"""Each method runs so often in its own process; the last counts, when code and caches are warm."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a method took: seconds of its last round, and the most memory its process ever held."""

    seconds: float
    peak_mb: float


def ours(lake: Lake, size: Size) -> None:
    """Minutes and five-minute windows by the kernels, chunk by chunk."""
    from features.columnar.thread_map import in_threads
    from features.contention.node_state import node_state
    from features.jobs.job_plan import facts_until
    from features.jobs.usage_chunks import Chunk, usage_chunks
    from features.training.five_minute import contention

    facts, none = facts_until(lake, size.stretch), PROFILES.schema.empty_table()

    def work(chunk: Chunk) -> int:
        return int(contention(node_state(chunk.usage, facts), none).num_rows)

    sum(in_threads(work, usage_chunks(lake, size.stretch, facts)))


def antagonists_by_matrix(lake: Lake, size: Size) -> None:
    """Antagonists of every container and half hour, with the node state they are made of."""
    from features.columnar.thread_map import in_threads
    from features.contention.correlation import antagonists
    from features.contention.node_state import node_state
    from features.jobs.job_plan import facts_until
    from features.jobs.local_job import KEPT
    from features.jobs.usage_chunks import Chunk, usage_chunks

    facts = facts_until(lake, size.stretch)

    def work(chunk: Chunk) -> pa.Table:
        return node_state(chunk.usage, facts).select(KEPT)

    antagonists(pa.concat_tables(in_threads(work, usage_chunks(lake, size.stretch, facts))))


def polars(lake: Lake, size: Size) -> None:
    """By hand in Polars."""
    from benchmarks.by_hand import with_polars

    with_polars(lake.files("usage", *size.stretch.samples()), lake.read("nodes"))


def duckdb(lake: Lake, size: Size) -> None:
    """By hand in DuckDB."""
    from benchmarks.by_hand import with_duckdb

    with_duckdb(lake.files("usage", *size.stretch.samples()), lake.read("nodes"))


def measured(work: Work, folder: Path, size: Size) -> Cost:
    """Run a method in a process of its own."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_rounds, (work, folder, size))


def _rounds(work: Work, folder: Path, size: Size) -> Cost:
    lake, seconds = Lake.open(folder, TABLES), 0.0
    for _ in range(ROUNDS):
        started = perf_counter()
        work(lake, size)
        seconds = perf_counter() - started
    return Cost(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def with_spark(folder: Path, size: Size) -> Cost:
    """The steps under Spark, whose session is started before the clock."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_spark_rounds, (folder, size))


def _spark_rounds(folder: Path, size: Size) -> Cost:
    from features.jobs.job_plan import facts_until
    from features.jobs.spark.batch_job import landed_usage
    from features.jobs.spark.session import spark_session
    from features.jobs.spark.steps import by_node, with_contention, with_node_state

    lake, seconds, none = Lake.open(folder, TABLES), 0.0, PROFILES.schema.empty_table()
    facts = facts_until(lake, size.stretch)
    with spark_session() as spark:
        for _ in range(ROUNDS):
            started = perf_counter()
            usage = landed_usage(spark, lake, size.stretch)
            state = usage.transform(by_node, 4).transform(with_node_state, facts)
            state.transform(with_contention, none).write.format("noop").mode("overwrite").save()
            seconds = perf_counter() - started
    return Cost(seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)


def run(arguments: Namespace, rng: np.random.Generator) -> Result:
    """Seconds as ratios, growth, and peak memory."""
    nodes = max(1, round(arguments.rows / CONTAINERS / arguments.intervals))
    base = Size(nodes, arguments.intervals)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, size in _sizes(base).items():
            write_lake(folder / name, size, rng)
        found = {name: measured(work, folder / "base", base) for name, work in METHODS.items()}
        small = {n: measured(ours, folder / n, s) for n, s in _sizes(base).items() if n != "base"}
        spark = with_spark(folder / "base", base)
    figures = {
        "rows": float(base.rows),
        "rows_per_s": base.rows / found[OURS].seconds,
        "local_vs_polars": found[OURS].seconds / found["polars"].seconds,
        "local_vs_duckdb": found[OURS].seconds / found["duckdb"].seconds,
        "spark_vs_polars": spark.seconds / found["polars"].seconds,
        "spark_vs_local": spark.seconds / found[OURS].seconds,
        "antagonists_vs_features": found["antagonists"].seconds / found[OURS].seconds,
        "growth_rows_x10": found[OURS].seconds / small["tenth_of_the_time"].seconds,
        "growth_nodes_x10": found[OURS].seconds / small["tenth_of_the_nodes"].seconds,
        "peak_mb": found[OURS].peak_mb,
        "polars_peak_mb": found["polars"].peak_mb,
        "duckdb_peak_mb": found["duckdb"].peak_mb,
    }
    return {OURS: figures}


METHODS: dict[str, Work] = {OURS: ours, "polars": polars, "duckdb": duckdb, "antagonists": antagonists_by_matrix}


def _sizes(base: Size) -> dict[str, Size]:
    return {
        "base": base,
        "tenth_of_the_time": Size(base.nodes, max(1, base.intervals // 10)),
        "tenth_of_the_nodes": Size(max(1, base.nodes // 10), base.intervals),
    }


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=2_000_000, help="samples, about (2000000)")
    parser.add_argument("--intervals", type=int, default=200, help="samples of each container (200)")


BENCHMARK = Benchmark(
    "features",
    "the feature job in one process and with Spark, beside the same by hand in Polars and DuckDB",
    run,
    runs=1,
    add_arguments=_arguments,
)
