"""Live state: what a refresher remembers between snapshots."""

from contextlib import closing
from itertools import pairwise
from pathlib import Path
from threading import Event

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from advisor.admission.node_room import node_rooms
from advisor.admission.room_file import read_rooms
from advisor.cluster.snapshot import Snapshot
from advisor.cluster.snapshot_builder import Offered
from cohabit.refresh import main as refresh
from cohabit.refresh.heard_file import NAME, read_heard, write_heard
from cohabit.refresh.live_state import LiveState, add
from cohabit.refresh.main import PublishedRooms
from features.schema.tables import PROFILES
from ingest.kafka_io.stream_files import Message, TopicWriter, topics_in
from ingest.pipeline.consumer_loop import Formats, Landers, ingest
from ingest.pipeline.file_source import FileCapacities, FileSource
from ingest.pipeline.metrics import IngestMetrics

START_S = 1_772_366_400
Record = dict[str, object]


class Cluster:
    """A stream of files that grows, and the live state that follows it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = LiveState("c", lambda: (START_S + 86_400) * 1_000_000)

    def send(self, topic: str, second: int, record: Record, *, arrived: int | None = None) -> None:
        value = {"cluster": "c", "node": "n", "ts": START_S + second, **record}
        at_ms = (START_S + (second if arrived is None else arrived)) * 1000
        TopicWriter(self.folder, topic).write([Message(at_ms, b"k", orjson.dumps(value))])

    def snapshot(self, offered: Offered | None = None) -> Snapshot:
        with (
            closing(FileCapacities(self.folder)) as capacities,
            closing(FileSource(self.folder, topics_in(self.folder), self.state.position)) as source,
        ):
            source.stop_at_end()
            metrics = IngestMetrics(CollectorRegistry())
            ingest(source, self.state, Landers(Formats(), capacities), metrics, Event())
        return self.state.snapshot(PROFILES.schema.empty_table(), version=1, offered=offered)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """One node of eight cores with one container that uses two."""
    cluster = Cluster(tmp_path)
    cluster.send("nodes", 0, {"cores": 8, "platform": "p"})
    cluster.send("placements", 0, {"container": "a", "event": "add", "app": "web"})
    cluster.send("usage", 60, {"container": "a", "interval_s": 30, "app": "web", "cpu_cores": 2.0}, arrived=61)
    return cluster


def test_a_snapshot_holds_who_is_where_and_what_each_uses(cluster: Cluster) -> None:
    snapshot = cluster.snapshot()

    assert snapshot.containers == ("a",)
    assert snapshot.resident_use[:, 0].tolist() == [2.0]
    assert snapshot.as_of_us == (START_S + 61) * 1_000_000


def test_a_room_file_that_cannot_be_written_is_logged_once_and_stops_no_snapshot(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    rooms, snapshot = PublishedRooms(tmp_path / "snapshots"), cluster.snapshot()
    with capture_logs() as logs, monkeypatch.context() as patch:
        patch.setattr(refresh, "write_rooms", full)
        rooms.write(snapshot, cluster.state.facts)
        rooms.write(snapshot, cluster.state.facts)
    assert [one["event"] for one in logs] == ["cannot write what nodes have left"]

    rooms.write(snapshot, cluster.state.facts)

    assert read_rooms(tmp_path / "snapshots") == node_rooms(snapshot, cluster.state.facts)


def test_offers_of_nodes_are_what_best_effort_containers_that_came_since_have_left(cluster: Cluster) -> None:
    cluster.send("placements", 0, {"container": "b", "event": "add", "app": "batch", "qos": "BE"})
    cluster.send("usage", 60, {"container": "b", "interval_s": 30, "app": "batch", "qos": "BE", "cpu_cores": 3.0})

    assert cluster.snapshot().node_offered.size == 0, "nothing is published"
    assert cluster.snapshot({"n": (4.0, 6.0)}).node_offered.tolist() == [3.0], "6 in all, of which 3 are in use"
    assert cluster.snapshot({"n": (1.0, 6.0)}).node_offered.tolist() == [1.0]
    assert cluster.snapshot({"n": (1.0, 2.0)}).node_offered.tolist() == [0.0]
    assert np.isnan(cluster.snapshot({"other": (4.0, 6.0)}).node_offered).all()


def test_another_clusters_rows_are_not_ours(cluster: Cluster) -> None:
    cluster.send("nodes", 70, {"cluster": "other", "node": "x", "cores": 8})

    snapshot = cluster.snapshot()

    assert snapshot.nodes == ("n",)
    assert snapshot.as_of_us == (START_S + 61) * 1_000_000


def test_a_fact_dated_ahead_by_a_wrong_clock_does_not_blot_out_what_holds_now(cluster: Cluster) -> None:
    cluster.snapshot()
    cluster.send("nodes", 75, {"cores": 16, "platform": "p"}, arrived=62)
    cluster.send("placements", 75, {"container": "a", "event": "change", "app": "web"}, arrived=62)

    snapshot = cluster.snapshot()

    assert snapshot.node_capacity[0, 0] == 8.0
    assert snapshot.containers == ("a",)


def test_a_container_that_ended_is_gone_and_forgotten_in_time(cluster: Cluster) -> None:
    cluster.send("placements", 65, {"container": "a", "event": "delete"})
    assert cluster.snapshot().containers == ()

    cluster.send("nodes", 1200, {"cores": 8, "platform": "p"})
    assert cluster.snapshot().containers == ()

    assert cluster.state.held()["placements"] == 0


def test_what_stood_on_a_node_does_not_come_back_with_a_new_one_of_its_name(cluster: Cluster) -> None:
    cluster.send("nodes", 0, {"node": "m", "cores": 8})
    cluster.send("usage", 90, {"container": "a", "interval_s": 30, "app": "web", "cpu_cores": 2.0})
    for minute in range(1, 16):
        cluster.send("node_usage", 60 * minute, {"node": "m", "interval_s": 60})
        if minute in {1, 15}:
            cluster.send("node_usage", 60 * minute, {"interval_s": 60})
    cluster.send("nodes", 900, {"cores": 16})

    snapshot = cluster.snapshot()

    assert sorted(snapshot.nodes) == ["m", "n"]
    assert snapshot.containers == ()


def test_what_fell_silent_does_not_come_back_after_a_day(cluster: Cluster) -> None:
    cluster.send("nodes", 0, {"node": "m", "cores": 8})
    cluster.send("placements", 0, {"container": "b", "node": "m", "event": "add", "app": "db"})
    for hour in range(23):
        cluster.send("usage", 3600 * hour + 90, {"container": "b", "node": "m", "interval_s": 30, "cpu_cores": 1.0})
        snapshot = cluster.snapshot()

    assert (snapshot.nodes, snapshot.containers) == (("m",), ("b",))


def test_a_refresher_that_starts_again_knows_what_fell_silent_before(cluster: Cluster, tmp_path: Path) -> None:
    cluster.send("nodes", 0, {"node": "m", "cores": 8})
    cluster.send("placements", 0, {"container": "b", "node": "m", "event": "add", "app": "db"})
    for minute in range(2, 62):
        cluster.send("usage", 60 * minute, {"container": "b", "node": "m", "interval_s": 30, "cpu_cores": 1.0})
    cluster.snapshot()
    write_heard(tmp_path, cluster.state.heard())
    again = Cluster(tmp_path / "again")
    again.send("nodes", 0, {"cores": 8})
    again.send("nodes", 0, {"node": "m", "cores": 8})
    again.send("placements", 0, {"container": "a", "event": "add", "app": "web"})
    again.send("placements", 0, {"container": "b", "node": "m", "event": "add", "app": "db"})
    again.send("usage", 3720, {"container": "b", "node": "m", "interval_s": 30, "cpu_cores": 1.0})
    again.state.recall(read_heard(tmp_path))

    snapshot = again.snapshot()

    assert (snapshot.nodes, snapshot.containers) == (("m",), ("b",))


def test_where_what_was_heard_cannot_be_kept_snapshots_go_on(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "full").write_text("no folder")
    cluster.snapshot()

    write_heard(tmp_path / "full", cluster.state.heard())


def test_a_file_of_what_was_heard_that_cannot_be_read_is_done_without(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"PAR1")

    assert read_heard(tmp_path) == {}
    assert read_heard(tmp_path / "none") == {}


def test_where_the_whole_cluster_was_not_heard_of_its_containers_stay(cluster: Cluster) -> None:
    cluster.send("nodes", 0, {"node": "m", "cores": 8})
    for minute in (1, 15):
        for node in "mn":
            cluster.send("node_usage", 60 * minute, {"node": node, "interval_s": 60})

    assert cluster.snapshot().containers == ("a",)


def test_a_producers_clock_ahead_of_ours_does_not_age_everybody_else(cluster: Cluster) -> None:
    before = cluster.snapshot()
    far = 86_400 + 3600
    cluster.send("usage", far, {"container": "late", "interval_s": 30, "cpu_cores": 1.0}, arrived=far)

    after = cluster.snapshot()

    assert after.as_of_us == before.as_of_us
    assert after.containers == before.containers


@given(st.lists(st.integers(0, 40), max_size=200))
def test_of_any_number_of_batches_few_pieces_are_left_and_every_row_in_its_order(sizes: list[int]) -> None:
    pieces = [pa.table({"row": pa.array([], pa.int64())})]
    ends = np.cumsum([0, *sizes])

    for begin, end in pairwise(ends):
        add(pieces, pa.table({"row": np.arange(begin, end)}))

    assert pa.concat_tables(pieces)["row"].to_pylist() == list(range(ends[-1]))
    assert len(pieces) <= 1 + np.log2(1 + ends[-1])
    assert all(column.num_chunks <= 1 for piece in pieces for column in piece.columns)


def test_a_node_registered_again_does_not_bring_back_what_ended_with_it(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.send("nodes", 0, {"cores": 8, "platform": "p"})
    cluster.send("placements", 0, {"container": "a", "event": "add", "app": "web"})
    cluster.send("usage", 60, {"container": "a", "interval_s": 30, "app": "web", "cpu_cores": 2.0}, arrived=61)
    cluster.send("nodes", 600, {"event": "delete"})
    cluster.send("nodes", 660, {"cores": 8, "platform": "p"})
    for minute in range(11, 15):
        cluster.send("node_usage", 60 * minute, {"interval_s": 60})
        cluster.snapshot()

    assert "a" not in cluster.snapshot().containers


def test_what_nodes_have_left_follows_from_the_facts_behind_a_snapshot(cluster: Cluster) -> None:
    cluster.send("placements", 1, {"container": "a", "event": "change", "app": "web", "cpu_request_cores": 3.0})

    [room] = node_rooms(cluster.snapshot(), cluster.state.facts).nodes

    assert (room.node, room.cores) == ("n", 5.0)
