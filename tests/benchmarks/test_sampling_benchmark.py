"""The benchmark of sampling: models learn from the share that was drawn, and are judged on what is left out whole."""

from argparse import Namespace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.laws import simulated_world
from benchmarks.reading import everything, peak_mb, sample, write_many
from benchmarks.runner import OURS, json_line
from benchmarks.sampling import METHODS, ROW, at_random, by_strata, judged, run
from features.schema.tables import TABLES
from features.training.stratified_sample import PROPORTIONAL
from ingest.lake.tables import Lake
from ingest.simulator.simulate import Plan
from models.training.fit import TrainConfig

pytestmark = pytest.mark.long

PLAN = Plan(nodes=12, apps=6, per_node=4, hours=3.0, seed=2, law="threshold")
TINY = TrainConfig(rounds=10, spread_rounds=5, folds=2)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    return simulated_world(tmp_path_factory.mktemp("sampling"), PLAN).table


def numbered(table: pa.Table) -> pa.Table:
    return table.append_column(ROW, pa.array(np.arange(table.num_rows)))


def test_every_way_of_drawing_keeps_as_many_rows_that_stand_for_all(table: pa.Table) -> None:
    for pick in METHODS.values():
        picked = pick(numbered(table), 200, 3)

        assert len(np.unique(picked.rows)) == 200
        assert picked.factor.sum() == pytest.approx(table.num_rows)


def test_all_rows_are_judged_whatever_share_is_learnt_from(table: pa.Table) -> None:
    whole, half = (judged(table, share, by_strata(PROPORTIONAL), 0, TINY) for share in (1.0, 0.5))

    assert whole.keys() == half.keys() >= {"s1_mae", "s1_mae_harmed", "s2_mae", "s2_mae_harmed", "s2_covered"}
    assert whole["s1_mae"] != half["s1_mae"]
    assert half["s1_mae"] < 2 * whole["s1_mae"]
    assert judged(table, 1.0, at_random, 5, TINY) == whole


def test_many_rows_are_the_same_ones_later(table: pa.Table, tmp_path: Path) -> None:
    lake = Lake.open(tmp_path, TABLES)

    write_many(lake, table, 3 * table.num_rows)

    found = lake.read("training")
    assert found.num_rows == 3 * table.num_rows
    assert found["log_slowdown"].to_numpy().sum() == pytest.approx(3 * table["log_slowdown"].to_numpy().sum())


def test_a_sample_takes_less_memory_than_all_rows(table: pa.Table, tmp_path: Path) -> None:
    write_many(Lake.open(tmp_path, TABLES), table, 100_000)

    assert peak_mb(tmp_path, sample, 5_000) < peak_mb(tmp_path, everything, 5_000) - 50


def test_figures_are_there_for_every_size_with_intervals() -> None:
    cluster = {"law": "threshold", "nodes": 12, "per_node": 4, "apps": 6, "hours": 3.0}
    small = Namespace(**cluster, worlds=1, draws=1, shares=[0.2, 0.5], read_rows=5_000)

    found = run(small, np.random.default_rng(0))

    assert found.keys() == METHODS.keys()
    for figures in found.values():
        for name in ("s2_mae_harmed_20", "s2_mae_harmed_50_above", "s1_mae_100"):
            assert figures[f"{name}_lo"] <= figures[name] <= figures[f"{name}_hi"]
    assert found[OURS]["read_everything_mb"] > 0
    assert json_line(found)
