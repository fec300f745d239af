"""`cohabit capacity rightsize`: what was looked at, what is recommended, and files that are for review alone."""

from datetime import UTC, datetime, timedelta
from math import sin
from pathlib import Path
from shutil import copytree

import orjson
import pyarrow as pa
import pytest
import yaml
from typer.testing import CliRunner, Result

from advisor.capacity.rightsize import Rule
from cohabit.capacity.rightsize_apps import Bounds, rightsized
from cohabit.cli.main import app
from cohabit.config.errors import CohabitError
from features.schema.tables import LABELS, NODE_STATE, TABLES
from ingest.lake.tables import Lake
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import NODES, PLACEMENTS, USAGE
from tests.landed import land_rows

START = datetime(2026, 11, 2, tzinfo=UTC)
MINUTES = 500
GIB = 2.0**30
PODS = {"web-1": ("web", "n1"), "web-2": ("web", "n2"), "batch-1": ("batch", "n1"), "young-1": ("young", "n2")}
BOOK = """
version = "2026-11"
currency = "EUR"
start = 2026-11-01T00:00:00Z
[prices]
cpu = { unit = "core", price = "0.04" }
memory = { unit = "GiB", price = "0.005" }
[tiers]
LS = 1.0
"""


def state_rows() -> list[dict[str, object]]:
    """Two web servers, of which one is throttled half of the time, a batch job, and a pod of few minutes."""
    found = []
    for minute in range(1, MINUTES + 1):
        for pod, (name, node) in PODS.items():
            if name == "young" and minute > 30:
                continue
            found.append(
                {
                    "cluster": "c",
                    "node": node,
                    "window_end": START + timedelta(minutes=minute),
                    "container": pod,
                    "app": name,
                    "qos": "LS" if name == "web" else "BE",
                    "samples": 2,
                    "arrived_at": START + timedelta(minutes=minute, seconds=1),
                    "cpu_cores": 1.0 if name == "web" else 0.5 + 0.1 * sin(minute),
                    "cpu_throttled_frac": 0.5 if pod == "web-2" else 0.0,
                    "memory_bytes": GIB,
                    "demand_memory": 0.1,
                    "peak_memory": 0.2 if (pod, minute) == ("web-1", 9) else 0.1,
                }
            )
    return [{"missing": 0} | row for row in found]


def label_rows() -> list[dict[str, object]]:
    return [
        {
            "cluster": "c",
            "node": "n1",
            "window_start": START + timedelta(minutes=minute - 5),
            "window_end": START + timedelta(minutes=minute),
            "container": "web-1",
            "app": "web",
            "arrived_at": START + timedelta(minutes=minute, seconds=1),
            "kind": "latency",
            "log_slowdown": 0.0,
        }
        for minute in range(5, MINUTES + 1, 5)
    ]


def placement_rows() -> list[dict[str, object]]:
    return [
        {
            "cluster": "c",
            "ts": START,
            "event": "add",
            "container": pod,
            "node": node,
            "namespace": "shop",
            "name": f"{pod}-pod",
            "owner": f"Deployment/{name}",
            "app": name,
            "cpu_request_cores": 4.0,
            "cpu_limit_cores": 1.0 if name == "web" else None,
            "memory_request_bytes": 2 * GIB,
        }
        for pod, (name, node) in PODS.items()
    ]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made = Lake.open(tmp_path_factory.mktemp("capacity") / "lake", TABLES)
    end = START + timedelta(days=1)
    for table, rows in ((NODE_STATE, state_rows()), (LABELS, label_rows())):
        made.replace(table.name, START, end, "job", pa.Table.from_pylist(rows, schema=table.schema))
    landed = [
        {"topic": "placements", "partition": 0, "offset": n, "arrived_at": START} | row
        for n, row in enumerate(placement_rows())
    ]
    land_rows(made, "placements", OffsetRange("placements", 0, 0, len(landed)), table_of(landed, PLACEMENTS.schema))
    used = {"topic": "usage", "partition": 0, "arrived_at": START, "cluster": "c", "interval_s": 60.0}
    heard = [
        used | {"offset": n, "ts": row["window_end"], "node": row["node"], "container": row["container"]}
        for n, row in enumerate(state_rows())
    ]
    land_rows(made, "usage", OffsetRange("usage", 0, 0, len(heard)), table_of(heard, USAGE.schema))
    return made


def table_of(rows: list[dict[str, object]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema)


def cohabit(lake: Lake, *words: str) -> Result:
    command = ["capacity", "rightsize", "--lake", str(lake.root), *words]
    return CliRunner().invoke(app, command, env={"COLUMNS": "160", "TERM": "dumb"})


def test_the_list_says_what_was_looked_at_what_is_recommended_and_why_not(lake: Lake) -> None:
    said = cohabit(lake)

    assert said.exit_code == 0, said.output
    assert "looked at 1,530 minutes of 4 containers of 3 apps; 33% of them have a label of slowdown" in said.output
    assert "0.3 of 8 days have minutes to look at" in said.output
    assert "4.00 → 2.00" in said.output
    assert "500 of 1,000 minutes raised" in said.output
    assert "above the CPU limit of now: raise that too" in said.output
    assert "no recommendation for young: 30 of the 400 minutes" in said.output
    assert "nothing was changed" in said.output


def test_memory_is_never_below_its_largest_sample(lake: Lake) -> None:
    found = {one.app: one for one in rightsized(lake, 8.0, Rule()).found}

    assert found["web"].memory.recommended >= 2 * GIB * 1.15
    assert found["batch"].memory.recommended >= GIB * 1.15


def test_pieces_of_nodes_give_the_same_as_all_at_once(lake: Lake) -> None:
    whole = rightsized(lake, 8.0, Rule())

    assert repr(rightsized(lake, 8.0, Rule(), bounds=Bounds(at_once=600))) == repr(whole)


def test_apps_of_several_clusters_are_sized_apart(lake: Lake, tmp_path: Path) -> None:
    two = Lake.open(copytree(lake.root, tmp_path / "lake"), TABLES)
    other = [row | {"cluster": "d", "cpu_cores": 3.0, "cpu_throttled_frac": None} for row in state_rows()]
    two.replace("node_state", START, START + timedelta(days=1), "d", table_of(other, NODE_STATE.schema))
    described = {"topic": "nodes", "partition": 0, "arrived_at": START, "ts": START, "node": "n1"}
    nodes = [described | {"offset": n, "cluster": cluster} for n, cluster in enumerate(("c", "d"))]
    land_rows(two, "nodes", OffsetRange("nodes", 0, 0, 2), table_of(nodes, NODES.schema))

    sized = rightsized(two, 8.0, Rule())
    found = {one.app: one.cpu.recommended for one in sized.found}
    words = ["capacity", "rightsize", "--lake", str(two.root), "--export", "vpa", str(tmp_path / "vpa.yaml")]
    refused = CliRunner().invoke(app, words)

    assert sized.several
    assert (refused.exit_code, (tmp_path / "vpa.yaml").exists()) == (3, False)
    assert {name: found[name] for name in ("c/web", "d/web", "d/batch")} == {
        "c/web": 2.0,
        "d/web": 3.0,
        "d/batch": 3.0,
    }


def test_fewer_days_are_looked_at_where_all_do_not_fit_into_memory(lake: Lake) -> None:
    found = rightsized(lake, 1.0, Rule(), bounds=Bounds(minutes=0))

    assert found.until - found.start <= timedelta(hours=1)
    assert all(one.reason for one in found.found)


def test_the_price_book_makes_money_of_what_is_freed(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "book.toml").write_text(BOOK)

    said = cohabit(lake, "--app", "batch", "--price-book", str(tmp_path / "book.toml"), "--json", str(tmp_path / "f"))

    (batch,) = orjson.loads((tmp_path / "f").read_bytes())["apps"]
    freed = batch["cpu"]["freed"] * 0.04 + batch["memory"]["freed"] / GIB * 0.005
    assert batch["saved_micros_a_month"] == pytest.approx(730e6 * freed, abs=1)
    assert f"{730 * freed:.2f} EUR a month" in said.output
    assert batch["cpu"]["limit"] is None


def test_the_vpa_export_has_the_objects_that_a_reviewer_knows(lake: Lake, tmp_path: Path) -> None:
    said = cohabit(lake, "--export", "vpa", str(tmp_path / "vpa.yaml"))

    objects = {one["metadata"]["name"]: one for one in yaml.safe_load_all((tmp_path / "vpa.yaml").read_text())}
    assert "2 VerticalPodAutoscalers" in said.output
    assert set(objects) == {"web", "batch"}
    web = objects["web"]
    assert (web["apiVersion"], web["kind"]) == ("autoscaling.k8s.io/v1", "VerticalPodAutoscaler")
    assert web["spec"]["targetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    assert web["spec"]["updatePolicy"] == {"updateMode": "Off"}
    (container,) = web["status"]["recommendation"]["containerRecommendations"]
    assert container["target"] == {"cpu": "2000m", "memory": "2356Mi"}
    assert {"lowerBound", "upperBound", "containerName"} < set(container)


def test_the_resize_export_has_pods_with_limits_where_these_have_to_change(lake: Lake, tmp_path: Path) -> None:
    said = cohabit(lake, "--export", "resize", str(tmp_path / "resize.yaml"))

    pods = {one["metadata"]["name"]: one for one in yaml.safe_load_all((tmp_path / "resize.yaml").read_text())}
    assert "3 resizes of pods of 3 running containers" in said.output
    assert set(pods) == {"web-1-pod", "web-2-pod", "batch-1-pod"}
    (container,) = pods["web-1-pod"]["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "2000m", "memory": "2356Mi"}, "limits": {"cpu": "2000m"}}
    assert "limits" not in pods["batch-1-pod"]["spec"]["containers"][0]["resources"]


def test_an_unknown_app_and_an_unknown_form_say_what_to_do(lake: Lake, tmp_path: Path) -> None:
    unknown = cohabit(lake, "--app", "nothing")
    form = cohabit(lake, "--export", "helm", str(tmp_path / "f"))

    assert unknown.exit_code == form.exit_code == 3
    assert "none of the 3 apps since 2026-11-02 00:00 UTC has this name" in unknown.output
    assert "give vpa or resize" in form.output


def test_a_risk_that_needs_more_minutes_than_there_are_recommends_nothing(lake: Lake) -> None:
    said = cohabit(lake, "--risk", "0.001")

    assert said.exit_code == 3
    assert "1,000 of the 20,000 minutes" in said.output


def test_a_lake_with_labels_and_without_node_state_is_an_error(lake: Lake, tmp_path: Path) -> None:
    bare = Lake.open(tmp_path / "lake", TABLES)
    bare.replace("labels", START, START + timedelta(days=1), "job", table_of(label_rows(), LABELS.schema))
    land_rows(bare, "usage", OffsetRange("usage", 0, 0, 1), lake.read("usage").slice(1529, 1))

    with pytest.raises(CohabitError, match="run `cohabit features`"):
        rightsized(bare, 8.0, Rule())
