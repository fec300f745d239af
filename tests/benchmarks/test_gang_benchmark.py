"""The benchmark of gangs: every figure of its lines, and the worst of each at the end."""

import json

import pytest

from benchmarks.gang import BENCHMARK, Line, worst
from benchmarks.runner import main


def test_the_worst_of_a_figure_is_the_largest_but_for_rates() -> None:
    lines = [Line({}, {"p99_ms": 2.0, "grants_per_s": 9.0}), Line({}, {"p99_ms": 3.0, "grants_per_s": 8.0})]

    assert worst(lines) == {"p99_ms": 3.0, "grants_per_s": 8.0}


def test_gangs_in_racks_are_compared_with_the_best_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    main([BENCHMARK], ["gang", "--scenario", "rack", "--draws", "4", "--nodes", "640", "--asked", "2"])

    *lines, last = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [line["scenario"] for line in lines] == ["rack"] * 8
    assert (last["joint_infeasible"], last["cost_over_optimal"] < 0.2, last["p99_ms"] > 0) == (0.0, True, True)
