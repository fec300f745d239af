"""Closed loop: what becomes of a cluster whose containers are placed by our advice, by heuristics, or by an oracle."""

import sys
from argparse import ArgumentParser, Namespace
from math import isfinite
from pathlib import Path

import numpy as np

from benchmarks.runner import TOP, Benchmark, Result
from cohabit.backtest.backtest_report import by_policy, gaps, over_laws, worst_gap
from cohabit.backtest.run_backtest import drivers_of, end_with_workers
from cohabit.backtest.study import Findings, Plan, study
from cohabit.config.errors import CohabitError


def run(arguments: Namespace, _: np.random.Generator) -> Result:
    """Figures by policy, law by law and over all laws, and at the top how much of each gap is closed."""
    if not (arguments.nodes >= 4 and 2 <= arguments.hours <= 2000 and min(arguments.seeds, arguments.jobs) >= 1):
        raise SystemExit("at least 4 nodes, 2 to 2000 hours, one seed and one process are needed")
    plan = Plan(arguments.nodes, arguments.hours, arguments.seeds, cells=arguments.cells)
    end_with_workers()
    try:
        drivers = drivers_of(arguments.law or (), arguments.compose or (), arguments.alone)
        done = [study(driver, plan, arguments.jobs, _tell) for driver in drivers]
    except CohabitError as error:
        raise SystemExit(str(error)) from error
    found = {policy: dict(figures) for policy, figures in over_laws(done).items()}
    for findings in done:
        for policy, figures in by_policy(findings).items():
            found.setdefault(policy, {}).update({f"{findings.name}_{name}": one for name, one in figures.items()})
    return {TOP: _top(done), **found}


def _top(done: list[Findings]) -> dict[str, float]:
    """The worst share of a gap closed, then that of each law and level where there is a gap."""
    top = {"gap_closed": worst_gap(done)}
    for findings in done:
        top |= {f"gap_closed_{findings.name}_{gap.level * 100:.0f}": gap.closed for gap in gaps(findings)}
    return {name: value for name, value in top.items() if isfinite(value)}


def _tell(what: str, done: int, total: int) -> None:
    print(f"{what} {done} of {total}", file=sys.stderr, flush=True)


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--law", action="append", help="a built-in law or a CSV of measured pairs; repeatable")
    parser.add_argument("--compose", action="append", help="how pairs of a CSV add up; repeatable, all when left out")
    parser.add_argument("--alone", type=Path, help="CSV of workload and numbers measured alone")
    parser.add_argument("--nodes", type=int, default=100, help="nodes of the largest cluster (100)")
    parser.add_argument("--hours", type=float, default=48.0, help="simulated hours (48)")
    parser.add_argument("--seeds", type=int, default=5, help="repetitions with other apps, histories and traces (5)")
    parser.add_argument("--cells", type=int, default=11, help="draws of cell compaction (11)")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once (2)")


BENCHMARK = Benchmark(
    "closed-loop",
    "violation-minutes under laws nobody is told, by our advice, tuned heuristics and an oracle",
    run,
    runs=1,
    add_arguments=_arguments,
)
