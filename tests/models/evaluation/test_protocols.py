"""Questions: every split leaves out what it says, and what the data do not allow has a reason."""

import numpy as np
import pyarrow as pa
import pytest

from features.schema.tables import TRAINING
from models.data.splits import axis_ends
from models.evaluation.protocols import HIGH_PRESSURE, RANDOMISED, Asked, Depth, combinations, protocol, read_keys

HOUR_US = 3_600_000_000
DEPTH = Depth(app_folds=3, folds=2, origins=2)


def training(
    count: int = 240, apps: int = 6, nodes: int = 4, platforms: int = 2, hours: float = 4.0, seed: int = 0
) -> pa.Table:
    """Rows of `training` of apps and nodes in turn, evenly over some hours; what is not named is null."""
    rng, i = np.random.default_rng(seed), np.arange(count)
    ends = (1_772_400_000_000_000 + (i + 1) * hours * HOUR_US / count).astype(np.int64)
    node = rng.integers(nodes, size=count)
    known: dict[str, object] = {
        "cluster": ["c"] * count,
        "node": [f"n{k}" for k in node],
        "window_end": ends,
        "as_of": ends - HOUR_US // 12,
        "container": [f"x{k}" for k in i],
        "app": [f"a{k}" for k in rng.integers(apps, size=count)],
        "qos": ["BE" if k else "LS" for k in rng.integers(2, size=count)],
        "platform": [f"p{k % platforms}" for k in node],
        "pressure_cpu": rng.random(count),
        "pressure_llc": rng.random(count),
        "demand_cpu": rng.random(count),
        "neighbours": np.full(count, 4.0),
        "neighbours_be": rng.integers(4, size=count).astype(np.float64),
    }
    columns = [pa.array(known[f.name]).cast(f.type) if f.name in known else pa.nulls(count, f.type) for f in SCHEMA]
    return pa.table(columns, schema=SCHEMA)


SCHEMA = TRAINING.schema


def asked(table: pa.Table) -> dict[str, Asked]:
    return {one.id: one for one in protocol(read_keys(table), DEPTH)}


@pytest.mark.parametrize(("question", "column"), [("S2", "app"), ("SC", "app"), ("S3", "node"), ("S4", "platform")])
def test_what_is_left_out_is_in_no_training_part(question: str, column: str) -> None:
    table = training()
    value = np.array(table[column].to_pylist())

    found = asked(table)[question].question

    assert found is not None
    assert np.sum([split.test for split in found.splits], axis=0).tolist() == [1] * table.num_rows
    for split in found.splits:
        assert not set(value[split.train]) & set(value[split.test])


def test_tomorrow_is_judged_after_an_embargo() -> None:
    table = training()
    end = np.array(table["window_end"].cast(pa.int64()))

    found = asked(table)["S1"].question

    assert found is not None
    assert len(found.splits) == 2
    assert all(end[s.test].min() - end[s.train].max() >= 600_000_000 for s in found.splits)


def test_denser_packing_is_judged_above_everything_learnt() -> None:
    table = training()
    pressure = read_keys(table).pressure

    found = asked(table)["S6"].question

    assert found is not None
    (split,) = found.splits
    assert pressure[split.test].min() > pressure[split.train].max()
    assert split.train.mean() == pytest.approx(HIGH_PRESSURE, abs=0.01)


def test_unseen_mixes_were_seen_apart_only() -> None:
    table = training()
    combination = combinations(table)

    found = asked(table)["S5"].question

    assert len(np.unique(combination)) > 4
    assert found is not None
    for split in found.splits:
        assert not set(combination[split.train]) & set(combination[split.test])


def test_random_rows_have_neighbours_on_both_sides() -> None:
    found = asked(training())["S0"].question

    assert found is not None
    assert np.sum([split.test for split in found.splits], axis=0).tolist() == [1] * 240


def test_only_flagged_rows_are_judged_as_random_choices() -> None:
    flags = np.arange(240) % 10 == 0
    table = training()

    without, found = asked(table)["S7"], asked(table.append_column(RANDOMISED, pa.array(flags)))["S7"]

    assert (without.question, without.reason.partition(":")[0]) == (None, "no randomised rows")
    assert found.question is not None
    assert found.question.splits[0].test.tolist() == flags.tolist()
    assert not (found.question.splits[0].train & flags).any()


@pytest.mark.parametrize(
    ("table", "unanswered"),
    [
        (training(apps=1, nodes=1, platforms=1), {"S2", "SC", "S3", "S4", "S7"}),
        (training(platforms=1), {"S4", "S7"}),
        (training(hours=0.01), {"S1", "S7"}),
    ],
    ids=["one app", "one platform", "half a minute"],
)
def test_what_the_data_do_not_allow_has_a_reason(table: pa.Table, unanswered: set[str]) -> None:
    found = asked(table)

    assert list(found) == ["S1", "S2", "SC", "S3", "S4", "S5", "S6", "S7", "S0"]
    assert {name for name, one in found.items() if one.question is None} == unanswered
    assert all(bool(one.reason) == (one.question is None) for one in found.values())


def test_rows_of_one_app_node_and_day_depend_on_each_other() -> None:
    found = asked(training(hours=48.0))

    days = read_keys(training(hours=48.0)).app_node_day
    assert np.array_equal(found["S1"].cluster, days)
    assert len(np.unique(days)) > len(np.unique(found["S2"].cluster)) == 6


def test_each_end_of_what_varies_most_is_left_out_in_turn() -> None:
    rng = np.random.default_rng(0)
    along = rng.normal(size=400)
    values = np.column_stack([along, along + 0.1 * rng.normal(size=400), rng.normal(size=400)])

    first, second, *others = axis_ends(values, axes=2, share=0.25)

    assert {float(np.sign(along[split.test].mean())) for split in (first, second)} == {-1.0, 1.0}
    assert all(90 <= split.test.sum() <= 110 and (split.train ^ split.test).all() for split in (first, second, *others))
    assert len(others) == 2
    assert axis_ends(np.ones((20, 2)), axes=2, share=0.25) == []
