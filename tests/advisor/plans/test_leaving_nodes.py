"""Case: three empty nodes that are being removed, and a victim that would be best off there."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from advisor.cluster.snapshot import Snapshot
from advisor.plans.planner import draft
from advisor.plans.recheck import stale_steps
from advisor.scoring.scorer import ModelScorer
from e2e.kube.drawn import Drawn, drawn, situation
from tests.advisor.clusters import snapshot
from tests.advisor.plans.test_legal_targets import RULES

ScorerOf = Callable[[Snapshot], ModelScorer]
GHOSTS = ("ghost-0", "ghost-1", "ghost-2")
ANYTHING = [{"operator": "Exists"}]


def with_ghosts(seed: int, *taints: str) -> Drawn:
    """A cluster and three empty nodes of its largest kind; its pods tolerate every taint and have no other rules."""
    of = drawn(snapshot(seed, nodes=4, residents=(3, 4), missing=0.0), seed)
    shot, node = of.snapshot, int(np.argmax(of.snapshot.node_capacity[:, 0]))
    added = [node] * len(GHOSTS)
    grown = replace(
        shot,
        nodes=(*shot.nodes, *GHOSTS),
        node_platform=np.append(shot.node_platform, shot.node_platform[added]),
        node_capacity=np.concatenate([shot.node_capacity, shot.node_capacity[added]]),
        node_facts=np.concatenate([shot.node_facts, shot.node_facts[added]]),
        node_seen_us=np.append(shot.node_seen_us, shot.node_seen_us[added]),
        node_known=np.append(shot.node_known, shot.node_known[added]),
        first=np.append(shot.first, [shot.first[-1]] * len(GHOSTS)),
    )
    amounts = {"cpu": "64", "memory": "1Ti", "pods": "110"}
    keys = [{"key": key, "effect": "NoSchedule"} for key in taints]
    ghosts = tuple(
        {
            "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {"taints": keys},
            "status": {"capacity": amounts, "allocatable": amounts},
        }
        for name in GHOSTS
    )
    keep = ("nodeName", "containers")
    free = [{**pod, "spec": {k: pod["spec"][k] for k in keep} | {"tolerations": ANYTHING}} for pod in of.pods]
    return Drawn(grown, (*of.nodes, *ghosts), tuple(free), ())


@pytest.mark.parametrize("taint", ["karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler"])
def test_no_step_goes_to_a_node_that_is_being_removed_and_one_that_was_planned_is_stale(
    scorer_of: ScorerOf, taint: str
) -> None:
    there = with_ghosts(3)
    going = with_ghosts(3, taint)
    scorer = scorer_of(there.snapshot)

    before = draft(situation(there, scorer, 3), RULES).plan
    now = situation(going, scorer, 3)
    after = draft(now, RULES).plan

    assert before is not None
    to_ghosts = [step for step in before.steps if step.target in GHOSTS]
    assert to_ghosts
    assert not [step for step in (after.steps if after else ()) if step.target in GHOSTS]
    stale = stale_steps(before, [step.number for step in to_ghosts], now.scene, now.roster, None)
    for step in to_ghosts:
        assert stale[step.number] == f"{step.target} no longer accepts it: is about to go"
