"""Outcomes: savings of exported plans, measured from the labels of a lake. An edge."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from advisor.plans.plan_service import Actor, Desk
from advisor.plans.rules.cooldowns import REMEMBERED_US
from advisor.plans.rules.did_estimate import AFTER_US, BEFORE_US, Seen, Trial, outcome
from advisor.plans.rules.plan_record import Proposal, State, Step
from advisor.remediation.action import MOVES
from cohabit.config.errors import NothingMeasured
from cohabit.diagnosis.diagnose import newest_window
from features.columnar.arrow_columns import floats, micros
from features.contention.node_state import is_best_effort
from ingest.lake.tables import Lake

EXPORTED: tuple[State, ...] = ("exported",)
LANDED = timedelta(microseconds=AFTER_US)
"""Within that time after an export a container in the place of a moved one has come."""


def conclude(lake: Lake, desk: Desk, actor: Actor) -> list[Proposal]:
    """Estimate what plans saved whose observation time has passed.

    Returns:
        Those that were concluded now.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    try:
        measured_us = round(newest_window(lake).timestamp() * 1e6)
    except NothingMeasured:
        return []
    ripe = [one for one in desk.listed(EXPORTED) if one.changed_us + AFTER_US <= measured_us]
    if not ripe:
        return []
    since_us = min(one.plan.created_us for one in ripe) - REMEMBERED_US
    others = [one for one in desk.listed() if one.plan.created_us >= since_us]
    seen = seen_of(lake, desk.cluster, min(one.plan.created_us for one in others) - BEFORE_US, measured_us)
    controls = [trial for one in others for trial in trials_of(lake, one, holdout=True)]
    found = [(one, outcome(trials_of(lake, one, holdout=False), controls, seen)) for one in ripe]
    return [desk.conclude(one, result, actor) for one, result in found]


def trials_of(lake: Lake, of: Proposal, *, holdout: bool) -> list[Trial]:
    """Exported steps of a proposal, or those in its holdout."""
    if holdout:
        steps: Sequence[Step] = [step for step in of.plan.steps if step.number in of.plan.holdout]
        return [_trial(of, step, of.plan.created_us, {}) for step in steps]
    heirs = heirs_of(lake, of)
    return [_trial(of, step, of.changed_us, heirs) for step in of.approved]


def heirs_of(lake: Lake, of: Proposal) -> dict[str, str]:
    """Uid of the container that came in the place of each that was moved, by the uid of that one."""
    start = datetime.fromtimestamp(of.changed_us / 1e6, UTC)
    events = lake.read("placements", start, start + LANDED)
    adds = pc.and_(pc.equal(events["event"], "add"), pc.equal(events["cluster"], of.plan.cluster))
    came = events.filter(adds).sort_by("ts").select(["container", "node", "app", "team"])
    rows, found = came.to_pylist(), dict[str, str]()
    for step in of.approved:
        if step.kind in MOVES:
            place = {"node": step.target, "app": step.who.app, "team": step.who.team}
            fits = (row["container"] for row in rows if all(row[name] == value for name, value in place.items()))
            heir = next((uid for uid in fits if uid not in found.values()), None)
            if heir is not None:
                found[step.who.container] = heir
    return found


def seen_of(lake: Lake, cluster: str, start_us: int, end_us: int) -> Mapping[str, Seen]:
    """Windows of latency-sensitive containers of a cluster, by uid; nodes of other clusters may have the same names."""
    start, end = (datetime.fromtimestamp(at / 1e6, UTC) for at in (start_us, end_us + 1))
    labels = lake.read("labels", start, end)
    wanted = pc.and_(pc.equal(labels["cluster"], cluster), pa.array(~is_best_effort(labels["qos"])))
    rows = labels.filter(wanted).sort_by([("container", "ascending"), ("window_end", "ascending")])
    ends, slowdown = micros(rows["window_end"]), np.exp(floats(rows["log_slowdown"]))
    names, nodes = (np.array(rows[name].to_pylist(), object) for name in ("container", "node"))
    uids, first = np.unique(names.astype(str), return_index=True)
    parts = np.split(np.arange(len(names)), first)[1:]  # before the first one nothing is left, also of no rows at all
    return {str(uid): Seen(ends[part], slowdown[part], nodes[part]) for uid, part in zip(uids, parts, strict=True)}


def _trial(of: Proposal, step: Step, start_us: int, heirs: Mapping[str, str]) -> Trial:
    own = {uid: heir for uid, heir in heirs.items() if uid == step.who.container}
    return Trial(step.gain, of.plan.created_us, start_us, step.victims, own, step.source, step.target)
