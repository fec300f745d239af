"""Validity: whether steps of a plan still hold at their approval, minutes or hours later. Kernel."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from advisor.diagnosis.slowdown_causes import Diagnosis
from advisor.plans.rules.evictable import Roster
from advisor.plans.rules.plan_record import Plan, Step
from advisor.remediation.action import MOVES
from advisor.remediation.fits import FITS, LACKS, UNKNOWN
from advisor.remediation.migration_options import Scene, elsewhere, moved
from advisor.remediation.room import reason


def stale_steps(
    plan: Plan, steps: Collection[int], scene: Scene, roster: Roster, diagnoses: Sequence[Diagnosis] | None
) -> dict[int, str]:
    """Why some steps do not hold any more.

    Args:
        plan: that is being approved.
        steps: numbers of those to approve.
        scene: the cluster as it is now.
        roster: its residents.
        diagnoses: of containers slowed now, where a diagnosis is newer than the plan; else None.

    Returns:
        By number, why; in the order of the plan, each in the cluster as those before it leave it.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0043-rescheduling.md.
    """
    found = dict[int, str]()
    for step in sorted(plan.steps, key=lambda one: (one.round, one.number)):
        if step.number not in steps:
            continue
        why = _gone(step, scene) or _well(step, diagnoses) or _not_there(plan, step, scene, roster)
        if why:
            found[step.number] = why
        elif step.target is not None:
            scene = moved(scene, step.who.container, step.target)
    return found


def _gone(step: Step, scene: Scene) -> str:
    who = step.who.container
    here = scene.snapshot.nodes_of({who}).get(who)
    if here is None:
        return f"{who} is no longer running"
    return "" if here == step.source else f"{who} is now on {here}"


def _well(step: Step, diagnoses: Sequence[Diagnosis] | None) -> str:
    if step.kind == "rearrange" or diagnoses is None or any(one.container in step.victims for one in diagnoses):
        return ""
    return f"{', '.join(step.victims[:3])} is no longer a victim"


def _not_there(plan: Plan, step: Step, scene: Scene, roster: Roster) -> str:
    """Why a move's target is not what it was."""
    if step.kind not in MOVES or step.target is None:
        return ""
    if why := roster.left_alone.get(step.who.container):
        return why
    return _refused(step, scene) or _dearer(plan, step, scene)


def _refused(step: Step, scene: Scene) -> str:
    """Why the scheduler would not accept it there now."""
    target = str(step.target)
    node = scene.snapshot.node_index.get(target)
    row = scene.snapshot.containers.index(step.who.container)
    if node is None or not scene.snapshot.node_known[node]:
        return f"{target} is no longer in the snapshot"
    code = int(scene.room.codes(row, scene.snapshot.node_index[step.source])[node])
    if code != FITS:
        lacks = code == UNKNOWN or code >= LACKS
        no_more = "no longer has room for" if lacks else "no longer accepts"
        return f"{target} {no_more} it: {reason(code, scene.room.extended)}"
    return ""


def _dearer(plan: Plan, step: Step, scene: Scene) -> str:
    """Whether the move would no longer pay."""
    node = scene.snapshot.node_index[str(step.target)]
    row = scene.snapshot.containers.index(step.who.container)
    only = np.full(scene.room.free.shape, -np.inf)
    only[node] = scene.room.free[node]
    found = elsewhere(replace(scene, room=replace(scene.room, free=only)), row, frozenset())
    more = float(found.there[0]) - step.there if found is not None else np.inf
    if (step.low - more) * plan.hours <= step.cost:
        return f"on {step.target} it would now cost more than it saves"
    return ""
