"""Samples of training rows: who is kept, what the kept stand for, and that neither depends on who draws."""

from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from features.columnar.hashing import row_hashes
from features.jobs.spark.stratified_reader import draw_with_spark, measured_with_spark
from features.schema.errors import FeaturesError
from features.schema.tables import TABLES, TRAINING
from features.training.diagnosis_rows import STATE_COLUMNS
from features.training.sample_reader import Sample, draw_local, measured_in, rows_there
from features.training.stratified_sample import (
    BETWEEN,
    EVEN,
    PROPORTIONAL,
    Draw,
    chosen,
    chosen_of,
    draw_of,
    in_order,
    quotas,
    strata_of,
    tally,
    total,
    weighted,
)
from ingest.lake.tables import Lake
from tests.features.rows import at

ROWS = 3000


def training(count: int = ROWS, seed: int = 0) -> pa.Table:
    """Windows of three apps, one of them rare, mostly calm."""
    rng = np.random.default_rng(seed)
    numbers = np.arange(count)
    columns: dict[str, object] = {
        "cluster": ["c"] * count,
        "node": [f"n{number % 10}" for number in numbers],
        "window_end": [at(300 * (1 + int(number) // 50)) for number in numbers],
        "container": [f"c{number % 50}" for number in numbers],
        "app": rng.choice(["common", "web", "rare"], count, p=[0.8, 0.19, 0.01]),
        "as_of": [at(300 * (int(number) // 50)) for number in numbers],
        "pressure_cpu": rng.uniform(0, 1.2, count),
        "log_slowdown": rng.exponential(0.1, count),
        "weight": rng.integers(1, 11, count).astype(float),
    }
    return pa.table(
        [pa.array(columns.get(f.name, [None] * count), f.type) for f in TRAINING.schema], schema=TRAINING.schema
    )


WHOLE = training()


def drawn(rows: pa.Table, max_rows: int, power: float = BETWEEN, seed: int = 0) -> tuple[Draw, pa.Table]:
    draw = draw_of(tally(rows), max_rows, power=power, seed=seed)
    return draw, in_order(weighted(chosen(rows, draw), draw))


def keys(rows: pa.Table) -> set[int]:
    return set(row_hashes(rows, 0).tolist())


sizes = st.lists(st.integers(1, 5000), min_size=1, max_size=40).map(np.array)
powers = st.sampled_from([EVEN, BETWEEN, PROPORTIONAL, 0.3])


def test_small_strata_are_kept_whole_and_large_ones_share_what_is_left() -> None:
    assert quotas(np.array([2, 5, 100, 1000]), 107, EVEN).tolist() == [2, 5, 50, 50]
    assert quotas(np.array([4, 16, 100, 10000]), 68, BETWEEN).tolist() == [2, 3, 6, 57]
    assert quotas(np.array([10, 100, 1000]), 111, PROPORTIONAL).tolist() == [1, 10, 100]


@given(rows=st.lists(st.integers(1, 60), min_size=1, max_size=8).map(np.array), power=powers, data=st.data())
def test_quotas_are_those_of_handing_out_one_row_after_the_other(
    rows: np.ndarray, power: float, data: st.DataObject
) -> None:
    most = data.draw(st.integers(len(rows), int(rows.sum())))
    kept = np.ones(len(rows), np.int64)
    while kept.sum() < most:
        kept[np.where(kept < rows, kept / rows.astype(float) ** power, np.inf).argmin()] += 1

    assert quotas(rows, most, power).tolist() == kept.tolist()


@given(rows=sizes, power=powers, data=st.data())
def test_quotas_add_up_to_what_is_asked_for_and_leave_nobody_out(
    rows: np.ndarray, power: float, data: st.DataObject
) -> None:
    most = data.draw(st.integers(len(rows), int(rows.sum()) + 10))

    kept = quotas(rows, most, power)

    assert kept.sum() == min(most, rows.sum())
    assert ((kept >= 1) & (kept <= rows)).all()


@given(rows=sizes, power=powers, data=st.data())
def test_asking_for_more_rows_gives_no_stratum_fewer(rows: np.ndarray, power: float, data: st.DataObject) -> None:
    most = data.draw(st.integers(len(rows), int(rows.sum())))

    assert (quotas(rows, most + 1, power) >= quotas(rows, most, power)).all()


def test_fewer_rows_than_strata_are_refused_with_the_number_to_ask_for() -> None:
    with pytest.raises(FeaturesError, match="ask for 3 rows at least"):
        quotas(np.array([5, 5, 5]), 2, EVEN)


def test_a_row_is_in_the_stratum_of_its_app_its_slowdown_and_its_largest_pressure() -> None:
    rows = training(4).set_column(
        TRAINING.schema.names.index("log_slowdown"), "log_slowdown", pa.array(np.log([1.05, 1.1, 1.3, 2.0]))
    )
    pressed = pa.array([None, 0.2, 0.7, 0.1], pa.float64())
    rows = rows.set_column(rows.column_names.index("pressure_cpu"), "pressure_cpu", pressed)
    rows = rows.set_column(rows.column_names.index("pressure_net"), "pressure_net", pa.array([None, 0.1, 0.1, 1.0]))

    found = strata_of(rows)

    assert found["slowdown_band"].to_pylist() == [0, 1, 2, 3]
    assert found["pressure_band"].to_pylist() == [0, 0, 1, 2]
    assert found["app"].to_pylist() == rows["app"].to_pylist()


@given(seed=st.integers(0, 100), most=st.integers(60, ROWS), power=powers)
def test_every_stratum_sends_its_quota_and_its_weight_stands_for_all_its_rows(
    seed: int, most: int, power: float
) -> None:
    one = pa.array(np.ones(ROWS))
    rows = WHOLE.set_column(WHOLE.column_names.index("weight"), "weight", one)

    draw, kept = drawn(rows, most, power, seed)

    assert tally(kept)["rows"].to_pylist() == draw.kept.tolist()
    stands_for = pa.table(
        {**dict(zip(("cluster", "app", "s", "p"), strata_of(kept).columns, strict=True)), "w": kept["weight"]}
    )
    totals = stands_for.group_by(["cluster", "app", "s", "p"]).aggregate([("w", "sum")])
    ordered = totals.sort_by([(name, "ascending") for name in ("cluster", "app", "s", "p")])
    assert ordered["w_sum"].to_numpy() == pytest.approx(draw.rows)


@pytest.mark.parametrize("power", [EVEN, BETWEEN, PROPORTIONAL])
def test_over_many_seeds_weighted_totals_are_those_of_all_rows(power: float) -> None:
    def slowed(rows: pa.Table) -> float:
        return float(rows["weight"].to_numpy() @ np.expm1(rows["log_slowdown"].to_numpy()))

    found = np.array([slowed(drawn(WHOLE, 300, power, seed)[1]) for seed in range(200)])

    error = found.std() / np.sqrt(len(found))
    assert abs(found.mean() - slowed(WHOLE)) < 3 * error
    assert found.std() < 0.1 * slowed(WHOLE)


def test_the_lower_the_power_the_more_is_kept_of_what_is_rare() -> None:
    rare = {
        power: drawn(WHOLE, 300, power)[1]["app"].to_pylist().count("rare") for power in (EVEN, BETWEEN, PROPORTIONAL)
    }

    assert rare[EVEN] > rare[BETWEEN] > rare[PROPORTIONAL] >= 1


@given(data=st.data(), most=st.integers(60, 500), power=powers)
def test_order_and_parts_make_no_difference(data: st.DataObject, most: int, power: float) -> None:
    draw, whole = drawn(WHOLE, most, power)
    mixed = WHOLE.take(pa.array(np.random.default_rng(data.draw(st.integers(0, 99))).permutation(ROWS)))
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, ROWS), max_size=8))), ROWS]
    parts = [mixed.slice(a, b - a) for a, b in pairwise(cuts)]

    again = draw_of(total(map(tally, parts)), most, power=power)

    assert again.strata.equals(draw.strata)
    assert in_order(weighted(chosen_of(parts, again), again)).equals(whole)


@given(small=st.integers(60, 1000), more=st.integers(0, 1000), power=powers)
def test_a_larger_sample_holds_the_smaller_one(small: int, more: int, power: float) -> None:
    few, many = drawn(WHOLE, small, power)[1], drawn(WHOLE, small + more, power)[1]

    assert keys(few) <= keys(many)
    assert few.num_rows == small


def test_tallies_of_many_parts_add_up_however_many_there_are() -> None:
    parts = [WHOLE.slice(start, 100) for start in range(0, ROWS, 100)]

    found = total(map(tally, parts), max_held=50)

    assert found.equals(tally(WHOLE))
    assert total([]).num_rows == 0


def test_another_seed_keeps_other_rows() -> None:
    first, second = (keys(drawn(WHOLE, 300, PROPORTIONAL, seed)[1]) for seed in (0, 1))

    assert len(first & second) < 100


def test_hashes_tell_every_part_of_the_key_and_nothing_else() -> None:
    base = {"cluster": "c", "node": "n", "window_end": at(300), "container": "a"}
    others = [
        {**base, "cluster": "d"},
        {**base, "node": "m"},
        {**base, "window_end": at(600)},
        {**base, "container": "b"},
    ]
    swapped = {**base, "node": "a", "container": "n"}

    found = row_hashes(pa.Table.from_pylist([base, base, *others, swapped]), 7)

    assert found[0] == found[1]
    assert len(set(found.tolist())) == 6
    assert row_hashes(pa.Table.from_pylist([base]), 8)[0] != found[0]


def test_hashes_are_uniform_and_do_not_follow_time_or_container() -> None:
    place = (row_hashes(WHOLE, 0) >> np.uint64(11)) * 2.0**-53
    number = np.arange(ROWS)

    assert np.histogram(place, 10, (0, 1))[0] == pytest.approx(ROWS / 10, rel=0.25)
    assert abs(np.corrcoef(place, number)[0, 1]) < 0.06
    assert abs(np.corrcoef(place, number % 50)[0, 1]) < 0.06


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Training rows written twice, the second time only the later half, and minutes of some of their windows."""
    lake = Lake.open(tmp_path_factory.mktemp("lake"), TABLES)
    end = at(300 * (ROWS // 50) + 1)
    lake.replace("training", at(0), end, "features", training(seed=1))
    half = at(300 * 30)
    lake.replace(
        "training", half, end, "features", WHOLE.filter(pc.greater_equal(WHOLE["window_end"], pa.scalar(half)))
    )
    lake.replace("node_state", at(0), end, "features", minutes())
    lake.replace("contention", at(0), end, "features", contention())
    return lake


def minutes() -> pa.Table:
    """Five minutes of every window."""
    windows = WHOLE.select(["cluster", "node", "container", "window_end"]).to_pylist()
    rows = [
        {**row, "window_end": end, "arrived_at": end, "samples": 2, "run_delay_frac": back / 1000}
        for row in windows
        for back in range(5)
        for end in [row["window_end"] - timedelta(minutes=back)]
    ]
    return pa.Table.from_pylist(rows, schema=TABLES["node_state"].schema)


def contention() -> pa.Table:
    """Every window."""
    windows = WHOLE.select(["cluster", "node", "container", "window_end"]).to_pylist()
    rows = [
        {**row, "window_start": start, "minutes": 5, "samples": 10, "arrived_at": row["window_end"]}
        for row in windows
        for start in [row["window_end"] - timedelta(minutes=5)]
    ]
    return pa.Table.from_pylist(rows, schema=TABLES["contention"].schema)


def test_a_lake_is_sampled_piece_by_piece_as_a_table_is_in_one(lake: Lake) -> None:
    draw, expected = drawn(lake.read("training"), 400, PROPORTIONAL)

    found = draw_local(lake, 400, power=PROPORTIONAL)

    assert found.draw is not None
    assert found.draw.strata.equals(draw.strata)
    assert found.rows.equals(expected)


def test_a_lake_of_no_more_rows_is_read_whole_and_nothing_is_weighted(lake: Lake) -> None:
    assert rows_there(lake) == ROWS

    found = draw_local(lake, ROWS, power=PROPORTIONAL)

    assert found == Sample(lake.read("training"))
    assert found.rows.num_rows == ROWS


def test_spark_keeps_the_rows_that_one_process_keeps(spark: SparkSession, lake: Lake) -> None:
    here = draw_local(lake, 400, power=BETWEEN, seed=3)

    there = draw_with_spark(spark, lake, 400, power=BETWEEN, seed=3)

    assert here.draw is not None
    assert there.draw is not None
    assert there.draw.strata.equals(here.draw.strata)
    assert there.rows.equals(here.rows)


def test_of_other_tables_only_what_was_measured_in_the_windows_is_read(spark: SparkSession, lake: Lake) -> None:
    windows = draw_local(lake, 100, power=PROPORTIONAL).rows
    order = [(name, "ascending") for name in ("window_end", "container")]

    here = measured_in(lake, windows, STATE_COLUMNS)
    there = measured_with_spark(spark, lake, windows, STATE_COLUMNS)

    assert here.contention.num_rows == 100
    assert here.state.num_rows == 500
    assert keys(here.contention) == keys(windows)
    for name in ("contention", "state"):
        left, right = (getattr(found, name).sort_by(order).combine_chunks() for found in (here, there))
        assert right.cast(left.schema).equals(left)


def test_pieces_of_a_table_are_its_rows(lake: Lake, tmp_path: Path) -> None:
    whole = lake.read("training")

    pieces = pa.concat_tables(lake.pieces("training"))

    assert in_order(pieces).equals(whole)
    assert pa.concat_tables(lake.pieces("training", ["app"]))["app"].to_pylist().count("rare") == whole[
        "app"
    ].to_pylist().count("rare")
    assert list(Lake.open(tmp_path, TABLES).pieces("training")) == []
