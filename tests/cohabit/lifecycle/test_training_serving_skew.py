"""Skew: what was served, computed again from what landed."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event

import numpy as np
import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

import advisor.placement.feature_log
from advisor.cluster.pending_pod import PendingPod
from advisor.cluster.snapshot import Snapshot
from advisor.placement.feature_log import ServedLog
from cohabit.cli.main import app
from cohabit.config.errors import CohabitError, NothingServed
from cohabit.ingestion.simulation import simulate_into
from cohabit.lifecycle.training_serving_skew import LIMIT, comparable, compare, read_served
from cohabit.refresh.live_state import LiveState
from cohabit.server.workers import SERVED
from cohabit.terminal.locations import TOPICS
from features.jobs.job_plan import whole_stretch
from features.jobs.local_job import run_local
from features.schema.tables import TABLES
from ingest.kafka_io.stream_files import TopicWriter, read_messages, topic_path, topics_in
from ingest.lake.tables import Lake
from ingest.pipeline.consumer_loop import Formats, Landers, ingest
from ingest.pipeline.file_source import FileSource
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.plausibility import Capacities
from ingest.pipeline.runner import ingest_files
from ingest.simulator.messages import Faults
from ingest.simulator.simulate import Plan
from tests.features.sampled import placement_messages, sample_messages

PLAN = Plan(nodes=5, apps=6, per_node=6, hours=1.0, seed=7, faults=Faults(0.1, 0.1, 0.1, 0.01, 4.0))
APPS = [PendingPod("app-000"), PendingPod("app-001", best_effort=True), PendingPod("never-seen")]
EVERY_MS = 47_000


def metrics() -> IngestMetrics:
    return IngestMetrics(CollectorRegistry())


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """An hour with ten times the usual faults, landed, with profiles."""
    folder = tmp_path_factory.mktemp("stream")
    simulate_into(folder, PLAN, lambda _done, _of: None)
    TopicWriter(folder, "placements").write(placement_messages(PLAN))
    TopicWriter(folder, "samples").write(sample_messages(PLAN, np.random.default_rng(5)))
    lake = Lake.open(folder / "lake", TABLES)
    ingest_files(folder, topics_in(folder), lake, stop=Event(), metrics=metrics())
    stretch = whole_stretch(lake)
    assert stretch is not None
    run_local(lake, stretch, lambda _table, _rows: None)
    return lake


def snapshots(stream: Path, growing: Path, profiles: pa.Table) -> Iterator[Snapshot]:
    """What a refresher publishes while messages arrive, each when it did."""
    state = LiveState(PLAN.cluster, lambda: 2**60)
    messages = {topic: read_messages(topic_path(stream, topic)) for topic in topics_in(stream)}
    waiting = {topic: sorted(found, key=lambda m: m.arrived_ms) for topic, found in messages.items()}
    start_ms, end_ms = (round(PLAN.start.timestamp() * 1000) + round(s * 1000) for s in (600, PLAN.hours * 3600))
    since_ms = 0
    for version, now_ms in enumerate(range(start_ms, end_ms, EVERY_MS), start=1):
        for topic, found in waiting.items():
            TopicWriter(growing, topic).write([m for m in found if since_ms < m.arrived_ms <= now_ms])
        with closing(FileSource(growing, TOPICS, state.position)) as source:
            source.stop_at_end()
            ingest(source, state, Landers(Formats(), Capacities), metrics(), Event())
        yield state.snapshot(profiles, version)
        since_ms = now_ms


@pytest.fixture(scope="module")
def served(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The features of some newcomers on every node, from every snapshot."""
    folder = tmp_path_factory.mktemp("served")
    log = ServedLog(folder, 1.0, np.random.default_rng(1))
    for snapshot in snapshots(lake.root.parent, folder / "growing", lake.read("profiles")):
        for row in range(len(snapshot.nodes)):
            for pending_pod in APPS:
                log.note(snapshot, pending_pod, np.array([row], np.int32))
    return folder


def test_what_is_served_equals_what_landed_under_late_doubled_and_skewed_arrivals(served: Path, lake: Lake) -> None:
    skew = compare(read_served(served), lake)

    assert skew.vectors > 900
    assert skew.share >= LIMIT, skew.differing.most_common(5)


def test_a_lake_that_holds_something_else_is_noticed(served: Path, lake: Lake, tmp_path: Path) -> None:
    half = Lake.open(tmp_path / "lake", TABLES)
    messages = read_messages(topic_path(lake.root.parent, "usage"))
    for topic in ("nodes", "placements"):
        TopicWriter(tmp_path / "stream", topic).write(list(read_messages(topic_path(lake.root.parent, topic))))
    TopicWriter(tmp_path / "stream", "usage").write([m for i, m in enumerate(messages) if i % 2])
    ingest_files(tmp_path / "stream", TOPICS, half, stop=Event(), metrics=metrics())

    skew = compare(read_served(served)[-30:], half)

    assert skew.share < LIMIT
    assert skew.differing


def test_only_the_drawn_share_is_kept_and_files_stay_small(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advisor.placement.feature_log, "MAX_BYTES", 20_000)
    snapshot = next(iter(snapshots(lake.root.parent, tmp_path / "growing", lake.read("profiles"))))
    none, some = (
        ServedLog(tmp_path / name, share, np.random.default_rng(2)) for name, share in (("none", 0.0), ("some", 0.5))
    )
    for _ in range(200):
        for log in (none, some):
            if log.drawn():
                log.note(snapshot, APPS[0], np.arange(3, dtype=np.int32))

    assert not (tmp_path / "none").exists()
    assert sum(path.stat().st_size for path in (tmp_path / "some").iterdir()) < 3 * 22_000


def test_nothing_served_and_foreign_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(NothingServed, match="FEATURE_LOG_SHARE"):
        read_served(tmp_path)
    (tmp_path / "1.jsonl").write_text('{"cluster": "c"}\n')
    with pytest.raises(CohabitError, match="is not a feature log"):
        read_served(tmp_path)


def test_the_command_is_well_while_nothing_was_served(lake: Lake, tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["model", "check-skew", "--lake", str(lake.root), "--snapshots", str(tmp_path)])

    assert ran.exit_code == 0, ran.output
    assert "nothing to compare" in ran.output
    assert "FEATURE_LOG_SHARE" in ran.output


def test_what_was_served_with_profiles_that_were_rebuilt_since_is_no_skew(
    served: Path, lake: Lake, tmp_path: Path
) -> None:
    """The newest profiles are as of the newest sample; the next rebuild has later ones instead."""
    vectors = read_served(served)
    assert comparable(vectors, lake) == vectors
    rebuilt = Lake.open(tmp_path / "lake", TABLES)
    (tmp_path / "snapshots").mkdir()
    (tmp_path / "snapshots" / SERVED).symlink_to(served)

    ran = CliRunner().invoke(
        app,
        ["model", "check-skew", "--lake", str(rebuilt.root), "--snapshots", str(tmp_path / "snapshots")],
        env={"COLUMNS": "300"},
    )

    assert ran.exit_code == 0, ran.output
    assert f"profiles of all {len(vectors):,} vectors were rebuilt since" in ran.output
