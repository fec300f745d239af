"""`cohabit bill`: hours are metered from where it stopped, a bill is imported once, and errors say what to do."""

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import Event

import pyarrow.compute as pc
import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from cohabit.billing.metering import hours_to_meter
from cohabit.cli.main import app
from cohabit.config.errors import CohabitError
from cohabit.config.logs import set_up_logs
from cohabit.ingestion.simulation import simulate_into
from cohabit.terminal.locations import TOPICS
from features.jobs.local_metering import JOB
from features.metering.node_hours import pool_names
from features.metering.units import Hours
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_files
from ingest.simulator.simulate import Plan

PLAN = Plan(nodes=3, apps=4, per_node=4, hours=2.2)
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two hours and a bit of a small cluster, landed."""
    simulate_into(tmp_path / "stream", PLAN, lambda _done, _of: None)
    lake = Lake.open(tmp_path / "lake", TABLES)
    metrics = IngestMetrics(CollectorRegistry())
    ingest_files(tmp_path / "stream", TOPICS, lake, stop=Event(), metrics=metrics)
    return tmp_path


@pytest.fixture
def bill(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `cohabit bill`; exit code, and what it printed."""
    for name in [name for name in os.environ if name.startswith("COHABIT_")]:
        monkeypatch.delenv(name)

    def run(*words: str) -> tuple[int, str]:
        own = {"COHABIT_LAKE": str(folder / "lake"), "COHABIT_CLUSTER": PLAN.cluster, "COLUMNS": "300"}
        ran = CliRunner().invoke(app, ["bill", *words], env=own, catch_exceptions=False)
        set_up_logs("DEBUG")
        return ran.exit_code, " ".join(ran.output.split())

    return run


def test_hours_that_are_over_are_metered_once_and_again_when_told(folder: Path, bill: Run) -> None:
    first, nothing, again = bill("meter"), bill("meter"), bill("meter", "--from", f"{PLAN.start:%Y-%m-%dT%H}")

    lake = Lake.open(folder / "lake", TABLES)
    hours = pc.unique(lake.read("metered")["hour"]).to_pylist()
    assert hours == [PLAN.start + timedelta(hours=n) for n in range(2)]
    assert first[0] == again[0] == nothing[0] == 0
    assert f"2 hours: {lake.read('metered').num_rows:,} rows metered" in first[1]
    assert first[1] == again[1]
    assert "nothing to meter" in nothing[1]


def test_hours_that_are_not_over_are_not_metered_whatever_is_named(folder: Path) -> None:
    lake, hour = Lake.open(folder / "lake", TABLES), timedelta(hours=1)
    month = (PLAN.start, PLAN.start + timedelta(days=31))

    soon = hours_to_meter(lake, *month, PLAN.start + timedelta(hours=2.5))
    later = hours_to_meter(lake, *month, PLAN.start + timedelta(days=3.5))

    assert (soon.count, later.count) == (2, 60)  # in the first day usage may come; then nothing more is waited for
    with pytest.raises(CohabitError, match="no hour that is over"):
        hours_to_meter(lake, PLAN.start + 2 * hour, PLAN.start + 3 * hour, PLAN.start + 3 * hour)


def test_hours_are_metered_as_a_whole_or_not_at_all_when_told_so(folder: Path, bill: Run) -> None:
    first, hour = PLAN.start, timedelta(hours=1)
    lake = Lake.open(folder / "lake", TABLES)

    early = bill("meter", "--from", f"{first:%Y-%m-%dT%H}", "--to", "2100-01-01", "--whole")

    assert early[0] == 1, early
    assert "of these hours have not ended, so none was metered" in early[1]
    assert not list(lake.range_parts("metered"))
    whole = bill("meter", "--from", f"{first:%Y-%m-%dT%H}", "--to", f"{first + 2 * hour:%Y-%m-%dT%H}", "--whole")
    assert whole[0] == 0, whole
    assert "2 hours" in whole[1]
    assert "--whole needs --to" in bill("meter", "--whole")[1]


def test_an_hour_of_which_pools_were_not_told_is_metered_again(folder: Path, bill: Run) -> None:
    start, hour, now = PLAN.start, timedelta(hours=1), PLAN.start + timedelta(hours=2.5)
    bill("meter", "--to", f"{start + hour:%Y-%m-%dT%H}")
    lake = Lake.open(folder / "lake", TABLES)
    lake.replace("metered", start + hour, start + 2 * hour, JOB, lake.read("metered").slice(0, 0))  # then it was killed

    assert hours_to_meter(lake, None, None, now) == Hours.between(start + hour, start + 2 * hour)


def test_a_bill_is_a_pools_cost_and_another_one_of_its_name_is_refused(folder: Path, bill: Run) -> None:
    bill("meter")
    lake = Lake.open(folder / "lake", TABLES)
    pool = lake.read("pool_hours")["pool"][0].as_py()
    end = PLAN.start + timedelta(hours=2)
    row = f"{pool},{PLAN.start:%Y-%m-%dT%H:%M:%SZ},{end:%Y-%m-%dT%H:%M:%SZ},10.000001,EUR"
    file = folder / "bill.csv"
    file.write_text(f"pool,start,end,cost,currency\n{row}\n")

    code, told = bill("import", str(file), "--name", "nov")
    assert code == 0, told
    assert "10.000001 EUR over 2 hours of pools" in told
    metered = bill(*told[told.index("cohabit bill meter") :].split()[2:])

    assert metered[0] == 0, metered
    found = [row for row in lake.read("pool_hours").to_pylist() if row["pool"] == pool]
    assert [(row["cost_micros"], row["cost_source"]) for row in found] == [(5_000_001, "nov"), (5_000_000, "nov")]
    assert "is the same: nothing was changed" in bill("import", str(file), "--name", "nov")[1]
    code, told = bill("import", str(file), "--name", "nov-again")
    assert (code, "has the same rows as the imported bill 'nov'" in told) == (1, True)
    file.write_text(file.read_text().replace("10.0", "11.0"))
    code, told = bill("import", str(file), "--name", "nov")
    assert (code, "under another name" in told) == (1, True)
    assert lake.read("bills").num_rows == 2


def test_a_bill_in_another_currency_is_refused_before_it_lands(folder: Path, bill: Run) -> None:
    """No bill is ever taken back: once two currencies were there, those hours could not be metered any more."""
    lake, file = Lake.open(folder / "lake", TABLES), folder / "bill.csv"
    hours = f"{PLAN.start:%Y-%m-%dT%H:%M:%SZ},{PLAN.start + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    pool = pool_names(lake.read("nodes"))[0].as_py()
    file.write_text(f"pool,start,end,cost,currency\n{pool},{hours},10,EUR\n")
    assert bill("import", str(file), "--name", "first")[0] == 0

    file.write_text(f"pool,start,end,cost,currency\n{pool},{hours},10,USD\n")
    other = bill("import", str(file), "--name", "second")
    file.write_text(f"pool,start,end,cost,currency\nelse@where,{hours},1,USD\nelse@where,{hours},1,EUR\n")
    itself = bill("import", str(file), "--name", "third")

    assert other[0] == itself[0] == 1
    assert "bill 'second' was not imported: the cost of pool" in other[1]
    assert "would be in EUR and USD" in itself[1]
    assert lake.read("bills").num_rows == 1
    assert bill("meter")[0] == 0


def test_a_pool_that_no_node_is_in_is_told_at_import(folder: Path, bill: Run) -> None:
    lake, file = Lake.open(folder / "lake", TABLES), folder / "bill.csv"
    pool = pool_names(lake.read("nodes"))[0].as_py()
    hours = f"{PLAN.start:%Y-%m-%dT%H:%M:%SZ},{PLAN.start + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    file.write_text(f"pool,start,end,cost,currency\n{pool},{hours},10,EUR\nmistyped@zone,{hours},10,EUR\n")

    code, told = bill("import", str(file), "--name", "first")

    assert code == 0
    assert "no node is in mistyped@zone: its cost is billed to `unattributed`; pools of nodes:" in told
    assert pool in told[told.index("pools of nodes:") :]


def test_focus_rows_without_a_pool_are_shown_and_effective_cost_can_be_read(folder: Path, bill: Run) -> None:
    lake, file = Lake.open(folder / "lake", TABLES), folder / "focus.csv"
    pool = pool_names(lake.read("nodes"))[0].as_py()
    hours = f"{PLAN.start:%Y-%m-%d %H:%M:%S} UTC,{PLAN.start + timedelta(hours=2):%Y-%m-%d %H:%M:%S} UTC"
    head = "BilledCost,EffectiveCost,BillingCurrency,ChargePeriodStart,ChargePeriodEnd,ResourceName\n"
    file.write_text(f"{head}0,7.5,EUR,{hours},{pool}\n900,0,EUR,{hours},\n1.25,1.25,EUR,{hours},\n")

    code, said = bill("import", str(file), "--name", "mar", "--format", "focus", "--cost", "EffectiveCost")

    assert code == 0, said
    assert "bill mar: 7.5 EUR over 2 hours of pools" in said
    assert "2 rows name no pool" in said
    assert "1.25 EUR is no node's cost and not imported" in said
    assert sum(lake.read("bills")["cost_micros"].to_pylist()) == 7_500_000
    assert bill("import", str(file), "--name", "x", "--cost", "EffectiveCost")[0] == 2
    assert bill("import", str(file), "--name", "x", "--format", "focus", "--cost", "ListCost")[0] == 2


def test_errors_say_what_to_do(folder: Path, bill: Run) -> None:
    broken = folder / "broken.csv"
    broken.write_text("pool,start,end,cost\n")
    binary = folder / "binary.csv"
    binary.write_bytes(b"\xff\xfe")

    for words, says in (
        (("meter", "--from", "2026-03-02T00:30"), "lies within an hour: name a full one"),
        (("meter", "--from", "2026-03-02", "--to", "2026-03-01"), "no hour that is over lies between"),
        (("meter", "--from", "0026-03-02"), "lies before 1970"),
        (("judge", "--from", "0026-03-02"), "lies before 1970"),
        (("meter", "--lake", str(folder / "none")), "none"),
        (("import", str(broken), "--name", "x"), "line 1, column currency: the header does not have it"),
        (("import", str(binary), "--name", "x"), "is not UTF-8 text"),
    ):
        code, told = bill(*words)
        assert (code, says in told) == (1, True), told
