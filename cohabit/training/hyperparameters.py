"""Searching: settings of the trainer tried on a lake, as a table, a sentence and a file."""

import json
from dataclasses import asdict
from math import isfinite
from pathlib import Path

from cohabit.training.tables import Sheet, with_range
from models.training.tuning import SPACE, Candidate, Found


def candidate_sheet(found: Found) -> Sheet:
    """Every candidate, the default first, then by their error on inner folds; blank where it was given up before."""
    ranked = sorted(range(1, len(found.candidates)), key=lambda k: _last(found.candidates[k].inner))
    rows: list[tuple[str, ...]] = [_row("default", found.candidates[0])]
    rows += [_row(str(k), found.candidates[k]) for k in ranked]
    return Sheet(
        "candidates: MAE of log slowdown on unseen apps; inner: minus the default's on the same folds",
        ("candidate", *SHORT.values(), *FIGURES),
        rows,
    )


SHORT = {
    "rounds": "rounds",
    "leaves": "leaves",
    "learning_rate": "rate",
    "min_rows_in_leaf": "rows",
    "huber_log_ratio": "huber",
    "tolerance": "tol.",
}
"""Settings by the heads of their columns."""
FIGURES = ("inner", "chosen", "outer")
"""`inner` is relative to the default on the same inner folds, so candidates dropped at different times compare."""


def verdict(found: Found) -> str:
    """Whether the default stands."""
    words = (
        "the default LOSES beyond luck: look at what was chosen"
        if found.default_loses
        else "the default stands: choosing is not better beyond luck"
    )
    return (
        f"on apps that no choice saw: default {with_range(found.default)}, chosen inside each fold "
        f"{with_range(found.nested)}, "
        f"gain {with_range(found.gain)}: {words}"
    )


def write_found(found: Found, path: Path) -> None:
    """The same as JSON; figures that are not there are null."""
    candidates = [
        {
            **{name: asdict(one.config)[name] for name in SPACE},
            "inner": _or_null(one.inner),
            "chosen": one.chosen,
            "outer": _or_null(one.outer),
        }
        for one in found.candidates
    ]
    figures = {name: asdict(getattr(found, name)) for name in ("default", "nested", "gain")}
    text = json.dumps({"candidates": candidates, **figures, "default_loses": found.default_loses}, indent=2)
    path.write_text(text + "\n")


def _row(name: str, one: Candidate) -> tuple[str, ...]:
    settings = (f"{asdict(one.config)[setting]:g}" for setting in SHORT)
    return name, *settings, _compared(one.inner), str(one.chosen or ""), _shown(one.outer)


def _shown(figure: float) -> str:
    return f"{figure:.4f}" if isfinite(figure) else ""


def _compared(figure: float) -> str:
    return f"{figure:+.4f}" if isfinite(figure) else ""


def _or_null(figure: float) -> float | None:
    return figure if isfinite(figure) else None


def _last(figure: float) -> tuple[bool, float]:
    return not isfinite(figure), figure
