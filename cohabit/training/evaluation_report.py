"""The report of an evaluation: tables in Markdown, and figures as SVG files."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cohabit.terminal.svg_charts import Axis, Series, chart
from cohabit.training.evaluation import Answer, Findings, Thoroughness
from cohabit.training.tables import Sheet, predictor_sheets, sentences, sheets
from models.evaluation.protocols import HIGH_PRESSURE
from models.evaluation.scorecard import APP_COVERAGE, LEVEL, app_coverage, best_baseline
from models.metrics.curves import Curve, curve, deciles_of
from models.metrics.errors_and_ranks import Resamples, error_of_log, resamples_of
from models.training.trainer import OURS, Outcome

Floats = NDArray[np.float64]
SLOWDOWNS = (1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)
"""Edges of bins of measured slowdown, ratios."""
PRESSURE_BINS = 12


def write_report(found: Findings, folder: Path, how: Thoroughness, seconds: float) -> Path:
    """Write `report.md` and its figures into a folder; earlier ones of the same names are replaced.

    Args:
        found: what came out.
        folder: made where it is not there.
        how: the effort that was spent.
        seconds: how long it took.

    Returns:
        The path of the report.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {name: figure(found) for name, (_, figure) in FIGURES.items()}
    for name, text in drawn.items():
        if text is not None:
            (folder / f"{name}.svg").write_text(text)
    parts = [_head(found, how, seconds), *(_markdown(sheet) for sheet in sheets(found)), "## Figures\n"]
    parts += [_shown(name, text) for name, text in drawn.items()]
    parts += ["## Every predictor\n", *(_markdown(sheet) for sheet in predictor_sheets(found))]
    path = folder / "report.md"
    path.write_text("\n".join(parts))
    return path


def reliability(found: Findings) -> str | None:
    """Predicted against measured slowdown, tenth by tenth of what was predicted."""
    series = []
    for name in ("S1", "S2"):
        answer = found.answers[name]
        if answer.outcome is not None:
            said = np.exp(answer.outcome.predicted[OURS])
            measured = np.exp(answer.outcome.rows.log_slowdown)
            series.append(
                _line(
                    answer.asked.title,
                    curve(said, measured, deciles_of(said), _again(answer, answer.outcome)),
                    "points",
                )
            )
    series = [one for one in series if one.x]
    if not series:
        return None
    ends = [min(min(s.x) for s in series), max(max(s.x) for s in series)]
    diagonal = Series("as predicted", ends, ends, kind="dashed")
    return chart(
        "Reliability: slowdown by tenth of the prediction",
        Axis("predicted slowdown, ratio"),
        Axis("measured slowdown, ratio"),
        [*series, diagonal],
    )


def error_by_slowdown(found: Findings) -> str | None:
    """Error of ours and of the best baseline, by how much rows were really slowed down."""
    answer = found.answers["S2"]
    if answer.outcome is None:
        return None
    truth, again = answer.outcome.rows.log_slowdown, _again(answer, answer.outcome)
    measured = np.exp(truth)
    bins = np.searchsorted(SLOWDOWNS, measured, side="right")
    lines = [
        _line(name, curve(measured, error_of_log(truth, answer.outcome.predicted[name]), bins, again))
        for name in (OURS, best_baseline(answer.metrics))
    ]
    if not any(line.x for line in lines):
        return None
    return chart(
        "Error by slowdown, unseen apps",
        Axis("measured slowdown, ratio"),
        Axis("MAE of log slowdown", low=0.0),
        lines,
    )


def coverage_by_app(found: Findings) -> str | None:
    """Share of each app's rows below the bound, worst app first, with what was promised."""
    answer = found.answers["S2"]
    if answer.outcome is None:
        return None
    kept = np.sort(app_coverage(answer.outcome)[1]).tolist()
    ends = [0.5, len(kept) + 0.5]
    return chart(
        "Coverage of the bound, app by app, unseen apps",
        Axis("app, worst first", low=0.4, high=len(kept) + 0.6),
        Axis("share of rows below the bound", high=1.0),
        [
            Series("apps", [float(k) for k in range(1, len(kept) + 1)], kept, kind="bars"),
            Series(f"promised {LEVEL:g}", ends, [LEVEL] * 2, kind="dashed"),
            Series(f"kept from {APP_COVERAGE:g}", ends, [APP_COVERAGE] * 2, kind="dashed"),
        ],
    )


def regret(found: Findings) -> str | None:
    """Regret of choosing by each predictor."""
    answer = found.answers["S2"]
    costs = [(who, m["regret_at_1"]) for who, m in answer.metrics.items() if "regret_at_1" in m]
    if not costs:
        return None
    costs.sort(key=lambda item: item[1].value)
    return chart(
        f"Regret at 1, unseen apps, {answer.sets.count:,} sets of {answer.sets.mean_size:.1f} candidates on average",
        Axis("predictor", names=[who for who, _ in costs]),
        Axis("slowdown of the choice over the best, minus 1"),
        [
            Series(
                "mean and 95 % interval",
                [float(k) for k in range(len(costs))],
                [cost.value for _, cost in costs],
                [(cost.low, cost.high) for _, cost in costs],
                kind="bars",
            )
        ],
    )


def extrapolation(found: Findings) -> str | None:
    """Error along total pressure, of models that saw all of it and of models that saw it up to an edge."""
    near, far = found.answers["S3"], found.answers["S6"]
    if near.outcome is None or far.outcome is None:
        return None
    pressure = found.keys.pressure
    edges = np.quantile(pressure, np.arange(1, PRESSURE_BINS) / PRESSURE_BINS)

    def line(name: str, answer: Answer, outcome: Outcome) -> Series:
        there = pressure[outcome.where]
        errors = error_of_log(outcome.rows.log_slowdown, outcome.predicted[OURS])
        bins = np.searchsorted(edges, there, side="right")
        return _line(name, curve(there, errors, bins, _again(answer, outcome)))

    lines = [line("all pressures seen", near, near.outcome), line("seen below the edge", far, far.outcome)]
    if not any(line.x for line in lines):
        return None
    edge = float(np.quantile(pressure, HIGH_PRESSURE))
    top = max(estimate for line in lines for _, estimate in line.spans)
    return chart(
        "Extrapolation: error beyond the pressures learnt from",
        Axis("total pressure of the neighbours, shares of the node"),
        Axis("MAE of log slowdown", low=0.0),
        [*lines, Series("edge", [edge] * 2, [0.0, top], kind="dashed")],
    )


FIGURES: dict[str, tuple[str, Callable[[Findings], str | None]]] = {
    "reliability": ("What was predicted and what was measured; on the dashed line both are equal.", reliability),
    "error_by_slowdown": ("Most rows are hardly slowed down; what counts is the right-hand side.", error_by_slowdown),
    "coverage_by_app": ("A bound that holds on average may fail one app always.", coverage_by_app),
    "regret": ("What a scheduler loses by choosing the node with the lowest prediction.", regret),
    "extrapolation": ("Denser packing than in history, compared with models that saw such nodes.", extrapolation),
}
"""What each figure shows, and how it is drawn; None where the data do not allow it."""


def _again(answer: Answer, outcome: Outcome) -> Resamples:
    """Resamples of the judged rows, the same at every drawing."""
    return resamples_of(answer.asked.cluster[outcome.where], np.random.default_rng(0))


def _line(name: str, of: Curve, kind: str = "line") -> Series:
    spans = [(e.low, e.high) for e in of.mean]
    return Series(name, of.at, [e.value for e in of.mean], spans, kind="points" if kind == "points" else "line")


def _head(found: Findings, how: Thoroughness, seconds: float) -> str:
    config, depth, rows = how.config, how.depth, len(found.keys.time)
    listed = "\n".join(f"- {sentence}" for sentence in sentences(found))
    return (
        f"# How far the placement model can be believed\n\n{rows:,} training rows of {len(found.apps)} apps. "
        f"Effort: {config.rounds} rounds, {config.folds} folds inside each training, {depth.app_folds} folds of apps, "
        f"{depth.folds} of other groups, up to {depth.origins} origins; {seconds:.0f} s. Terms: docs/evaluation.md.\n\n"
        f"{listed}\n\n{_worst(found)}\n"
    )


def _worst(found: Findings) -> str:
    """Names of the apps whose bound failed most often."""
    answer = found.answers["S2"]
    if answer.outcome is None:
        return ""
    codes, kept = app_coverage(answer.outcome)
    failed = [
        (share, found.apps[code]) for code, share in zip(codes, kept.tolist(), strict=True) if share < APP_COVERAGE
    ]
    names = ", ".join(f"{name} {share:.2f}" for share, name in sorted(failed))
    return f"Apps whose bound holds for less than {APP_COVERAGE:.0%} of their rows while unseen: {names or 'none'}."


def _markdown(sheet: Sheet) -> str:
    lines = [sheet.columns, tuple("---" if k == 0 else "---:" for k in range(len(sheet.columns))), *sheet.rows]
    return f"### {sheet.title}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _shown(name: str, drawn: str | None) -> str:
    words = FIGURES[name][0]
    return f"{words}\n\n![{words}]({name}.svg)\n" if drawn else f"{name}: the data do not allow this figure.\n"
