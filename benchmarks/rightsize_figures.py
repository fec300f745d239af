"""Figures of right-sizing: means over runs with 95 % intervals by resampling runs, and ours minus the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.runner import HIGH, LOW, OURS

Floats = NDArray[np.float64]
RESAMPLES = 2000
MEANS = (
    *("saved_cores_share", "saved_memory_share", "violation_minutes", "pending_minutes", "beyond_request_share"),
    "unsized_apps",
)
COMPARED = ("saved_cores_share", "violation_minutes")


@dataclass(frozen=True)
class Cell:
    """One rule in one run.

    Args:
        figures: sums and shares.
        needed: of each app that neighbours slowed, P95 of its true demand over the rule's request; covered up to 1.
        hidden: of these, those whose use hid demand.
    """

    figures: Mapping[str, float]
    needed: Floats
    hidden: NDArray[np.bool_]


def summed(cells: Sequence[Cell], ours: Sequence[Cell]) -> dict[str, float]:
    """Figures of one rule.

    Args:
        cells: its runs.
        ours: our own, for the saving that it would have if all its requests were raised until it covered as many apps.
    """
    drawn = draws(len(cells))
    figures: dict[str, float] = {}
    for name in MEANS:
        values = np.array([cell.figures[name] for cell in cells])
        figures |= _interval(name, float(values.mean()), values[drawn].mean(axis=1))
    violated, total = (np.array([cell.figures[name] for cell in cells]) for name in ("violation_minutes", "ls_minutes"))
    figures |= _interval(
        "violation_share", float(violated.sum() / total.sum()), violated[drawn].sum(axis=1) / total[drawn].sum(axis=1)
    )
    figures |= _cover("covered_slowed_share", [cell.needed for cell in cells], drawn)
    figures |= _cover("covered_hidden_share", [cell.needed[cell.hidden] for cell in cells], drawn)
    saved = np.array([cell.figures["saved_cores_share"] for cell in cells])
    factor = _factor(cells, ours)
    scaled = 1.0 - factor * (1.0 - saved)
    figures |= _interval("saved_cores_share_at_our_cover", float(scaled.mean()), scaled[drawn].mean(axis=1))
    return figures | {"slowed_apps": float(sum(len(cell.needed) for cell in cells))}


def against(found: Mapping[str, Sequence[Cell]]) -> dict[str, float]:
    """Ours minus each other rule, run by run, with 95 % intervals."""
    figures: dict[str, float] = {}
    drawn = draws(len(found[OURS]))
    for rule in found:
        for name in COMPARED if rule != OURS else ():
            pairs = zip(found[OURS], found[rule], strict=True)
            apart = np.array([a.figures[name] - b.figures[name] for a, b in pairs])
            low, high = np.quantile(apart[drawn].mean(axis=1), [0.025, 0.975])
            key = f"{name}_minus_{rule}"
            figures |= {key: float(apart.mean()), f"{key}_low": float(low), f"{key}_high": float(high)}
    return figures | {"runs": float(len(found[OURS]))}


def draws(count: int) -> NDArray[np.int64]:
    """(RESAMPLES, count) runs, drawn with replacement."""
    return np.random.default_rng(0).integers(count, size=(RESAMPLES, count))


def _factor(cells: Sequence[Cell], ours: Sequence[Cell]) -> float:
    """By which requests are multiplied so that as large a share of slowed apps is covered as by ours; 1 at least."""
    needed = np.concatenate([cell.needed for cell in cells])
    if not len(needed):
        return 1.0
    cover = float((np.concatenate([cell.needed for cell in ours]) <= 1.0).mean())
    return max(1.0, float(np.quantile(needed, cover, method="higher")))


def _cover(name: str, needed: Sequence[Floats], drawn: NDArray[np.int64]) -> dict[str, float]:
    covered, count = (np.array(values) for values in ([(n <= 1.0).sum() for n in needed], [len(n) for n in needed]))
    if not count.sum():
        return {}
    of = covered[drawn].sum(axis=1) / np.maximum(count[drawn].sum(axis=1), 1)
    return _interval(name, float(covered.sum() / count.sum()), of)


def _interval(name: str, value: float, drawn: Floats) -> dict[str, float]:
    low, high = np.quantile(drawn, [0.025, 0.975])
    return {name: value, name + LOW: float(low), name + HIGH: float(high)}
