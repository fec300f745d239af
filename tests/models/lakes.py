"""Lakes: a simulated cluster landed and derived, as training and evaluating find it."""

from pathlib import Path
from threading import Event

from prometheus_client import CollectorRegistry

from cohabit.ingestion.simulation import simulate_into
from cohabit.terminal.locations import TOPICS
from features.jobs.job_plan import whole_stretch
from features.jobs.local_job import run_local
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_files
from ingest.simulator.simulate import Plan


def derived_lake(folder: Path, plan: Plan) -> Lake:
    """All that was simulated, with all derived tables."""
    simulate_into(folder / "stream", plan, lambda _done, _of: None)
    lake = Lake.open(folder / "lake", TABLES)
    ingest_files(folder / "stream", TOPICS, lake, stop=Event(), metrics=IngestMetrics(CollectorRegistry()))
    stretch = whole_stretch(lake)
    assert stretch is not None
    run_local(lake, stretch, lambda _table, _rows: None)
    return lake
