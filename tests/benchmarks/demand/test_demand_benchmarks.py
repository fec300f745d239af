"""The benchmarks of demand: what is graded, that nothing graded is seen before, and figures by hand."""

import json
from argparse import ArgumentParser
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from benchmarks.demand import days
from benchmarks.demand.clusters import AHEAD, LAWS, cluster
from benchmarks.demand.forecast import Said, Window, _figures
from benchmarks.demand.peers import pool
from benchmarks.demand.series import SIMULATED, WEEK, files_of, measured, simulated
from benchmarks.runner import TOP, json_line


def written(folder: Path, hours: int) -> Path:
    start = datetime(2026, 3, 2, tzinfo=UTC)
    rows = [f"{start + timedelta(minutes=30 * at):%Y-%m-%dT%H:%M:%SZ},{at % 48 + 1}" for at in range(2 * hours)]
    (folder / "qps.csv").write_text("\n".join(["ts,value", *rows]) + "\n")
    return folder


def test_a_file_is_read_by_its_largest_value_of_each_hour_and_hours_without_rows_are_unknown(tmp_path: Path) -> None:
    lines = (written(tmp_path, 1000) / "qps.csv").read_text().splitlines()
    (tmp_path / "qps.csv").write_text("\n".join(lines[:3] + lines[5:]) + "\n")

    family = files_of(tmp_path, 48, 4)[0]

    assert family.seen[0, :3].tolist()[::2] == [2, 6]
    assert np.isnan(family.seen[0, 1])
    assert family.seen.shape == (1, 1000)


def test_a_line_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("ts,value\n2026-03-02T00:00:00Z,many\n")

    with pytest.raises(SystemExit, match=r"bad.csv:2: could not convert string to float: 'many'"):
        files_of(tmp_path, 48, 4)


def test_a_file_that_is_too_short_says_how_many_hours_it_needs(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="400 hours, 624 are needed"):
        files_of(written(tmp_path, 400), 48, 4)


def test_graded_windows_are_the_last_ones_and_do_not_overlap() -> None:
    family = measured("files", np.ones((1, 1000)), 48, 4)

    assert family.origins() == [808, 856, 904, 952]


def test_simulated_demand_is_seen_where_a_full_pool_shows_what_waits() -> None:
    family = simulated(np.random.default_rng(1), weeks=6, windows=2)

    known = np.isfinite(family.seen)
    assert family.seen.shape == (SIMULATED, 6 * WEEK)
    np.testing.assert_allclose(family.seen[known], family.true[known])
    assert 0.95 < known.mean() < 1.0
    assert (family.least[np.isfinite(family.least)] <= family.true[np.isfinite(family.least)] * (1 + 1e-9)).all()
    assert (family.factors > 1).any()


def test_the_pool_has_quantiles_of_the_same_hour_of_four_weeks() -> None:
    seen = np.repeat([9.0, 0.0, 1.0, 2.0, 3.0], WEEK)

    assert pool(seen, 2)[1].tolist() == [1.5, 1.5]


def test_figures_count_what_came_above_and_below() -> None:
    quantiles = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, 4.0]])
    window = Window(np.array([2.0, 5.0]), 1.0, 1.0, {"ours": Said(quantiles, 4.0)})

    found = _figures([window], "ours")

    assert found["cov90"] == 0.5
    assert found["peak_short"] == 1.0
    assert found["peak_over"] == pytest.approx(4 / 5 - 1)
    assert found["mase"] == pytest.approx(1.5)


@pytest.mark.parametrize("law", LAWS)
def test_a_cluster_is_full_when_its_capacity_is_reached_for_the_first_time(law: str) -> None:
    grown = cluster(law, np.random.default_rng(3))

    assert 1 <= grown.days <= AHEAD
    assert (grown.largest < grown.capacity).all()


def test_days_to_full_end_with_a_line_of_json() -> None:
    parser = ArgumentParser()
    days.add_arguments(parser)

    result = days.run(parser.parse_args(["--clusters", "4"]), np.random.default_rng(2))

    assert set(result[TOP]) == {"clusters", "held", "width"}
    assert {"ours", "line", "line_8_weeks"} <= set(result)
    assert json.loads(json_line(result))["clusters"] == 4
