"""Commands: errors are one line with what to do, and what runs for long stops when told."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, get_ident
from time import monotonic, time_ns
from urllib.request import urlopen

import orjson
import pytest
from kafka import KafkaAdminClient, KafkaConsumer
from typer.testing import CliRunner

from advisor.cluster.snapshot import Snapshot, current_version, load_current
from cohabit.cli.main import app
from cohabit.config.logs import set_up_logs
from cohabit.refresh.live_state import LiveState
from cohabit.refresh.main import Refresh, refresh_from_kafka
from cohabit.terminal.locations import TOPICS
from features.schema.tables import TABLES
from ingest.devkafka.broker import Broker, running_broker
from ingest.kafka_io.replay import Sender
from ingest.kafka_io.stream_files import Message, topics_in
from ingest.lake.tables import Lake
from ingest.pipeline.kafka_source import ConsumerSettings
from ingest.schema.errors import IngestError
from ingest.schema.topics import NODES, PLACEMENTS, USAGE, Topic, message_key
from tests.advisor.collecting import full_collections
from tests.cohabit.capacity.cluster_days import Days, lake_of

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "data_samples"
SMALL = ("--nodes", "2", "--apps", "3", "--hours", "0.1")
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cohabit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Runs a command in an empty folder, in this process; exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("COHABIT_")]:
        monkeypatch.delenv(name)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def run(*words: str, **settings: str) -> tuple[int, str, str]:
        ran = CliRunner().invoke(app, list(words), env=settings, catch_exceptions=False)
        return ran.exit_code, ran.stdout, ran.stderr

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)
    set_up_logs("DEBUG")


def write_line(path: str, line: bytes) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(line)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["model", "train"], "run `cohabit ingest` and `cohabit features` first"),
        (["model", "evaluate"], "run `cohabit ingest` and `cohabit features` first"),
        (["features"], "`cohabit ingest` creates one"),
        (["features", "--kafka"], "`cohabit ingest` creates one"),
        (["ingest", "nowhere"], "create a stream with `cohabit dev simulate nowhere`"),
        (["refresh", "nowhere"], "create a stream with `cohabit dev simulate nowhere`"),
        (["dev", "replay", "nowhere"], "create a stream with `cohabit dev simulate nowhere`"),
        (["ingest", "broken"], "broken/usage.log line 1 is not 'CreateTime:"),
        (["ingest", "broken", "--lake", "s3://bucket/lake"], "s3://bucket/lake"),
        (["ingest", "broken", "--metrics-port", "0"], "are for Kafka, not for files in broken"),
        (["ingest", "broken", "--topic", "stats=cadvisor"], "broken has no stats.log, which --topic names"),
        (["model", "train", "--lake", "hdfs://lake"], "name a folder on a file system with hard links, or a bucket"),
        (["dev", "simulate", "broken", *SMALL], "already contains usage.log"),
        (["dev", "simulate", "stream", "--law", "linear"], "there are saturating, queueing, threshold"),
    ],
)
def test_an_error_is_one_line_that_says_what_to_do(cohabit: Command, words: list[str], told: str) -> None:
    write_line("broken/usage.log", b"[/not/a/stream]\n")

    code, output, errors = cohabit(*words)

    assert (code, output) == (1, "")
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    assert told in errors


def test_square_brackets_in_an_error_are_no_markup(cohabit: Command) -> None:
    write_line("[/b]/usage.log", b"x\n")

    code, _, errors = cohabit("ingest", "[/b]")

    assert code == 1
    assert "[/b]/usage.log" in errors


def test_a_bad_setting_is_an_error_of_every_command(cohabit: Command) -> None:
    assert cohabit("model", "train", COHABIT_LAEK="x")[::2] == (1, cohabit("ingest", COHABIT_LAEK="x")[2])
    assert "COHABIT_ADVISOR__PORT='a'" in cohabit("serve", COHABIT_ADVISOR__PORT="a")[2]


def test_a_second_simulation_is_not_appended_to_the_first(cohabit: Command) -> None:
    assert cohabit("dev", "simulate", "stream", *SMALL)[0] == 0
    before = {path.name: path.read_bytes() for path in Path("stream").iterdir()}

    code, _, errors = cohabit("dev", "simulate", "stream", *SMALL)

    assert code == 1
    assert "stream already contains node_usage.log, nodes.log, placements.log, usage.log" in errors
    assert {path.name: path.read_bytes() for path in Path("stream").iterdir()} == before


def test_truth_is_written_where_asked_and_nowhere_else(cohabit: Command) -> None:
    cohabit("dev", "simulate", "stream", *SMALL)
    cohabit("dev", "simulate", "other", *SMALL, "--truth", "apart/truth.parquet")

    assert sorted(map(str, Path().rglob("*.parquet"))) == ["apart/truth.parquet"]
    assert topics_in(Path("stream")) == topics_in(Path("other")) == ["node_usage", "nodes", "placements", "usage"]


def test_the_samples_replay_as_their_readme_says(cohabit: Command) -> None:
    found = re.search(r"<!-- runs as a test -->\n```sh\n(.*?)```", (SAMPLES / "README.md").read_text(), re.DOTALL)
    assert found is not None
    export, command = found[1].strip().splitlines()
    settings = dict(word.split("=") for word in export.removeprefix("export ").split())
    Path("data_samples").symlink_to(SAMPLES)

    code, output, _ = cohabit(*command.partition("#")[0].split()[1:], **settings)

    assert code == 0
    assert re.search(r"3,055 messages landed in.*/try/measured", output.replace("\n", ""))
    assert re.search(r"dead_letters\D+0\b", output)
    assert "3,055 messages, no dead letters" in command


def environment(folder: Path, **settings: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("COHABIT_") or k == "COHABIT_CACHE"}
    folders = {f"COHABIT_{name.upper()}": str(folder / name) for name in ("lake", "registry", "snapshots")}
    return {**kept, **folders, "COLUMNS": "200", **settings}


@contextmanager
def running(folder: Path, *words: str, **settings: str) -> Iterator["subprocess.Popen[str]"]:
    """A command in a process of its own, killed at last."""
    command = [sys.executable, "-m", "cohabit", *words]
    with subprocess.Popen(
        command,
        env=environment(folder, **settings),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: "subprocess.Popen[str]", until: Callable[[str], bool]) -> str:
    """The first line it prints for which something holds."""
    assert process.stdout is not None
    for line in process.stdout:
        if until(line):
            return line
    assert process.stderr is not None
    pytest.fail(f"it ended before: {process.stderr.read()}")


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Exit code and the rest of its output, after it was told to stop; it has a few seconds."""
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=8)
    return process.returncode, output


TOPICS_MADE = {
    "usage": 6,
    "samples": 6,
    "node_usage": 6,
    "node_state": 6,
    "nodes": 1,
    "placements": 1,
    "headroom": 1,
    "dead_letters": 1,
}
NOW_S = time_ns() // 10**9 // 60 * 60
Record = dict[str, object]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker whose topics bear their own names, which no other test may fill."""
    with running_broker(tmp_path_factory.mktemp("kafka")) as broker:
        assert made_topics(broker, "--partitions", "6") == ", ".join(sorted(TOPICS_MADE))
        yield broker


def made_topics(broker: Broker, *options: str) -> str:
    """What `cohabit dev topics` says it made, in alphabetical order."""
    told = CliRunner().invoke(app, ["dev", "topics", "--bootstrap", broker.bootstrap, *options], env={"COLUMNS": "200"})
    assert told.exit_code == 0, told.output
    [made] = re.findall(r": (.*) created", " ".join(told.output.split()))
    return ", ".join(sorted(made.split(", ")))


def test_topics_are_made_with_partitions_where_there_are_several_and_only_once(broker: Broker) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        found = {one["name"]: len(one["partitions"]) for one in admin.describe_topics(list(TOPICS_MADE))}

    assert found == TOPICS_MADE
    assert made_topics(broker) == "none"


def send(broker: Broker, topic: Topic, *records: Record) -> None:
    sender = Sender(broker.bootstrap)
    for number, record in enumerate(records):
        whole = {"cluster": "cli", "node": "n1", "ts": NOW_S, **record}
        sender.send(topic.name, Message(NOW_S * 1000 + number, message_key(topic, whole), orjson.dumps(whole)))
    sender.flush()
    sender.close()


def use(container: str, cores: float, second: int = 0) -> Record:
    return {"container": container, "interval_s": 30, "app": "web", "cpu_cores": cores, "ts": NOW_S + second}


@pytest.fixture(scope="module")
def sent(broker: Broker) -> Broker:
    """A broker that holds a node with two containers, and a record that is none."""
    send(broker, NODES, {"cores": 8, "platform": "p"})
    placed: Record = {"event": "add", "app": "web"}
    send(broker, PLACEMENTS, {"container": "a", **placed}, {"container": "b", **placed})
    send(broker, USAGE, use("a", 1.0, -60), use("b", 2.0, -60), {"container": "x"})
    return broker


def test_offers_are_sent_to_their_topic_by_node_resource_and_horizon(broker: Broker, tmp_path: Path) -> None:
    lake_of(tmp_path / "lake", Days(nodes=2))
    env = {"COHABIT_CLUSTER": "c", "COHABIT_LAKE": str(tmp_path / "lake"), "COHABIT_KAFKA__BOOTSTRAP": broker.bootstrap}

    ran = CliRunner().invoke(app, ["capacity", "headroom", "--horizon", "1h", "--days", "3", "--send"], env=env)

    assert ran.exit_code == 0, ran.output
    assert "sent: 4 offers to topic headroom" in ran.output
    with closing(KafkaConsumer("headroom", bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")) as topic:
        found: dict[bytes, dict[str, object]] = {}
        while len(found) < 4:
            found |= {one.key: orjson.loads(one.value) for some in topic.poll(1000).values() for one in some}
    assert set(found) == {f"c/{node}/{of}/3600".encode() for node in ("n0", "n1") for of in ("cpu", "memory")}
    assert (found[b"c/n0/cpu/3600"]["offered"], found[b"c/n0/cpu/3600"]["bound_by"]) == (0.0, "stale")


def snapshot_with(process: "subprocess.Popen[str]", folder: Path, cores: list[float]) -> Snapshot:
    """The first snapshot in which the containers use so much."""
    while True:
        said(process, lambda line: "snapshot" in line)
        snapshot = load_current(folder / "snapshots")
        if snapshot.resident_use[:, 0].tolist() == cores:
            return snapshot


def test_refresh_follows_kafka_and_stops_when_told(sent: Broker, tmp_path: Path) -> None:
    settings = {"COHABIT_CLUSTER": "cli", "COHABIT_KAFKA__BOOTSTRAP": sent.bootstrap}
    with running(tmp_path, "refresh", "--every", "0.2", **settings) as process:
        first = said(process, lambda line: "snapshot" in line)
        before = snapshot_with(process, tmp_path, [1.0, 2.0])
        send(sent, USAGE, use("a", 5.0), use("b", 6.0))
        after = snapshot_with(process, tmp_path, [5.0, 6.0])
        began = monotonic()
        code, _ = ended(process)

    assert "1 nodes, 2 containers" in first
    assert before.containers == after.containers == ("a", "b")
    assert after.version > before.version
    assert current_version(tmp_path / "snapshots") is not None
    assert code == 0
    assert monotonic() - began < 4


def test_a_refresh_that_cannot_publish_ends_with_an_error(sent: Broker, tmp_path: Path) -> None:
    (tmp_path / "snapshots").write_text("not a folder")
    settings = {"COHABIT_CLUSTER": "cli", "COHABIT_KAFKA__BOOTSTRAP": sent.bootstrap}

    with running(tmp_path, "refresh", "--every", "0.2", **settings) as process:
        _, errors = process.communicate(timeout=20)

    assert process.returncode == 1
    assert errors.startswith("error: ")
    assert str(tmp_path / "snapshots") in errors


def test_a_refresh_that_cannot_read_ends_with_an_error(sent: Broker, tmp_path: Path) -> None:
    settings = ConsumerSettings(sent.bootstrap, TOPICS, group="ahead")
    state, how = LiveState("cli", lambda: 2**60, begin=lambda _topic, _partition: 10**6), Refresh(tmp_path, 0.1, 1)

    with pytest.raises(IngestError, match=r"\] is ingested up to offset"):
        refresh_from_kafka(
            settings, state, Lake.open(tmp_path / "lake", TABLES), how, published=lambda *_: None, stop=Event()
        )


def test_a_refresh_gives_back_what_is_free_right_after_a_snapshot(sent: Broker, tmp_path: Path) -> None:
    settings = ConsumerSettings(sent.bootstrap, TOPICS, group="gives back", max_wait_ms=200)
    state, how, stop = LiveState("cli", lambda: 2**60), Refresh(tmp_path / "snapshots", 0.1, 1), Event()
    collected_before: list[int] = []

    def published(version: int, _nodes: int, _containers: int) -> None:
        collected_before.append(len(collected_by))
        if version == 3:
            stop.set()

    with full_collections() as collected_by:
        refresh_from_kafka(settings, state, Lake.open(tmp_path / "lake", TABLES), how, published=published, stop=stop)

    assert collected_before == [0, 1, 1]
    assert collected_by == [get_ident()]


def test_ingest_drains_when_told_to_stop_and_begins_where_it_ended(sent: Broker, tmp_path: Path) -> None:
    settings = {
        "COHABIT_KAFKA__BOOTSTRAP": sent.bootstrap,
        "COHABIT_KAFKA__SESSION_TIMEOUT_MS": "1000",
        "COHABIT_KAFKA__COMMIT_EVERY_S": "0.2",
    }
    lake = Lake.open(tmp_path / "lake", TABLES)
    with running(tmp_path, "ingest", **settings) as process:
        deadline = monotonic() + 120
        while lake.read("usage").num_rows < 2 and monotonic() < deadline:
            assert process.poll() is None
        code, output = ended(process)

    landed = lake.read("usage").num_rows
    assert code == 0
    assert "messages landed" in output
    assert landed >= 2
    assert lake.read("dead_letters")["reason"].to_pylist() == ["missing_key"]
    with running(tmp_path, "ingest", "--until-end", **settings) as process:
        output, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert lake.read("usage").num_rows == landed


def test_a_lake_is_checked_compacted_and_expired_from_the_command_line(cohabit: Command) -> None:
    cohabit("dev", "simulate", "stream", *SMALL)
    cohabit("ingest", "stream", "--lake", "lake")
    before = Lake.open("lake", TABLES).read("usage")

    code, output, _ = cohabit("lake", "check", "--lake", "lake", "--json")
    assert (code, orjson.loads(output)["damage"]) == (0, [])
    assert "nothing to compact" in cohabit("lake", "compact", "--lake", "lake")[1]
    assert cohabit("lake", "compact", "--lake", "lake", "--older-than", "0", "--full")[0] == 0
    assert len(list(Path("lake/usage/_delta_log").glob("*.checkpoint.parquet"))) == 1
    assert Lake.open("lake", TABLES).read("usage").equals(before)

    tomorrow = ("lake", "expire", "--lake", "lake", "--before", "2026-03-03")
    assert "nothing was changed; add --yes" in cohabit(*tomorrow)[1]
    assert cohabit(*tomorrow[:-1], "2026-04-02", "--keep-days", "30")[1] == cohabit(*tomorrow)[1]
    assert Lake.open("lake", TABLES).read("usage").equals(before)
    assert cohabit(*tomorrow, "--yes")[0] == 0
    assert Lake.open("lake", TABLES).read("usage").num_rows == 0
    assert Lake.open("lake", TABLES).read("nodes").num_rows > 0
    assert "sound" in cohabit("lake", "check", "--lake", "lake", "--rows")[1]


def test_a_damaged_lake_is_named_and_exits_with_1(cohabit: Command) -> None:
    cohabit("dev", "simulate", "stream", *SMALL)
    cohabit("ingest", "stream", "--lake", "lake")
    harmed = Path(Lake.open("lake", TABLES).files("usage")[0])
    harmed.write_bytes(b"")

    code, output, _ = cohabit("lake", "check", "--lake", "lake")

    assert code == 1
    assert f"{harmed.name}: " in output
    assert "restore it from a copy" in output


def test_the_future_does_not_expire(cohabit: Command) -> None:
    code, _, errors = cohabit("lake", "expire", "--lake", "lake", "--before", "2999-01-01")

    assert code == 1
    assert "is in the future" in errors


def test_prometheus_reads_what_is_landed(sent: Broker, tmp_path: Path) -> None:
    settings = {
        "COHABIT_KAFKA__BOOTSTRAP": sent.bootstrap,
        "COHABIT_KAFKA__SESSION_TIMEOUT_MS": "1000",
        "COHABIT_KAFKA__GROUP": "several",
        "COHABIT_KAFKA__COMMIT_EVERY_S": "0.2",
    }
    lake, words = Lake.open(tmp_path / "lake", TABLES), ("ingest", "--metrics-port", "0")
    metrics = (
        'cohabit_ingest_rows_total{table="usage"}',
        'cohabit_ingest_freshness_seconds{topic="usage"}',
        "cohabit_ingest_lag{partition=",
    )
    with running(tmp_path, *words, "--dead-letter-topic", **settings) as process:
        address = said(process, lambda line: "metrics at" in line).split()[-1]
        deadline, page = monotonic() + 120, ""
        while any(metric not in page for metric in metrics) and monotonic() < deadline:
            assert process.poll() is None
            page = urlopen(address).read().decode()  # noqa: S310
        code, output = ended(process)

    assert code == 0
    assert "ingested so far" in output
    assert [metric for metric in metrics if metric not in page] == []
    assert {1.0, 2.0} <= set(lake.read("usage")["cpu_cores"].to_pylist())  # other tests send more
