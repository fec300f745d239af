"""Backtesting: studies of several laws, shown as tables, and written as JSON and figures. An edge."""

import json
import signal
import sys
from collections.abc import Sequence
from math import isfinite
from pathlib import Path

import numpy as np

from cohabit.backtest.backtest_report import (
    FIGURES,
    Gap,
    as_json,
    figure,
    gaps,
    interval,
    nodes_at_equal,
    policies_of,
    values,
    worst_gap,
)
from cohabit.backtest.scenario_cells import SHARE, sufficient
from cohabit.backtest.study import ORACLE, OURS, Driver, Findings, Plan, study
from cohabit.config.errors import CohabitError
from cohabit.terminal.console import bar, console, show_table
from ingest.simulator.laws import LAWS
from ingest.simulator.pair_law import COMPOSED

DEFAULT_LAWS = ("queueing", "threshold")
"""Two built-in laws of different form, neither of them what the models fit."""


def drivers_of(laws: Sequence[str], composes: Sequence[str], alone: Path | None) -> list[Driver]:
    """Laws by name or file, each file in every way to put pairs together.

    Raises:
        CohabitError: a name that is neither a law nor a file, or no such way.
    """
    unknown = [name for name in composes if name not in COMPOSED]
    if unknown:
        raise CohabitError(f"--compose {unknown[0]}: choose from {', '.join(COMPOSED)}")
    found: list[Driver] = []
    for law in laws or DEFAULT_LAWS:
        if law in LAWS:
            found.append(Driver(law))
        elif Path(law).is_file():
            solo_path = "" if alone is None else str(alone)
            found += [Driver(law, compose, solo_path) for compose in composes or COMPOSED]
        else:
            raise CohabitError(f"--law {law}: neither a file nor one of {', '.join(LAWS)}")
    if alone is not None and not alone.is_file():
        raise CohabitError(f"--alone {alone}: the file does not exist")
    return found


def end_with_workers() -> None:
    """Let SIGTERM end the processes of a study too, as Ctrl-C does."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def run_backtest(drivers: Sequence[Driver], plan: Plan, jobs: int, out: Path | None) -> float:
    """Study each law, show and write what was found; the worst share of a gap that was closed."""
    for driver in drivers:
        driver.world(1)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    names = [driver.name for driver in drivers]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CohabitError(f"--law: {twice[0]} is repeated, and figures have its name: rename one of the files")
    end_with_workers()
    done: list[Findings] = []
    for driver in drivers:
        with bar(driver.name) as shown:
            done.append(study(driver, plan, jobs, shown.advance))
        show(done[-1])
        if out is not None:
            write(done, out)
    worst = worst_gap(done)
    found = [gap for findings in done for gap in gaps(findings)]
    without = sum(not isfinite(gap.closed) for gap in found)
    counted = f", of {len(found) - without} of {len(found)} sizes; the others have no gap" if without else ""
    console.print(
        f"worst share of a gap closed: {worst:.2f}{counted}" if isfinite(worst) else "no gap to the oracle at any size"
    )
    return worst


def write(done: Sequence[Findings], out: Path) -> None:
    """backtest.json, and a figure for the newest law."""
    (out / "backtest.json").write_text(json.dumps(as_json(done), indent=1, allow_nan=False) + "\n")
    (out / f"{done[-1].name}.svg").write_text(figure(done[-1]))


def show(findings: Findings) -> None:
    """A row for each policy, and a sentence for each level."""
    sizes = findings.plan.sizes()
    columns = ["policy", *(f"{size} nodes" for size in sizes), "used", "p99", "equal at"]
    rows = [_row(findings, name) for name in policies_of(findings)]
    plan = findings.plan
    seeds = (
        f"{plan.seeds} seeds of {plan.hours:g} h" if plan.seeds > 1 else f"one seed of {plan.hours:g} h, no intervals"
    )
    show_table(f"{findings.name}: % of LS minutes in violation, {seeds}", columns, rows)
    console.print(
        f"used: nodes, of {sizes[0]}; p99: slowdown on {sizes[-1]}; equal at: nodes for the violations that the best "
        f"heuristic has on {sizes[0]}"
    )
    for level, gap in enumerate(gaps(findings)):
        console.print(sentence(findings, level, gap))
    if waited := waiting(findings):
        console.print(waited)
    if findings.cells:
        console.print(cell_sentence(findings))
    console.print("")


def _row(findings: Findings, name: str) -> list[str]:
    levels = range(len(findings.plan.levels))
    shares = [interval(100 * values(findings, name, level, FIGURES["violation_share"])) for level in levels]
    equal = nodes_at_equal(findings, name)
    return [
        name,
        *(f"{mean:.1f} ± {high - mean:.1f}" if findings.plan.seeds > 1 else f"{mean:.1f}" for mean, _, high in shares),
        f"{np.mean(values(findings, name, 0, FIGURES['nodes_used'])):.1f}",
        f"{np.mean(values(findings, name, levels[-1], FIGURES['p99_slowdown'])):.2f}",
        _equal(equal, findings.plan.sizes()),
    ]


def _equal(nodes: float, sizes: Sequence[int]) -> str:
    """Number of nodes for as few violations, or its bound."""
    if not isfinite(nodes):
        return f"over {sizes[0]}"
    return f"{nodes:.1f}" if nodes > sizes[-1] else f"at most {sizes[-1]}"


def waiting(findings: Findings) -> str:
    """Policies whose containers waited for a node: fewer placements mean fewer violations."""
    levels, clauses = range(len(findings.plan.levels)), list[str]()
    for name in policies_of(findings):
        minutes = [float(np.mean(values(findings, name, level, FIGURES["pending_minutes"]))) for level in levels]
        if any(minutes):
            clauses.append(f"{name} {' / '.join(f'{one:,.0f}' for one in minutes)}")
    return f"container-minutes of waiting for a node (not violations): {', '.join(clauses)}" if clauses else ""


def cell_sentence(findings: Findings) -> str:
    """How small a cell may be."""
    clauses = []
    for name, shares in findings.cells.items():
        found = sufficient(shares)
        clauses.append(f"{name} {found:.0%}" if isfinite(found) else f"{name} more than all")
    draws = len(next(iter(findings.cells.values())))
    default = "as few violations as the default policy has on all"
    return f"nodes that suffice for {default}, in {SHARE:.0%} of {draws} draws: {', '.join(clauses)}"


def sentence(findings: Findings, level: int, gap: Gap) -> str:
    """What a gap says."""
    at = f"{gap.level:.0%} requested: "
    if not isfinite(gap.closed):
        names = (gap.heuristic, ORACLE, OURS)
        minutes = [float(values(findings, name, level, FIGURES["violation_minutes"]).mean()) for name in names]
        clauses = ", ".join(f"{name} {one:,.0f}" for name, one in zip(names, minutes, strict=True))
        better = f": take {gap.heuristic}" if minutes[0] < minutes[2] else ""
        return f"{at}nothing to close between {gap.heuristic} and the oracle (violation-minutes: {clauses}){better}"
    if gap.closed <= 0:
        return f"{at}{gap.heuristic} is at least as good as ours ({gap.closed:.2f} of the gap): take it"
    closed = f"{gap.closed:.2f}" + (f" ({gap.low:.2f} to {gap.high:.2f})" if findings.plan.seeds > 1 else "")
    return f"{at}ours closes {closed} of the gap from {gap.heuristic} to the oracle"
