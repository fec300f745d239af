"""The benchmark of laws: truth of each window, choices as the law judges them, and figures that are all there."""

from argparse import ArgumentTypeError

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.choices import CANDIDATES, CROWDING, draw_choices
from benchmarks.cold import ANY, FILLED, less
from benchmarks.laws import WITH_TREES, World, judged, share, simulated_world, true_of
from benchmarks.runner import OURS
from cohabit.ingestion.simulation import TRUTH
from features.schema.catalog import RAW_NAMES
from ingest.schema.tables import TIMESTAMP
from ingest.simulator.simulate import Plan
from models.training.fit import TrainConfig

PLAN = Plan(nodes=6, apps=6, per_node=8, hours=2.0, seed=2, law="threshold")
MINUTE_US = 60_000_000
EMPTY, CROWDED = (0.0, 0.0), (2.0, 2.0)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return simulated_world(tmp_path_factory.mktemp("law"), PLAN)


def test_the_truth_of_a_window_is_the_mean_of_its_intervals() -> None:
    ts = pa.array([k * MINUTE_US for k in (1, 5, 6, 5)], TIMESTAMP)
    truth = pa.table([ts, ["a", "a", "a", "b"], [1.0, 3.0, 5.0, 7.0]], schema=TRUTH)
    ends = pa.array([k * MINUTE_US for k in (5, 10, 5)], TIMESTAMP)

    found = true_of(pa.table({"container": ["a", "a", "b"], "window_end": ends}), truth)

    assert np.exp(found) == pytest.approx([2.0, 5.0, 7.0])


def test_the_truth_before_a_window_is_that_of_the_window_before_or_unknown() -> None:
    ts = pa.array([k * MINUTE_US for k in (1, 5, 6)], TIMESTAMP)
    truth = pa.table([ts, ["a", "a", "a"], [1.0, 3.0, 5.0]], schema=TRUTH)
    ends = pa.array([k * MINUTE_US for k in (5, 10, 15, 15)], TIMESTAMP)

    found = true_of(pa.table({"container": ["a", "a", "a", "b"], "window_end": ends}), truth, windows_before=1)

    assert np.exp(found[1:3]) == pytest.approx([2.0, 5.0])
    assert np.isnan(found[[0, 3]]).all()


def test_every_row_has_a_truth_that_its_label_follows(world: World) -> None:
    label = world.table["log_slowdown"].to_numpy()

    told = np.isfinite(world.truth)  # a node whose clock is wrong tells of windows that never were
    assert told.mean() > 0.95
    assert (world.truth[told] >= 0).all()
    assert np.corrcoef(world.truth[told], label[told])[0, 1] > 0.5


def test_on_empty_nodes_nobody_is_slowed_down_and_on_crowded_ones_everybody(world: World) -> None:
    def drawn(crowding: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
        found = draw_choices(world.lake, PLAN, np.arange(6), crowding=crowding, count=3, rng=np.random.default_rng(0))
        assert np.bincount(found.decision).tolist() == [CANDIDATES] * 3
        return found.log_slowdown, found.raw[:, RAW_NAMES.index("neighbours")]

    empty, crowded = drawn(EMPTY), drawn(CROWDED)

    assert (empty[0] == 0).all()
    assert (empty[1] == 0).all()
    assert (crowded[1] == 16).all()
    assert np.mean(crowded[0]) > 0.05


def test_figures_are_there_for_ours_and_for_what_stands_beside_it(world: World) -> None:
    found = judged(world, np.random.default_rng(0), TrainConfig(rounds=20, spread_rounds=10, folds=2))

    beside = {"s1_vs_floor", "s1_vs_foresight", "s2_vs_best_baseline", "s6_vs_in_range"}
    assert beside | {"modelled_share"} <= found[OURS].keys()
    for suffix in ("warm", "unseen", "cold"):
        named = (
            "coverage90",
            "coverage90_selected",
            "apps_covered",
            "width_vs_oracle",
            "margin_vs_oracle",
            "own_share",
        )
        assert {f"{name}_{suffix}" for name in named} <= found[OURS].keys()
        assert 0.5 < found[OURS][f"coverage90_selected_{suffix}"] <= 1
        assert found[OURS][f"width_vs_oracle_{suffix}"] > 0
    assert found[OURS]["own_share_unseen"] == 0
    regrets = {f"regret_at_1_100{suffix}" for suffix in CROWDING}
    for who in (OURS, WITH_TREES, "sum_of_pressure", "least_cpu", "random"):
        assert {*regrets, *(f"{name}_seen" for name in regrets)} <= found[who].keys()
    assert found[OURS]["regret_at_1_100_seen"] < found["random"]["regret_at_1_100_seen"]
    assert all(np.isfinite(value) for figures in found.values() for value in figures.values())
    assert found[OURS]["regret_at_1_100"] < found["random"]["regret_at_1_100"]
    assert found["sum_of_pressure"].keys() >= {"s1_mae", "s2_mae", "s6_mae"}
    for who in (OURS, FILLED, ANY):
        assert {"sc_mae", *(f"{name}_cold" for name in regrets)} <= found[who].keys()
    for who in (FILLED, ANY):
        low, middle, high = (found[OURS][f"sc_less_than_{who}{end}"] for end in ("_lo", "", "_hi"))
        assert low <= middle <= high
        assert middle == pytest.approx(1 - found[OURS]["sc_mae"] / found[who]["sc_mae"])


def test_a_loss_that_is_half_of_anothers_in_every_app_is_half_in_every_resample() -> None:
    other, app = np.array([1.0, 2.0, 4.0]), np.array([0, 0, 7])

    found = less("x", other / 2, other, app, rng=np.random.default_rng(0))

    assert found == pytest.approx({"x": 0.5, "x_lo": 0.5, "x_hi": 0.5})


@pytest.mark.parametrize("text", ["-0.1", "1.5", "nan"])
def test_a_share_outside_0_to_1_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="from 0 to 1"):
        share(text)
