"""`cohabit capacity plan`: orders by date with proof and reasons, for people and as JSON."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cohabit.cli.main import app
from tests.cohabit.capacity.purchases.purchase_site import FILES, with_line, written_files


def planned(folder: Path, *words: str, **changed: tuple[str, ...]) -> Result:
    files = written_files(folder, **changed)
    named = [f"--{name.replace('_', '-')}={getattr(files, name)}" for name in FILES]
    out = f"--json={folder / 'plan.json'}"
    return CliRunner().invoke(app, ["capacity", "plan", *named, out, "--seconds=10", *words], env={"COLUMNS": "160"})


def test_the_plan_has_orders_by_date_and_says_what_binds(tmp_path: Path) -> None:
    ran = planned(tmp_path, "--order-from=2026-12-15")

    assert ran.exit_code == 0, ran.stdout
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert [(one["sku"], one["machines"], one["order_by"], one["deliver_by"]) for one in plan["orders"]] == [
        ("g16", 1, "2026-12-31", "2027-03-01"),
        ("c32", 1, "2027-01-02", "2027-02-01"),
        ("c32", 1, "2027-01-02", "2027-02-01"),
        ("c32", 2, "2027-01-30", "2027-03-01"),
    ]
    assert (plan["packed"], plan["gap"], plan["shortages"]) == (True, 0.0, [])
    assert plan["cost"] == plan["bound"] == 2 * 2 * 150.0 + 2 * 150.0 + 500.0
    assert any(line.startswith("the loss of zone") for line in plan["binding"])
    assert {one["name"] for one in plan["sensitivity"]} >= {"demand +10 %", "demand -10 %", "lead times +30 days"}
    assert "packed: all pods" in ran.stdout


def test_pods_that_no_order_can_cure_are_listed_and_exit_with_1(tmp_path: Path) -> None:
    ran = planned(tmp_path, demand=with_line("demand", 1, "2027-01,web,4000,8192,0,0,,yes,2,40"))

    assert ran.exit_code == 1
    lines = ran.stdout.splitlines()
    assert any(line.startswith("short in 2027-01 after the loss of zone") and "24 × web" in line for line in lines)
    assert any("none is delivered earlier" in line for line in lines)


def test_paths_of_demand_give_a_risk_and_costs_by_band(tmp_path: Path) -> None:
    rows = [f"{path},2027-{month:02},web,4000,8192,{path * month}" for path in range(1, 21) for month in (1, 2, 3)]

    ran = planned(
        tmp_path, "--risk=0.2", "--survive=none", demand=("path,month,shape,cpu_milli,memory_mib,pods", *rows)
    )

    plan = json.loads((tmp_path / "plan.json").read_text())
    assert ran.exit_code == 0, ran.stdout
    assert plan["risk"] <= 0.2
    assert plan["cost_by_band"]["P50"] <= plan["cost_by_band"]["P80"] <= plan["cost_by_band"]["P95"]
    assert "of paths that were not seen are short (asked: 20.0%)" in ran.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--survive=region"], "choose from zone, room, rack, none"), (["--skus=missing.csv"], "check the path")],
)
def test_what_cannot_be_planned_is_refused_with_3(tmp_path: Path, words: list[str], message: str) -> None:
    ran = planned(tmp_path, *words)

    assert ran.exit_code == 3
    assert message in ran.stderr
