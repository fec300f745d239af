"""The command `model impact`: a table, plain sentences, and the same figures as JSON."""

import json
from dataclasses import asdict
from datetime import timedelta
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from cohabit.config.settings import Settings
from cohabit.terminal.console import console, show_table
from cohabit.terminal.locations import existing_lake

if TYPE_CHECKING:
    from cohabit.impact.estimate import Ledger
    from models.impact.ab_estimate import Interval

UNEVEN = 0.05
"""Arms of which so much or less is the chance to miss outcomes so differently."""
RELATED = 1.3
"""Errors that grow by more than this where pods an hour apart are taken for related are reported."""
MAX_SHOWN = 10_000_000


def run_worth(
    settings: Settings, *, lake: str | None, log: Path | None, horizon_minutes: float, limit: float, out: Path | None
) -> None:
    """See `cohabit model impact`."""
    from cohabit.impact.estimate import Rules, ledger
    from cohabit.impact.plan_savings import plans_worth, sentence_of
    from cohabit.server.workers import ADVISED

    opened, folder = existing_lake(settings, lake), log or settings.snapshots / ADVISED
    plans = plans_worth(settings)
    if plans is not None:
        console.print(sentence_of(plans))
    rules = Rules(timedelta(minutes=horizon_minutes), limit)
    with console.status("looking up what became of pods"):
        found = ledger(folder, opened, rules)
    show_table("pods", ("", "advised", "holdout"), arm_rows(found))
    show_table("violation-minutes avoided", ("", "estimate", "90 % interval"), effect_rows(found))
    for sentence in sentences(found):
        console.print(sentence)
    if out is not None:
        figures = as_figures(found) | ({} if plans is None else {"plans": asdict(plans)})
        out.write_text(json.dumps(figures, indent=2, allow_nan=False) + "\n")
        console.print(f"written: {out}")


def arm_rows(found: "Ledger") -> list[tuple[str, str, str]]:
    """What became of the pods of either arm."""
    arms = found.advised, found.holdout
    counts = [(fate, *(f"{arm.fates[fate]:,}" for arm in arms)) for fate in found.advised.fates]
    rows = [
        *counts,
        ("landed on the best node", *(f"{arm.complied:,}" for arm in arms)),
        ("violation-minutes each", *(f"{arm.outcome:.2f}" for arm in arms)),
        ("residents compared", *(f"{arm.compared:,} of {arm.residents:,}" for arm in arms)),
    ]
    return [(name, advised, holdout) for name, advised, holdout in rows]


def effect_rows(found: "Ledger") -> list[tuple[str, str, str]]:
    """What was avoided."""
    worth = found.worth
    return [
        ("for each pod advised", f"{worth.per_pod.value:.2f}", _between(worth.per_pod)),
        (f"for all {worth.advised:,.0f} of them", f"{worth.total.value:,.0f}", _between(worth.total)),
        ("for each that the advice moved", _estimate(worth.per_mover), _between(worth.per_mover)),
    ]


def _estimate(interval: "Interval") -> str:
    return f"{interval.value:.2f}" if isfinite(interval.low) else "unknown"


def _between(interval: "Interval") -> str:
    if not isfinite(interval.low):
        return "unbounded"
    return f"{interval.low:,.2f} to {interval.high:,.2f}"


def sentences(found: "Ledger") -> list[str]:
    """Sentences on the effect, its certainty, and what to doubt."""
    worth, minutes = found.worth, found.rules.windows * 5
    lines = [
        f"Minutes slower than {found.rules.limit:g} times normal in the {minutes} minutes after a start; the advice "
        f"moved {worth.moved:.0%} of pods to the node that it rated best.",
        _verdict(found),
    ]
    if not isfinite(worth.per_mover.low):
        lines.append("For each pod moved there are no bounds: it is not significant yet that the advice moves any.")
    if found.missing_chance < UNEVEN:
        lines.append(
            f"Careful: {found.advised.missing:,} of {found.advised.due:,} advised and {found.holdout.missing:,} of "
            f"{found.holdout.due:,} holdout pods have no outcome, which differs by more than chance "
            f"(p = {found.missing_chance:.2g}): the arms may no longer be alike."
        )
    if worth.serial_error > RELATED * worth.error:
        lines.append(
            f"Careful: pods act on each other more than the interval counts on; {worth.serial_error / worth.error:.1f} "
            "times as wide a one would be safe."
        )
    if found.outside:
        lines.append(f"{found.outside:,} pods were decided without a holdout and are left out.")
    return lines


def _verdict(found: "Ledger") -> str:
    worth = found.worth
    if worth.per_pod.low > 0:
        return "Following the advice avoids violation-minutes: the interval is above zero."
    if worth.per_pod.high < 0:
        costs = (
            "Following the advice costs violation-minutes: the interval is below zero. docs/impact.md says what to do."
        )
        if isfinite(worth.per_mover.low):
            return costs
        return (
            f"{costs} It is not significant that the advice moved any pod: chance, one such verdict in twenty, "
            f"may be why."
        )
    if not worth.more < MAX_SHOWN:
        return (
            "The interval holds zero, and so nearly does the estimate: if there is an effect, it is too small to "
            "measure."
        )
    return (
        f"The interval holds zero: not significant yet. Were the effect what is estimated, about {worth.more:,.0f} "
        f"more pods "
        "in the log would show it four times in five."
    )


def as_figures(found: "Ledger") -> dict[str, object]:
    """Everything as JSON has it; bounds that there are not are null."""
    worth = found.worth
    bare = {name: getattr(worth, name) for name in ("error", "serial_error", "advised", "moved", "more")}
    effects = {name: asdict(getattr(worth, name)) for name in ("per_pod", "total", "per_mover")}
    return {
        "horizon_minutes": found.rules.windows * 5,
        "limit": found.rules.limit,
        **{f"{name}_minutes_avoided": {k: _finite(v) for k, v in of.items()} for name, of in effects.items()},
        **{name: _finite(value) for name, value in bare.items()},
        "arms": {name: _arm(found, name) for name in ("advised", "holdout")},
        "outside": found.outside,
        "missing_chance": found.missing_chance,
    }


def _arm(found: "Ledger", name: str) -> dict[str, object]:
    fields = asdict(getattr(found, name))
    return {**fields, "outcome": _finite(fields["outcome"])}


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
