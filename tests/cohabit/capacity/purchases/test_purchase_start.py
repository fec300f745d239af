"""Files to plan a purchase from: every pod and node of the lake is in them, or counted as left out."""

import csv
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from advisor.capacity.capacity_reports import PublishedPurchase, read_capacity_report
from cohabit.capacity.demand_series import demand_series
from cohabit.capacity.purchases.purchase_start import (
    FILES,
    MOST_SHAPES,
    Bearable,
    PurchaseStart,
    certain_growth,
    growth_paths,
    next_months,
    purchase_start,
    write_start,
)
from cohabit.cli.main import app
from cohabit.config.errors import CohabitError
from ingest.lake.tables import Lake
from tests.cohabit.capacity.cluster_days import Days, lake_of
from tests.cohabit.capacity.metered_weeks import END
from tests.cohabit.capacity.metered_weeks import lake_of as metered_lake

MONTHS = [date(2026, 4, 1), date(2026, 5, 1)]
GROWTH = np.array([[1.0, 1.5], [1.2, 2.0]])


def start_of(folder: Path, days: Days) -> PurchaseStart:
    return purchase_start(lake_of(folder / "lake", days), "c", days.end, MONTHS, GROWTH)


def rows_of(start: PurchaseStart, name: str) -> list[dict[str, object]]:
    return [dict(zip(FILES[name], row, strict=True)) for row in start.rows[name]]


@pytest.fixture(scope="module")
def requested(tmp_path_factory: pytest.TempPathFactory) -> PurchaseStart:
    return start_of(tmp_path_factory.mktemp("requested"), Days(nodes=4, days=1.0))


def test_pods_are_counted_by_request_and_class_and_grow_by_path_and_month(requested: PurchaseStart) -> None:
    found = {(row["path"], row["month"], row["prod"]): row["pods"] for row in rows_of(requested, "demand.csv")}

    assert found["p0", "2026-04", "yes"] == 12
    assert found["p0", "2026-05", "yes"] == 18
    assert found["p1", "2026-05", "no"] == 8
    assert (requested.pods, requested.by_use, requested.unknown) == (16, 0, 0)


def test_sizes_are_never_below_the_request(requested: PurchaseStart) -> None:
    row = rows_of(requested, "demand.csv")[0]

    assert (row["cpu_milli"], row["memory_mib"]) == (2_000, 3_840)
    assert 3_840 * 2**20 >= 4e9


def test_machines_are_what_the_scheduler_may_place_and_prices_are_left_to_fill_in(requested: PurchaseStart) -> None:
    (sku,) = rows_of(requested, "skus.csv")

    assert (sku["cpu_milli"], sku["memory_mib"], sku["price"], sku["lead_days"]) == (15_000, 61_035, "", "")
    assert [row["machines"] for row in rows_of(requested, "fleet.csv")] == [4]
    assert requested.nodes == 4


def test_a_known_cost_of_an_hour_becomes_a_price(tmp_path: Path) -> None:
    start = start_of(tmp_path, Days(nodes=2, days=1.0, described=(("cost_micros_per_hour", 400_000), ("sku", "m5"))))

    assert [(row["sku"], row["price"]) for row in rows_of(start, "skus.csv")] == [("m5 15x60Gi", 0.4 * 730 * 36)]


def test_pods_without_requests_count_by_what_their_app_uses(tmp_path: Path) -> None:
    start = start_of(tmp_path, Days(nodes=6, days=1.0, requests=False))

    assert (start.pods, start.by_use, start.unknown) == (0, 24, 0)
    assert all(0 < row["cpu_milli"] <= 15_000 for row in rows_of(start, "demand.csv"))  # type: ignore[operator]


def test_nodes_of_unknown_size_are_counted_and_alone_refused(tmp_path: Path) -> None:
    blank = (("cores", None), ("allocatable_cores", None))

    with pytest.raises(CohabitError, match=r"4 nodes of cluster c .* none with cores and memory"):
        start_of(tmp_path, Days(nodes=4, days=1.0, described=blank))


def test_another_cluster_is_refused_with_how_much_was_looked_at(tmp_path: Path) -> None:
    days = Days(nodes=2, days=1.0)

    with pytest.raises(CohabitError, match="0 nodes of cluster other"):
        purchase_start(lake_of(tmp_path / "lake", days), "other", days.end, MONTHS, GROWTH)


def test_files_are_written_once(requested: PurchaseStart, tmp_path: Path) -> None:
    written = write_start(tmp_path / "inputs", requested)

    assert [path.name for path in written] == list(FILES)
    with (tmp_path / "inputs" / "demand.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(requested.rows["demand.csv"]) <= 4 * MOST_SHAPES
    with pytest.raises(CohabitError, match="would be overwritten"):
        write_start(tmp_path / "inputs", requested)


def test_the_lake_is_only_read(tmp_path: Path) -> None:
    days = Days(nodes=2, days=1.0)
    lake: Lake = lake_of(tmp_path / "lake", days)
    before = sorted(path.name for path in (tmp_path / "lake").rglob("*"))

    purchase_start(lake, "c", days.end, MONTHS, GROWTH)

    assert sorted(path.name for path in (tmp_path / "lake").rglob("*")) == before


def test_growth_alone_compounds_until_the_end_of_each_month() -> None:
    months = next_months(date(2026, 12, 15), 13)

    found = certain_growth(date(2026, 12, 15), months, 0.2)

    assert months[0] == date(2027, 1, 1)
    assert months[-1] == date(2028, 1, 1)
    assert found.shape == (1, 13)
    assert found[0, 11] == pytest.approx(1.2, rel=0.01)
    assert (certain_growth(date(2026, 12, 15), months, 0.0) == 1.0).all()


def test_metered_weeks_give_paths_of_the_largest_hour_of_each_month(tmp_path: Path) -> None:
    past = demand_series(metered_lake(tmp_path / "lake", 8), "c", 365, "qos")
    months = next_months(END.date(), 2)

    found, doubled = (growth_paths(past, months, growth, 40) for growth in (0.0, 1.0))

    assert found.shape == (40, 2)
    assert (found > 0.5).all()
    assert (doubled[:, 1] > found[:, 1]).all()


def test_a_lake_without_metered_hours_gives_one_path_and_says_why(tmp_path: Path) -> None:
    lake_of(tmp_path / "lake", Days(nodes=2, days=1.0))
    environment = {"COHABIT_LAKE": str(tmp_path / "lake"), "COHABIT_CLUSTER": "c", "COLUMNS": "160"}
    words = ["capacity", "inputs", "--out", str(tmp_path / "inputs"), "--growth", "0.1"]

    unsigned = CliRunner().invoke(app, words, env=environment)
    said = CliRunner().invoke(app, [*words, "--signed-by", "eve"], env=environment)

    assert "--signed-by" in unsigned.output
    assert said.exit_code == 0
    assert "8 pods by request" in said.output
    assert "1 path over 6 months (no forecast: " in said.output
    assert "growth of +10% a year, says eve" in said.output


def test_files_of_a_lake_are_refused_until_prices_are_filled_in_and_then_planned_and_published(tmp_path: Path) -> None:
    lake_of(tmp_path / "lake", Days(nodes=2, days=1.0, described=(("zone", "a"),)))
    environment = {name: str(tmp_path / of) for name, of in (("COHABIT_LAKE", "lake"), ("COHABIT_SNAPSHOTS", "snap"))}
    environment |= {"COHABIT_CLUSTER": "c", "COLUMNS": "160"}
    inputs = tmp_path / "inputs"
    CliRunner().invoke(app, ["capacity", "inputs", "--out", str(inputs), "--months", "2"], env=environment)
    files = [
        word for name in ("skus", "racks", "fleet", "demand") for word in (f"--{name}", str(inputs / f"{name}.csv"))
    ]
    plan = ["capacity", "plan", *files, "--survive", "none", "--seconds", "2", "--publish"]

    blank = CliRunner().invoke(app, plan, env=environment)
    text = (inputs / "skus.csv").read_text()
    (inputs / "skus.csv").write_text(text.replace(",,36,,1", ",9000,36,30,1"))
    filled = CliRunner().invoke(app, plan, env=environment)

    assert "skus.csv:2, column price" in blank.output.replace("\n", "")
    assert filled.exit_code == 0, filled.output
    found = read_capacity_report(tmp_path / "snap", PublishedPurchase)
    assert found is not None
    assert found.packed
    assert [one.starts[8:] for one in found.periods] == ["01", "01"]
    assert found.periods[0].pods == 8


@pytest.mark.parametrize(("share", "cores"), [(0.25, 15_000), (0.1, 7_500), (0.001, 2_000)])
def test_cores_are_derated_by_what_pods_use_of_them_down_to_the_largest_pod(
    tmp_path: Path, share: float, cores: int
) -> None:
    """Pods use a fifth of what they request, so half of the cores in use are all cores requested."""
    days = Days(nodes=4, days=1.0)
    names = [f"{app}-n{node}" for app in (*days.apps, "batch") for node in range(days.nodes)]
    bearable = Bearable({"p": share}, dict.fromkeys(names, 0.4))

    start = purchase_start(lake_of(tmp_path / "lake", days), "c", days.end, MONTHS, GROWTH, bearable=bearable)

    (sku,) = rows_of(start, "skus.csv")
    assert sku["cpu_milli"] == cores
    assert str(sku["sku"]).endswith(" 15x60Gi"), "named by its whole size"


def test_a_derate_without_a_model_is_refused_with_what_is_missing(tmp_path: Path) -> None:
    lake_of(tmp_path / "lake", Days(nodes=2, days=1.0))
    environment = {name: str(tmp_path / of) for name, of in (("COHABIT_LAKE", "lake"), ("COHABIT_SNAPSHOTS", "none"))}
    words = ["capacity", "inputs", "--out", str(tmp_path / "out"), "--most-slowed", "0.1"]

    done = CliRunner().invoke(app, words, env=environment | {"COHABIT_CLUSTER": "c", "COLUMNS": "160"})

    assert done.exit_code == 1
    assert "--most-slowed 0.1: " in done.output
    assert not (tmp_path / "out").exists()
