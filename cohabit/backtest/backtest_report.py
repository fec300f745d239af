"""Report: what a study found, as numbers for programs, a table for people, and a figure. Kernel."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from scipy.stats import t as student

from cohabit.backtest.closed_loop import Tally
from cohabit.backtest.scenario_cells import sufficient
from cohabit.backtest.sight import Floats
from cohabit.backtest.study import BLIND, ORACLE, OURS, Findings
from cohabit.terminal.svg_charts import Axis, Series, chart

INTERVAL = 0.9
DRAWS = 2000
LEAST_GAP = 0.02
"""Of the best heuristic's violation-minutes: where the oracle avoids less, there is nothing to close."""
Figures = dict[str, float]


@dataclass(frozen=True)
class Gap:
    """How much of the way from the best tuned heuristic to the oracle ours goes, at one size of the cluster.

    Args:
        level: share requested.
        heuristic: the best one there.
        closed: 1 is the oracle, 0 the heuristic; NaN where there is nothing to close.
        low: of its interval.
        high: of its interval.
    """

    level: float
    heuristic: str
    closed: float
    low: float
    high: float


def heuristics_of(findings: Findings) -> list[str]:
    """Policies that know no model and no law."""
    return [name for name in policies_of(findings) if name not in {OURS, BLIND, ORACLE}]


def policies_of(findings: Findings) -> list[str]:
    """Every policy, fewest violations first."""
    total = {
        name: sum(r.tally.violation_minutes for r in findings.ran if r.policy == name) for name in _names(findings)
    }
    return sorted(total, key=lambda name: total[name])


def _names(findings: Findings) -> set[str]:
    return {one.policy for one in findings.ran}


def values(findings: Findings, policy: str, level: int, of: Callable[[Tally], float]) -> Floats:
    """(seeds,) a figure of a policy at a level, by seed."""
    return np.array([of(r.tally) for r in findings.ran if (r.policy, r.level) == (policy, level)])


def violation_minutes(tally: Tally) -> float:
    """Of all LS containers."""
    return tally.violation_minutes


FIGURES: Mapping[str, Callable[[Tally], float]] = {
    "violation_minutes": violation_minutes,
    "violation_share": lambda tally: tally.violation_minutes / max(tally.ls_minutes, 1.0),
    "p99_slowdown": lambda tally: tally.quantile(0.99),
    "nodes_used": lambda tally: tally.used_nodes / max(tally.intervals, 1),
    "utilisation": lambda tally: tally.used_cores / max(tally.intervals, 1),
    "requested": lambda tally: tally.requested / max(tally.intervals, 1),
    "pending_minutes": lambda tally: tally.pending_minutes,
}
"""Figures reported of each policy at each level."""


def gap_at(findings: Findings, level: int) -> Gap:
    """The gap at a level; its interval by drawing seeds anew, the best heuristic staying the same.

    Where one draw in twenty leaves no gap, chance may have made what there is, and a share of it says nothing.
    """
    of = {name: values(findings, name, level, violation_minutes) for name in _names(findings)}
    best = min(heuristics_of(findings), key=lambda name: float(of[name].mean()))
    rng, count = np.random.default_rng(0), len(of[OURS])
    drawn = rng.integers(count, size=(DRAWS, count))
    again = np.array([_closed(of[best][rows], of[OURS][rows], of[ORACLE][rows]) for rows in drawn])
    known = np.isfinite(again)
    if known.mean() < (1 + INTERVAL) / 2:
        return Gap(findings.plan.levels[level], best, np.nan, np.nan, np.nan)
    low, high = np.quantile(again[known], [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2])
    closed = _closed(of[best], of[OURS], of[ORACLE])
    return Gap(findings.plan.levels[level], best, closed, float(low), float(high))


def _closed(best: Floats, ours: Floats, oracle: Floats) -> float:
    room = float(best.mean() - oracle.mean())
    return float(best.mean() - ours.mean()) / room if room > LEAST_GAP * float(best.mean()) else float("nan")


def gaps(findings: Findings) -> list[Gap]:
    """The gap at every level."""
    return [gap_at(findings, level) for level in range(len(findings.plan.levels))]


def worst_gap(all_findings: Sequence[Findings]) -> float:
    """The smallest share closed over laws and levels where there is something to close; NaN where there is nowhere."""
    closed = [gap.closed for findings in all_findings for gap in gaps(findings) if np.isfinite(gap.closed)]
    return min(closed, default=float("nan"))


def interval(found: Floats) -> tuple[float, float, float]:
    """Mean over seeds and the ends of its 90 % interval, by Student's t, of what is never below 0; of one seed none."""
    mean = float(found.mean())
    if len(found) < 2:
        return mean, mean, mean
    half = float(student.ppf((1 + INTERVAL) / 2, len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found)))
    return mean, max(mean - half, 0.0), mean + half


def nodes_at_equal(findings: Findings, policy: str) -> float:
    """How many nodes a policy needs for no more violations than the best heuristic has on all nodes.

    Between sizes violations are taken to change evenly. Where a policy has fewer even on the smallest cluster that was
    tried, that one's nodes, and it may need fewer; NaN where it has more even on the largest.
    """
    sizes, levels = findings.plan.sizes(), range(len(findings.plan.levels))
    best = min(float(values(findings, name, 0, violation_minutes).mean()) for name in heuristics_of(findings))
    found = np.array([values(findings, policy, level, violation_minutes).mean() for level in levels])
    rising = np.maximum.accumulate(found)
    if rising[0] > best:
        return float("nan")
    return float(np.interp(best, rising, sizes)) if rising[-1] > best else float(sizes[-1])


def by_policy(findings: Findings) -> dict[str, Figures]:
    """Figures of every policy: by level, and violation_minutes and nodes_used over all levels."""
    found: dict[str, Figures] = {}
    for name in policies_of(findings):
        mine = found.setdefault(name, {})
        for figure in ("violation_minutes", "nodes_used"):
            each = [values(findings, name, level, FIGURES[figure]) for level in range(len(findings.plan.levels))]
            _put(mine, figure, np.mean(each, axis=0))
        for level, share in enumerate(findings.plan.levels):
            for figure, of in FIGURES.items():
                _put(mine, f"{figure}_{share * 100:.0f}", values(findings, name, level, of))
        equal = nodes_at_equal(findings, name)
        if np.isfinite(equal):
            mine["nodes_at_equal_violations"] = equal
        if name in findings.cells and np.isfinite(share := sufficient(findings.cells[name])):
            mine["cell_share"] = share
    return found


def _put(figures: Figures, name: str, found: Floats) -> None:
    figures[name], figures[f"{name}_lo"], figures[f"{name}_hi"] = interval(found)


def as_json(all_findings: Sequence[Findings]) -> dict[str, object]:
    """Everything: the worst gap first, then law by law; what is not known is left out."""
    worst = worst_gap(all_findings)
    top: dict[str, object] = {"gap_closed": worst} if np.isfinite(worst) else {}
    laws = {findings.name: _law_json(findings) for findings in all_findings}
    return {**top, "policies": over_laws(all_findings), "laws": laws}


def over_laws(all_findings: Sequence[Findings]) -> dict[str, Figures]:
    """violation_minutes and nodes_used of each policy, means over laws and levels, with intervals over seeds."""
    found: dict[str, Figures] = {}
    for name in sorted(set.intersection(*(_names(findings) for findings in all_findings))):
        for figure in ("violation_minutes", "nodes_used"):
            each = [
                values(findings, name, level, FIGURES[figure])
                for findings in all_findings
                for level in range(len(findings.plan.levels))
            ]
            _put(found.setdefault(name, {}), figure, np.mean(each, axis=0))
    return found


def _law_json(findings: Findings) -> dict[str, object]:
    parts = [
        {"requested": gap.level, "best_heuristic": gap.heuristic}
        | ({"gap_closed": gap.closed, "lo": gap.low, "hi": gap.high} if np.isfinite(gap.closed) else {})
        for gap in gaps(findings)
    ]
    settings, plan = dict(findings.settings), asdict(findings.plan)
    return {"plan": plan, "gaps": parts, "settings": settings, "policies": by_policy(findings)}


def figure(findings: Findings) -> str:
    """SVG: share of LS container-minutes in violation by nodes: ours, the best heuristic, the default, the oracle."""
    gap = gap_at(findings, min(1, len(findings.plan.levels) - 1))
    shown = list(dict.fromkeys([OURS, gap.heuristic, "balanced", ORACLE]))
    return chart(
        f"Violations by number of nodes: {findings.name}",
        Axis("nodes for the same containers"),
        Axis("% of LS container-minutes", low=0.0),
        [_curve(findings, name) for name in shown],
    )


def _curve(findings: Findings, policy: str) -> Series:
    parts = [
        interval(100 * values(findings, policy, level, FIGURES["violation_share"]))
        for level in range(len(findings.plan.levels))
    ]
    sizes = [float(size) for size in findings.plan.sizes()]
    return Series(policy, sizes, [mean for mean, _, _ in parts], [(low, high) for _, low, high in parts], "line")
