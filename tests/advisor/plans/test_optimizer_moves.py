"""Rearranging: what the search of a whole cluster proposes where nobody was diagnosed, with a really trained model."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from advisor.cluster.snapshot import Snapshot
from advisor.plans.optimizer_moves import better_elsewhere
from advisor.plans.planner import Situation, draft
from advisor.plans.recheck import stale_steps
from advisor.plans.rules.evictable import Roster
from advisor.plans.rules.past_steps import Past
from advisor.plans.rules.plan_record import Plan, plan_json
from advisor.remediation.migration_options import Scene
from advisor.scoring.scorer import ModelScorer
from tests.advisor.clusters import NOW_US, snapshot
from tests.advisor.plans.test_planner import RULES, identity, room_of

ScorerOf = Callable[[Snapshot], ModelScorer]
SEARCH = partial(better_elsewhere, tried=1 << 16)


def crowded(scorer_of: ScorerOf, *, left_alone: dict[str, str] | None = None, past: tuple[Past, ...] = ()) -> Situation:
    """Some nodes are full of loud containers, others nearly empty, and nobody was diagnosed."""
    of = snapshot(5, nodes=10, residents=(0, 9), missing=0.0)
    people = {uid: identity(of, row) for row, uid in enumerate(of.containers)}
    room = room_of(of)
    scene = Scene(scorer_of(of), room, {uid: who.team for uid, who in people.items()}, NOW_US)
    return Situation((), scene, Roster(people, left_alone or {}, room), past, 1.0, "bundle", "seed")


@pytest.fixture
def found(scorer_of: ScorerOf) -> Plan:
    plan = draft(crowded(scorer_of), RULES, SEARCH).plan
    assert plan is not None
    return plan


def test_what_the_search_finds_is_proposed_where_it_pays_on_its_own(found: Plan) -> None:
    assert {step.kind for step in found.steps} == {"rearrange"}
    for step in found.steps:
        assert step.low * found.hours > step.cost + RULES.prices.restart
        assert step.sufficient is None
        assert step.target not in {None, step.source}
        assert step.victims


def test_the_same_situation_gives_the_same_plan_to_the_byte(scorer_of: ScorerOf, found: Plan) -> None:
    again = draft(crowded(scorer_of), RULES, SEARCH).plan

    assert again is not None
    assert plan_json(again) == plan_json(found)


def test_a_plan_of_the_search_still_holds_at_approval_though_nobody_is_diagnosed(
    scorer_of: ScorerOf, found: Plan
) -> None:
    of = crowded(scorer_of)
    numbers = [step.number for step in found.steps]

    assert stale_steps(found, numbers, of.scene, of.roster, ()) == {}
    assert stale_steps(found, numbers, of.scene, of.roster, None) == {}


def test_nothing_is_searched_unless_it_is_asked_for(scorer_of: ScorerOf) -> None:
    assert draft(crowded(scorer_of), RULES).plan is None


def test_targets_have_room_for_all_who_come(scorer_of: ScorerOf, found: Plan) -> None:
    of = crowded(scorer_of).scene
    free = of.room.free.copy()
    for step in found.steps:
        row = of.snapshot.containers.index(step.who.container)
        free[of.snapshot.node_index[step.target or ""]] -= of.room.needs[row]

    assert (free >= np.minimum(of.room.free, 0.0) - 1e-9).all()


def test_whoever_is_left_alone_or_was_touched_lately_stays(scorer_of: ScorerOf, found: Plan) -> None:
    first, *_ = found.steps
    alone = draft(crowded(scorer_of, left_alone={first.who.container: "it is pinned"}), RULES, SEARCH).plan
    cooling = draft(crowded(scorer_of, past=(Past(first, "exported", "approved", NOW_US - 1),)), RULES, SEARCH).plan

    for plan in (alone, cooling):
        assert first.who.container not in {step.who.container for step in (plan.steps if plan else ())}


def test_no_more_is_proposed_than_a_plan_may_hold(scorer_of: ScorerOf, found: Plan) -> None:
    assert len(found.steps) > 1
    one = draft(crowded(scorer_of), replace(RULES, max_steps=1), SEARCH).plan

    assert one is not None
    assert len(one.steps) == 1


def test_what_earlier_plans_realised_of_theirs_scales_what_the_search_promises_too(scorer_of: ScorerOf) -> None:
    of, one = crowded(scorer_of), replace(RULES, max_steps=1)
    free = replace(one, prices=replace(RULES.prices, restart=0.0, restart_best_effort=0.0))

    whole, half = draft(of, free, SEARCH).plan, draft(replace(of, factor=0.5), free, SEARCH).plan

    assert whole is not None
    assert half is not None
    assert half.steps[0].who == whole.steps[0].who
    for name in ("gain", "low", "high"):
        assert getattr(half.steps[0], name) == pytest.approx(0.5 * getattr(whole.steps[0], name))
    assert draft(replace(of, factor=0.0), RULES, SEARCH).plan is None


def test_where_a_restart_costs_more_than_anybody_suffers_nothing_is_proposed(scorer_of: ScorerOf) -> None:
    dear = replace(RULES, prices=replace(RULES.prices, restart=1e3, restart_best_effort=1e3))

    assert draft(crowded(scorer_of), dear, SEARCH).plan is None
