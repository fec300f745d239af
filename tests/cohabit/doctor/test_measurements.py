"""What doctor says of the newest samples: exporters without CPU, and names that are no node."""

from pathlib import Path

from cohabit.doctor.measurements import examine
from features.schema.tables import TABLES
from ingest.lake.landing import Positions, RangeRows
from ingest.lake.tables import Lake
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import PLACEMENTS, SAMPLES, Table
from tests.features.rows import rows_of
from tests.landed import land_rows


def lake_of(folder: Path, **tables: list[dict[str, object]]) -> Lake:
    lake = Lake.open(folder, TABLES)
    kinds: dict[str, Table] = {"samples": SAMPLES, "placements": PLACEMENTS}
    for name, given in tables.items():
        rows = rows_of(kinds[name], *given)
        link = OffsetRange(f"{name}-by-hand", 0, 0, rows.num_rows)
        land_rows(lake, name, link, rows)
    return lake


def sample(metric: str, **more: object) -> dict[str, object]:
    return {"container": "uid", "metric": metric, "kind": "gauge", "value": 1.0, "exporter": "kubeletstats", **more}


def said(lake: Lake) -> dict[str, tuple[str, str]]:
    return {one.subject: (one.level, one.said) for one in examine(lake)}


def test_memory_without_cpu_is_said_with_the_exporter_and_what_to_turn_on(tmp_path: Path) -> None:
    found = said(lake_of(tmp_path, samples=[sample("memory_bytes"), sample("cpu_cores", value=None)]))

    level, message = found["pods"]
    assert level == "warning"
    assert "memory but no CPU from kubeletstats" in message
    assert "enable *.cpu.usage" in message


def test_where_both_are_there_that_is_said(tmp_path: Path) -> None:
    found = said(lake_of(tmp_path, samples=[sample("memory_bytes"), sample("cpu_cores", exporter="kubelet")]))

    assert found["pods"] == ("ok", "CPU from kubelet, memory from kubeletstats")
    assert found["node names"][0] == "warning"
    assert "no placement is of a cluster that exporters name (c): run `cohabit watch`" in found["node names"][1]


def test_an_exporter_under_another_name_than_its_node_is_named(tmp_path: Path) -> None:
    placed: dict[str, object] = {"container": "uid", "node": "n1", "event": "add", "ts": -60}
    found = said(lake_of(tmp_path, samples=[sample("cpu_cores", node="cadvisor-x")], placements=[placed]))

    level, message = found["node names"]
    assert (level, "cadvisor-x for n1" in message) == ("warning", True)


def test_a_lake_without_samples_says_so(tmp_path: Path) -> None:
    assert said(Lake.open(tmp_path, TABLES))["samples"][0] == "ok"


def test_requests_that_name_no_pod_are_counted_and_what_adds_it_is_said(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, samples=[sample("qps", exporter="istio"), sample("rt_s", exporter="istio")])
    assert said(lake)["requests"] == ("ok", "requests from istio, response times from istio")

    name = "http.server.request.duration_count of no pod"
    brought = RangeRows(OffsetRange("otlp", 0, 0, 1), SAMPLES.schema.empty_table(), unknown_fields={name: 7})
    Positions(lake).land("samples", [brought])

    level, message = said(lake)["requests"]
    assert level == "warning"
    assert (
        "7 values of requests name no pod (http.server.request.duration_count): have processor k8sattributes" in message
    )


def test_a_gpu_that_pods_share_is_named(tmp_path: Path) -> None:
    pods = [sample("gpu_sm_frac", container=uid, series="0", exporter="dcgm", value=0.9) for uid in ("a", "b")]
    alone = sample("gpu_sm_frac", container="c", series="1", exporter="dcgm", value=0.9)

    level, message = said(lake_of(tmp_path, samples=[*pods, alone]))["GPUs"]

    assert level == "warning"
    assert "1 GPUs are shared (0 of n): what the whole GPU does is divided among its pods" in message


def test_a_gpu_of_which_hami_measures_what_each_pod_does_is_not_named(tmp_path: Path) -> None:
    pods = [
        sample("gpu_sm_frac", container=uid, series="main/GPU-5e", exporter="hami", value=0.3) for uid in ("a", "b")
    ]

    copies = [sample("gpu_sm_frac", container=uid, series="0/GPU-5e", exporter="dcgm", value=0.6) for uid in ("a", "b")]

    assert "GPUs" not in said(lake_of(tmp_path, samples=[*pods, *copies]))


def test_where_nobody_reports_requests_that_is_said(tmp_path: Path) -> None:
    assert "no exporter reports requests" in said(lake_of(tmp_path, samples=[sample("cpu_cores")]))["requests"][1]
