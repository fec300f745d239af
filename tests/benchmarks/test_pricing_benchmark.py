"""The benchmark of prices: figures that are all there, and that are what they say."""

import json
import os
from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.interference_files import UnusableFile, read_pairs
from benchmarks.pricing import BENCHMARK, judge
from benchmarks.pricing_methods import Foretold
from benchmarks.pricing_scores import PROPORTIONAL, Priced, nodes_of, scores, shapley_deviation, shares_of
from benchmarks.runner import Result, main
from models.challengers.pair_model import Cells, PairConfig

SIZE = 5
QUICK = PairConfig(warm_up=30, draws=40)
VICTIM, AGGRESSOR = np.divmod(np.arange(SIZE * SIZE), SIZE)


def pairs_file(folder: Path, **changes: object) -> Path:
    rng = np.random.default_rng(0)
    greed, pain = rng.gamma(2.0, 0.3, (2, SIZE))
    table = pd.DataFrame({"victim": VICTIM, "aggressor": AGGRESSOR, "slowdown": 1 + pain[VICTIM] * greed[AGGRESSOR]})
    path = folder / "pairs.csv"
    table.assign(**changes).to_csv(path, index=False)
    return path


def measured(rng: np.random.Generator) -> Cells:
    return Cells(VICTIM, AGGRESSOR, np.log(rng.uniform(1.0, 2.0, SIZE * SIZE)))


def as_told(log_mean: np.ndarray) -> Foretold:
    return Foretold(log_mean, log_mean - 0.1)


def judged(folder: Path, **options: object) -> Result:
    """As the command, but for how long ours samples."""
    asked = Namespace(**{"file": pairs_file(folder), "alone": None, "leave_out": None, "repeats": 1} | options)
    rng = np.random.default_rng(0)
    return judge(read_pairs(asked), rng, QUICK, leave_out=asked.leave_out, repeats=asked.repeats)


def test_every_method_has_every_figure(tmp_path: Path) -> None:
    alone = tmp_path / "alone.csv"
    pd.DataFrame({"workload": range(SIZE), "cpu": np.arange(SIZE)}).to_csv(alone, index=False)

    found = judged(tmp_path, alone=alone)

    priced = {"ours", "additive", "nearest_profile", "one_slowdown", "rank_1"}
    assert set(found) == {*priced, PROPORTIONAL, "unadjusted"}
    for name in priced:
        assert {"price_error", "price_bias", "over_rebated_frac", "shapley_deviation"} <= set(found[name])
    assert found["ours"]["price_error"] < found["one_slowdown"]["price_error"] < found["unadjusted"]["price_error"]
    assert found["ours"]["shapley_deviation"] < found[PROPORTIONAL]["shapley_deviation"]
    assert found["unadjusted"]["rebated_share"] == 0


def test_workloads_that_are_left_out_are_judged_by_prices_alone(tmp_path: Path) -> None:
    found = judged(tmp_path, leave_out="victim")

    assert "price_error" in found["ours"]
    assert all("shapley_deviation" not in figures for figures in found.values())


def test_a_split_in_the_file_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = np.where(np.arange(SIZE * SIZE) % 6 == 0, "test", "train")

    main([BENCHMARK], ["pricing", "--pairs", str(pairs_file(tmp_path, split=held))])

    found = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert list(found) == ["ours", "additive", "one_slowdown", "rank_1", "unadjusted"]


def test_no_repeats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableFile, match="--repeats 0: 1 or more"):
        main([BENCHMARK], ["pricing", "--pairs", str(pairs_file(tmp_path)), "--repeats", "0"])


def test_a_price_is_wrong_by_what_the_slowdown_is_wrong() -> None:
    truth = np.log([2.0, 2.0])

    figures = scores([{"ours": Priced(truth, as_told(np.log([1.6, 2.5])))}], [])["ours"]

    assert figures["price_error"] == pytest.approx((0.25 + 0.2) / 2, abs=1e-6)
    assert figures["price_bias"] == pytest.approx((0.25 - 0.2) / 2, abs=1e-6)


def test_a_rebate_by_a_bound_above_the_slowdown_is_too_large_and_by_hardly_any_bound_there_is_none() -> None:
    truth, mean = np.log([2.0, 2.0, 2.0]), np.zeros(3)

    figures = scores([{"ours": Priced(truth, Foretold(mean, np.log([2.1, 1.5, 1.01])))}], [])["ours"]

    assert figures["over_rebated_frac"] == 0.5
    assert figures["rebated_share"] == pytest.approx((1 - 1 / 2.1 + 1 - 1 / 1.5) / 1.5, abs=1e-6)


def test_shares_are_what_half_of_each_pair_s_costs_makes() -> None:
    cells = measured(np.random.default_rng(0))
    node = next(node for node in nodes_of(cells, SIZE, 50, np.random.default_rng(1)) if len(node.base) == 4)
    ratio = np.exp(cells.log_slowdown)

    extra = np.where(node.pair >= 0, ratio[node.pair] - 1, 0.0) * node.base[:, None]

    assert shares_of(node, ratio) == pytest.approx(node.base + 0.5 * (extra.sum(axis=0) + extra.sum(axis=1)))


def test_who_knows_all_slowdowns_shares_as_shapley_does_and_proportional_shares_do_not() -> None:
    cells = measured(np.random.default_rng(0))
    nodes = nodes_of(cells, SIZE, 40, np.random.default_rng(1))
    nothing, wrong = np.zeros(SIZE * SIZE, np.bool_), np.full(SIZE * SIZE, np.log(1.5))
    says = {"knows": as_told(cells.log_slowdown), "guesses": as_told(wrong)}

    unseen = shapley_deviation(nodes, nothing, cells.log_slowdown, says)
    seen = shapley_deviation(nodes, ~nothing, cells.log_slowdown, says)

    assert unseen["knows"] == pytest.approx(0, abs=1e-12)
    assert 0.01 < unseen["guesses"].mean() < unseen[PROPORTIONAL].mean()
    assert seen["guesses"] == pytest.approx(0, abs=1e-12)


def test_nodes_hold_no_pair_that_was_not_measured() -> None:
    cells = measured(np.random.default_rng(0)).take(VICTIM != AGGRESSOR)

    nodes = nodes_of(cells, SIZE, 200, np.random.default_rng(0))

    assert 0 < len(nodes) < 200
    assert all((node.pair >= 0).sum() == len(node.base) * (len(node.base) - 1) for node in nodes)
    assert max(len(node.base) for node in nodes) <= SIZE


@pytest.mark.public_data
def test_simple_shares_of_measured_cpu_services_are_wrong_by_a_tenth_and_more() -> None:
    folder = os.environ.get("BENCH_DATA")
    if not folder:
        pytest.skip("set BENCH_DATA to the folder of public data")
    table = pd.read_csv(Path(folder) / "interference" / "pairs" / "fairco2.csv")
    codes, _ = pd.factorize(pd.concat([table["victim"], table["aggressor"]]), sort=True)
    victim, aggressor = np.split(codes.astype(np.int64), 2)
    cells = Cells(victim, aggressor, np.log(table["slowdown"].to_numpy()))
    nodes = nodes_of(cells, 10, 100, np.random.default_rng(0))

    found = shapley_deviation(nodes, np.ones(100, np.bool_), cells.log_slowdown, {})

    assert len(nodes) == 100
    assert found[PROPORTIONAL].mean() > 0.1
