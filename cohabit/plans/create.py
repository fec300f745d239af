"""Proposing: from what a lake, the newest snapshot and a bundle hold to a proposal in the store. An edge."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from advisor.cluster.snapshot import Snapshot, load_current
from advisor.diagnosis.coverage import Coverage, coverage
from advisor.diagnosis.report_file import DiagnosisReport
from advisor.diagnosis.slowdown_causes import Diagnosis
from advisor.errors import AdvisorError
from advisor.plans import store as proposal_store
from advisor.plans.plan_service import Actor, Desk, Stale
from advisor.plans.planner import Draft, Search, Situation, draft, under_way
from advisor.plans.recheck import stale_steps
from advisor.plans.rules import approval_states as states
from advisor.plans.rules.did_estimate import factor_of
from advisor.plans.rules.evictable import roster_of
from advisor.plans.rules.plan_record import Proposal
from advisor.plans.rules.policy import HOUR_US, Rules
from advisor.remediation.migration_options import Scene
from advisor.remediation.options_file import keep_ladders
from advisor.scoring.loaded_model import open_model, scorer_over
from cohabit.config.errors import CohabitError
from cohabit.diagnosis.diagnose import diagnosed, looked_at, newest_window
from cohabit.plans.plan_inputs import Inputs, digest_of, keep, kept
from features.contention.node_state import Facts
from features.jobs.lake_facts import facts_between
from ingest.lake.tables import Lake
from models.drift.drift_status import status_of
from models.registry.registry import Registry

PLANS = "plans"
"""Folder next to the registry with the inputs of plans."""
MAX_APART_US = 2 * 3600 * 1_000_000
"""Between the windows with victims and the snapshot with placements."""
MAX_AHEAD_US = 600 * 1_000_000
"""By which a snapshot may be of a time to come: clocks differ."""


@dataclass(frozen=True)
class Sources:
    """What is proposed from.

    Args:
        lake: with features.
        snapshots: folder of snapshots.
        registry: of bundles.
        kept: folder in which is kept what each plan was made from.
        max_snapshot_age_us: an older snapshot is refused.
    """

    lake: Lake
    snapshots: Path
    registry: Registry
    kept: Path
    max_snapshot_age_us: int = 2 * HOUR_US


@dataclass(frozen=True)
class Looked:
    """Victims in the windows that ended last.

    Args:
        until: when they ended.
        diagnoses: worst first.
        ran: what could be looked at, see advisor.diagnosis.coverage.running_windows.
    """

    until: datetime
    diagnoses: tuple[Diagnosis, ...]
    ran: pa.Table

    def report(self, cluster: str, now_us: int) -> DiagnosisReport:
        """The same as a report for servers, of one cluster."""
        here = tuple(one for one in self.diagnoses if one.cluster == cluster)
        return DiagnosisReport(cluster, round(self.until.timestamp() * 1e6), now_us, here, self.coverage(cluster))

    def coverage(self, cluster: str) -> Coverage:
        """How much could be looked at in one cluster."""
        return coverage(self.ran.filter(pc.equal(self.ran["cluster"], cluster)))


def look(lake: Lake) -> Looked:
    """Find victims by the newest labels.

    Raises:
        NothingMeasured: there are none.
    """
    until = newest_window(lake)
    return Looked(until, tuple(diagnosed(lake, until)), looked_at(lake, until)[0])


def propose(of: Sources, desk: Desk, actor: Actor, looked: Looked | None = None) -> Draft:
    """Draft a plan from what is known now, and put it before people.

    Args:
        of: what it is made from.
        desk: where it is put.
        actor: in whose name.
        looked: victims; None finds them.

    Raises:
        AdvisorError: there is nothing to propose from.
        CohabitError: the snapshot and the newest labels are too far apart, or it is of another cluster than the desk.
        NothingMeasured: there are no labels.
        Frozen: nothing is to be drafted.
    """
    desk.must_not_be_frozen()
    desk.expire(actor)
    known = proposal_store.count(desk.engine, desk.cluster)
    inputs = _inputs(of, desk, looked or look(of.lake))
    found = draft(situation_of(inputs, of.registry), inputs.rules, _search(inputs.rules))
    keep_ladders(of.snapshots, desk.cluster, inputs.now_us, found.ladders)
    if found.plan is not None:
        keep(of.kept / found.plan.plan, inputs)
        desk.put(states.drafted(found.plan), actor, known)
    return found


def drafted_again(of: Sources, plan: str) -> Draft:
    """A past plan, made again from what it was made from.

    Raises:
        CohabitError: that is not there any more.
        ModelsError: the bundle is not there any more.
    """
    inputs = kept(of.kept / plan)
    return draft(situation_of(inputs, of.registry), inputs.rules, _search(inputs.rules))


def stale_now(of: Sources, desk: Desk) -> Stale:
    """Tries steps again in the cluster as the newest snapshot has it, together with exported steps of other plans."""

    def stale(proposal: Proposal, steps: Collection[int]) -> Mapping[int, str]:
        snapshot = load_current(of.snapshots)
        if snapshot.cluster != proposal.plan.cluster:
            raise _other_cluster(of.snapshots, snapshot.cluster, proposal.plan.cluster)
        _must_be_new(of, snapshot, desk.now_us())
        earlier = proposal_store.past(desk.engine, desk.cluster, desk.now_us())
        others = tuple(one for one in earlier if one.step not in proposal.plan.steps and one.decision == "approved")
        now = situation_of(replace(_where(of, snapshot), past=others), of.registry)
        until = newest_window(of.lake)
        later = until.timestamp() * 1e6 > proposal.plan.created_us
        degraded = [one for one in diagnosed(of.lake, until) if one.cluster == snapshot.cluster] if later else None
        return stale_steps(proposal.plan, steps, now.scene, now.roster, degraded)

    return stale


def _inputs(of: Sources, desk: Desk, looked: Looked) -> Inputs:
    """All that a plan is made from, as it is now."""
    snapshot, until = load_current(of.snapshots), looked.until
    if snapshot.cluster != desk.cluster:
        raise _other_cluster(of.snapshots, snapshot.cluster, desk.cluster)
    _must_be_new(of, snapshot, desk.now_us())
    if abs(until.timestamp() * 1e6 - snapshot.as_of_us) > MAX_APART_US:
        as_of = datetime.fromtimestamp(snapshot.as_of_us / 1e6, UTC)
        raise CohabitError(
            f"the newest snapshot in {of.snapshots} ({as_of:%Y-%m-%d %H:%M} UTC) and the newest labels "
            f"({until:%Y-%m-%d %H:%M} UTC) are too far apart for a plan: run `cohabit refresh` and `cohabit features`, "
            "then retry"
        )
    degraded = tuple(one for one in looked.diagnoses if one.cluster == snapshot.cluster)
    past = proposal_store.past(desk.engine, desk.cluster, desk.now_us())
    where = _where(of, snapshot)
    achieved = proposal_store.achieved(desk.engine, desk.cluster)
    now_us, rules = desk.now_us(), desk.rules if searchable() else replace(desk.rules, max_search_moves=0)
    return replace(where, diagnoses=degraded, past=past, rules=rules, achieved=achieved, now_us=now_us)


def searchable() -> bool:
    """Whether the extra is installed that the search of a whole cluster needs."""
    return all(find_spec(name) is not None for name in ("numba", "highspy"))


def _search(rules: Rules) -> Search | None:
    """The search that rules ask for; None where they ask for none.

    Raises:
        CohabitError: it is asked for, and not there.
    """
    if not rules.max_search_moves:
        return None
    if not searchable():
        raise CohabitError("the plan was computed with numba, which is not installed here: install the extra optimise")
    from advisor.plans.optimizer_moves import better_elsewhere  # compiled, and not there everywhere

    return partial(better_elsewhere, tried=rules.max_search_moves)


def _must_be_new(of: Sources, snapshot: Snapshot, now_us: int) -> None:
    """Nothing is proposed or approved by what was true long ago; a clock that is ahead would hide how old that is.

    Raises:
        CohabitError: the newest snapshot is too old, or it is of a time to come.
    """
    if snapshot.as_of_us - now_us > MAX_AHEAD_US:
        raise CohabitError(
            f"the newest snapshot in {of.snapshots} is {(snapshot.as_of_us - now_us) / 1e6 / 60:,.0f} minutes "
            "ahead of this machine's clock: check the clocks of metrics senders and brokers, then run `cohabit "
            "refresh` again"
        )
    if now_us - snapshot.as_of_us > of.max_snapshot_age_us:
        raise CohabitError(
            f"the newest snapshot in {of.snapshots} is {(now_us - snapshot.as_of_us) / 1e6 / 3600:,.1f} hours "
            f"old (limit {of.max_snapshot_age_us / 1e6 / 3600:g}): check that `cohabit refresh` runs, or raise "
            "COHABIT_PLANS__MAX_SNAPSHOT_AGE_HOURS, as for simulated clusters"
        )


def _where(of: Sources, snapshot: Snapshot) -> Inputs:
    """Placements and model; without victims and without earlier plans."""
    facts, bundle = facts_by(of.lake, snapshot), of.registry.current()
    if bundle is None:
        raise AdvisorError(
            f"no promoted bundle in {of.registry.root}: run `cohabit model train`, or set COHABIT_REGISTRY"
        )
    if (status := status_of(of.registry, bundle.name)) is not None and status.state == "fallen_back":
        raise AdvisorError(
            f"model {bundle.name} failed its drift check, so no plan is drafted or approved: see `cohabit model "
            "drift`; then promote a newly trained model, or run `cohabit model rollback`"
        )
    return Inputs(snapshot, facts.nodes, facts.placements, (), (), Rules(), (0.0, 0.0), bundle.name, snapshot.as_of_us)


def facts_by(lake: Lake, snapshot: Snapshot) -> Facts:
    """What nodes and placements said by the time of a snapshot, and what had ended."""
    end = datetime.fromtimestamp((snapshot.as_of_us + 1) / 1e6, UTC)
    return facts_between(lake, end, end, ahead=False)


def situation_of(inputs: Inputs, registry: Registry) -> Situation:
    """What a plan is drafted from."""
    roster = roster_of(inputs.snapshot, Facts(inputs.nodes, inputs.placements))
    model = open_model(registry.root / inputs.bundle, registry.trust)
    snapshot = inputs.snapshot
    scorer = scorer_over(snapshot, model)
    team = {uid: one.team for uid, one in roster.identity.items()}
    scene = under_way(Scene(scorer, roster.room, team, inputs.now_us, roster.began_us), inputs.past)
    return Situation(
        inputs.diagnoses, scene, roster, inputs.past, factor_of(*inputs.achieved), inputs.bundle, digest_of(inputs)
    )


def _other_cluster(folder: Path, found: str, wanted: str) -> CohabitError:
    return CohabitError(
        f"the snapshots in {folder} are of cluster {found!r}, but COHABIT_CLUSTER is {wanted!r}: correct "
        "COHABIT_CLUSTER or COHABIT_SNAPSHOTS"
    )
