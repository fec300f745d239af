"""Situations from public bug reports, each with the right answer: their streams through `cohabit ingest` to usage."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from cohabit.cli.main import app
from features.contention.node_state import Facts
from features.contention.usage_rates import rates
from features.schema.tables import TABLES
from ingest.kube.events import PODS, Heard
from ingest.lake.tables import Lake

CASES = Path(os.environ["BENCH_DATA"]).parent / "cases" if "BENCH_DATA" in os.environ else None
pytestmark = [
    pytest.mark.public_data,
    pytest.mark.skipif(
        CASES is None or not CASES.is_dir(), reason="needs the folder cases next to the one named by BENCH_DATA"
    ),
]


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COHABIT_CLUSTER", "c")


def case(number: str) -> Path:
    """The folder of a situation."""
    assert CASES is not None
    (found,) = CASES.glob(f"{number}-*")
    return found


def run(*words: str) -> str:
    ran = CliRunner().invoke(app, [*words], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran.output


def landed(number: str, tmp_path: Path, *topics: str) -> Lake:
    formats = [word for topic in topics for word in ("--topic", topic)]
    run("ingest", "--lake", str(tmp_path / "lake"), *formats, str(case(number) / "stream"))
    return Lake.open(tmp_path / "lake", TABLES)


def usage(lake: Lake) -> list[dict[str, Any]]:
    """Rows of usage by container and minute."""
    found = rates(lake.read("samples"), Facts(lake.read("nodes"), lake.read("placements"))).usage
    rows: list[dict[str, Any]] = found.sort_by([("container", "ascending"), ("ts", "ascending")]).to_pylist()
    return rows


def node_cpu(lake: Lake) -> set[object]:
    found: pa.Table = rates(lake.read("samples"), Facts(lake.read("nodes"), lake.read("placements"))).node_usage
    return {round(value, 6) for value in found["cpu_cores"].to_pylist() if value is not None}


def test_a_restarted_container_counts_once_and_as_it_is_now(tmp_path: Path) -> None:
    rows = usage(landed("01", tmp_path, "metrics=prom-adapter"))

    after = {row["ts"].strftime("%H:%M"): (row["cpu_cores"], row["memory_bytes"]) for row in rows}
    assert {after[f"12:{minute:02d}"] for minute in (7, 8, 9, 10)} == {(0.5, 268435456.0)}


def test_a_static_pod_is_one_container_whichever_uid_placements_say(tmp_path: Path) -> None:
    lake = landed("02", tmp_path, "otlp_metrics=otlp-json")

    assert {row["container"] for row in usage(lake)} == set(lake.read("placements")["container"].to_pylist())


def test_a_static_pod_is_placed_under_the_hash_of_its_manifest_and_its_node() -> None:
    raw = json.loads((case("02") / "pod.json").read_text())

    (record,) = PODS.seen(None, raw, Heard("c", 0)).records

    assert record["container"] == "9aac5b5c8815def09a2ef9e37b89da55@m0"
    assert (record["app"], record["qos"], record["pinned"]) == ("kube-apiserver", "SYSTEM", True)


def test_an_hour_of_a_static_pod_is_metered_once(tmp_path: Path) -> None:
    lake = landed("02", tmp_path, "otlp_metrics=otlp-json")
    run("bill", "meter", "--lake", str(lake.root), "--from", "2026-03-01T12:00", "--to", "2026-03-01T13:00")

    rows = [row for row in lake.read("metered").to_pylist() if row["resource"] == "cpu"]
    assert {row["app"] for row in rows} == {"kube-apiserver"}
    parts = [sum(row[name] for row in rows) / 1e6 for name in ("requested", "within", "beyond")]
    assert parts == pytest.approx([15.0, 15.0, 33.0], rel=0.02)


@pytest.mark.parametrize("number", ["03", "04"])
def test_cpu_by_its_old_name_and_pods_without_a_node_land(number: str, tmp_path: Path) -> None:
    lake = landed(number, tmp_path, "otlp_metrics=otlp-json")

    assert {round(row["cpu_cores"], 6) for row in usage(lake)} == {0.7}
    assert node_cpu(lake) == {2.0}
    assert not lake.read("dead_letters").num_rows


def test_two_replicas_with_skewed_clocks_give_the_true_rate(tmp_path: Path) -> None:
    rows = usage(landed("06", tmp_path, "metrics=prom-adapter"))

    assert {row["cpu_cores"] for row in rows[1:]} == {0.5}


def test_an_exporter_that_reports_its_own_pod_as_the_node_is_on_the_node_of_the_placement(tmp_path: Path) -> None:
    rows = usage(landed("13", tmp_path, "stats=cadvisor"))

    assert {row["node"] for row in rows} == {"ip-10-0-0-3"}
    assert {round(row["cpu_cores"], 6) for row in rows[1:]} == {0.5}


def test_nodes_that_left_are_no_capacity(tmp_path: Path) -> None:
    lake = landed("05", tmp_path)
    run("bill", "meter", "--lake", str(lake.root), "--from", "2026-03-01T00:00", "--to", "2026-03-03T00:00")

    hours = lake.read("pool_hours").to_pylist()
    assert len(hours) == 48
    minutes = [dict(row["capacity"])["cpu"] / 8e6 for row in hours]
    assert set(minutes) == {80.0}


def test_who_used_nodes_that_left_pays_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = landed("05", tmp_path)
    for name, value in (
        ("LAKE", str(lake.root)),
        ("DATABASE", f"{tmp_path}/store.sqlite"),
        ("BILLING__LEDGER_DIR", f"{tmp_path}/ledger"),
    ):
        monkeypatch.setenv(f"COHABIT_{name}", value)
    run("admin", "database", "migrate")
    run("bill", "import", str(case("05") / "bill.csv"), "--name", "march")
    run("bill", "meter", "--from", "2026-03-01", "--to", "2026-03-03")

    shown = run("bill", "propose-book", str(case("05") / "book.toml"), "--preview", "2026-03")

    rows = [[word.strip() for word in line.split("│")[1:3]] for line in shown.splitlines() if line.startswith("│")]
    assert dict(rows) == {"data": "5.28", "platform": "7.92", "shop": "7.92", "together": "21.12"}
