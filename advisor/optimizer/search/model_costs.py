"""Foreseen: the search by a model's factors, and what the model says exactly of what was found.

Factors are those where everybody is. Factors at the first result are averaged in before the search runs again, since
they differ there. The best by the exact cost is kept, and the error of the factors is reported.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from advisor.errors import UnusableProblem
from advisor.optimizer.assignment_cost import Factors, factors_of, homes, slowdown_costs, with_harm
from advisor.optimizer.objective import cost
from advisor.optimizer.problem import Ints, Problem
from advisor.optimizer.search.parameters import Found
from advisor.scoring.scorer import ModelScorer

ROUNDS = 2
Run = Callable[[Problem], Found]
"""A search of a problem, such as advisor.optimizer.search.search with a budget of its own each time."""


@dataclass(frozen=True)
class Saving:
    """What a search saved.

    Args:
        estimated: by its factors.
        exact: by the model.
    """

    estimated: float
    exact: float

    @property
    def error(self) -> float:
        """Share by which factors overestimate, negative if they underestimate; NaN without a saving by the model."""
        return self.estimated / self.exact - 1.0 if self.exact > 0 else float("nan")


@dataclass(frozen=True)
class Foreseen:
    """What was found.

    Args:
        place: (k,) the best assignment by the exact cost.
        before: exact cost of the start.
        after: exact cost of the assignment, at most `before`.
        savings: of each search.
        harmful: the problem that it was found in, with harm by factors: what benchmarks.reassign.ordering asks for,
        since
            moves that pay by harm alone pay in no other.
    """

    place: Ints
    before: float
    after: float
    savings: tuple[Saving, ...]
    harmful: Problem


def foresee(problem: Problem, scorer: ModelScorer, worth: float, run: Run) -> Foreseen:
    """The assignment of residents that costs least, with their slowdown by the model.

    Args:
        problem: of the snapshot's residents and nodes, in its order, without harm; starts are those of
            advisor.optimizer.assignment_cost.homes.
        scorer: scores over the snapshot.
        worth: what one unit of advisor.scoring.score_scale's cost is worth in the problem's; a latency-sensitive
        container slowed
            to twice its normal costs 2.
        run: searches with a budget of its own each time, for example
            `lambda of: search(of, seed=1, spent=counted(1_000_000), tuning=Tuning())`.

    Returns:
        The best assignment, which may be the start, and how far factors were off.

    Raises:
        UnusableProblem: the problem is not of the snapshot, has harm, or a container has no prediction.

    Source: ours, docs/decisions/0041-reassignment.md.
    """

    def exact(place: Ints) -> float:
        degradation = float(slowdown_costs(scorer, place).sum())
        if not np.isfinite(degradation):
            raise UnusableProblem("the model has no slowdown for some residents")
        return cost(problem, place).total + worth * degradation

    at_home = homes(scorer.snapshot)
    if problem.start.tolist() != at_home.tolist() or problem.nodes != len(scorer.snapshot.nodes):
        raise UnusableProblem(
            "its containers and their start are not those of advisor.optimizer.assignment_cost.homes(snapshot)"
        )
    before = least = exact(at_home)
    best, factors, savings = at_home, factors_of(scorer, at_home), list[Saving]()
    kept = with_harm(problem, factors, worth)
    for turn in range(ROUNDS):
        harmful = with_harm(problem, factors, worth)
        found = run(harmful)
        reached = exact(found.place)
        savings.append(Saving(cost(harmful, problem.start).total - found.cost, before - reached))
        if reached < least:
            best, least, kept = found.place, reached, harmful
        if turn < ROUNDS - 1:
            factors = _mean(factors, factors_of(scorer, found.place))
    return Foreseen(best, before, least, tuple(savings), kept)


def _mean(one: Factors, other: Factors) -> Factors:
    return replace(one, sensitivity=(one.sensitivity + other.sensitivity) / 2)
