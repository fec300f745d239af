"""Proposing: from what a lake, the newest snapshot and a bundle hold to a proposal in the store. An edge."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Engine

from advisor.errors import NoBundle
from advisor.margins import served_margins
from advisor.model import open_model
from advisor.proposals import proposal_store, states
from advisor.proposals.desk import Actor, Desk
from advisor.proposals.drafting import Draft, Situation, draft
from advisor.proposals.roster import roster_of
from advisor.proposals.rules import Rules
from advisor.remedies.moves import Scene
from advisor.scoring import ModelScorer
from advisor.snapshot import Snapshot, load_current
from cohabit.diagnosing import diagnosed, newest_window
from cohabit.errors import StaleSnapshot
from cohabit.kept_plans import Inputs, digest_of, keep
from features.node_state import Facts
from ingest.lake import Lake
from ingest.selection import EPOCH
from models.registry import Registry

MOST_APART_US = 2 * 3600 * 1_000_000
"""Between the windows that tell who suffers and the snapshot that tells where everybody is."""


@dataclass(frozen=True)
class Sources:
    """What is proposed from.

    Args:
        lake: with features.
        snapshots: folder of snapshots.
        registry: of bundles.
        kept: folder in which is kept what each plan was made from.
    """

    lake: Lake
    snapshots: Path
    registry: Registry
    kept: Path


def propose(of: Sources, engine: Engine, rules: Rules, actor: Actor, now_us: Callable[[], int]) -> Draft:
    """Draft a plan from what is known now, and put it before people.

    Raises:
        NoSnapshot, NoBundle: there is nothing to propose from.
        StaleSnapshot: the snapshot and the newest labels are too far apart.
        NothingMeasured: there are no labels.
        Halted: nothing is to be drafted.
    """
    snapshot = load_current(of.snapshots)
    until = newest_window(of.lake)
    if abs(until.timestamp() * 1e6 - snapshot.as_of_us) > MOST_APART_US:
        raise StaleSnapshot(of.snapshots, datetime.fromtimestamp(snapshot.as_of_us / 1e6, UTC), until)
    desk = Desk(engine, snapshot.cluster, rules, now_us)
    desk.must_not_be_halted()
    desk.expire(actor)
    bundle, facts = of.registry.current(), facts_by(of.lake, snapshot)
    if bundle is None:
        raise NoBundle(of.registry.root)
    inputs = Inputs(
        snapshot=snapshot,
        nodes=facts.nodes,
        placements=facts.placements,
        diagnoses=tuple(one for one in diagnosed(of.lake, until) if one.cluster == snapshot.cluster),
        past=proposal_store.past(engine, snapshot.cluster, now_us()),
        rules=rules,
        bundle=bundle.name,
        now_us=now_us(),
    )
    found = draft(situation_of(inputs, of.registry), rules)
    if found.plan is not None:
        keep(of.kept / found.plan.plan, inputs)
        desk.put(states.drafted(found.plan), actor)
    return found


def facts_by(lake: Lake, snapshot: Snapshot) -> Facts:
    """What nodes and placements said by the time of a snapshot."""
    end = datetime.fromtimestamp((snapshot.as_of_us + 1) / 1e6, UTC)
    return Facts(lake.read("nodes", EPOCH, end), lake.read("placements", EPOCH, end))


def situation_of(inputs: Inputs, registry: Registry) -> Situation:
    """What a plan is drafted from."""
    roster = roster_of(inputs.snapshot, Facts(inputs.nodes, inputs.placements))
    model = open_model(registry.root / inputs.bundle)
    snapshot = inputs.snapshot
    margins = served_margins(model.entry, snapshot.cluster, snapshot.apps, snapshot.platforms)
    scorer = ModelScorer(snapshot, model.predictor, margins, model.node)
    team = {uid: one.team for uid, one in roster.identity.items()}
    scene = Scene(scorer, roster.room, team, inputs.now_us)
    return Situation(inputs.diagnoses, scene, roster, inputs.past, inputs.bundle, digest_of(inputs))
