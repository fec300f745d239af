"""Plan scale: drawn clusters are legal, and the benchmark tells what it promises."""

from argparse import Namespace

import numpy as np
import pytest

from advisor.optimizer.constraints import wrongs
from advisor.optimizer.objective import cost
from advisor.optimizer.search.search import compile_kernels
from benchmarks.reassign.plan_scale import GOOD, PLAN_SCALE, drawn, planned, run
from benchmarks.runner import OURS, main


def test_a_drawn_cluster_is_legal_and_leaves_something_to_improve() -> None:
    problem = drawn(100, np.random.default_rng(1))

    assert (problem.nodes, problem.containers, problem.columns) == (100, 3000, 12)
    assert not wrongs(problem, problem.start)
    assert cost(problem, problem.start).total > 10


def test_a_plan_is_legal_and_costs_what_it_says() -> None:
    problem = drawn(100, np.random.default_rng(1))
    compile_kernels()  # else it would take all of the time

    found = planned(problem, 1, 3.0)  # other tests run at the same time

    assert not wrongs(problem, found.plan.place)
    assert found.left == cost(problem, found.plan.place).total / cost(problem, problem.start).total < 1.0


@pytest.mark.long
def test_the_benchmark_tells_when_there_was_a_first_plan_and_a_good_one() -> None:
    of = Namespace(nodes=400, seed=1, first_ms=4000)  # other tests run at the same time

    figures = run(of, np.random.default_rng(0))[OURS]

    assert list(figures)[:4] == ["first_plan_s", "good_plan_s", "growth_x10", "rss_mb"]
    assert 0 < figures["good_left"] <= GOOD
    assert 0 < figures["first_left"] < 1


@pytest.mark.parametrize("option", ["--nodes=99", "--nodes=many", "--seed=-1"])
def test_what_cannot_be_asked_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([PLAN_SCALE], ["plan-scale", option])

    assert option.split("=", maxsplit=1)[0] in capsys.readouterr().err
