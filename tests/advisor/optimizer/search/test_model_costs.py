"""What a model foresees of assignments: exactly, in factors, and what is found by them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.cluster.snapshot import Snapshot
from advisor.errors import UnusableProblem
from advisor.optimizer.assignment_cost import factors_of, homes, rearranged, slowdown_costs, with_harm
from advisor.optimizer.constraints import wrongs
from advisor.optimizer.objective import cost
from advisor.optimizer.problem import Ints, Limits, Moves, Problem
from advisor.optimizer.search.model_costs import foresee
from advisor.optimizer.search.parameters import MIXES, Tuning, counted
from advisor.optimizer.search.search import search
from advisor.scoring.scorer import ModelScorer
from benchmarks.reassign.ordering import Pace, ordered
from models.forms.co_runner_choice import Choice
from tests.advisor.clusters import PLATFORMS, snapshot

ScorerOf = Callable[[Snapshot], ModelScorer]
same_fixture = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def problem_of(of: Snapshot) -> Problem:
    """Of residents by cores alone; whose cores are not known takes half a one."""
    use = np.nan_to_num(of.resident_use[:, :1], nan=0.5)
    alike = Limits(alike=np.full(len(of.apps), 3))
    here = homes(of)
    return Problem(use, of.node_capacity[:, :1], np.zeros(1, np.bool_), np.maximum(of.resident_app, 0), here, alike)


def anywhere(of: Snapshot, seed: int) -> Ints:
    return np.random.default_rng(seed).integers(0, len(of.nodes), len(of.containers))


def of_one_platform(seed: int) -> Snapshot:
    """Everybody is best effort, of a known app and measured; nodes are alike."""
    drawn = snapshot(seed, nodes=8, residents=(1, 5), missing=0.0)
    count, nodes = len(drawn.containers), len(drawn.nodes)
    big = PLATFORMS.index("big")
    some = int(np.flatnonzero(drawn.node_platform == big)[0])
    return replace(
        drawn,
        node_platform=np.full(nodes, big),
        node_capacity=np.tile(drawn.node_capacity[some], (nodes, 1)),
        node_facts=np.tile(drawn.node_facts[some], (nodes, 1)),
        resident_app=np.maximum(drawn.resident_app, 0),
        resident_best_effort=np.ones(count, np.bool_),
        resident_use=drawn.resident_use * 0.1,
    )


@given(seed=st.integers(0, 1000))
@same_fixture
def test_nobody_is_lost_when_residents_are_elsewhere(seed: int) -> None:
    before = snapshot(seed, pinned=0.3)
    place = anywhere(before, seed)

    after = rearranged(before, place)

    where = dict(zip(after.containers, homes(after).tolist(), strict=True))
    assert [where[uid] for uid in before.containers] == place.tolist()
    apps = dict(zip(after.containers, after.resident_app.tolist(), strict=True))
    assert [apps[uid] for uid in before.containers] == before.resident_app.tolist()
    pinned = {uid for uid, cores in zip(after.containers, after.cpusets, strict=True) if cores is not None}
    stays = place == homes(before)
    assert pinned == {
        uid for uid, cores, at_home in zip(before.containers, before.cpusets, stays, strict=True) if cores and at_home
    }


@given(seed=st.integers(0, 1000), order=st.sampled_from([None, 1, 4]))
@same_fixture
def test_what_residents_suffer_elsewhere_is_what_they_suffer_once_they_are_there(
    scorer_of: ScorerOf, seed: int, order: int | None
) -> None:
    scorer = scorer_of(snapshot(seed))
    if order is not None:
        scorer = replace(scorer, predictor=replace(scorer.predictor, choice=Choice(order, 1.0)))
    place = anywhere(scorer.snapshot, seed)

    told = slowdown_costs(scorer, place)

    there = replace(scorer, snapshot=rearranged(scorer.snapshot, place))
    assert np.isfinite(told).all()
    assert (told >= 0).all()
    np.testing.assert_array_equal(told[np.argsort(place, kind="stable")], slowdown_costs(there, homes(there.snapshot)))


@given(seed=st.integers(0, 1000))
@same_fixture
def test_whoever_is_joined_by_somebody_suffers_no_less(scorer_of: ScorerOf, seed: int) -> None:
    scorer = scorer_of(snapshot(seed, residents=(1, 4), missing=0.0))
    place = homes(scorer.snapshot)
    alone = slowdown_costs(scorer, place)
    joined = place.copy()
    joined[0] = (place[0] + 1) % len(scorer.snapshot.nodes)

    after = slowdown_costs(scorer, joined)

    there = np.flatnonzero((place == joined[0]) & (np.arange(len(place)) > 0))
    assert (after[there] >= alone[there] - 1e-12).all()


@given(seed=st.integers(0, 1000))
@same_fixture
def test_where_harms_add_up_and_nobody_can_be_in_violation_factors_are_exact(scorer_of: ScorerOf, seed: int) -> None:
    scorer = scorer_of(of_one_platform(seed))
    scorer = replace(scorer, predictor=replace(scorer.predictor, choice=Choice(1, 1.0)))
    start, place = homes(scorer.snapshot), anywhere(scorer.snapshot, seed)

    problem = with_harm(problem_of(scorer.snapshot), factors_of(scorer, start), 1.0)

    told = cost(problem, place).harm - cost(problem, start).harm
    assert told == pytest.approx(
        slowdown_costs(scorer, place).sum() - slowdown_costs(scorer, start).sum(), rel=1e-6, abs=1e-9
    )


@pytest.mark.parametrize("order", [None, 1, 4])
def test_what_is_found_is_legal_saves_by_the_model_and_tells_how_far_factors_were_off(
    scorer_of: ScorerOf, order: int | None
) -> None:
    scorer = scorer_of(snapshot(3, nodes=20, residents=(1, 6), missing=0.05))
    if order is not None:
        scorer = replace(scorer, predictor=replace(scorer.predictor, choice=Choice(order, 1.0)))
    problem = problem_of(scorer.snapshot)
    run = partial(search, seed=1, spent=counted(1 << 18), tuning=Tuning(mixes=MIXES[:1]))

    found = foresee(problem, scorer, 1.0, run)

    assert not wrongs(problem, found.place)
    assert found.after < 0.95 * found.before
    assert found.after == cost(problem, found.place).total + slowdown_costs(scorer, found.place).sum()
    assert found.before - found.after == pytest.approx(max(one.exact for one in found.savings))
    assert all(np.isfinite(one.error) for one in found.savings)
    assert ordered(found.harmful, found.place, Pace()).moves > 0
    assert foresee(problem, scorer, 1.0, run).place.tolist() == found.place.tolist()


def test_where_moves_cost_more_than_the_model_says_they_save_everybody_stays(scorer_of: ScorerOf) -> None:
    scorer, run = (
        scorer_of(snapshot(3)),
        partial(search, seed=1, spent=counted(1 << 17), tuning=Tuning(mixes=MIXES[:1])),
    )
    problem = problem_of(scorer.snapshot)
    dear = replace(problem, moves=Moves(container=np.full(problem.containers, 1e3)))

    found = foresee(dear, scorer, 1.0, run)

    assert found.place.tolist() == problem.start.tolist()
    assert found.after == found.before


def test_a_problem_that_has_harm_already_is_refused(scorer_of: ScorerOf) -> None:
    scorer = scorer_of(snapshot(1))
    factors = factors_of(scorer, homes(scorer.snapshot))
    harmful = with_harm(problem_of(scorer.snapshot), factors, 1.0)

    with pytest.raises(UnusableProblem, match="harm already"):
        with_harm(harmful, factors, 1.0)


def test_a_problem_of_another_cluster_is_refused(scorer_of: ScorerOf) -> None:
    scorer, other = scorer_of(snapshot(1)), problem_of(snapshot(2))

    with pytest.raises(UnusableProblem, match="homes"):
        foresee(other, scorer, 1.0, partial(search, seed=1, spent=counted(1), tuning=Tuning()))
