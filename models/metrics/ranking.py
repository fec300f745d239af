"""Ranking: what a choice by predictions costs compared with the best choice there was. Kernel."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]


@dataclass(frozen=True)
class CandidateSets:
    """Decisions for which several nodes are on record.

    Args:
        row: (m,) row of each candidate.
        of: (m,) set of each candidate, 0..s-1, candidates of a set together.
    """

    row: NDArray[np.int64]
    of: NDArray[np.int64]

    @property
    def count(self) -> int:
        """How many sets."""
        return int(self.of[-1]) + 1 if len(self.of) else 0

    @property
    def mean_size(self) -> float:
        """Candidates in a set, on average; 0 without sets."""
        return len(self.of) / self.count if self.count else 0.0

    def first_rows(self) -> NDArray[np.int64]:
        """(s,) one row of each set."""
        return self.row[np.searchsorted(self.of, np.arange(self.count))]


def candidate_sets(decision: Ints, node: Ints) -> CandidateSets:
    """Rows of the same decision on at least two nodes.

    Args:
        decision: (n,) id of the app and window of each row.
        node: (n,) id of the node.

    Returns:
        The sets; empty where no decision has two nodes. Missing values are not allowed.

    Raises:
        Nothing.

    Source: ours, docs/evaluation.md.
    """
    names, place = np.unique(decision, return_inverse=True)
    pairs = np.unique(np.column_stack([place, node]), axis=0)
    several = np.bincount(pairs[:, 0], minlength=len(names)) > 1
    rows = np.flatnonzero(several[place])
    rows = rows[np.argsort(place[rows], kind="stable")]
    return CandidateSets(rows, np.unique(place[rows], return_inverse=True)[1].astype(np.int64))


def chosen_rows(sets: CandidateSets, predicted: Floats) -> NDArray[np.int64]:
    """The candidates predicted best, of equal ones each.

    Args:
        sets: candidates among n rows.
        predicted: (n,) any score that is lower for a better candidate.

    Returns:
        (c,) their rows, at least one a set. Missing values are not allowed.

    Raises:
        Nothing.

    Source: selection by prediction; the row that looks best is the most likely to be underrated, docs/evaluation.md.
    """
    if not sets.count:
        return np.zeros(0, np.int64)
    score = predicted[sets.row]
    return sets.row[score <= np.minimum.reduceat(score, np.searchsorted(sets.of, np.arange(sets.count)))[sets.of]]


def regret_at_1(sets: CandidateSets, truth: Floats, predicted: Floats) -> Floats:
    """What the candidate predicted best costs more than the one that was best.

    Args:
        sets: candidates among n rows.
        truth: (n,) log slowdown.
        predicted: (n,) any score that is lower for a better candidate; of equal ones each is chosen as often.

    Returns:
        (s,) true slowdown of the choice over the best one's, minus 1; 0 is perfect. Missing values are not allowed.

    Raises:
        Nothing.

    Source: regret of a ranking at its first place; docs/evaluation.md.
    """
    if not sets.count:
        return np.zeros(0)
    starts = np.searchsorted(sets.of, np.arange(sets.count))
    ratio, score = np.exp(truth[sets.row]), predicted[sets.row]
    chosen = score <= np.minimum.reduceat(score, starts)[sets.of]
    taken = np.add.reduceat(np.where(chosen, ratio, 0.0), starts) / np.add.reduceat(chosen.astype(np.int64), starts)
    regret: Floats = taken / np.minimum.reduceat(ratio, starts) - 1.0
    return regret
