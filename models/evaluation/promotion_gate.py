"""Gate: whether a challenger is no worse than the champion on labels that neither has learnt from. Kernel."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.evaluation.scorecard import HIGH_SLOWDOWN, LEVEL, pinball
from models.evaluation.served_replay import AsServed
from models.metrics.errors_and_ranks import Estimate, Resamples, covered, error_of_log, resamples_of
from models.metrics.ranking import CandidateSets, candidate_sets, regret_at_1
from models.registry.gate_result import Check, Range

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]

ALLOWED = 0.1
"""Of the champion's loss: a challenger that looks worse by more is not promoted, even if that may be luck."""
ALLOWED_COVERAGE, ALLOWED_REGRET = 0.05, 0.005
"""Share of rows, and slowdown: the same for figures that may be next to nothing."""
FEWEST_LABELS, FEWEST_GROUPS, FEWEST_HIGH = 200, 10, 30
"""From so many labels, of so many apps on nodes on a day, a verdict is given; and one on slowed rows from so many."""


@dataclass(frozen=True)
class Judged:
    """The rows both are judged on.

    Args:
        group: (n,) app, node and day: what is independent of the rest.
        app: (n,) app.
        decision: (n,) app and window.
        node: (n,) node.
    """

    group: Ints
    app: Ints
    decision: Ints
    node: Ints


def check_all(challenger: AsServed, champion: AsServed, of: Judged, rng: np.random.Generator) -> tuple[Check, ...]:
    """Every gate.

    Args:
        challenger: of n rows that neither bundle learnt from.
        champion: of the same rows.
        of: what ties rows to each other.
        rng: source of resamples.

    Returns:
        tomorrow (mean absolute error of log slowdown), slowed (the same on rows slowed down by 10 % or more, where
        there are FEWEST_HIGH), unseen (the same by the trees for apps not learnt from), regret (of choosing among nodes
        that were really taken, where there are any), bound (pinball loss at 0.9), coverage (a bound that holds as often
        as promised is no worse than one that holds more often) and nothing (against predicting no slowdown).
        Missing values are not allowed.

    Raises:
        ValueError: there are no rows.

    Source: docs/evaluation.md and ours, docs/decisions/0054-life-cycle.md; paired cluster bootstrap, Cameron et al.,
    REStat 2008.
    """
    truth, again = challenger.truth, resamples_of(of.group, rng)
    sets = candidate_sets(of.decision, of.node)

    def errors(what: Callable[[AsServed], Floats]) -> tuple[Floats, Floats]:
        return error_of_log(truth, what(challenger)), error_of_log(truth, what(champion))

    found = [
        _check("tomorrow", *errors(lambda said: said.mean), again),
        _check("unseen", *errors(lambda said: said.unseen), again),
        _check("bound", pinball(truth, challenger.upper), pinball(truth, champion.upper), again),
        _coverage(challenger, champion, again),
        _check("nothing", error_of_log(truth, challenger.mean), np.abs(truth), again),
    ]
    high = truth >= np.log(HIGH_SLOWDOWN)
    if high.sum() >= FEWEST_HIGH:
        ours, theirs = (loss[high] for loss in errors(lambda said: said.mean))
        found.insert(1, _check("slowed", ours, theirs, resamples_of(of.group[high], rng)))
    if sets.count:
        found.append(_regret(challenger, champion, of, sets, rng))
    return tuple(found)


def _check(name: str, ours: Floats, theirs: Floats, again: Resamples, least: float = 0.0) -> Check:
    """A loss per row: passed where it is neither worse beyond luck nor by more than is allowed."""
    worse, champion = again.mean(ours - theirs), float(theirs.mean())
    passed = worse.low <= 0 and worse.value <= max(ALLOWED * champion, least)
    return _check_of(name, float(ours.mean()), champion, worse, passed=passed)


def _coverage(challenger: AsServed, champion: AsServed, again: Resamples) -> Check:
    """Passed where the promise is kept within luck, or no less than the champion keeps it."""
    ours, theirs = covered(challenger.truth, challenger.upper), covered(champion.truth, champion.upper)
    worse, own = again.mean(theirs - ours), again.mean(ours)
    passed = own.high >= LEVEL or (worse.low <= 0 and worse.value <= ALLOWED_COVERAGE)
    return _check_of("coverage", own.value, float(theirs.mean()), worse, passed=passed)


def _regret(
    challenger: AsServed, champion: AsServed, of: Judged, sets: CandidateSets, rng: np.random.Generator
) -> Check:
    ours, theirs = (regret_at_1(sets, said.truth, said.choice) for said in (challenger, champion))
    return _check("regret", ours, theirs, resamples_of(of.app[sets.first_rows()], rng), ALLOWED_REGRET)


def _check_of(name: str, ours: float, theirs: float, worse: Estimate, *, passed: bool) -> Check:
    worse_by = Range(value=worse.value, low=worse.low, high=worse.high)
    return Check(name=name, challenger=ours, champion=theirs, worse=worse_by, passed=bool(passed))
