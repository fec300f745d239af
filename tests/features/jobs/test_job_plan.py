"""The feature job, whenever metrics end."""

from datetime import timedelta
from pathlib import Path
from threading import Event

import pyarrow.compute as pc
import pytest
from prometheus_client import CollectorRegistry

from cohabit.ingestion.simulation import simulate_into
from cohabit.terminal.locations import TOPICS
from features.contention.correlation import LOOK_BACK_US
from features.jobs.job_plan import antagonist_ends, whole_stretch
from features.jobs.local_job import run_local
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_files
from ingest.simulator.simulate import Plan


@pytest.mark.parametrize("minutes", [40, 60])
def test_features_are_computed_whenever_metrics_end(tmp_path: Path, minutes: int) -> None:
    plan = Plan(nodes=3, apps=6, per_node=6, hours=minutes / 60)
    simulate_into(tmp_path / "stream", plan, lambda _done, _of: None)
    lake = Lake.open(tmp_path / "lake", TABLES)
    metrics = IngestMetrics(CollectorRegistry())
    ingest_files(tmp_path / "stream", TOPICS, lake, stop=Event(), metrics=metrics)
    stretch = whole_stretch(lake)
    assert stretch is not None

    for _ in range(2):  # running it again changes nothing
        run_local(lake, stretch, lambda _table, _rows: None)

    found = lake.read("antagonists")
    assert pc.max(found["window_end"]).as_py() >= plan.start + timedelta(minutes=minutes)
    assert found.num_rows == found.group_by(["node", "container", "antagonist", "window_end"]).aggregate([]).num_rows


def test_half_hours_end_with_or_after_the_stretch(tmp_path: Path) -> None:
    plan = Plan(nodes=3, apps=6, per_node=6, hours=0.2)
    simulate_into(tmp_path / "stream", plan, lambda _done, _of: None)
    lake = Lake.open(tmp_path / "lake", TABLES)
    metrics = IngestMetrics(CollectorRegistry())
    ingest_files(tmp_path / "stream", TOPICS, lake, stop=Event(), metrics=metrics)
    stretch = whole_stretch(lake)
    assert stretch is not None

    start, end = antagonist_ends(stretch)

    assert start == stretch.ends()[0]
    assert timedelta(0) <= end - stretch.ends()[1] < timedelta(microseconds=LOOK_BACK_US)
