"""Targets of plans on drawn clusters: legal by an independent reading of the filters, and found where there are any."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from advisor.cluster.snapshot import Snapshot
from advisor.plans.planner import Situation, draft
from advisor.plans.rules.plan_record import Plan, Step
from advisor.plans.rules.policy import Rules
from advisor.remediation.action import MOVES
from advisor.remediation.migration_options import move_antagonist, move_victim
from advisor.remediation.ranked_options import hurt_by, lately, restart_of
from advisor.remediation.room import Room
from advisor.scoring.scorer import ModelScorer
from e2e.kube.drawn import MINIMUM, Drawn, drawn, situation
from tests.advisor.clusters import snapshot
from tests.advisor.plans.legal import Object, refusals

ScorerOf = Callable[[Snapshot], ModelScorer]
RULES = Rules(max_daily_share=1.0, holdout_share=0.0)
CLUSTERS, SMALL = 200, 100


@pytest.fixture(scope="module")
def plans(scorer_of: ScorerOf) -> list[tuple[Drawn, Situation, Plan | None]]:
    found = []
    for seed in range(CLUSTERS):
        of = drawn(snapshot(seed, nodes=6 + seed % 10, residents=(1, 5), missing=0.0), seed)
        facing = situation(of, scorer_of(of.snapshot), seed)
        found.append((of, facing, draft(facing, RULES).plan))
    return found


def moves_of(plan: Plan | None) -> list[Step]:
    return [step for step in (plan.steps if plan else ()) if step.kind in MOVES]


def placed(of: Drawn) -> dict[str, tuple[Object, str]]:
    return {one["metadata"]["uid"]: (one, one["spec"]["nodeName"]) for one in of.pods}


def gang_of(pod: Object) -> tuple[str, str] | None:
    """Namespace and name of a pod's gang."""
    name = pod["metadata"]["labels"].get("scheduling.x-k8s.io/pod-group")
    return name and (pod["metadata"]["namespace"], name)


def protects(budget: Object, pod: Object) -> bool:
    """Whether a budget of a drawn cluster selects a pod."""
    selector, app = budget["spec"]["selector"], pod["metadata"]["labels"]["app"]
    apps = [selector["matchLabels"]["app"]] if "matchLabels" in selector else selector["matchExpressions"][0]["values"]
    return app in apps and budget["metadata"]["namespace"] == pod["metadata"]["namespace"]


def test_every_target_of_200_drawn_clusters_is_legal(plans: list[tuple[Drawn, Situation, Plan | None]]) -> None:
    steps, of_gangs, kinds = 0, 0, Counter[str]()
    for of, _, plan in plans:
        pods = {one["metadata"]["uid"]: one for one in of.pods}
        now, nodes = placed(of), {one["metadata"]["name"]: one for one in of.nodes}
        for step in moves_of(plan):
            uid, target = step.who.container, str(step.target)
            pod, _ = now.pop(uid)
            assert refusals(pod, nodes[target], list(nodes.values()), list(now.values())) == []
            now[uid] = (pod, target)
            steps += 1
            kinds[step.kind] += 1
        for turn in {step.round for step in moves_of(plan)}:
            gone = [pods[s.who.container] for s in moves_of(plan) if s.round == turn]
            for budget in of.budgets:
                assert sum(protects(budget, pod) for pod in gone) <= budget["status"]["disruptionsAllowed"]
        gone = [pods[step.who.container] for step in moves_of(plan)]
        for gang in {gang_of(pod) for pod in gone} - {None}:
            members = [pod for pod in of.pods if gang_of(pod) == gang]
            away = sum(gang_of(pod) == gang for pod in gone)
            assert len(members) - away >= int(members[0]["metadata"]["annotations"][MINIMUM])
            of_gangs += away
    assert of_gangs
    print(f"{of_gangs} of gangs, {steps} steps on {CLUSTERS} clusters: {dict(kinds)}")  # noqa: T201
    assert steps >= 2 * CLUSTERS


def test_a_plan_moves_as_many_of_a_gang_as_it_can_spare(plans: list[tuple[Drawn, Situation, Plan | None]]) -> None:
    facing = next(facing for _, facing, plan in plans if len(moves_of(plan)) > 2)
    gangs = dict.fromkeys(facing.scene.snapshot.containers, "shop/g")

    def moves(spare: int) -> int:
        roster = replace(facing.roster, gangs=gangs, spare={"shop/g": spare})
        return len(moves_of(draft(replace(facing, roster=roster), RULES).plan))

    assert [moves(spare) for spare in (0, 1, 2)] == [0, 1, 2]


def test_where_a_legal_move_pays_the_plan_has_one(plans: list[tuple[Drawn, Situation, Plan | None]]) -> None:
    smallest = sorted(plans, key=lambda one: (len(one[0].pods) * len(one[0].nodes), one[0].snapshot.nodes))[:SMALL]
    paying = [(of, plan) for of, facing, plan in smallest if any_pays(of, facing)]
    having = sum(bool(moves_of(plan)) for _, plan in paying)

    print(f"of {len(paying)} of {SMALL} clusters where a legal move pays, plans of {having} have one")  # noqa: T201
    assert len(paying) >= SMALL // 2
    assert having >= 0.95 * len(paying)


def any_pays(of: Drawn, facing: Situation) -> bool:
    """Whether any legal move of a victim or an antagonist pays, by trying every node."""
    for one in facing.diagnoses:
        for uid in (one.container, one.suspects[0].container):
            row = facing.scene.snapshot.containers.index(uid)
            if uid in facing.roster.left_alone or not (legal := legal_targets(of, uid)):
                continue
            free = facing.scene.room.free.copy()
            free[[name not in legal for name in facing.scene.snapshot.nodes]] = -np.inf
            scene = replace(facing.scene, room=Room(free, facing.scene.room.needs))
            restart = restart_of(scene, row, RULES.prices)
            if uid == one.container:
                remedy = move_victim(scene, row, lately(one), restart)
            else:
                remedy = move_antagonist(scene, row, hurt_by(one.suspects[0], one, facing.diagnoses), restart)
            if remedy is not None and remedy.pays(RULES.prices.hours):
                return True
    return False


def legal_targets(of: Drawn, uid: str) -> set[str]:
    now = placed(of)
    pod, home = now.pop(uid)
    others = list(now.values())
    names = {one["metadata"]["name"]: one for one in of.nodes if one["metadata"]["name"] != home}
    return {name for name, node in names.items() if not refusals(pod, node, list(of.nodes), others)}
