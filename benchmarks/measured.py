"""Measured: antagonist kinds that no model saw, on our own runs; accuracy beside the baselines."""

import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path
from threading import Event

import numpy as np
from prometheus_client import CollectorRegistry

from benchmarks.runner import HIGH, LOW, OURS, Benchmark, Figures, Result
from benchmarks.waiting_labels import without_app_metrics
from cohabit.terminal.locations import TOPICS
from cohabit.training.measured_runs import Report, leave_kind_out, read_configurations
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_files
from models.metrics.errors_and_ranks import Estimate

FOLDER = Path(__file__).parent.parent / "data_samples" / "measured"


def add_arguments(parser: ArgumentParser) -> None:
    """The folder may be another of the same form."""
    parser.add_argument("--folder", "--data", type=Path, default=FOLDER, help="CSVs of measured runs")
    parser.add_argument(
        "--without-app-metrics",
        action="store_true",
        help="judge labels made without requests and latency, of the CSVs alone",
    )


def run(arguments: Namespace, rng: np.random.Generator) -> Result:
    """Land the records, compute features by the kernels, leave each antagonist kind out."""
    if arguments.without_app_metrics:
        return without_app_metrics(arguments.folder)
    with tempfile.TemporaryDirectory(prefix="cohabit-measured-") as folder:
        lake = Lake.open(Path(folder), TABLES)
        metrics = IngestMetrics(CollectorRegistry())
        ingest_files(arguments.folder, TOPICS, lake, stop=Event(), metrics=metrics)
        report = leave_kind_out(read_configurations(arguments.folder, lake), rng)
    return figures(report)


def figures(report: Report) -> Result:
    """Figures by method; `round_to_round_spearman` is how well one round ranks the other."""
    found = {method: _flat(estimates) for method, estimates in report.metrics.items()}
    rounds = {"round_to_round_spearman": report.round_to_round, "configurations": float(report.rows)}
    return {**found, OURS: {**found[OURS], **{name + end: v for name, v in rounds.items() for end in ("", LOW, HIGH)}}}


def _flat(estimates: dict[str, Estimate]) -> Figures:
    return {
        name + end: value
        for name, e in estimates.items()
        for end, value in (("", e.value), (LOW, e.low), (HIGH, e.high))
    }


BENCHMARK = Benchmark("measured", "antagonist kinds left out, on our own measured runs", run, 1, add_arguments)
