"""Plans: what plans that were carried out achieved, on simulated clusters whose law says what would have been."""

import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from sqlalchemy import Engine

from advisor.database.engine import migrate, open_store
from advisor.plans import store as proposal_store
from advisor.plans.plan_service import Actor, Desk
from advisor.plans.planner import Draft
from advisor.plans.rules.plan_record import Step, expected
from advisor.plans.rules.policy import Rules
from advisor.remediation.action import MOVES, Remedy
from advisor.remediation.ranked_options import Ladder
from advisor.scoring.score_scale import LIMIT_SLOWDOWN
from benchmarks.antagonists import CLUSTER, cast_of
from benchmarks.carried_out import HELD_BY, START_S, Moment, Played, Undone, saved, slowdowns
from benchmarks.reassign.timed import whole
from benchmarks.runner import TOP, Benchmark, Result
from benchmarks.worked import cost_of_restart, cost_of_throttle, work_of
from cohabit.plans.create import Sources, propose
from cohabit.plans.outcomes import conclude
from cohabit.training.train_model import DEFAULT_EFFORT, train_bundle, training_table
from ingest.simulator.law import HIDDEN
from ingest.simulator.laws import LAWS
from models.registry.registry import Registry

LOUD_PER_NODE, CALM_PER_NODE = 4, 1
LEARNT_S = 5 * 3600.0
FIRST_S, EVERY_S = 2700.0, 1800.0
"""After what was learnt, when a plan is made first, and how often."""
JUDGED_S = 1800.0
"""For how long after it was carried out a plan is judged."""
QUIET = 1.15
"""Up to that, nobody truly suffers."""
LOOKED_MINUTES = 25
FIRST_SEED = 501
"""How gains are told was looked at with seeds from 201 on, steps on calm clusters with 301, intervals with 401, 402."""
RULES = Rules(max_daily_share=1.0, max_steps=20, max_search_moves=1 << 17)
"""As many as pay: what is judged is what they achieve."""
SRE = Actor("benchmark", "sre", "benchmark")


@dataclass(frozen=True)
class Done:
    """A plan that was carried out.

    Args:
        law: of the cluster.
        predicted: saved in an hour, expected.
        low: of its 90 % interval.
        realised: what was saved in an hour.
        moves: how many of its steps were.
        plan: its name.
        told: what differences against those held back say that it saved; None where that was not told.
        searched: of moves that only the search proposed, predicted and realised.
    """

    law: str
    predicted: float
    low: float
    realised: float
    moves: int
    plan: str
    told: float | None = None
    searched: tuple[float, float] = (0.0, 0.0)


@dataclass
class Seen:
    """What was seen in all clusters."""

    done: list[Done] = field(default_factory=list)
    count: Counter[str] = field(default_factory=Counter)
    claims: list[tuple[float, float]] = field(default_factory=list)
    """True costs of throttles that are said to cost less than moving, and of those moves."""


def run(arguments: Namespace, _: np.random.Generator) -> Result:
    """Clusters with loud containers, and calm ones, under each law."""
    seen = Seen()
    for law in [arguments.law] if arguments.law else list(LAWS):
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            _under(law, seed, arguments.rounds, seen)
    done, count = seen.done, seen.count
    ratio = sum(one.realised for one in done) / max(sum(one.predicted for one in done), 1e-9)
    searched = np.array([one.searched for one in done]).sum(axis=0)
    return {
        TOP: {
            "plans": len(done),
            "steps": count["steps"],
            "moves": count["moves"],
            "plans_whose_containers_left_at_once": count["left_at_once"],
            "above_low_frac": float(np.mean([one.realised >= one.low for one in done])),
            "realised_over_predicted": ratio,
            "mean_ratio": float(np.mean([one.realised / one.predicted for one in done])),
            "searched": count["searched"],
            "searched_realised_over_predicted": float(searched[1] / max(searched[0], 1e-9)),
            "twice_in_cool_down": count["twice"],
            "told_by_differences": sum(one.told is not None for one in done),
            "differences_over_true": _differences(done),
            "calm_proposals": count["calm"],
            "calm_node_hours": count["calm_node_hours"],
            "calm_proposals_for_true_victims": count["calm_true"],
            "first_choices": count["first"],
            "first_sufficient_frac": count["first_enough"] / max(count["first"], 1),
            **_cheaper(seen.claims),
        }
    }


def _cheaper(claims: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Whether throttles that are said to cost less than moving do."""
    if not claims:
        return {"said_cheaper": 0}
    held, moved = np.array(claims).T
    return {
        "said_cheaper": len(claims),
        "said_cheaper_and_is_frac": float(np.mean(held < moved)),
        "their_cost_over_moving": float(held.sum() / moved.sum()),
    }


def _under(law: str, seed: int, rounds: int, seen: Seen) -> None:
    """A cluster with loud containers and a calm one under one law; both are judged by what the first one taught."""
    with tempfile.TemporaryDirectory() as name:
        loud = cast_of(law, seed, loud=True, per_node=LOUD_PER_NODE, hours=0.0)
        calm = cast_of(law, seed, loud=False, per_node=CALM_PER_NODE, hours=0.0)
        registry = Registry(Path(name) / "registry")
        world = Played(law, loud, Path(name) / "loud", seed)
        world.play(LEARNT_S)
        world.look()
        now = datetime.fromtimestamp(world.now_us / 1e6, UTC)
        train_bundle(training_table(world.lake), registry, now, {}, DEFAULT_EFFORT)
        with open_store(str(world.folder / "store.sqlite")) as engine:
            migrate(engine)
            _rounds(world, registry, engine, rounds, seen)
        quiet = Played(law, calm, Path(name) / "calm", seed)
        with open_store(str(quiet.folder / "store.sqlite")) as engine:
            migrate(engine)
            for number in range(rounds):
                quiet.play(LEARNT_S + FIRST_S + number * EVERY_S)
                _judge_calm(quiet, _proposed(quiet, registry, engine), seen.count)


def _judge_calm(world: Played, found: Draft, count: Counter[str]) -> None:
    """Steps for containers that truly do not suffer, and for the others, which even a calm cluster may have."""
    late = [slowdowns(world.law, world.cast, one) for one in world.moments[-LOOKED_MINUTES:]]
    count["calm_node_hours"] += round(world.cast.nodes * EVERY_S / 3600)
    for step in found.plan.steps if found.plan else ():
        known = [one[step.victims[0]] for one in late if step.victims[0] in one]
        count["calm" if np.mean(known) < QUIET else "calm_true"] += 1


def _proposed(world: Played, registry: Registry, engine: Engine) -> Draft:
    """As `cohabit refresh` does it: what came of earlier plans corrects what the next one promises."""
    world.look()
    desk = Desk(engine, CLUSTER, RULES, lambda: world.now_us)
    conclude(world.lake, desk, SRE)
    sources = Sources(world.lake, world.folder / "snapshots", registry, world.folder / "plans")
    return propose(sources, desk, SRE)


def _rounds(world: Played, registry: Registry, engine: Engine, rounds: int, seen: Seen) -> None:
    touched, since = set[str](), len(seen.done)
    for number in range(rounds):
        world.play(LEARNT_S + FIRST_S + number * EVERY_S)
        found = _proposed(world, registry, engine)
        _judge_ladders(world, found, seen)
        begun = len(world.moments)
        undone, steps = _carried_out(world, found, engine, touched, seen.count) if found.plan else (None, ())
        world.play(LEARNT_S + FIRST_S + number * EVERY_S + JUDGED_S)
        if found.plan is not None and undone is not None and steps:
            done = _done(world, found.plan.plan, steps, world.moments[begun:], undone)
            if not done.predicted:  # nobody whom it is about stayed for a moment of what is judged
                seen.count["left_at_once"] += 1
                continue
            seen.done.append(done)
            print(
                f"{world.law} {world.seed} {number}: {len(steps)} steps, {done.predicted:.2f} predicted, at least "
                f"{done.low:.2f}, realised {done.realised:.2f}; of the search {done.searched}",
                file=sys.stderr,
                flush=True,
            )
    _concluded(world, engine, seen.done, since)


def _concluded(world: Played, engine: Engine, done: list[Done], since: int) -> None:
    """What the product itself says that plans saved, an hour after the last."""
    world.play(world.state.time_s - START_S + EVERY_S)
    world.look()
    desk = Desk(engine, CLUSTER, RULES, lambda: world.now_us)
    conclude(world.lake, desk, SRE)
    told = dict(proposal_store.realised_of(engine, CLUSTER))
    for number in range(since, len(done)):
        done[number] = replace(done[number], told=told.get(done[number].plan))


def _differences(done: Sequence[Done]) -> float:
    """Of plans whose outcome was told: that over the true one."""
    known = [one for one in done if one.told is not None]
    return sum(one.told or 0.0 for one in known) / max(sum(one.realised for one in known), 1e-9)


def _carried_out(
    world: Played, found: Draft, engine: Engine, touched: set[str], count: Counter[str]
) -> tuple[Undone, Sequence[Step]]:
    """Approve all, export, and do what it says."""
    assert found.plan is not None  # noqa: S101 - asked by the caller
    desk = Desk(engine, found.plan.cluster, RULES, lambda: world.now_us)
    proposal = desk.one(found.plan.plan)
    if proposal.state != "drafted":
        return Undone({}, frozenset()), ()
    proposal = desk.approve(found.plan.plan, proposal.version, None, SRE, lambda _of, _steps: {})
    desk.export(found.plan.plan, proposal.version, lambda _connection, _of: b"done", SRE)
    nodes, free, uids = dict[str, int](), set[str](), list[str]()
    for step in proposal.approved:
        uid = step.who.container
        count["steps"] += 1
        count["twice"] += uid in touched
        count["searched"] += step.kind == "rearrange"
        if step.kind in MOVES:
            count["moves"] += 1
            uid = world.move(uid, _node(step.target))
            nodes[uid] = _node(step.source)
        else:
            world.hold_back(uid, step.kind, step.kept)
            free.add(uid)
        touched.add(uid)
        uids.append(uid)
    return Undone(nodes, frozenset(free), tuple(uids)), proposal.approved


def _done(world: Played, plan: str, steps: Sequence[Step], after: Sequence[Moment], undone: Undone) -> Done:
    """What was saved and what was expected, of an hour, while those are there whom it is about."""
    names = dict(zip([step.who.container for step in steps], undone.of, strict=True))
    here = [{c.uid for c in one.containers} for one in after]
    alive = np.array([[_who(step, names) <= there for step in steps] for there in here], np.bool_)
    share = alive.mean(axis=0)
    predicted = float(sum(share * [step.gain for step in steps]))
    _, low, _ = expected(steps)
    whole_plan = sum(step.gain for step in steps)
    realised = saved(world.law, world.cast, after, undone)
    found = np.array([step.kind == "rearrange" for step in steps])
    nodes = {uid: undone.node[uid] for uid, one in zip(undone.of, found.tolist(), strict=True) if one}
    searched = saved(world.law, world.cast, after, Undone(nodes, frozenset())) if nodes else 0.0
    told = float(sum((share * [step.gain for step in steps])[found])), searched
    return Done(world.law, predicted, predicted * low / whole_plan, realised, len(undone.node), plan, searched=told)


def _who(step: Step, names: Mapping[str, str]) -> set[str]:
    """Who has to be there for a step to do anything: whom it was done to, and the first it helps."""
    return {names[step.who.container], names.get(step.victims[0], step.victims[0])}


def _judge_ladders(world: Played, found: Draft, seen: Seen) -> None:
    """Whether first choices that are called sufficient are, as the law says of this very moment."""
    count = seen.count
    for one in found.ladders:
        if one.remedies and one.remedies[0].suffices:
            first, enough = one.remedies[0], _is_enough(world, one, one.remedies[0])
            count["first"] += 1
            count["first_enough"] += enough
            moves = [other for other in one.remedies if other.kind == "move antagonist"]
            if first.kind in HELD_BY and moves and first.cost < moves[0].cost:
                seen.claims.append(_claim(world, first))


def _claim(world: Played, first: Remedy) -> tuple[float, float]:
    """What a throttle that is said to be cheaper than moving truly costs, and what moving would."""
    antagonist = next(c for c in world.moments[-1].containers if c.uid == first.container)
    work, ran_hours = work_of(world.cast.apps, world.seed), (world.state.time_s - antagonist.born_s) / 3600
    resource = HELD_BY[first.kind]
    held = cost_of_throttle(work, antagonist.app, resource, first.kept, RULES.prices.hours)
    return held, cost_of_restart(work, antagonist.app, ran_hours)


def _is_enough(world: Played, of: Ladder, first: Remedy) -> bool:
    now = world.moments[-1]
    if of.victim not in {c.uid for c in now.containers}:
        return False
    node = {first.container: _node(first.target)} if first.target is not None else {}
    throttles = dict(now.throttles)
    if first.kind in HELD_BY:
        throttles[first.container] = (HIDDEN.index(HELD_BY[first.kind]), first.kept)
    then = slowdowns(world.law, world.cast, Moment(now.time_s, now.containers, throttles), Undone(node, frozenset()))
    return then[of.victim] < LIMIT_SLOWDOWN


def _node(name: str | None) -> int:
    return int((name or "").removeprefix("node-"))


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--law", choices=sorted(LAWS), help="by which containers slow each other down (all)")
    parser.add_argument("--seeds", type=whole(1, 100), default=2, help="clusters for each law (2)")
    parser.add_argument("--first-seed", type=whole(0, 10**6), default=FIRST_SEED, help=f"of them ({FIRST_SEED})")
    parser.add_argument("--rounds", type=whole(1, 100), default=10, help="plans made on each at most (10)")


BENCHMARK = Benchmark("plans", "what plans that are carried out achieve", run, 1, _arguments)
