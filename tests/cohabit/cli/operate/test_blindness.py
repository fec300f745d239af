"""Blindness: whichever inputs are missing, each face says how much was looked at, and why not the rest."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from math import floor
from pathlib import Path
from shutil import copytree, ignore_patterns
from time import time_ns

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner, Result

from advisor.api.app import create_app
from advisor.billing.ledger.drafts import seen_sentence
from advisor.diagnosis.coverage import sentence
from advisor.diagnosis.report_file import FILE
from advisor.placement.model_state import Serving
from advisor.ui.app import create_pages
from advisor.ui.site.identity import OpenEntrance
from cohabit.billing.interference_seen import seen_by_team
from cohabit.cli.main import app
from cohabit.diagnosis.diagnose import WINDOW, coverage_until, diagnosed, newest_window
from cohabit.doctor.measurements import labels as examined
from cohabit.refresh.live_state import LiveState
from cohabit.refresh.main import Refresh, refresh_from_files
from cohabit.terminal.locations import TOPICS
from features.contention.node_state import Facts, node_state
from features.jobs.job_plan import JOB
from features.jobs.local_metering import run_local
from features.labels.slowdown import WAITING
from features.labels.waiting import STALLS
from features.metering.units import Hours
from features.profiles.per_app import labels_of
from features.schema.tables import LABELS, NODE_STATE, TABLES
from ingest.lake.tables import Lake
from ingest.simulator.simulate import Plan
from models.registry.registry import Registry
from tests.advisor.billing.metered_month import price_book
from tests.advisor.stores import migrated_file
from tests.models.lakes import derived_lake

PLAN = Plan(nodes=2, apps=3, per_node=6, hours=1.5, seed=4)
USAGE = {
    "psi": STALLS,
    "throttling": ("cpu_throttled_frac",),
    "cpu": ("cpu_cores",),
    "memory, disk and network": (
        *("memory_bytes", "memory_bandwidth_bytes_s", "llc_occupancy_bytes"),
        *("disk_read_bytes_s", "disk_write_bytes_s", "disk_ios_s", "net_rx_bytes_s", "net_tx_bytes_s"),
    ),
    "requests": ("qps", "cpu_us_per_request", "rt_mean_ms", "rt_p95_ms", "rt_p99_ms"),
    "cpi": ("cpi", "llc_mpki"),
}
"""Inputs by the columns of `usage` that they fill."""
INPUTS = (*USAGE, "placements", "nodes")
PAIRS = [pytest.param(two, marks=pytest.mark.long) for two in combinations(INPUTS, 2) if "psi" not in two]
REMOVED = [(), *((one,) for one in INPUTS), *(("psi", one) for one in INPUTS[1:]), ("requests", "cpi", "psi"), INPUTS]
UNREAD = ("contention", "antagonists", "training", "dead_letters")
ALL_WELL = ("no victims", "No victims", "is not a victim")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A small cluster of which all is measured."""
    return derived_lake(tmp_path_factory.mktemp("whole"), PLAN)


@pytest.fixture(scope="module")
def usage(whole: Lake) -> pa.Table:
    """What its exporters send, with stalls that follow latency."""
    rows = whole.read("usage")
    stall = np.minimum(0.9, 1e-4 + 0.002 * np.nan_to_num(rows["rt_mean_ms"].to_numpy() * rows["cpu_cores"].to_numpy()))
    return put(rows, psi_cpu_some_frac=stall, cpu_throttled_frac=np.zeros(rows.num_rows))


def put(rows: pa.Table, **columns: np.ndarray | pa.Array) -> pa.Table:
    for name, values in columns.items():
        place = rows.column_names.index(name)
        rows = rows.set_column(place, rows.schema.field(place), pa.array(values, rows.schema.field(place).type))
    return rows


def without(whole: Lake, usage: pa.Table, removed: Sequence[str], folder: Path) -> Lake:
    """The lake where some inputs are missing."""
    gone = [name for name in ("placements", "nodes") if name in removed]
    lake = Lake.open(copytree(whole.root, folder / "lake", ignore=ignore_patterns(*gone, *UNREAD)), TABLES)
    columns = [name for one in removed for name in USAGE.get(one, ())]
    rows = put(usage, **{name: pa.nulls(usage.num_rows) for name in columns})
    facts = Facts(lake.read("nodes"), lake.read("placements"))
    state = node_state(rows, facts)
    start, end = whole_span(whole)
    lake.replace("node_state", start, end, JOB, state.select(NODE_STATE.schema.names))
    lake.replace("labels", start, end, JOB, labels_of(state, facts.placements).select(LABELS.schema.names))
    return lake


def whole_span(whole: Lake) -> tuple[datetime, datetime]:
    ends = whole.read("node_state", columns=["window_end"])["window_end"]
    first, last = pc.min(ends).as_py(), pc.max(ends).as_py()
    return first.replace(hour=0, minute=0), last.replace(hour=23, minute=59)


@dataclass(frozen=True)
class Faces:
    """A server of diagnoses, as programs and people see it."""

    serving: Serving
    asked: TestClient
    pages: TestClient

    def publish(self, lake: Lake) -> Result:
        """What `cohabit victims --publish` says."""
        (self.serving.snapshots / FILE).unlink(missing_ok=True)
        words = ["victims", "--lake", str(lake.root), "--publish", "--snapshots", str(self.serving.snapshots)]
        return CliRunner().invoke(app, words, env={"COLUMNS": "200", "COHABIT_CLUSTER": PLAN.cluster})


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Faces:
    folder = tmp_path_factory.mktemp("served")
    serving = Serving(folder, Registry(folder / "registry"), 120.0, lambda: 0, CollectorRegistry())
    pages = create_pages(serving, OpenEntrance("local:me", lambda: 0, lambda: "secret"))
    loopback = TestClient(pages, "http://127.0.0.1", client=("127.0.0.1", 50_000))
    return Faces(serving, TestClient(create_app(serving)), loopback)


@pytest.mark.parametrize("removed", [*REMOVED, *PAIRS], ids=lambda removed: " ".join(removed) or "nothing")
def test_nobody_is_said_to_be_well_of_what_was_not_looked_at(
    whole: Lake, usage: pa.Table, faces: Faces, tmp_path: Path, removed: tuple[str, ...]
) -> None:
    lake = without(whole, usage, removed, tmp_path)
    ran = faces.publish(lake)
    said = " ".join(f"{one.level} {one.said}" for one in examined(lake))
    shown = [faces.pages.get(path).text for path in ("/ui/victims", "/ui/cluster")]

    covered = faces.serving.coverage()
    share = 0.0 if covered is None else covered.share
    assert faces.asked.get("/readyz").json()["looked_at"] == (
        "unknown" if covered is None else f"{floor(100 * share + 1e-9) / 100:.2f}"
    )
    assert f"cohabit_label_coverage_ratio {share}\n" in faces.asked.get("/metrics").text
    assert (ran.exit_code == 3) == (share == 0), ran.output
    if share == 0:
        assert [word for word in ALL_WELL for text in (ran.output, *shown) if word in text] == []
        assert "problem" in said
    if covered is not None:
        assert "looked at" in ran.stdout.splitlines()[0]
        assert all(sentence(covered)[1:] in text for text in shown)
        assert faces.asked.get("/v1/victims").json()["coverage"]["share"] == share
    if covered is not None and share < 1:
        assert ("why not the rest" in ran.stdout, "why not the rest" in said) == (True, True)
    if covered is not None and covered.by_waiting:
        assert all("cache and memory bandwidth is not seen" in text for text in (ran.stdout, said, *shown))
    if share > 0 and "memory, disk and network" in removed:
        lacking = "cache, memory bandwidth, memory, disk, network is not reported: no neighbour is named"
        assert all(lacking in " ".join(text.split()) for text in (ran.stdout, said, *shown))


def test_who_is_slow_without_a_second_signal_is_counted_and_named_as_unconfirmed(whole: Lake, tmp_path: Path) -> None:
    lake = Lake.open(copytree(whole.root, tmp_path / "lake", ignore=ignore_patterns(*UNREAD)), TABLES)
    labels, until = lake.read("labels"), newest_window(lake)
    good = {row["container"] for row in labels.to_pylist() if row["qos"] == "LS" and row["window_end"] == until}
    slow, *_ = sorted(good - {one.container for one in diagnosed(lake, until)})
    log = np.where(np.asarray(pc.equal(labels["container"], slow)), np.log(2.0), labels["log_slowdown"].to_numpy())
    late = np.asarray(pc.greater(labels["window_end"], pa.scalar(until - 5 * WINDOW)))
    slowed = put(labels, log_slowdown=np.where(late, log, labels["log_slowdown"]))
    lake.replace("labels", *whole_span(whole), JOB, slowed)

    ran = CliRunner().invoke(app, ["victims", "--lake", str(lake.root)], env={"COLUMNS": "300"})
    one = CliRunner().invoke(app, ["victims", "--lake", str(lake.root), "--container", slow], env={"COLUMNS": "300"})

    for said in (ran.stdout, one.stdout):
        unconfirmed = " ".join(said.split()).partition("slower than 1.25 times the baseline in three windows: ")[2]
        assert slow in unconfirmed


@pytest.fixture(scope="module")
def desk(whole: Lake, bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Settings of a cluster with a model, a snapshot and a store, whose hours are metered."""
    folder = tmp_path_factory.mktemp("desk")
    state = LiveState(PLAN.cluster, lambda: time_ns() // 1000)
    how = Refresh(folder / "snapshots", 0.0, 1)
    refresh_from_files(whole.root.parent / "stream", TOPICS, state, whole, how, published=lambda *_: None)
    start, end = whole_span(whole)
    run_local(whole, Hours.between(start, end.replace(minute=0)), lambda *_: None)
    (folder / "registry").mkdir()
    (folder / "registry" / bundle.name).symlink_to(bundle, target_is_directory=True)
    Registry(folder / "registry").promote(bundle.name)
    migrated_file(folder / "store.sqlite")
    return {
        "COHABIT_SNAPSHOTS": str(folder / "snapshots"),
        "COHABIT_REGISTRY": str(folder / "registry"),
        "COHABIT_DATABASE": str(folder / "store.sqlite"),
        "COHABIT_CLUSTER": PLAN.cluster,
        "COHABIT_PLANS__MAX_SNAPSHOT_AGE_HOURS": "1e6",
        "COLUMNS": "200",
    }


@pytest.mark.long
@pytest.mark.parametrize("removed", [*REMOVED, *PAIRS], ids=lambda removed: " ".join(removed) or "nothing")
def test_plans_drift_and_bills_say_what_was_not_looked_at(
    whole: Lake, usage: pa.Table, desk: dict[str, str], tmp_path: Path, removed: tuple[str, ...]
) -> None:
    lake = without(whole, usage, removed, tmp_path)
    planned, drifted = (
        CliRunner().invoke(app, [*words, "--lake", str(lake.root)], env=desk)
        for words in (("plan", "create"), ("model", "drift"))
    )

    labels = lake.read("labels", columns=["log_slowdown", "kind"])
    assert "looked at" in drifted.stdout, drifted.output
    if labels.num_rows:
        covered = coverage_until(lake, newest_window(lake))
        assert sentence(covered)[1:] in planned.stdout.splitlines()[0]
        blind = covered.share == 0
    else:
        assert "no container has an app on a described node" in " ".join(planned.output.split())
        blind = True
    if blind:
        assert [word for word in ALL_WELL for text in (planned.output, drifted.output) if word in text] == []
        assert "fine: served as it is" not in drifted.stdout
    none_found = "0 of these containers are slowed" in planned.stdout
    assert planned.exit_code == (3 if blind else 0 if none_found else 1), planned.output
    seen = seen_by_team(lake, PLAN.cluster, f"{whole_span(whole)[0]:%Y-%m}", [price_book()])
    known = labels.filter(pc.and_(labels["log_slowdown"].is_valid(), pc.not_equal(labels["kind"], WAITING)))
    assert seen is not None
    assert (sum(one.labelled for one in seen) > 0) == (known.num_rows > 0)
    assert ("seen in 0%" in seen_sentence(seen)) == (known.num_rows == 0)


def test_inputs_that_labels_are_made_of_are_missed(whole: Lake, usage: pa.Table, tmp_path: Path) -> None:
    def share(name: str, *removed: str) -> float:
        (tmp_path / name).mkdir()
        lake = without(whole, usage, removed, tmp_path / name)
        return coverage_until(lake, newest_window(lake)).share

    assert share("all") > share("none", "requests", "cpi", "psi") == 0
    assert share("psi", "requests", "cpi") > 0
