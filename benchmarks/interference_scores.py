"""Interference scores: figures of every method on the same judged rows, and how far each is from ours.

Intervals resample clusters: groups of windows, victims of pairs. With fewer than FEWEST clusters, blocks of rows stand
in for them, since one cluster cannot tell how sure a figure is.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.runner import HIGH, LOW, OURS, Result
from models.metrics.errors_and_ranks import Estimate, Resamples, error_of_log, error_of_ratio, resamples_of, spearman
from models.metrics.ranking import CandidateSets, candidate_sets, regret_at_1

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FEWEST = 5
BLOCK = 10
RESAMPLES = 500
TINY = 1e-20
"""Variance that is nothing but rounding."""


@dataclass(frozen=True)
class Said:
    """What a method says of m judged rows, (m,) each in log slowdown.

    Args:
        log_mean: expectation.
        upper: bound.
        distance: how far from the rows learnt from, in limits, above 1 far; None where it is not told.
    """

    log_mean: Floats
    upper: Floats
    distance: Floats | None = None


@dataclass(frozen=True)
class Judged:
    """m rows that no method learnt from.

    Args:
        truth: (m,) measured log slowdown.
        cluster: (m,) what is independent of the rest.
        said: by method, ours among them.
        choice: (m,) rows of the same choice are alternatives; None where nothing is chosen.
    """

    truth: Floats
    cluster: Ints
    said: Mapping[str, Said]
    choice: Ints | None = None


def scores(judged: Judged, rng: np.random.Generator) -> Result:
    """Every figure of every method.

    Args:
        judged: the rows.
        rng: draws the resamples, the same ones for all methods.

    Returns:
        By method: r2_log, spearman, mape, mae_log, coverage90, width90 (median of bound over expectation), regret_at_1
        where there are choices, modelled_share (rows with a finite prediction), far_share (rows said to be like none
        learnt from) where it is told. Baselines also have mae_log_above_ours
        and r2_log_below_ours, positive where ours is better; their intervals are of the paired difference.

    Source: docs/accuracy.md; cluster bootstrap, Cameron et al., REStat 2008.
    """
    again = resamples_of(_clusters(judged.cluster), rng, RESAMPLES)
    ours = judged.said[OURS]
    found = {}
    for name, said in judged.said.items():
        figures = _figures(judged, said, again, rng)
        if name != OURS:
            figures |= _beside(judged.truth, said, ours, again)
        found[name] = figures
    return {name: _flat(figures) for name, figures in found.items()}


def r2(truth: Floats, predicted: Floats) -> float:
    """Share of the variance that is explained, (n,) and (n,); 0 where the truth does not vary."""
    variance = float(((truth - truth.mean()) ** 2).sum())
    return 1 - float(((truth - predicted) ** 2).sum()) / variance if variance > len(truth) * TINY else 0.0


def _figures(judged: Judged, said: Said, again: Resamples, rng: np.random.Generator) -> dict[str, Estimate]:
    truth, predicted = judged.truth, said.log_mean
    found = {
        "r2_log": again.each(lambda rows: r2(truth[rows], predicted[rows])),
        "spearman": again.each(lambda rows: spearman(truth[rows], predicted[rows])),
        "mape": again.mean(error_of_ratio(truth, predicted)),
        "mae_log": again.mean(error_of_log(truth, predicted)),
        "coverage90": again.mean((truth <= said.upper + 1e-12).astype(np.float64)),
        "width90": again.each(lambda rows: float(np.exp(np.median((said.upper - predicted)[rows])))),
        "modelled_share": again.mean(np.isfinite(predicted).astype(np.float64)),
    }
    if said.distance is not None:
        found["far_share"] = again.mean((said.distance > 1).astype(np.float64))
    sets = _sets(judged)
    if sets is not None and sets.count:
        by_set = resamples_of(np.arange(sets.count), rng, RESAMPLES)
        found["regret_at_1"] = by_set.mean(regret_at_1(sets, truth, predicted))
    return found


def _beside(truth: Floats, said: Said, ours: Said, again: Resamples) -> dict[str, Estimate]:
    theirs, own = said.log_mean, ours.log_mean
    return {
        "mae_log_above_ours": again.mean(error_of_log(truth, theirs) - error_of_log(truth, own)),
        "r2_log_below_ours": again.each(lambda rows: r2(truth[rows], own[rows]) - r2(truth[rows], theirs[rows])),
    }


def _sets(judged: Judged) -> CandidateSets | None:
    if judged.choice is None:
        return None
    return candidate_sets(judged.choice, np.arange(len(judged.choice)))


def _clusters(cluster: Ints) -> Ints:
    if len(np.unique(cluster)) >= FEWEST:
        return cluster
    return np.arange(len(cluster), dtype=np.int64) // max(1, min(BLOCK, len(cluster) // FEWEST))


def _flat(figures: Mapping[str, Estimate]) -> dict[str, float]:
    return {
        name + end: value for name, e in figures.items() for end, value in (("", e.value), (LOW, e.low), (HIGH, e.high))
    }
