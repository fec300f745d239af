"""Findings as tables and sentences, the same on the console and in a report. Kernel."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cohabit.terminal.options import FOLDS_DIFFER
from cohabit.training.evaluation import Answer, Findings, leak_words, mae
from models.evaluation.scorecard import APP_COVERAGE, HIGH_SLOWDOWN, best_baseline
from models.metrics.errors_and_ranks import Estimate
from models.training.trainer import OURS, Metrics


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table; all columns but the first are figures."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


PROMISED = 0.9
"""Share of cases that lie below a bound."""
AsText = Callable[[Estimate | None], str]
Cell = Callable[[Answer, AsText], str]


def sheets(found: Findings) -> list[Sheet]:
    """Errors, bounds and ranking with all intervals, a row for each question that has an answer."""
    return _sheets(found, with_range)


def narrow_sheets(found: Findings) -> list[Sheet]:
    """The same with the intervals of the foremost figures only: for a console, where the others would not fit."""
    return _sheets(found, brief)


def predictor_sheets(found: Findings) -> list[Sheet]:
    """For each question every predictor, ours first, then by error."""
    names = ("mae_log", "mape_ratio", "mae_log_high", "spearman", "regret_at_1")
    return [
        Sheet(
            f"{answer.asked.id}: {answer.asked.title}, splits: {len(answer.asked.question.splits)}",
            ("predictor", *names),
            [(who, *(with_range(metrics.get(name)) for name in names)) for who, metrics in _ranked(answer)],
        )
        for answer in found.answers.values()
        if answer.metrics and answer.asked.question is not None
    ]


def sentences(found: Findings) -> list[str]:
    """What is no table: the floor, how much is modelled, extrapolation, leaks, and what has no answer and why."""
    said = [_floor_words(found), _modelled_words(found)]
    if found.beyond_ratio is not None:
        said.append(beyond_words(found.beyond_ratio))
    said += [_own_words(found), leak_words(found.leak_ratio), FOLDS_DIFFER]
    return said + [
        f"{answer.asked.id} {answer.asked.title}: no answer: {answer.reason}"
        for answer in found.answers.values()
        if not answer.metrics
    ]


def enough_words(metrics: Mapping[str, Metrics], called: Mapping[str, str]) -> str:
    """Whether a model is good enough, and where it is not: no better than a baseline, or bounds that do not hold.

    Args:
        metrics: by question; of predictors, ours among them.
        called: what each question is called, up to a colon.
    """
    lacks = {called.get(name, name).partition(":")[0]: _lacking(found) for name, found in metrics.items()}
    good = [question for question, lacking in lacks.items() if not lacking]
    bad = [f"{question} ({'; '.join(lacking)})" for question, lacking in lacks.items() if lacking]
    said = [f"good enough for {', '.join(good)}"] * bool(good) + [f"not good enough for {', '.join(bad)}"] * bool(bad)
    return "; ".join(said)


def _lacking(metrics: Metrics) -> list[str]:
    ours, best = metrics[OURS], best_baseline(metrics)
    said = []
    if metrics[best]["mae_log"].value <= ours["mae_log"].value:
        said.append(f"no better than {best}")
    if (held := ours.get("coverage90")) is not None and held.high < PROMISED:
        said.append(f"bounds hold in {held.value:.2f} of cases, {PROMISED} is promised")
    return said


def beyond_words(ratio: float) -> str:
    """What the error beyond the learnt pressures, over that of models that saw such pressures elsewhere, says."""
    compared = f"{ratio:.2f} times that of models that saw such pressures, but on other nodes, on the same rows"
    if ratio < 1:
        return (
            f"denser packing: the error beyond the pressures learnt from is not larger, {compared}: those "
            "models never saw the node that they judge, so this does not say that such rows are easier"
        )
    return f"denser packing: the error beyond the pressures learnt from is {compared}"


def with_range(estimate: Estimate | None) -> str:
    """An estimate with its interval; nothing where there is none."""
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})" if estimate else ""


def brief(estimate: Estimate | None) -> str:
    """An estimate alone; nothing where there is none."""
    return f"{estimate.value:.3f}" if estimate else ""


def _sheets(found: Findings, as_text: AsText) -> list[Sheet]:
    answered = [answer for answer in found.answers.values() if answer.metrics]
    return [_sheet(title, columns, answered, as_text) for title, columns in SHEETS.items()]


def _sheet(title: str, columns: dict[str, Cell], answered: Sequence[Answer], as_text: AsText) -> Sheet:
    rows = [(f"{a.asked.id} {a.asked.title}", *(cell(a, as_text) for cell in columns.values())) for a in answered]
    return Sheet(title, ("question", *columns), rows)


def _foremost(metric: str) -> Cell:
    return lambda answer, _: with_range(answer.metrics[OURS].get(metric))


def _ours(metric: str) -> Cell:
    return lambda answer, as_text: as_text(answer.metrics[OURS].get(metric))


def _best(answer: Answer, _: AsText) -> str:
    name = best_baseline(answer.metrics)
    return f"{answer.metrics[name]['mae_log'].value:.3f} {name}"


def _best_regret(answer: Answer, _: AsText) -> str:
    regrets = [(m["regret_at_1"].value, n) for n, m in answer.metrics.items() if n != OURS and "regret_at_1" in m]
    return f"{min(regrets)[0]:.3f} {min(regrets)[1]}" if regrets else ""


SHEETS: dict[str, dict[str, Cell]] = {
    f"MAE of log slowdown, of all rows and of those from {HIGH_SLOWDOWN:.2f}, with 95 % intervals": {
        "rows": lambda answer, _: f"{len(answer.outcome.where):,}" if answer.outcome else "",
        "MAE": _foremost("mae_log"),
        "best baseline": _best,
        "skill": _ours("skill"),
        f"from {HIGH_SLOWDOWN:.2f}": _ours("mae_log_high"),
    },
    "bounds, 0.9 is promised": {
        "coverage": _foremost("coverage90"),
        "width": _ours("width"),
        "pinball": _ours("pinball90"),
        f"apps from {APP_COVERAGE:.0%}": _ours("apps_covered"),
        "worst tenth": _ours("worst_decile"),
        "chosen": _ours("coverage90_selected"),
        "x oracle": _ours("margin_vs_oracle"),
    },
    "ranking: regret on sets of candidates, and their mean size": {
        "rank corr.": _ours("spearman"),
        "regret at 1": _foremost("regret_at_1"),
        "best baseline": _best_regret,
        "sets": lambda answer, _: f"{answer.sets.count:,}",
        "size": lambda answer, _: f"{answer.sets.mean_size:.1f}",
    },
}
"""Title -> column -> cell."""


def _ranked(answer: Answer) -> list[tuple[str, dict[str, Estimate]]]:
    return sorted(answer.metrics.items(), key=lambda item: (item[0] != OURS, item[1]["mae_log"].value))


def _own_words(found: Findings) -> str:
    """Bounds of apps with own margins, and of bounds that follow labels."""
    ours = found.answers["S1"].metrics.get(OURS, {})
    if "coverage90_adapted" not in ours:
        return "bounds of tomorrow: unknown"
    own = ours.get("coverage90_own")
    warm = (
        f"{with_range(own)} of the rows of apps with an own margin are covered"
        if own
        else "no app has an own margin yet"
    )
    chosen = ours.get("coverage90_selected_adapted")
    among = "" if chosen is None else f", and {with_range(chosen)} on the chosen node by labels of chosen nodes alone"
    return (
        f"bounds of tomorrow: {warm}; bounds that follow labels an hour late (cohabit model recalibrate) cover "
        f"{with_range(ours['coverage90_adapted'])} of all rows at a width of {brief(ours['width_adapted'])}{among}"
    )


def _floor_words(found: Findings) -> str:
    if found.floor is None:
        return "noise floor: unknown, too few neighbouring windows of near-equal state"
    error = mae(found.answers["S1"])
    compared = "" if error is None else f"; tomorrow's error is {error / found.floor.if_normal:.2f} times the latter"
    return (
        f"noise floor, from {found.floor.pairs:,} pairs of windows that should have measured the same: no predictor's "
        f"MAE is below {found.floor.guaranteed:.3f}, nor below {found.floor.if_normal:.3f} if noise is normal{compared}"
    )


def _modelled_words(found: Findings) -> str:
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(found.modelled.by_kind.items()))
    return (
        f"modelled: {found.modelled.share:.1%} of {found.modelled.windows / 12:,.0f} container-hours are of apps "
        f"with a usable signal, the others count as undisturbed; labelled: {found.modelled.labelled:,} windows "
        f"(by signal: {kinds or 'none'})"
    )
