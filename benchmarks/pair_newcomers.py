"""Pair newcomers: workloads with few pairs in a role, by tables and hidden properties, weighed on others like them.

Where few pairs are measured, random pairs left out say little about a workload that hardly any pair is known of. Other
workloads are therefore taken back to as few pairs, in turn, and the parts weighed by their errors there and by what the
choice they lead to costs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from benchmarks.pair_baselines import Seen, additive, nearest_profile
from benchmarks.pair_blend import stretch
from benchmarks.pair_product import fit_own_product
from models.challengers.pair_model import Cells, PairConfig, PairPrediction, fit_pairs
from models.metrics.ranking import candidate_sets, regret_at_1

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Role = Callable[[Cells], Ints]
FEW_CELLS = 200
"""With more pairs measured, hidden properties are ahead of every table."""
FEW_SHARE = 0.75
"""Of the usual number of pairs: who has more in a role is no newcomer there."""
MOST_FOLDS = 5
PRIOR = np.array([0.4, 0.2, 0.2, 0.2])
"""Shares of hidden properties, product, main effects and nearest profile, which many pairs may overrule."""
PULL = 30
"""So many pairs left out weigh as much as the prior."""
STEPS = 5
"""Shares that are tried are multiples of one over this."""
SMALLEST_MARGIN = 1e-3


@dataclass(frozen=True)
class Newcomers:
    """Who is asked about with few pairs known: in which role, and how many pairs each has at most."""

    role: Role
    probes: int


def victim_of(cells: Cells) -> Ints:
    """(n,) who is slowed down."""
    return cells.victim


def aggressor_of(cells: Cells) -> Ints:
    """(n,) who presses."""
    return cells.aggressor


def newcomers(cells: Cells, asked: Cells) -> Newcomers | None:
    """The role in which all asked pairs have a newcomer, with at most FEW_SHARE of the usual number of pairs.

    Args:
        cells: measured pairs.
        asked: pairs; their labels are not looked at.

    Returns:
        None where there is no such role, too few others to compare with, or where many pairs are measured.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0073-far-rows.md.
    """
    for role in (aggressor_of, victim_of):
        count = np.bincount(role(cells), minlength=1 + int(role(asked).max()))
        probes, usual = int(count[role(asked)].max()), float(np.median(count[count > 0]))
        if probes <= FEW_SHARE * usual and (count > probes).sum() > 2 and len(cells.victim) < FEW_CELLS:
            return Newcomers(role, probes)
    return None


def predict_newcomers(
    cells: Cells, about: tuple[Floats, Floats], asked: Cells, new: Newcomers, rng: np.random.Generator
) -> PairPrediction:
    """What asked pairs of newcomers will measure.

    Args:
        cells: n measured pairs.
        about: (e, q) from `describe` and (e, p) standardised numbers measured alone, p may be 0.
        asked: m pairs; their labels are not looked at.
        new: as found by `newcomers`.
        rng: of everything drawn.

    Returns:
        (m,) means of the parts with the shares that did best on others taken back to as few pairs; bounds of hidden
        properties around them, as wide as needed there.

    Raises:
        numpy.linalg.LinAlgError: labels are not finite.

    Source: stacked regression, Breiman, Machine Learning 1996; ours, docs/decisions/0073-far-rows.md.
    """
    config, parts, above, left = PairConfig(), [], [], []
    for back in _taken_back(new, cells):
        left.append(cells.take(back))
        said = _say(cells.take(~back), about, left[-1], config, rng)
        parts.append(said[0])
        above.append(said[1])
    truth = np.concatenate([part.log_slowdown for part in left])
    shares = best_shares(np.vstack(parts), truth, np.concatenate([part.victim for part in left]))
    wider = stretch((truth - np.vstack(parts) @ shares) / np.concatenate(above), config.level)
    said = _say(cells, about, asked, config, rng)
    mean = said[0] @ shares
    return PairPrediction(mean, mean + wider * said[1], mean)


def best_shares(said: Floats, truth: Floats, choice: Ints) -> Floats:
    """Shares of parts with the smallest sum of mean absolute error and regret, drawn towards PRIOR where pairs are few.

    Args:
        said: (n, len(PRIOR)) log slowdown by each part.
        truth: (n,) measured.
        choice: (n,) rows of the same choice are alternatives.

    Returns:
        (len(PRIOR),) multiples of 1 / STEPS that sum to one.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0073-far-rows.md.
    """
    sets = candidate_sets(choice, np.arange(len(choice)))
    tried = [np.array(s) / STEPS for s in product(range(STEPS + 1), repeat=len(PRIOR)) if sum(s) == STEPS]
    errors = [float(np.abs(truth - said @ shares).mean()) for shares in tried]
    pull = min(errors) * (PULL / len(truth)) ** 2

    def cost(one: int) -> float:
        regret = float(np.mean(regret_at_1(sets, truth, said @ tried[one]))) if sets.count else 0.0
        return errors[one] + regret + pull * float(((tried[one] - PRIOR) ** 2).sum())

    return tried[min(range(len(tried)), key=cost)]


def _taken_back(new: Newcomers, cells: Cells) -> Sequence[NDArray[np.bool_]]:
    """For some workloads at a time, the pairs that are left out so that each keeps as few as a newcomer has."""
    who = new.role(cells)
    known = np.flatnonzero(np.bincount(who) > new.probes)
    rng, folds = np.random.default_rng(0), []
    for some in np.array_split(rng.permutation(known), min(MOST_FOLDS, len(known))):
        back = np.isin(who, some)
        for one in some:
            back[rng.permutation(np.flatnonzero(who == one))[: new.probes]] = False
        folds.append(back)
    return folds


def _say(
    cells: Cells, about: tuple[Floats, Floats], asked: Cells, config: PairConfig, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """(m, 4) log slowdown by each part, and (m,) > 0 how far hidden properties say that a pair may lie above."""
    described, profiles = about
    hidden = fit_pairs(cells, described, config, rng).predict(asked.victim, asked.aggressor, rng)
    seen = Seen(cells, profiles)
    tables = [fit(seen)(asked.victim, asked.aggressor) for fit in (additive, nearest_profile)]
    own = fit_own_product(cells, len(described)).predict(asked.victim, asked.aggressor)
    return np.column_stack([hidden.log_mean, own, *tables]), np.maximum(hidden.upper - hidden.log_mean, SMALLEST_MARGIN)
