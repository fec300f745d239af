"""What if: each change alone, with what runs short without orders, and the plan that would cure it."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from advisor.capacity.capacity_reports import PublishedWhatIf, read_capacity_report
from advisor.purchase.orders.order_problem import Limits
from cohabit.capacity.purchases.purchase_inputs import PurchaseInputs, purchase_inputs
from cohabit.capacity.purchases.what_if import UNCHANGED, WhatIf, changed, what_if
from cohabit.cli.main import app
from cohabit.config.errors import CohabitError
from tests.cohabit.capacity.purchases.purchase_site import written_files


@pytest.fixture
def inputs(tmp_path: Path) -> PurchaseInputs:
    return purchase_inputs(written_files(tmp_path), "zone", Limits())


def found_in(inputs: PurchaseInputs, *changes: str) -> dict[str, WhatIf]:
    return {one.change: one for one in what_if(inputs, changes, 4.0 * (1 + len(changes)), lambda _: None)}


def test_the_first_line_is_the_plan_as_it_is(inputs: PurchaseInputs) -> None:
    found = found_in(inputs, "machines:c32:b1:+1")

    assert list(found) == [UNCHANGED, "machines:c32:b1:+1"]
    assert found[UNCHANGED].short > 0
    assert found[UNCHANGED].first_short == inputs.months[1]
    assert found[UNCHANGED].cost is not None


def test_more_machines_leave_fewer_pods_short_and_cost_less(inputs: PurchaseInputs) -> None:
    found = found_in(inputs, "machines:c32:b1:+1", "machines:c32:b1:-1")
    more, none, less = (found[name] for name in ("machines:c32:b1:+1", UNCHANGED, "machines:c32:b1:-1"))

    assert more.short <= none.short <= less.short
    assert more.cost is not None
    assert none.cost is not None
    assert more.cost <= none.cost


def test_growth_of_all_and_of_one_shape_raises_demand_rounded_up(inputs: PurchaseInputs) -> None:
    assert changed(inputs, "grow:10").demand.pods[0].tolist() == [[11, 0], [20, 0], [33, 3]]
    assert changed(inputs, "grow:infer:-50").demand.pods[0].tolist() == [[10, 0], [18, 0], [30, 1]]


def test_an_app_grows_by_its_part_of_each_shape(tmp_path: Path) -> None:
    apps = tmp_path / "apps.csv"
    apps.write_text("shape,app,pods\nweb,shop,3\nweb,cart,1\ninfer,cart,2\n")
    inputs = purchase_inputs(replace(written_files(tmp_path), apps=apps), "zone", Limits())

    assert changed(inputs, "grow:shop:40").demand.pods[0].tolist() == [[13, 0], [24, 0], [39, 2]]
    assert changed(inputs, "grow:cart:-100").demand.pods[0].tolist() == [[8, 0], [14, 0], [23, 0]]
    with pytest.raises(CohabitError, match="or apps such as cart, shop"):
        changed(inputs, "grow:chart:1")


def test_a_lost_zone_takes_its_machines_and_its_racks(inputs: PurchaseInputs) -> None:
    lost = changed(inputs, "lose:a")

    assert (lost.racks.name, lost.racks.domains) == (("b1",), ("zone b",))
    assert lost.standing.shape == (2, 1, 3)
    assert not lost.demand.protected.any()


def test_a_sku_that_is_no_longer_sold_is_not_ordered(inputs: PurchaseInputs) -> None:
    found = found_in(inputs, "without:c32")["without:c32"]

    assert found.machines[0] == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("shrink:3", "write machines:SKU"),
        ("grow:web:many", "'many' is no number"),
        ("grow:webb:3", "there is no shape or app webb: shapes such as web, infer; give --apps for apps"),
        ("grow:-101", "cannot fall by more than 100 %"),
        ("machines:c32:b1:-9", "fewer stand there"),
        ("machines:c33:b1:1", "there is no SKU c33"),
        ("lose:z", "there is no zone z: name one of a, b"),
        ("without:x", "there is no SKU x"),
    ],
)
def test_a_change_that_means_nothing_is_refused_with_what_to_write(
    inputs: PurchaseInputs, change: str, said: str
) -> None:
    with pytest.raises(CohabitError, match=change.split(":", maxsplit=1)[0]) as refused:
        changed(inputs, change)

    assert said in str(refused.value)


def test_the_last_zone_cannot_be_lost(tmp_path: Path) -> None:
    racks = ("rack,zone,room,kw,units,ports", "a1,a,hall-1,4.0,20,8x25+4x100", "b1,a,hall-2,4.0,20,16")
    inputs = purchase_inputs(written_files(tmp_path, racks=racks), "none", Limits())

    with pytest.raises(CohabitError, match="no other zone is left"):
        changed(inputs, "lose:a")


def run(folder: Path, *words: str) -> Result:
    files = written_files(folder)
    names = [word for name, path in vars(files).items() if path for word in (f"--{name.replace('_', '-')}", str(path))]
    environment = {"COLUMNS": "200", "COHABIT_SNAPSHOTS": str(folder / "snapshots"), "COHABIT_CLUSTER": "shop"}
    return CliRunner().invoke(app, ["capacity", "what-if", *names, *words], env=environment)


def test_the_command_says_how_much_was_looked_at_and_what_each_change_does(tmp_path: Path) -> None:
    said = run(tmp_path, "--change", "grow:30", "--seconds", "6", "--publish", "--currency", "EUR")

    assert said.exit_code == 1, said.output
    assert "looked at 3 months, 2027-01 to 2027-03, and 1 path of demand" in said.output
    published = read_capacity_report(tmp_path / "snapshots", PublishedWhatIf)
    assert published is not None
    assert (published.cluster, published.unit, published.from_month) == ("shop", "EUR", "2027-01-01")
    assert [one.change for one in published.changes] == [UNCHANGED, "grow:30"]
    for one in published.changes:
        assert one.change in said.output
        assert f"{one.short:,}" in said.output
        assert one.outlay == sum(count * {"c32": 7_200, "g16": 24_000}[sku] for sku, count in one.machines.items())


def test_a_refused_change_ends_with_three(tmp_path: Path) -> None:
    assert run(tmp_path, "--change", "shrink:3").exit_code == 3
