"""The measured runs: shipped records are what the CSVs say, and no kind is judged by a model that saw it."""

import csv
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import orjson
import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry

from cohabit.terminal.locations import TOPICS
from cohabit.training.measured_runs import Configurations, leave_kind_out, read_configurations, said_of_unseen
from features.columnar.windows import LABEL_US
from features.schema.tables import TABLES
from ingest.decode.contract import Context
from ingest.decode.formats.native import decoder
from ingest.kafka_io.stream_files import read_messages, topic_path
from ingest.lake.tables import Lake
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_files
from ingest.schema.tables import LANDED, TIMESTAMP

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "data_samples" / "measured"
COUNTS = {"nodes": 1, "placements": 2036, "usage": 1018}


def csv_rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The measured records, landed."""
    lake = Lake.open(tmp_path_factory.mktemp("lake"), TABLES)
    metrics = IngestMetrics(CollectorRegistry())
    ingest_files(FOLDER, TOPICS, lake, stop=Event(), metrics=metrics)
    return lake


@pytest.fixture(scope="module")
def found(lake: Lake) -> Configurations:
    return read_configurations(FOLDER, lake)


def test_the_shipped_records_are_what_the_script_makes_of_the_csvs(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "benchmarks.measured_records", str(tmp_path)], cwd=ROOT, check=True)

    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_bytes() for path in FOLDER.glob("*.log")}


@pytest.mark.parametrize("topic", COUNTS)
def test_every_record_decodes_without_a_reject(topic: str) -> None:
    messages = list(read_messages(topic_path(FOLDER, topic)))
    arrived = pa.array([m.arrived_ms * 1000 for m in messages], TIMESTAMP)

    decoded = decoder(LANDED[topic])(pa.array([m.value for m in messages], pa.binary()), Context(arrived))

    assert decoded.rejects.num_rows == 0
    assert decoded.rows.num_rows == len(messages) == COUNTS[topic]
    assert decoded.unknown_fields == {}


def test_every_record_lands(lake: Lake) -> None:
    assert {topic: lake.read(topic).num_rows for topic in COUNTS} == COUNTS
    assert lake.read("dead_letters").num_rows == 0


def test_each_window_is_alone_in_its_five_minutes(lake: Lake) -> None:
    windows: dict[int, set[str]] = defaultdict(set)
    for row in lake.read("usage", columns=["ts", "container"]).to_pylist():
        five_minutes = round(row["ts"].timestamp() * 1e6) // LABEL_US
        windows[five_minutes].add(row["container"].split("-")[0])
    members = Counter(row["window"] for row in csv_rows("members.csv"))

    assert all(len(names) == 1 for names in windows.values())
    assert set().union(*windows.values()) == set(members)
    assert len(windows) == len(members) == len(csv_rows("windows.csv"))


def test_who_shared_a_window_was_there_from_before_it_began_until_it_ended() -> None:
    stay: dict[str, dict[str, int]] = defaultdict(dict)
    for message in read_messages(topic_path(FOLDER, "placements")):
        record = orjson.loads(message.value or b"")
        stay[record["container"]][record["event"]] = record["ts"]

    used = [orjson.loads(m.value or b"") for m in read_messages(topic_path(FOLDER, "usage"))]
    assert all(stay[r["container"]]["add"] < r["ts"] - 5 for r in used)
    assert all(r["ts"] < stay[r["container"]]["delete"] < stay[r["container"]]["add"] + 300 for r in used)


def test_a_record_says_what_was_measured() -> None:
    measured = {f"{r['window']}-{r['role']}{r['idx']}": r for r in csv_rows("members.csv")}

    for message in read_messages(topic_path(FOLDER, "usage")):
        record = orjson.loads(message.value or b"")
        row = measured[record["container"]]
        assert record["app"] == f"{row['name']}-{row['level']}"
        assert record["cpu_cores"] == float(row["cpu_cores"])
        assert record["memory_bytes"] == pytest.approx(float(row["rss_mb"]) * 1e6)
        assert ("rt_mean_ms" in record) == bool(row["mean_us"])
        assert record.get("rt_mean_ms", 0) == pytest.approx(float(row["mean_us"] or 0) / 1000)
        assert record["run_delay_frac"] == pytest.approx(max(0, float(row["rundelay"]) - float(row["throttled"])))


def measured_slowdowns() -> dict[tuple[str, str, str], list[float]]:
    """Log of slow_mean of every clean round with a good load generator, by run, configuration and victim."""
    logs = defaultdict(list)
    for row in csv_rows("victims.csv"):
        if row["kind"] == "colo" and row["clean"] == "True" and row["gen_ok"] == "True":
            logs[row["run"], row["cfg_id"], row["idx"]].append(float(np.log(float(row["slow_mean"]))))
    return logs


def test_labels_are_the_mean_log_slowdown_of_clean_rounds(found: Configurations) -> None:
    expected = measured_slowdowns()

    assert len(found.rows.log_slowdown) == len(expected) == 172
    assert sum(bool(kinds) for kinds in found.kinds) == 148
    np.testing.assert_allclose(
        np.sort(found.rows.log_slowdown), np.sort([np.mean(logs) for logs in expected.values()]), rtol=1e-12
    )
    assert sorted(found.rows.weight) == sorted(float(len(logs)) for logs in expected.values())
    assert len(found.rounds) == sum(len(logs) > 1 for logs in expected.values())


def test_each_label_stands_beside_its_own_victim_and_antagonists(found: Configurations) -> None:
    measured, told = measured_slowdowns(), set()
    for row in csv_rows("victims.csv"):
        if logs := measured.get((row["run"], row["cfg_id"], row["idx"])):
            kinds = tuple(row["kinds"].split("+")) if row["kinds"] else ()
            told.add((f"{row['name']}-{row['level']}", kinds, round(float(np.mean(logs)), 9)))

    rows = zip(found.app, found.kinds, found.rows.log_slowdown, strict=True)
    assert {(app, kinds, round(float(label), 9)) for app, kinds, label in rows} == told


@pytest.mark.parametrize("kind", ["cache", "stream"])
def test_a_kind_is_foreseen_by_models_that_never_saw_it(found: Configurations, kind: str) -> None:
    held_out = np.array([kind in kinds for kinds in found.kinds])
    wild = np.where(held_out, 3.0, found.rows.log_slowdown)
    during = replace(found.during, rows=replace(found.during.rows, log_slowdown=wild))
    altered = replace(found, rows=replace(found.rows, log_slowdown=wild), during=during)

    before, after = (said_of_unseen(rows, held_out) for rows in (found, altered))

    assert held_out.sum() > 5
    for name, predicted in before.items():
        np.testing.assert_array_equal(after[name], predicted, err_msg=name)


def test_the_report_has_every_predictor_and_names_who_to_avoid(found: Configurations) -> None:
    report = leave_kind_out(found, np.random.default_rng(0))

    assert report.rows == 148
    assert set(report.metrics) == {"ours", "diagnosis", "constant", "group_mean", "sum_of_pressure", "ridge"}
    assert report.metrics["ours"]["spearman"].value > 0.2
    assert 0.5 < report.round_to_round < 1
    assert report.metrics["diagnosis"]["spearman"].value >= 0.9 * report.round_to_round
    predicted = [p for p, _ in report.example.values()]
    assert predicted == sorted(predicted, reverse=True)
    assert {"cache", "stream"} <= report.example.keys()
