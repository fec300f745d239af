"""The benchmark of right-sizing: baselines follow their sources, and truth stays with the judge."""

from argparse import Namespace
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import rightsize
from benchmarks.observed_use import Watcher
from benchmarks.request_rules import percentile_98, vpa_bytes, vpa_cores
from benchmarks.rightsize import ACCOUNTED, _trace, recommended
from benchmarks.rightsize_figures import Cell, summed
from benchmarks.runner import OURS
from cohabit.backtest.closed_loop import run as run_loop
from cohabit.backtest.policies import DEFAULT
from cohabit.backtest.world import built_in_world

PLAN = Namespace(
    nodes=3, days=0.2, next_days=0.1, interval_s=300.0, risk=0.3, seeds=1, law=["threshold"], use=ACCOUNTED
)
SMALL = Namespace(**(vars(PLAN) | {"use": "counted"}))


def test_vpa_takes_the_end_of_the_bucket_of_the_90th_percentile_and_a_margin() -> None:
    cores = np.repeat([0.5, 2.0], [95, 5])
    edges = 0.01 * (1.05 ** np.arange(80) - 1) / 0.05

    end = edges[edges > 0.5].min()
    assert vpa_cores(cores, np.zeros(100)) == pytest.approx(1.15 * end)
    assert 0.5 <= end <= 0.55


def test_vpa_forgets_by_half_in_a_day_and_keeps_its_floors() -> None:
    old_and_new, time_s = np.repeat([4.0, 1.0], 100), np.repeat([0.0, 4 * 86_400.0], 100)

    assert vpa_cores(old_and_new, time_s) < 1.3
    assert vpa_cores(old_and_new, np.zeros(200)) > 4.0
    assert vpa_cores(np.full(9, 1e-4), np.zeros(9)) == 0.025
    assert vpa_bytes(np.ones(9), np.zeros(9)) == 250 * 2.0**20


def test_the_98th_percentile_is_of_all_use() -> None:
    assert percentile_98(np.arange(101.0)) == 98.0


def watched(*, accounted: bool) -> Watcher:
    world = built_in_world("threshold", 1)
    watcher = Watcher(world, 300.0, accounted, np.random.default_rng(1))
    rng = np.random.default_rng(2)
    run_loop(world, _trace(world, PLAN, PLAN.days, rng), PLAN.nodes, DEFAULT, rng=rng, observe=watcher.see)
    return watcher


def test_recommendations_do_not_change_with_the_truth_that_the_judge_keeps() -> None:
    watcher = watched(accounted=True)
    first, apps = recommended(watcher.world, watcher, 0.3)
    watcher.true_cores = [9.0 * cores for cores in watcher.true_cores]
    watcher.true_slowdown = [one + 1.0 for one in watcher.true_slowdown]
    world = watcher.world
    other = replace(world, law=replace(world.law, gain=7.0))  # type: ignore[type-var]

    again, same = recommended(other, watcher, 0.3)

    assert apps == same
    assert apps
    assert {rule: of.tolist() for rule, of in first.items()} == {rule: of.tolist() for rule, of in again.items()}


def test_use_that_is_accounted_hides_demand_of_apps_behind_limits_and_queues() -> None:
    counted, accounted = watched(accounted=False), watched(accounted=True)

    assert not len(counted.hidden_apps())
    assert len(accounted.hidden_apps())
    shares = []
    for one, two in zip(counted.samples, accounted.samples, strict=True):
        hidden = np.isin(one["app"], accounted.hidden_apps())
        shares += (two["cpu_cores"] / one["cpu_cores"])[hidden].tolist()
    assert max(shares) <= 1.0 + 1e-9
    assert min(shares) < 0.95


def test_a_rule_is_scaled_until_it_covers_as_many_apps_as_ours() -> None:
    figures = dict.fromkeys(("violation_minutes", "pending_minutes", "beyond_request_share", "unsized_apps"), 0.0)
    figures |= {"saved_cores_share": 0.5, "saved_memory_share": 0.0, "ls_minutes": 1.0}
    none = np.zeros(2, np.bool_)
    ours, short = Cell(figures, np.array([0.9, 1.0]), none), Cell(figures, np.array([1.0, 1.2]), none)

    found = summed([short], [ours])

    assert found["covered_slowed_share"] == 0.5
    assert found["saved_cores_share_at_our_cover"] == pytest.approx(1.0 - 1.2 * 0.5)


def test_every_rule_has_the_same_figures() -> None:
    result = rightsize.run(SMALL, np.random.default_rng(0))

    rules = {rule: set(figures) for rule, figures in result.items() if rule}
    assert set(rules) == {OURS, "vpa", "p98", "present"}
    assert all(names == rules[OURS] for names in rules.values())
    assert result["present"]["saved_cores_share"] == 0.0
