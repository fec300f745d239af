"""Report: gaps, intervals and nodes at equal violations, by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest

from cohabit.backtest.backtest_report import as_json, by_policy, figure, gap_at, interval, nodes_at_equal, worst_gap
from cohabit.backtest.closed_loop import Tally
from cohabit.backtest.run_backtest import sentence, waiting
from cohabit.backtest.study import BLIND, ORACLE, OURS, Findings, Plan, Ran

PLAN = Plan(nodes=100, seeds=2, levels=(0.7, 0.9))


def findings(**minutes: tuple[float, float]) -> Findings:
    """Violation-minutes by policy at both levels, the same for two seeds."""
    ran = [
        Ran(policy, seed, level, Tally(violation_minutes=told, ls_minutes=1000.0, used_nodes=50.0, intervals=1))
        for policy, levels in minutes.items()
        for level, told in enumerate(levels)
        for seed in (1, 2)
    ]
    return Findings("law", PLAN, {"spread": "a", "pack": "b"}, ran)


def four(ours: tuple[float, float], oracle: tuple[float, float]) -> Findings:
    also = {ORACLE: oracle, BLIND: ours}
    return findings(spread=(100.0, 200.0), pack=(140.0, 180.0), balanced=(150.0, 250.0), **{OURS: ours}, **also)


def test_the_gap_is_from_the_best_heuristic_of_each_level_to_the_oracle() -> None:
    found = four(ours=(40.0, 120.0), oracle=(20.0, 80.0))

    assert (gap_at(found, 0).heuristic, gap_at(found, 0).closed) == ("spread", 0.75)
    assert (gap_at(found, 1).heuristic, gap_at(found, 1).closed) == ("pack", 0.6)
    assert worst_gap([found]) == 0.6


def test_where_the_oracle_is_no_better_there_is_nothing_to_close() -> None:
    found = four(ours=(40.0, 120.0), oracle=(99.0, 80.0))

    assert np.isnan(gap_at(found, 0).closed)
    assert worst_gap([found]) == 0.6
    assert "nothing to close" in sentence(found, 0, gap_at(found, 0))
    assert sentence(found, 0, gap_at(found, 0)).endswith("spread 100, oracle 99, ours 40)")


def test_where_the_oracle_is_better_with_some_seeds_only_chance_may_have_made_the_gap() -> None:
    found = four(ours=(190.0, 120.0), oracle=(20.0, 80.0))
    ran = [
        replace(one, tally=replace(one.tally, violation_minutes=150.0))
        if (one.policy, one.level, one.seed) == (ORACLE, 0, 2)
        else one
        for one in found.ran
    ]

    assert np.isnan(gap_at(replace(found, ran=ran), 0).closed)
    assert gap_at(replace(found, ran=ran), 1).closed == 0.6


def test_where_there_is_nothing_to_close_and_ours_is_worse_the_sentence_says_take_the_heuristic() -> None:
    found = four(ours=(190.0, 120.0), oracle=(99.0, 80.0))

    assert sentence(found, 0, gap_at(found, 0)).endswith("ours 190): take spread")


def test_where_a_heuristic_is_as_good_the_sentence_says_take_it() -> None:
    found = four((120.0, 120.0), (20.0, 80.0))

    assert "spread is at least as good as ours" in sentence(found, 0, gap_at(found, 0))


def test_of_one_seed_no_interval_is_told() -> None:
    found = four((40.0, 120.0), (20.0, 80.0))
    alone = replace(found, plan=replace(PLAN, seeds=1), ran=[one for one in found.ran if one.seed == 1])

    assert " to 0.75) " in sentence(found, 0, gap_at(found, 0))
    assert sentence(alone, 0, gap_at(alone, 0)).startswith("70% requested: ours closes 0.75 of the gap")


def test_who_lets_containers_wait_is_named() -> None:
    found = four((40.0, 120.0), (20.0, 80.0))
    waited = [
        replace(one, tally=replace(one.tally, pending_minutes=30.0 * one.level)) if one.policy == "pack" else one
        for one in found.ran
    ]

    assert waiting(found) == ""
    assert waiting(replace(found, ran=waited)).endswith("pack 0 / 30")


def test_nodes_at_equal_violations_are_read_off_between_sizes() -> None:
    found = four(ours=(40.0, 160.0), oracle=(20.0, 80.0))

    assert PLAN.sizes() == (100, 78)
    assert nodes_at_equal(found, OURS) == pytest.approx(100 - 22 * 60 / 120)
    assert nodes_at_equal(found, "spread") == 100
    assert nodes_at_equal(found, ORACLE) == 78
    assert np.isnan(nodes_at_equal(found, "balanced"))


def test_intervals_are_student_s_over_seeds() -> None:
    mean, low, high = interval(np.array([11.0, 13.0]))

    assert mean == 12.0
    assert high - mean == pytest.approx(6.313752)
    assert mean - low == pytest.approx(high - mean)


def test_no_interval_of_what_is_never_below_0_reaches_below_it() -> None:
    assert interval(np.array([1.0, 3.0]))[1] == 0.0


def test_json_has_the_worst_gap_at_its_top_and_no_number_that_is_none() -> None:
    found = json.loads(json.dumps(as_json([four(ours=(40.0, 120.0), oracle=(99.0, 80.0))])))

    assert (found["laws"]["law"]["plan"]["nodes"], found["laws"]["law"]["plan"]["seeds"]) == (100, 2)

    assert found["gap_closed"] == 0.6
    text = json.dumps(found, allow_nan=False)
    assert json.loads(text)["policies"][OURS]["violation_minutes"] == 80.0
    assert "nodes_used_lo" in json.loads(text)["policies"][OURS]
    assert by_policy(four((40.0, 120.0), (20.0, 80.0)))[OURS]["violation_minutes_90"] == 120.0


def test_without_any_gap_there_is_no_worst_one() -> None:
    found = as_json([four(ours=(99.0, 179.0), oracle=(99.0, 179.0))])

    assert "gap_closed" not in found


def test_the_figure_names_who_it_shows() -> None:
    drawn = figure(four(ours=(40.0, 120.0), oracle=(20.0, 80.0)))

    assert all(name in drawn for name in (OURS, "pack", "balanced", ORACLE))
