"""Ladder: everything that can be done for one victim, the cheapest that is sufficient first. Kernel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.diagnosis.slowdown_causes import TWO_SIDED_90, Diagnosis, Suspect
from advisor.diagnosis.slowdown_outliers import LOOKED
from advisor.remediation.action import Field, Remedy, remedy_of
from advisor.remediation.action_costs import Prices
from advisor.remediation.benefit import NOTHING, Hurt
from advisor.remediation.migration_options import Scene, move_antagonist, move_victim
from advisor.remediation.throttles import CPU_PERIOD_US, Throttled, throttle
from advisor.scoring.score_scale import BE_WEIGHT
from features.schema.catalog import NAMES

HOUR_US = 3600 * 1_000_000
STARTING_HOURS = 0.1
"""Until a container that was started anew works again."""
MODEL_SPREAD = 0.05
"""Of slowdown, that a measurement and the next differ by, whatever a neighbour adds."""
RAISE = 1.5
"""A limit that holds its container back is raised to so many times what is used, and looked at again."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """What can be done for one victim.

    Args:
        victim: container that the options help.
        remedies: those that are sufficient, the cheapest first; then the others, those that help most first.
        rest: why there are none, or what else is to be looked at; empty where there is nothing to say.
    """

    victim: str
    remedies: tuple[Remedy, ...]
    rest: str = ""


REST = {
    "host": "neighbours do not explain the slowdown of this node: cordon it and check the machine; no move is proposed",
    "downstream": "its replicas are slow too: check the services it calls; a move would not help",
    "not enough data": "too few measurements to propose a remedy",
}
NOT_THERE = "it is not in the snapshot any more: it ended, or was not measured since"
NOT_PREDICTED = "other nodes accept it, but no move is predicted to help: the model does not cover them or it"


def ladder(of: Diagnosis, others: Sequence[Diagnosis], scene: Scene, prices: Prices) -> Ladder:
    """Everything that can be done for a victim.

    Args:
        of: what is wrong with it.
        others: diagnoses of the whole cluster: what helps one may help several.
        scene: the cluster as it is now.
        prices: what acting costs.

    Returns:
        See Ladder. A latency-sensitive antagonist is never throttled: that would only make it the victim.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0043-rescheduling.md; that only best-effort containers are throttled follows Zhang et
        al., "CPI2", EuroSys 2013.
    """
    rows = {uid: row for row, uid in enumerate(scene.snapshot.containers)}
    if of.container not in rows:
        return Ladder(of.container, (), NOT_THERE)
    if of.verdict == "self-inflicted":
        return Ladder(of.container, tuple(_raised(of, rows.get(of.container), scene)))
    if of.verdict in REST:
        return Ladder(of.container, (), REST[of.verdict])
    found = list[Remedy | None]()
    antagonist = of.suspects[0] if of.verdict == "antagonist" else None
    if antagonist is not None and antagonist.container in rows:
        row, hurt = rows[antagonist.container], hurt_by(antagonist, of, others)
        calm = bool(scene.snapshot.resident_best_effort[row])
        if calm:
            found.append(throttle(_throttled(scene, row, antagonist, of, others), prices.hours))
        found.append(move_antagonist(scene, row, hurt, restart_of(scene, row, prices)))
    if np.isfinite(of.slowdown):
        found.append(move_victim(scene, rows[of.container], lately(of), prices.restart))
    options, rest = [one for one in found if one is not None], ""
    if not any(one.target for one in options):
        lacking = _lacking(of.container, antagonist, rows, scene)
        options += [_more_capacity(of, lacking)] if lacking else []
        rest = "" if lacking else NOT_PREDICTED
    return Ladder(of.container, cheapest_sufficient_first(options, prices.hours), rest)


def restart_of(scene: Scene, row: int, prices: Prices) -> float:
    """What moving a resident costs: of a best-effort one the work that it has done, which is done again."""
    if not scene.snapshot.resident_best_effort[row]:
        return prices.restart
    began_us = scene.began_us.get(scene.snapshot.containers[row])
    if began_us is None:
        return prices.restart_best_effort
    ran_hours = max(0.0, (scene.now_us - began_us) / HOUR_US)
    return min(prices.restart_best_effort, BE_WEIGHT * (STARTING_HOURS + ran_hours))


def cheapest_sufficient_first(remedies: Sequence[Remedy], hours: float) -> tuple[Remedy, ...]:
    """Those that suffice by cost, then the others by what they save beyond their cost, most first."""
    enough = sorted((one for one in remedies if one.suffices), key=lambda one: (one.cost, one.kind, one.container))
    others = [one for one in remedies if not one.suffices]
    others.sort(key=lambda one: (one.cost - one.gain * hours, one.kind, one.container))
    return (*enough, *others)


def hurt_by(antagonist: Suspect, of: Diagnosis, others: Sequence[Diagnosis]) -> Mapping[str, Hurt]:
    """Effect of an antagonist on each container whose diagnosis names it, by uid; the given victim first."""
    named = {one.container: one for one in (of, *others) if _names(one, antagonist.container)}
    return {uid: _hurt(one, one.suspects[0], through=None) for uid, one in named.items()}


def _names(one: Diagnosis, antagonist: str) -> bool:
    return one.verdict == "antagonist" and one.suspects[0].container == antagonist and bool(np.isfinite(one.slowdown))


def lately(one: Diagnosis) -> float:
    """Mean slowdown over the last windows of the diagnosis, those without slowdown included: the expected value.

    The mean over those in which it did would promise too much, since they were picked for being the worst.
    """
    known = [value for value in one.slowdowns[-LOOKED:] if np.isfinite(value)]
    return float(np.mean(known)) if known else float("nan")


def _hurt(one: Diagnosis, by: Suspect, *, through: str | None) -> Hurt:
    """What a suspect does to a victim, all of it or through one resource."""
    share = 1.0 if through is None else (by.through / by.added if by.resource == through and by.added > 0 else 0.0)
    spread = (by.high - by.low) / (2.0 * TWO_SIDED_90)
    return Hurt(lately(one), share * max(by.added, 0.0), (share**2 * spread**2 + MODEL_SPREAD**2) ** 0.5)


def _throttled(scene: Scene, row: int, antagonist: Suspect, of: Diagnosis, others: Sequence[Diagnosis]) -> Throttled:
    home = int(np.searchsorted(scene.snapshot.first, row, side="right")) - 1
    name = "cpu" if antagonist.resource == "cpu elsewhere" else antagonist.resource
    column = NAMES.index(name)
    named = [
        one for one in (of, *(o for o in others if o.container != of.container)) if _names(one, antagonist.container)
    ]
    return Throttled(
        container=antagonist.container,
        resource=antagonist.resource,
        used=float(np.nan_to_num(scene.snapshot.resident_use[row, column])),
        capacity=float(np.nan_to_num(scene.snapshot.node_capacity[home, column])),
        hurt=[_hurt(one, one.suspects[0], through=antagonist.resource) for one in named],
    )


def _raised(of: Diagnosis, row: int | None, scene: Scene) -> list[Remedy]:
    """A higher CPU limit for who is held back by its own."""
    cores = float(scene.snapshot.resident_use[row, NAMES.index("cpu")]) if row is not None else float("nan")
    if not cores > 0:
        return []
    limit = RAISE * cores
    fields = (
        Field("cgroup", "cpu.max", f"{round(limit * CPU_PERIOD_US)} {CPU_PERIOD_US}"),
        Field("pod", "resources.limits.cpu", f"{round(limit * 1000)}m"),
    )
    why = f"its own limit throttles it at {cores:.2f} cores; raise it by half, then check whether throttling stops"
    return [remedy_of("raise cpu limit", of.container, NOTHING, cost=0.0, sufficient=None, why=why, fields=fields)]


def _lacking(victim: str, antagonist: Suspect | None, rows: Mapping[str, int], scene: Scene) -> str:
    """Why no node accepts a victim, nor its antagonist; empty where one does."""
    own = scene.lacking(rows[victim])
    if antagonist is None or antagonist.container not in rows:
        return f"of the other nodes {own}" if own else ""
    other = scene.lacking(rows[antagonist.container])
    both = f"of the other nodes {own}; for its antagonist {other}"
    return both if own and other else ""


def _more_capacity(of: Diagnosis, lacking: str) -> Remedy:
    why = f"no node accepts it{' or its antagonist' if 'antagonist' in lacking else ''}: {lacking}"
    return remedy_of("add capacity", of.container, NOTHING, cost=0.0, sufficient=None, why=why)
