"""Public traces: every row is landed or set aside, in our units, with its own time."""

import gzip
import os
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from threading import Event

import numpy as np
import orjson
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from cohabit.cli.main import app
from ingest.decode.formats.native import decoder
from ingest.devkafka.broker import Broker
from ingest.kafka_io.replay import Sender
from ingest.kafka_io.sender import FileOutlet
from ingest.kafka_io.stream_files import Message
from ingest.lake.tables import Lake
from ingest.pipeline.consumer_loop import Formats
from ingest.pipeline.kafka_source import ConsumerSettings
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_files, ingest_kafka
from ingest.schema.errors import IngestError
from ingest.schema.tables import DEAD_LETTERS, LANDED
from ingest.schema.topics import PLACEMENTS, SAMPLES, Topic
from ingest.traces.cells import numbers
from ingest.traces.convert import FORMS, import_trace, trace_files
from ingest.traces.form import Origin, TraceFile
from ingest.traces.trace_messages import MAX_RECORDS, MAX_SPAN_S, messages

Floats = NDArray[np.float64]
NewTopic = Callable[[str, int], Topic]
EPOCH_S = 1_514_764_800.0

SLICES = {
    "alibaba2018/machine_usage.csv": """m_1,0,41,92,,,43.04,33.08,5
m_1,10,43,92,1.5,2,43.04,33.08,-1
m_2,10,20,50,,,10,10,101
""",
    "alibaba2018/machine_meta.csv": "m_1,0,219,17,96,100,USING\nm_1,50,219,,96,100,USING\n",
    "alibaba2018/container_meta.csv": """c_1,m_1,0,app_7,started,400,800,1.56
c_1,m_1,90,app_7,stopped,400,800,1.56
""",
    "alibaba2018/container_usage.csv": """c_1,m_1,10,7,60,1.25,0.5,3,1,1,5
c_1,m_1,20,7,60,,,,1,1,5
c_2,m_1,20,7,60,0,,,1,1,5
""",
    "gentd26/pod_gpu_duty_cycle_anon.csv": """value,timestamp_anon,container_ip
50.0,1662858720.0,a1
100.0,1662858720.0,a2
NaN,1662858777.0,a1
""",
    "gentd26/qps.csv": """timestamp_anon,value,container_ip,request_type
1662859233.0,0.09,a1,Generative Requests
1662859176.0,0.18,,API Requests
1662859176.0,0.27,a1,API Requests
""",
    "gentd26/queue_rt_raw_anon.csv": """value,container_ip,timestamp_anon
196.0,a1,1662859347.0
many,a2,1662859347.0
1,a3,1662859347.0,surplus
2,NULL,1662859347.0
,a4,1662859347.0
""",
    "gentd26/lora_request_trace.csv": "gmt_create,predict_type\n2024-11-15 16:57:50,TXT_2_IMG\n",
    "gpu2023/openb_node_list_all_node.csv": """sn,cpu_milli,memory_mib,gpu,model
n-0,32000,262144,0,
n-1,128000,786432,8,G3
""",
    "gpu2023/openb_pod_list_default.csv": """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,\
creation_time,deletion_time,scheduled_time
p-0,12000,16384,1,460,,LS,Running,0,500,20
p-1,4000,1024,8,1000,V100M16|V100M32,BE,Running,0,400,10
p-2,4000,1024,0,0,,Burstable,Pending,0,300,
""",
}


@pytest.fixture
def slices(tmp_path: Path) -> Path:
    """A few rows of each file, in the traces' own form; one of them compressed."""
    for name, content in SLICES.items():
        path = tmp_path / "traces" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.stem == "machine_meta":
            path.with_name("machine_meta.csv.gz").write_bytes(gzip.compress(content.encode()))
        else:
            path.write_text(content)
    return tmp_path / "traces"


def landed(source: Path, form: str, folder: Path) -> Lake:
    """A lake that holds what the trace's files give."""
    files = trace_files(FORMS[form], source)
    import_trace(files, FileOutlet(folder / "in"), Origin(form, EPOCH_S), lambda _count: None)
    lake = Lake.open(folder / "lake", {**LANDED, DEAD_LETTERS.name: DEAD_LETTERS})
    topics = sorted({how.topic.name for how in files.values()})
    metrics = IngestMetrics(CollectorRegistry())
    ingest_files(folder / "in", topics, lake, stop=Event(), metrics=metrics)
    return lake


def rows(lake: Lake, table: str, *columns: str) -> list[tuple[object, ...]]:
    """The table's rows; times in seconds after the epoch."""
    found = lake.read(table, columns=list(dict.fromkeys([*columns, "ts"]))).sort_by("ts").to_pylist()
    return [
        tuple(row[c].timestamp() - EPOCH_S if c == "ts" else row[c] for c in columns)
        for row in sorted(found, key=lambda row: (row["ts"], str([row[c] for c in columns])))
    ]


def reasons(lake: Lake) -> list[tuple[str, str]]:
    letters = lake.read(DEAD_LETTERS.name)
    return sorted(zip(letters["reason"].to_pylist(), letters["detail"].to_pylist(), strict=True))


def test_machines_of_alibaba_are_nodes_and_their_use_in_shares(slices: Path, tmp_path: Path) -> None:
    lake = landed(slices / "alibaba2018", "alibaba2018", tmp_path)

    shares = ("cpu_frac", "memory_frac", "memory_bandwidth_frac", "llc_mpki", "net_rx_frac", "disk_busy_frac")
    assert rows(lake, "node_usage", "node", "ts", *shares) == [
        ("m_1", 0.0, *map(pytest.approx, (0.41, 0.92)), None, None, *map(pytest.approx, (0.4304, 0.05))),
        ("m_1", 10.0, *map(pytest.approx, (0.43, 0.92, 0.015, 2.0, 0.4304)), None),
        ("m_2", 10.0, *map(pytest.approx, (0.2, 0.5)), None, None, pytest.approx(0.1), None),
    ]
    assert rows(lake, "nodes", "node", "ts", "cores", "zone", "rack", "labels") == [
        ("m_1", 0.0, 96.0, "219", "17", [("status", "USING")]),
        ("m_1", 50.0, 96.0, "219", None, [("status", "USING")]),
    ]


def test_containers_of_alibaba_are_placed_and_used(slices: Path, tmp_path: Path) -> None:
    lake = landed(slices / "alibaba2018", "alibaba2018", tmp_path)

    columns = ("event", "ts", "container", "node", "app", "qos", "cpu_request_cores", "cpu_limit_cores")
    assert rows(lake, "placements", *columns) == [
        ("add", 0.0, "c_1", "m_1", "app_7", "LS", 4.0, 8.0),
        ("delete", 90.0, "c_1", "m_1", "app_7", "LS", 4.0, 8.0),
    ]
    assert rows(lake, "usage", "container", "ts", "interval_s", "cpi", "llc_mpki") == [
        ("c_1", 10.0, 10.0, 1.25, 3.0),
        ("c_1", 20.0, 10.0, None, None),
        ("c_2", 20.0, 10.0, None, None),
    ]
    assert reasons(lake) == [("out_of_range", "0 cycles/instruction; possible is 0.001 to 1000")]


def test_metrics_of_gentd26_are_samples_and_nothing_is_dropped(slices: Path, tmp_path: Path) -> None:
    lake = landed(slices / "gentd26", "gentd26", tmp_path)

    found = lake.read("samples", columns=["metric", "container", "series", "value", "node", "kind"]).to_pylist()
    assert {(r["node"], r["kind"]) for r in found} == {("unknown", "gauge")}
    assert sorted((r["metric"], r["container"], r["series"] or "", r["value"] or 0.0) for r in found) == [
        ("gpu_sm_frac", "a1", "", 0.0),
        ("gpu_sm_frac", "a1", "", 0.5),
        ("gpu_sm_frac", "a2", "", 1.0),
        ("qps", "a1", "API Requests", 0.27),
        ("qps", "a1", "Generative Requests", 0.09),
        ("queue_rt_raw_anon", "a1", "", 196.0),
        ("queue_rt_raw_anon", "a2", "", 0.0),
        ("queue_rt_raw_anon", "a4", "", 0.0),
    ]
    assert sum(r["value"] is None for r in found) == 3
    assert reasons(lake) == [
        ("missing_key", "container is missing"),
        ("missing_key", "container is missing"),
        ("missing_key", "ts is missing"),
        ("wrong_type", "'many' is not a finite number"),
    ]


def test_a_message_arrives_with_its_newest_record(slices: Path, tmp_path: Path) -> None:
    lake = landed(slices / "gentd26", "gentd26", tmp_path)

    found = lake.read("samples", columns=["ts", "arrived_at"]).to_pylist()

    assert all(0 <= (r["arrived_at"] - r["ts"]).total_seconds() <= MAX_SPAN_S for r in found)


def test_lists_of_gpu2023_are_nodes_and_placements(slices: Path, tmp_path: Path) -> None:
    lake = landed(slices / "gpu2023", "gpu2023", tmp_path)

    assert rows(lake, "nodes", "node", "cores", "memory_bytes", "gpus", "labels") == [
        ("n-0", 32.0, 256.0 * 2**30, 0.0, []),
        ("n-1", 128.0, 768.0 * 2**30, 8.0, [("gpu_model", "G3")]),
    ]
    columns = ("event", "ts", "container", "qos", "cpu_request_cores", "gpu_request")
    assert rows(lake, "placements", *columns) == [
        ("add", 10.0, "p-1", "BE", 4.0, 8.0),
        ("add", 20.0, "p-0", "LS", 12.0, 0.46),
        ("delete", 400.0, "p-1", "BE", 4.0, 8.0),
        ("delete", 500.0, "p-0", "LS", 12.0, 0.46),
    ]
    assert reasons(lake) == [("missing_key", "ts is missing")]


@given(
    ages=st.lists(st.tuples(st.integers(0, 400), st.sampled_from("ab")), max_size=60),
    crowd=st.integers(0, MAX_RECORDS + 5),
)
def test_grouping_loses_nothing_and_makes_nothing_late(ages: list[tuple[int, str]], crowd: int) -> None:
    made = [{"cluster": "c", "node": node, "ts": EPOCH_S + age} for age, node in [*ages, *[(7, "a")] * crowd]]

    sent = messages(list(made), SAMPLES, EPOCH_S)

    inside = [orjson.loads(message.value or b"") for message in sent]
    assert sorted(map(str, chain.from_iterable(inside))) == sorted(map(str, made))
    assert [m.arrived_ms for m in sent] == sorted(m.arrived_ms for m in sent)
    for message, group in zip(sent, inside, strict=True):
        ages_s = [message.arrived_ms / 1000 - record["ts"] for record in group]
        assert min(ages_s) == 0
        assert max(ages_s) <= MAX_SPAN_S
        assert len(group) <= MAX_RECORDS
        assert {f"c/{record['node']}".encode() for record in group} == {message.key}


@given(st.lists(st.floats(-1e6, 1e6).map(str) | st.sampled_from(["", "NaN", "x", "-1", "101"]), max_size=8))
def test_a_cell_means_the_same_whatever_stands_beside_it(cells: list[str]) -> None:
    column = pa.array(cells, pa.string())

    together = numbers(column, 0.01, unknown=(-1.0, 101.0))

    alone = [numbers(pa.array([cell, "x"], pa.string()), 0.01, unknown=(-1.0, 101.0))[0] for cell in cells]
    assert together == alone


@pytest.mark.parametrize(
    ("form", "name", "content", "told"),
    [
        ("gentd26", "qps.csv", "time,value\n1,2\n", "names no column container_ip, timestamp_anon"),
        ("gentd26", "qps.csv", "value,timestamp_anon,container_ip,value\n1,2,a,3\n", "column .value. twice"),
        ("alibaba2018", "machine_usage.csv.gz", "not compressed", "cannot be imported"),
        ("alibaba2018", "machine_usage.csv", "", "cannot be imported"),
    ],
)
def test_a_file_that_is_not_the_traces_is_told(tmp_path: Path, form: str, name: str, content: str, told: str) -> None:
    (tmp_path / name).write_text(content)
    files = trace_files(FORMS[form], tmp_path)

    with pytest.raises(IngestError, match=told):
        import_trace(files, FileOutlet(tmp_path / "out"), Origin("c", EPOCH_S), lambda _count: None)


@pytest.mark.parametrize("name", ["readme.csv", "machine_usage.txt"])
def test_a_folder_without_the_trace_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")

    with pytest.raises(IngestError, match=r"docs/traces\.md"):
        trace_files(FORMS["alibaba2018"], tmp_path)


def test_the_command_writes_a_stream_or_says_what_it_needs(slices: Path, tmp_path: Path) -> None:
    def run(*words: str) -> tuple[int, str]:
        ran = CliRunner().invoke(app, ["dev", "import", *words])
        return ran.exit_code, " ".join((ran.stdout + ran.stderr).split())

    source, out = str(slices / "alibaba2018"), str(tmp_path / "out")
    code, said = run("alibaba2018", source, "--out", out, "--epoch", "2020-01-01", "--cluster", "ali")
    line = (tmp_path / "out" / "placements.log").read_text().splitlines()[0]

    assert (code, line[:32]) == (0, "CreateTime:1577836800000\tali/c_1")
    assert "next: cohabit ingest" in said
    assert "already contains" in run("alibaba2018", source, "--out", out)[1]
    assert "name either --out FOLDER or --bootstrap" in run("alibaba2018", source)[1]
    assert "there are alibaba2018, gentd26, gpu2023" in run("azure", source, "--out", out)[1]
    assert "not a time like" in run("gpu2023", str(slices / "gpu2023"), "--out", out, "--epoch", "soon")[1]
    assert "holds nothing of trace gpu2023" in run("gpu2023", source, "--out", out)[1]


PUBLIC = Path(os.environ.get("BENCH_DATA", ""))
needs_data = pytest.mark.skipif("BENCH_DATA" not in os.environ, reason="BENCH_DATA names no folder with public data")

GENTD26_ROWS = {
    "pod_memory_util_anon": (112_832, 24),
    "pod_gpu_memory_used_bytes_anon": (84_721, 0),
    "pod_gpu_duty_cycle_anon": (83_265, 0),
    "pipeline_update_latency_anon": (33_122, 0),
    "pipeline_inference_data_anon": (31_662, 0),
    "controlnet_latency_data_anon": (27_350, 0),
    "lora_update_latency_anon": (25_542, 0),
    "qps": (23_005, 744),
    "queue_rt_raw_anon": (22_241, 0),
    "basemodel_update_latency_anon": (7_056, 0),
    "model_predict_data_anon": (5_397, 0),
    "queue_size_raw_anon": (754, 754),
}
"""File -> rows, and rows without a container, as the data's README states them."""
CATALOGUED = {
    "pod_gpu_memory_used_bytes_anon": ("gpu_memory_bytes", 1.0),
    "pod_gpu_duty_cycle_anon": ("gpu_sm_frac", 0.01),
}


class Renamed:
    """Sends to a test's own topic."""

    def __init__(self, sender: Sender, topics: dict[str, str]) -> None:
        self.sender, self.topics = sender, topics

    def send(self, topic: str, message: Message) -> None:
        self.sender.send(self.topics[topic], message)

    def flush(self) -> None:
        self.sender.flush()


def through_kafka(kafka: Broker, new_topic: NewTopic, files: dict[Path, TraceFile], form: str, folder: Path) -> Lake:
    """A lake that holds what the trace's files give, by way of a real broker."""
    topics = {how.topic.name: new_topic(how.topic.name, how.topic.partitions).name for how in files.values()}
    sender = Sender(kafka.bootstrap)
    try:
        import_trace(files, Renamed(sender, topics), Origin(form, EPOCH_S), lambda _count: None)
    finally:
        sender.close()
    lake = Lake.open(folder, {**LANDED, DEAD_LETTERS.name: DEAD_LETTERS})
    formats = Formats({topics[name]: decoder(LANDED[name]) for name in topics}, "no-such-nodes")
    consumer = ConsumerSettings(kafka.bootstrap, tuple(topics.values()), group=folder.name, max_wait_ms=100)
    metrics = IngestMetrics(CollectorRegistry())
    ingest_kafka(consumer, lake, until="end", stop=Event(), metrics=metrics, formats=formats)
    return lake


def independently(path: Path, *, header: bool = True) -> pl.DataFrame:
    """A file as another reader has it, all columns text."""
    return pl.read_csv(path, has_header=header, infer_schema=False).fill_null("")


def known(column: pl.Series) -> Floats:
    """A column's numbers; NaN where it says nothing."""
    return column.replace("", None).cast(pl.Float64).fill_null(np.nan).to_numpy()


@pytest.mark.long
@pytest.mark.public_data
@needs_data
def test_every_file_of_gentd26_lands_whole(kafka: Broker, new_topic: NewTopic, tmp_path: Path) -> None:
    files = trace_files(FORMS["gentd26"], PUBLIC / "stream" / "gentd26")

    lake = through_kafka(kafka, new_topic, files, "gentd26", tmp_path / "lake")

    letters = lake.read(DEAD_LETTERS.name)
    assert lake.landed_rows("samples") == sum(rows - empty for rows, empty in GENTD26_ROWS.values())
    assert {path.name.partition(".")[0] for path in files} == set(GENTD26_ROWS)
    assert rejected(letters) == sum(empty for _, empty in GENTD26_ROWS.values())
    assert set(letters["reason"].to_pylist()) == {"missing_key"}
    assert {d for d in letters["detail"].to_pylist() if "more items" not in d} == {"container is missing"}
    held = lake.read("samples", columns=["metric", "container", "series", "ts", "value"])
    for path in files:
        stem = path.name.partition(".")[0]
        compare_samples(held, path, stem)


def rejected(letters: pa.Table) -> int:
    """Records set aside, those counted together included."""
    details = zip(letters["item"].to_pylist(), letters["detail"].to_pylist(), strict=True)
    return sum(int(detail.split()[0]) if item == "…" else 1 for item, detail in details)


def compare_samples(held: pa.Table, path: Path, stem: str) -> None:
    """Values and times of one file, of rows with the same key the first."""
    metric, factor = CATALOGUED.get(stem, (stem, 1.0))
    key = ["timestamp_anon", "container_ip", *(["request_type"] if stem == "qps" else [])]
    theirs = independently(path).filter(pl.col("container_ip") != "")
    assert theirs.height == GENTD26_ROWS[stem][0] - GENTD26_ROWS[stem][1]
    theirs = theirs.unique(key, keep="first").sort(*key)
    columns = ["ts", "container", *(["series"] if stem == "qps" else [])]
    ours = pl.DataFrame(pl.from_arrow(held)).filter(pl.col("metric") == metric).sort(*columns)
    assert ours["container"].to_list() == theirs["container_ip"].to_list()
    assert ours["series"].to_list() == (theirs["request_type"].to_list() if stem == "qps" else [None] * theirs.height)
    np.testing.assert_array_equal(ours["ts"].dt.epoch("us").to_numpy() / 1e6, known(theirs["timestamp_anon"]))
    np.testing.assert_allclose(ours["value"].to_numpy(), known(theirs["value"]) * factor, rtol=1e-12)


@pytest.mark.long
@pytest.mark.public_data
@needs_data
def test_every_row_of_alibabas_machines_lands(kafka: Broker, new_topic: NewTopic, tmp_path: Path) -> None:
    folder = PUBLIC / "stream" / "alibaba2018"

    lake = through_kafka(kafka, new_topic, trace_files(FORMS["alibaba2018"], folder), "alibaba2018", tmp_path / "lake")

    assert (lake.landed_rows("node_usage"), lake.landed_rows("nodes")) == (100_002, 17_592)
    assert lake.read(DEAD_LETTERS.name).num_rows == 0
    shares = ["cpu_frac", "memory_frac", "memory_bandwidth_frac", "llc_mpki", "net_rx_frac", "net_tx_frac"]
    held = lake.read("node_usage", columns=["node", "ts", *shares, "disk_busy_frac"])
    ours = pl.DataFrame(pl.from_arrow(held)).sort("node", "ts")
    node, time, *rest = independently(folder / "machine_usage.csv.gz", header=False).get_columns()
    order = np.lexsort((known(time), node.to_numpy()))
    assert ours["node"].to_list() == node.gather(order).to_list()
    np.testing.assert_array_equal(ours["ts"].dt.epoch("us").to_numpy() / 1e6 - EPOCH_S, known(time)[order])
    given = [known(column)[order] for column in rest]
    disk = np.where(np.isin(given[6], [-1.0, 101.0]), np.nan, given[6])
    factors = (0.01, 0.01, 0.01, 1.0, 0.01, 0.01, 0.01)
    for name, expected, factor in zip([*shares, "disk_busy_frac"], [*given[:6], disk], factors, strict=True):
        np.testing.assert_allclose(ours[name].fill_null(np.nan).to_numpy(), expected * factor, rtol=1e-12)
    assert ours["memory_bandwidth_frac"].count() == ours["llc_mpki"].count() == 21_677
    assert ours["disk_busy_frac"].null_count() == 16


@pytest.mark.long
@pytest.mark.public_data
@needs_data
def test_every_row_of_gpu2023_lands_or_was_never_placed(tmp_path: Path) -> None:
    lake = landed(PUBLIC / "purchase", "gpu2023", tmp_path)

    pods = independently(PUBLIC / "purchase" / "openb_pod_list_default.csv.gz").filter(pl.col("scheduled_time") != "")
    placed = lake.read(PLACEMENTS.name, columns=["event", "cpu_request_cores", "memory_request_bytes", "gpu_request"])
    added = pl.DataFrame(pl.from_arrow(placed)).filter(pl.col("event") == "add")
    assert (lake.landed_rows("nodes"), added.height, rejected(lake.read(DEAD_LETTERS.name))) == (1523, 7255, 897)
    assert added["cpu_request_cores"].sum() == pytest.approx(known(pods["cpu_milli"]).sum() / 1e3)
    assert added["memory_request_bytes"].sum() == pytest.approx(known(pods["memory_mib"]).sum() * 2**20)
    assert added["gpu_request"].sum() == pytest.approx((known(pods["num_gpu"]) * known(pods["gpu_milli"])).sum() / 1e3)
