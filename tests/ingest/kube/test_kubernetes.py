"""Watching a cluster: whatever the connection does, what is told of the cluster is what it is."""

import json
import socket
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

import httpx2
import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st
from kubernetes import client
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from cohabit.cli.main import app
from cohabit.config.logs import set_up_logs
from ingest.decode.formats.native import decoder
from ingest.devkafka.broker import Broker, create_topics
from ingest.kafka_io.replay import Sender
from ingest.kafka_io.sender import Outlet
from ingest.kafka_io.stream_files import Message
from ingest.kube.api_types import Pod
from ingest.kube.events import BUDGETS, CLUSTER_NODES, PODS
from ingest.kube.list_watch import Feed, budget_feed, core_api, node_feed, pod_feed
from ingest.kube.pods import placement
from ingest.kube.watcher import Backoff, Follower, Surroundings, WatchMetrics, follow_all
from ingest.lake.tables import Lake
from ingest.pipeline.consumer_loop import Formats
from ingest.pipeline.kafka_source import ConsumerSettings
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_kafka
from ingest.schema.errors import ClusterRefused, ClusterUnanswered, IngestError
from ingest.schema.tables import DEAD_LETTERS, LANDED, NODE_USAGE, NODES, PLACEMENTS
from ingest.schema.topics import Topic
from tests.ingest.api_server import ApiServer, Cut, Fault, GoneEvent, Line, Status, a_node, a_pod, api_server

LATER_MS = 1_772_366_400_000 + 7_200_000
QUICK = Backoff(0.001, 0.004)
NewTopic = Callable[[str, int], Topic]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    yield
    set_up_logs("DEBUG")


@dataclass
class Published:
    """An outlet that remembers."""

    messages: dict[str, list[Message]] = field(default_factory=lambda: defaultdict(list))
    flushed: int = 0

    def send(self, topic: str, message: Message) -> None:
        self.messages[topic].append(message)

    def flush(self) -> None:
        self.flushed += 1

    def records(self, topic: str = "placements") -> list[dict[str, Any]]:
        return [json.loads(message.value or b"") for message in self.messages[topic]]

    def events(self) -> list[tuple[str, str]]:
        return [(record["event"], record["container"]) for record in self.records()]


@dataclass
class Renamed:
    """Sends to topics of a test's own in place of ours."""

    sender: Sender
    names: dict[str, str]

    def send(self, topic: str, message: Message) -> None:
        self.sender.send(self.names[topic], message)

    def flush(self) -> None:
        self.sender.flush()


def followers(address: str, outlet: Outlet, state: Path, metrics: WatchMetrics, page: int = 500) -> list[Follower]:
    around = Surroundings("c", outlet, lambda: LATER_MS, metrics, QUICK)
    made = client.Configuration(host=address)
    made.retries = False
    api = client.CoreV1Api(client.ApiClient(made))
    budgets = Follower(BUDGETS, budget_feed(api, page=page), state / "budgets.json", around)
    return [
        budgets,
        Follower(PODS, pod_feed(api, page=page), state / "pods.json", around, budgets),
        Follower(CLUSTER_NODES, node_feed(api, page=page), state / "nodes.json", around),
    ]


@contextmanager
def watching(
    server: tuple[ApiServer, str], outlet: Outlet, state: Path, *, page: int = 500
) -> Iterator[Callable[..., float]]:
    """A running watcher, settled at the end; gives a function that reads its counters."""
    api, address = server
    registry, stop, failed = CollectorRegistry(), Event(), []
    follow = followers(address, outlet, state, WatchMetrics(registry), page)

    def run() -> None:
        try:
            follow_all(follow, stop)
        except Exception as error:  # noqa: BLE001  # raised again in the test's own thread
            failed.append(error)

    api.turn_away()
    thread = Thread(target=run)
    thread.start()
    try:
        api.settle("pods", "nodes")
        yield lambda name, **labels: registry.get_sample_value(f"cohabit_watch_{name}_total", labels) or 0.0
        api.settle("pods", "nodes")
    finally:
        stop.set()
        thread.join(20)
    assert not thread.is_alive()
    assert not failed, failed


def test_pods_and_nodes_of_a_cluster_are_landed_through_a_broker(
    kafka: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    names = {name: new_topic(name, 1).name for name in ("placements", "nodes", "node_usage")}
    with api_server() as server, closing(Sender(kafka.bootstrap)) as sender:
        api, _ = server
        api.put("nodes", a_node("n1"))
        api.put("pods", a_pod("u1"))
        with watching(server, Renamed(sender, names), tmp_path):
            api.put("pods", a_pod("u2"))
            api.put("pods", a_pod("u1", labels={"app": "renamed"}, changed="2026-03-01T12:10:00Z"))
            api.remove("pods", "u2")
            api.put("nodes", a_node("n2"))

    lake = landed(kafka, names, tmp_path / "lake")

    columns = ["container", "event", "app", "cpu_request_cores"]
    rows = lake.read("placements", columns=[*columns, "ts"]).sort_by([("container", "ascending"), ("ts", "ascending")])
    assert rows.select(columns).to_pylist() == [
        dict(zip(columns, row, strict=True))
        for row in [
            ("u1", "add", "web", 0.25),
            ("u1", "change", "renamed", 0.25),
            ("u2", "add", "web", 0.25),
            ("u2", "delete", "web", None),
        ]
    ]
    assert sorted(lake.read("nodes")["node"].to_pylist()) == ["n1", "n1", "n2", "n2"]
    assert set(lake.read("nodes")["cores"].to_pylist()) == {8.0}
    assert set(lake.read("node_usage")["node"].to_pylist()) >= {"n1"}
    assert not lake.read(DEAD_LETTERS.name).num_rows


def landed(kafka: Broker, names: dict[str, str], folder: Path) -> Lake:
    lake = Lake.open(folder, {**LANDED, DEAD_LETTERS.name: DEAD_LETTERS})
    tables = (PLACEMENTS, NODES, NODE_USAGE)
    formats = Formats({names[table.name]: decoder(table) for table in tables}, names["nodes"])
    consumer = ConsumerSettings(kafka.bootstrap, tuple(names.values()), group=names["nodes"], max_wait_ms=50)
    metrics = IngestMetrics(CollectorRegistry())
    ingest_kafka(consumer, lake, until="end", stop=Event(), metrics=metrics, formats=formats)
    return lake


def test_a_watch_that_broke_in_the_middle_of_a_line_goes_on_from_the_last_version(tmp_path: Path) -> None:
    told = Published()
    with api_server() as server, watching(server, told, tmp_path):
        api, _ = server
        api.settle("pods", "nodes")
        with api.changed:
            api.faults["pods"].append(Cut(after=1))
            api.put("pods", a_pod("u1"))
            first = api.version
            api.put("pods", a_pod("u2"))

    assert told.events() == [("add", "u1"), ("add", "u2")]
    assert len(api.requests("pods", watch=False)) == 1
    assert str(first) in [query["resourceVersion"] for query in api.requests("pods", watch=True)]


@pytest.mark.parametrize("fault", [Status(410), GoneEvent()], ids=["http", "event"])
def test_a_version_that_is_gone_leads_to_a_list_that_finds_a_deletion(tmp_path: Path, fault: Fault) -> None:
    told = Published()
    with api_server() as server:
        api, _ = server
        api.put("pods", a_pod("u1"))
        api.put("pods", a_pod("u2"))
        with watching(server, told, tmp_path), api.changed:
            api.faults["pods"] += [Cut(), fault]
            api.remove("pods", "u1")

    first, second, again, ended = told.records()
    assert told.events() == [("add", "u1"), ("add", "u2"), ("add", "u2"), ("delete", "u1")]
    assert (again, ended["node"]) == (second, first["node"])
    assert len(api.requests("pods", watch=False)) == 2


def test_a_restart_goes_on_where_the_last_run_was(tmp_path: Path) -> None:
    told, again = Published(), Published()
    with api_server() as server:
        api, _ = server
        api.put("pods", a_pod("u1"))
        api.put("pods", a_pod("u2"))
        with watching(server, told, tmp_path):
            pass
        api.remove("pods", "u1")
        api.put("pods", a_pod("u3"))
        with watching(server, again, tmp_path):
            pass

    assert told.events() == [("add", "u1"), ("add", "u2")]
    assert again.events() == [("delete", "u1"), ("add", "u3")]
    assert len(api.requests("pods", watch=False)) == 1


def test_a_restart_after_too_long_tells_what_stands_and_what_is_gone(tmp_path: Path) -> None:
    told = Published()
    with api_server() as server:
        api, _ = server
        api.put("pods", a_pod("u1"))
        api.put("pods", a_pod("u2"))
        with watching(server, Published(), tmp_path):
            pass
        api.remove("pods", "u1")
        api.put("pods", a_pod("u3"))
        api.forget()
        with watching(server, told, tmp_path):
            pass

    assert sorted(told.events()) == [("add", "u2"), ("add", "u3"), ("delete", "u1")]


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"version": 1}', b'{"version": "5", "told": {"u": {}}}'])
def test_without_a_readable_position_everything_is_told_again_alike(tmp_path: Path, content: bytes) -> None:
    told, again = Published(), Published()
    with api_server() as server:
        server[0].put("pods", a_pod("u1", labels={"app": "x"}, changed="2026-03-01T12:10:00Z"))
        with watching(server, told, tmp_path):
            pass
        (tmp_path / "pods.json").write_bytes(content)
        with watching(server, again, tmp_path):
            pass

    assert told.messages["placements"] == again.messages["placements"]
    assert told.events() == [("add", "u1"), ("change", "u1")]


def test_what_was_told_of_another_cluster_is_not_ended(tmp_path: Path) -> None:
    told = Published()
    saved = {"u9": {"event": "add", "ts_ms": 1, "digest": "", "identity": {}, "due_ms": None}}
    (tmp_path / "pods.json").write_text(json.dumps({"cluster": "other", "version": "5", "told": saved}))
    with api_server() as server, watching(server, told, tmp_path):
        pass

    assert told.events() == []


def test_long_lists_are_read_in_pages_and_begun_anew_when_a_page_has_expired(tmp_path: Path) -> None:
    told = Published()
    with api_server() as server:
        api, _ = server
        for number in range(7):
            api.put("pods", a_pod(f"u{number}"))
        api.faults["pods"].append(Status(410, paging=True))
        with watching(server, told, tmp_path, page=3):
            pass

    assert [*dict.fromkeys(told.events())] == [("add", f"u{number}") for number in range(7)]
    asked = [query.get("continue", "").partition(":")[0] for query in api.requests("pods", watch=False)]
    assert asked == ["", "3", "", "3", "6"]


def test_a_malformed_object_is_counted_with_its_reason_and_nobody_else_is_touched(tmp_path: Path) -> None:
    told = Published()
    bad = a_pod("bad")
    bad["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "many"
    with api_server() as server:
        api, _ = server
        api.put("pods", bad)
        api.put("pods", a_pod("u1"))
        with watching(server, told, tmp_path) as count, api.changed:
            api.put("pods", {"kind": "Pod", "metadata": {"uid": "worse"}, "spec": []})
            nameless = json.dumps({"type": "MODIFIED", "object": {"kind": "Pod"}}).encode()
            api.faults["pods"].append(Line(nameless))
            api.put("pods", a_pod("u2"))

    assert told.events() == [("add", "u1"), ("add", "u2")]
    reason = "spec.containers.resources.requests: value_error"
    assert count("malformed", kind="pods", reason=reason) == 1
    assert count("malformed", kind="pods", reason="metadata.uid: missing") == 1
    assert count("malformed", kind="pods", reason="metadata.name: missing") == 1


@pytest.mark.parametrize("kind", [{}, ["ADDED"], None, 7])
def test_an_event_of_no_type_is_counted(tmp_path: Path, kind: object) -> None:
    metrics = WatchMetrics(CollectorRegistry())
    around = Surroundings("c", Published(), lambda: LATER_MS, metrics)

    Follower(PODS, Feed("pods", dict, 500), tmp_path / "pods.json", around)._take({"type": kind, "object": a_pod("u1")})

    assert metrics.skipped() == 1


def test_a_known_container_that_became_malformed_is_not_taken_for_ended(tmp_path: Path) -> None:
    told = Published()
    bad = a_pod("u1", spec={"priority": "high"})
    with api_server() as server:
        api, _ = server
        api.put("pods", a_pod("u1"))
        with watching(server, told, tmp_path):
            with api.changed:
                api.faults["pods"] += [Cut(), GoneEvent()]
                api.put("pods", bad)
            api.settle("pods")
            still = told.events()
            api.remove("pods", "u1")

    assert still == [("add", "u1")]
    assert told.events() == [("add", "u1"), ("delete", "u1")]


def test_a_line_that_is_no_event_leads_to_a_list(tmp_path: Path) -> None:
    told = Published()
    with api_server() as server, watching(server, told, tmp_path):
        api, _ = server
        with api.changed:
            api.faults["pods"] += [Line(b'{"type": "ADDED", "obj')]
            api.put("pods", a_pod("u1"))

    assert told.events() == [("add", "u1")]
    assert len(api.requests("pods", watch=False)) == 2


def test_a_server_in_trouble_is_asked_again_and_after_a_while_for_everything(tmp_path: Path) -> None:
    told = Published()
    with api_server() as server, watching(server, told, tmp_path) as count:
        api, _ = server
        with api.changed:
            api.faults["pods"] += [Cut(), *[Status(500)] * 6]
            api.put("pods", a_pod("u1"))
        api.settle("pods")
        failures = count("failures", kind="pods")

    assert told.events() == [("add", "u1")]
    assert failures == 7
    assert len(api.requests("pods", watch=False)) > 1


def test_waits_double_up_to_a_limit() -> None:
    assert [Backoff(0.5, 30).wait_s(n) for n in (0, 1, 2, 3, 8, 10**6)] == [0, 0.5, 1, 2, 30, 30]


@pytest.mark.parametrize("code", [401, 403, 404])
def test_who_may_not_read_is_told_what_to_grant(tmp_path: Path, code: int) -> None:
    with api_server() as (api, address):
        api.faults["pods"].append(Status(code))
        follow = followers(address, Published(), tmp_path, WatchMetrics(CollectorRegistry()))

        with pytest.raises(ClusterRefused, match=f"{code}.*grant get, list and watch on pods and nodes"):
            follow_all(follow, Event())


def test_listing_once_tells_all_returns_and_fails_at_once(tmp_path: Path) -> None:
    told = Published()
    with api_server() as (api, address):
        api.put("pods", a_pod("u1"))
        follow_all(followers(address, told, tmp_path, WatchMetrics(CollectorRegistry())), Event(), "listed")
        api.faults["pods"].append(Status(500))
        with pytest.raises(ClusterUnanswered, match="check that it runs"):
            follow_all(followers(address, told, tmp_path, WatchMetrics(CollectorRegistry())), Event(), "listed")

    assert told.events() == [("add", "u1")]
    assert not api.requests("pods", watch=True)


def test_nothing_is_saved_before_it_is_safe(tmp_path: Path) -> None:
    class Full(Published):
        def flush(self) -> None:
            raise ConnectionError

    with api_server() as (api, address):
        api.put("pods", a_pod("u1"))
        with pytest.raises(ConnectionError):
            follow_all(followers(address, Full(), tmp_path, WatchMetrics(CollectorRegistry())), Event(), "listed")

    assert not list(tmp_path.iterdir())


@contextmanager
def reset_after_one_event() -> Iterator[tuple[str, Callable[[], None]]]:
    """A server that tells one event of a watch; its address, and what makes it reset the connection."""
    line = json.dumps({"type": "ADDED", "object": a_node("n1")}).encode() + b"\n"
    may, done = Event(), Event()

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.recv(65536)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head + b"%x\r\n%b\r\n" % (len(line), line))
        may.wait(20)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        done.set()

    def reset() -> None:
        may.set()
        assert done.wait(20)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=serve, args=(listener,))
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", reset
        thread.join()


def test_a_watch_that_the_server_reset_may_be_interrupted() -> None:
    with reset_after_one_event() as (address, reset):
        made = client.Configuration(host=address)
        made.retries = False
        feed = node_feed(client.CoreV1Api(client.ApiClient(made)))
        events = feed.events("1", Event())
        assert next(events)["type"] == "ADDED"

        reset()
        feed.interrupt()

        with pytest.raises(ClusterUnanswered):
            next(events)


STATES: dict[str, dict[str, Any]] = {
    "pending": {"spec": {"nodeName": None}, "status": {"phase": "Pending", "conditions": []}},
    "running": {},
    "renamed": {"labels": {"app": "renamed"}, "changed": "2026-03-01T12:10:00Z"},
    "moved-limit": {"spec": {"priority": 7}, "changed": "2026-03-01T12:10:00Z"},
    "failed": {"status": {"phase": "Failed", "conditions": []}},
}
Step = tuple[str, str]
FAULTS = st.sampled_from([Cut(0), Cut(1), Cut(2), GoneEvent(), Status(410), Status(500), Line(b"{"), Line(b"")])
STRETCHES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from(["u1", "u2", "u3"]), st.sampled_from([*STATES, "removed"])), max_size=5),
        st.lists(FAULTS, max_size=3),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
)


def apply(api: ApiServer, uid: str, state: str) -> None:
    """Let a pod come into a state that it can still come into; Kubernetes never uses a uid again."""
    now = api.objects["pods"].get(uid)
    if state == "removed" and now is not None:
        api.remove("pods", uid)
    elif (
        state in STATES
        and uid not in api.removed
        and not (now and (now["status"]["phase"] == "Failed" or state == "pending"))
    ):
        api.put("pods", a_pod(uid, **STATES[state]))


def standing(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Placements that hold in the end, as a reader of the topic has them: of each container its newest row."""
    newest: dict[str, dict[str, Any]] = {}
    for record in records:
        if record["ts"] >= newest.get(record["container"], record)["ts"]:
            newest[record["container"]] = record
    ours = ("event", "ts", "resource_version")
    return {c: {k: v for k, v in r.items() if k not in ours} for c, r in newest.items() if r["event"] != "delete"}


@settings(max_examples=40)
@given(stretches=STRETCHES)
def test_whatever_breaks_the_placements_are_those_of_the_cluster(
    stretches: list[tuple[list[Step], list[Fault], bool]],
) -> None:
    told = Published()
    with TemporaryDirectory() as folder, api_server(page=2) as server:
        api, _ = server
        for steps, faults, restart in stretches:
            if restart:
                with api.changed:
                    run(api, steps, faults)
                with watching(server, told, Path(folder)):
                    pass
            else:
                with watching(server, told, Path(folder)), api.changed:
                    run(api, steps, faults)

        pods = [Pod.model_validate(made) for made in api.objects["pods"].values()]

    there = [pod for pod in pods if pod.spec.node_name and pod.status.phase != "Failed"]
    assert standing(told.records()) == {pod.metadata.uid: placement(pod, "c") for pod in there}


def run(api: ApiServer, steps: list[Step], faults: list[Fault]) -> None:
    api.faults["pods"] += faults
    for uid, state in steps:
        apply(api, uid, state)
    api.put("nodes", a_node("n1"))


def a_configuration(path: Path, address: str) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "k", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "k", "user": "u"}}],
    }
    path.write_text(json.dumps(config))
    return path


def test_the_command_lists_one_namespace_of_a_configuration_file(
    kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topics(kafka.bootstrap)
    monkeypatch.chdir(tmp_path)
    with api_server() as (api, address):
        api.put("pods", a_pod("u1"))
        config = str(a_configuration(tmp_path / "config", address))
        words = ["watch", "--kubeconfig", config, "--context", "x", "--once", "--bootstrap", kafka.bootstrap]
        ran = CliRunner().invoke(app, [*words, "--namespace", "shop", "--cluster", "watched"])

    assert ran.exit_code == 0, ran.output
    assert "1 records sent, 0 malformed objects skipped" in ran.stdout
    assert Path("cohabit-data/watch/watched/pods-shop.json").exists()


@pytest.mark.parametrize("content", [None, "", "{[", "- 1", "a: b"])
def test_a_configuration_that_names_no_cluster_is_told(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "config").write_text(content)

    with pytest.raises(IngestError, match="--kubeconfig and --context"):
        core_api(tmp_path / "config", None, in_cluster=False)


def test_a_pods_own_account_is_used_inside_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.delenv("KUBERNETES_SERVICE_PORT", raising=False)

    with pytest.raises(IngestError, match="Service host/port"):
        core_api(None, None, in_cluster=True)


def test_the_command_stops_when_told_and_has_saved_where_it_was(kafka: Broker, tmp_path: Path) -> None:
    with api_server() as (api, address):
        api.put("pods", a_pod("u1"))
        config = str(a_configuration(tmp_path / "config", address))
        words = ["watch", "--kubeconfig", config, "--context", "x", "--bootstrap", kafka.bootstrap]
        more = ["--state", str(tmp_path / "state"), "--cluster", "stopped", "--metrics-port", "0"]
        command = [sys.executable, "-m", "cohabit", *words, *more]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            api.settle("pods", "nodes")
            api.put("pods", a_pod("u2"))
            api.settle("pods", "nodes")
            assert process.stdout is not None
            metrics_at = process.stdout.readline().split()[-1]
            scraped = httpx2.get(metrics_at).text
        finally:
            process.terminate()
            said, _ = process.communicate(timeout=20)

    assert process.returncode == 0
    assert 'cohabit_watch_records_total{topic="placements"} 2.0' in scraped
    assert "2 records sent" in said
    saved = json.loads((tmp_path / "state" / "stopped" / "pods.json").read_text())
    assert (saved["version"], sorted(saved["published"])) == (str(api.version), ["u1", "u2"])
