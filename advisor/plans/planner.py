"""Drafting: from slowed containers to a plan that pays, by ladders and within rules. Kernel.

Worst first; each step is judged in the cluster as the steps before leave it.
"""

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from advisor.diagnosis.slowdown_causes import Diagnosis
from advisor.optimizer.assignment_cost import homes
from advisor.plans.rules.cooldowns import cools_down, in_plan, refused
from advisor.plans.rules.disruption_budgets import budget_uses, shares_budget, takes_budget
from advisor.plans.rules.evictable import Roster, below_minimum
from advisor.plans.rules.move_limit import steps_left
from advisor.plans.rules.past_steps import Past
from advisor.plans.rules.plan_record import FORMAT, Identity, Plan, Step, named
from advisor.plans.rules.policy import Rules
from advisor.remediation.action import MOVES, Remedy
from advisor.remediation.migration_options import Scene, move_anybody, moved
from advisor.remediation.ranked_options import Ladder, hurt_by, ladder, restart_of

Search = Callable[[Scene, Collection[str], int, float], list[str]]
"""Who should be elsewhere, of all but some, so many at most, at a price of each: advisor.plans.optimizer_moves."""
MAX_LADDERS = 50
"""Of so many victims remedies are worked out, the worst first, also where no more steps are allowed."""
MAX_SEARCHED = 50
"""Of whom the search would move so many at most are looked at."""
UNDIAGNOSED = "no container here is a confirmed victim, but the model expects small slowdowns of several"
NO_MORE = "the limit of steps a plan or of containers a day is reached"


@dataclass(frozen=True)
class Situation:
    """All that a plan is made from.

    Args:
        diagnoses: of slowed containers, worst first.
        scene: the cluster as it is now.
        roster: its residents.
        past: steps of earlier plans.
        factor: by what gains are multiplied, see advisor.plans.rules.did_estimate.factor_of.
        bundle: name of the model.
        inputs: SHA-256 of all that, hex; draws who is held back too.
    """

    diagnoses: tuple[Diagnosis, ...]
    scene: Scene
    roster: Roster
    past: tuple[Past, ...]
    factor: float
    bundle: str
    inputs: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """A victim for whom nothing is proposed, and why, in words; `pending`: since an earlier plan is to help it."""

    victim: str
    node: str
    why: str
    pending: bool = False


@dataclass(frozen=True)
class Draft:
    """What came of a situation.

    Args:
        plan: None where nothing is proposed.
        skipped: for whom nothing is.
        ladders: of the MAX_LADDERS worst victims, and of as many more as it takes to find as many steps as allowed.
    """

    plan: Plan | None
    skipped: tuple[Skipped, ...]
    ladders: tuple[Ladder, ...]


def draft(of: Situation, rules: Rules, search: Search | None = None) -> Draft:
    """A plan for slowed containers.

    Args:
        of: the slowed containers, and the node of every container.
        rules: what may be proposed.
        search: finds containers to move where no victim was diagnosed; None does not search.

    Returns:
        A plan whose steps each save more than they cost by the lower end of their interval, and why nothing is
        proposed for the others. The same situation and rules, the same plan, to the byte.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0043-rescheduling.md.
    """
    at_us, found = of.scene.now_us, _Found(of, rules)
    closed = rules.closed(at_us)
    for one in of.diagnoses:
        helped, ranked = found.is_helped(one.container), None
        pending = "" if helped else in_plan(one.container, of.past)
        if pending:
            found.ladders.append(Ladder(one.container, (), pending))
        elif len(found.ladders) < MAX_LADDERS or not (helped or found.full):
            ranked = _calibrated(ladder(one, of.diagnoses, found.scene, rules.prices), of.factor)
            found.ladders.append(ranked)
        why = "" if helped else pending or found.full or closed or (found.take(one, ranked) if ranked else "")
        if why:
            found.skipped.append(Skipped(one.container, one.node, why, bool(pending)))
    if search is not None and not closed and not found.full:
        found.rearrange(search)
    steps = _numbered(found.steps)
    plan = _plan(of, rules, steps) if steps else None
    return Draft(plan, tuple(found.skipped), tuple(found.ladders))


def _calibrated(ranked: Ladder, factor: float) -> Ladder:
    """Ranked options with gains scaled by the realised share of earlier plans."""
    return replace(ranked, remedies=tuple(one.scaled(factor) for one in ranked.remedies))


class _Found:
    """Steps that were found so far, and the cluster as they leave it."""

    def __init__(self, of: Situation, rules: Rules) -> None:
        self.of, self.rules, self.scene = of, rules, of.scene
        self.left = steps_left(rules, len(of.scene.snapshot.containers), of.past, of.scene.now_us)
        self.steps, self.skipped, self.ladders = list[Step](), list[Skipped](), list[Ladder]()

    @property
    def full(self) -> str:
        """Why nothing more is looked for; empty while there may be more steps."""
        return NO_MORE if len(self.steps) >= self.left else ""

    def is_helped(self, victim: str) -> bool:
        """Whether a step already helps a container."""
        return any(victim in step.victims for step in self.steps)

    def take(self, one: Diagnosis, ranked: Ladder) -> str:
        """Take the best step for a victim; why there is none, else empty."""
        if not ranked.remedies:
            return ranked.rest or "no known remedy helps"
        paying = [remedy for remedy in ranked.remedies if remedy.pays(self.rules.prices.hours)]
        if not paying:
            return "no remedy saves more than it costs, by the lower end of its interval"
        why = ""
        for remedy in paying:
            step = self._step(one, remedy)
            refusal = self._refused(step)
            if not refusal:
                self._add(step)
                return ""
            why = why or refusal
        return why

    def rearrange(self, search: Search) -> None:
        """Take moves from the search of the whole cluster, for nodes without a diagnosis, as long as they pay."""
        prices = self.rules.prices
        wanted = search(self.scene, self._settled(), MAX_SEARCHED, prices.restart / prices.hours)
        while wanted and not self.full:
            ways = [way for uid in wanted if (way := self._way(uid)) is not None]
            if not ways:
                return
            best = max(ways, key=lambda step: (step.low * prices.hours - step.cost, step.who.container))
            wanted.remove(best.who.container)
            self._add(best)

    def _way(self, uid: str) -> Step | None:
        """The best move of a container, where it pays twice and may be proposed."""
        row = self.scene.snapshot.containers.index(uid)
        found = move_anybody(self.scene, row, restart_of(self.scene, row, self.rules.prices))
        if found is None:
            return None
        remedy, helped = found[0].scaled(self.of.factor), found[1]
        beyond = remedy.low * self.rules.prices.hours - remedy.cost
        if beyond <= self.rules.prices.restart:  # no measured victim: the gain must also cover the risk of error
            return None
        step = self._made(remedy, self._home(uid), helped, UNDIAGNOSED)
        return None if self._refused(step) else step

    def _home(self, uid: str) -> str:
        return self.scene.snapshot.nodes_of({uid})[uid]

    def _settled(self) -> set[str]:
        """Containers not moved on a prediction alone: ineligible ones, and all on nodes with a diagnosis."""
        nodes = {one.node for one in self.of.diagnoses} | {step.target for step in self.steps}
        snapshot, home = self.scene.snapshot, homes(self.scene.snapshot)
        there = {
            uid for uid, node in zip(snapshot.containers, home.tolist(), strict=True) if snapshot.nodes[node] in nodes
        }
        now_us = self.of.scene.now_us
        past = {one.step.who.container for one in self.of.past if one.pending or cools_down(one, self.rules, now_us)}
        return there | past | set(self.of.roster.left_alone)

    def _refused(self, step: Step) -> str:
        if any(other.who.container == step.who.container for other in self.steps):
            return "another step is already proposed for it"
        past, now_us, roster = self.of.past, self.scene.now_us, self.of.roster
        if step.kind in MOVES and (gang := roster.gangs.get(step.who.container)) and self._is_bare(gang):
            return below_minimum(gang)
        allowed = roster.allowed.get(step.who.container, 1)
        return refused(step, roster.left_alone, past, self.rules, now_us, allowed=allowed)

    def _is_bare(self, gang: str) -> bool:
        """Whether a gang would fall below its minimum by one more move than those of this plan and of earlier ones."""
        roster, now_us = self.of.roster, self.scene.now_us
        steps = [*self.steps, *(one.step for one in self.of.past if takes_budget(one, now_us))]
        moving = {step.who.container for step in steps if step.kind in MOVES}
        return sum(roster.gangs.get(uid) == gang for uid in moving) >= roster.spare.get(gang, 0)

    def _step(self, one: Diagnosis, remedy: Remedy) -> Step:
        return self._made(remedy, one.node, self._victims(one, remedy), one.reason)

    def _made(self, remedy: Remedy, source: str, victims: tuple[str, ...], verdict: str) -> Step:
        who = self.of.roster.identity[remedy.container]
        turn, used = 1, budget_uses(who, self.of.past, self.scene.now_us)
        at_once = max(self.of.roster.allowed.get(who.container, 1) - used, 1)
        while remedy.kind in MOVES and shares_budget(who, self._moving_in(turn), at_once):
            turn += 1
        return Step(
            number=len(self.steps) + 1,
            round=turn,
            kind=remedy.kind,
            who=who,
            source=source,
            target=remedy.target,
            fields=remedy.fields,
            kept=remedy.kept,
            victims=victims,
            verdict=verdict,
            why=remedy.why,
            gain=remedy.gain,
            low=remedy.low,
            high=remedy.high,
            there=remedy.there,
            cost=remedy.cost,
            sufficient=remedy.sufficient,
        )

    def _moving_in(self, turn: int) -> list[Identity]:
        return [step.who for step in self.steps if step.kind in MOVES and step.round == turn]

    def _victims(self, one: Diagnosis, remedy: Remedy) -> tuple[str, ...]:
        if remedy.container == one.container:
            return (one.container,)
        return tuple(hurt_by(one.suspects[0], one, self.of.diagnoses))

    def _add(self, step: Step) -> None:
        self.steps.append(step)
        if step.target is not None:
            self.scene = moved(self.scene, step.who.container, step.target)


def _numbered(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Steps in the order in which they are carried out, numbered from 1."""
    ordered = sorted(steps, key=lambda step: (step.round, step.number))
    return tuple(replace(step, number=number) for number, step in enumerate(ordered, 1))


def under_way(scene: Scene, past: Sequence[Past]) -> Scene:
    """The cluster with the moves of earlier plans that may still come: who is where it was is taken to go."""
    for one in past:
        who, target = one.step.who.container, one.step.target
        comes = one.counts and one.decision in {"open", "approved"} and target in scene.snapshot.node_index
        if comes and target is not None and scene.snapshot.nodes_of({who}).get(who) == one.step.source:
            scene = moved(scene, who, target)
    return scene


def holdout(steps: Sequence[Step], share: float, seed: str) -> tuple[int, ...]:
    """Numbers of held-out steps: each with a probability, drawn by the seed and independent of the step."""

    def drawn(number: int) -> float:
        digest = hashlib.sha256(f"{seed}:{number}".encode()).digest()
        return int.from_bytes(digest[:8], "big") / 2**64

    return tuple(step.number for step in steps if drawn(step.number) < share)


def _plan(of: Situation, rules: Rules, steps: tuple[Step, ...]) -> Plan:
    created_us, cluster = of.scene.now_us, of.scene.snapshot.cluster
    return Plan(
        format=FORMAT,
        plan=named(cluster, created_us, steps),
        cluster=cluster,
        created_us=created_us,
        expires_us=created_us + rules.valid_us,
        snapshot=of.scene.snapshot.version,
        bundle=of.bundle,
        factor=of.factor,
        hours=rules.prices.hours,
        steps=steps,
        holdout=holdout(steps, rules.holdout_share, of.inputs),
        inputs=of.inputs,
    )
