"""Moves: an approved plan exported as evictions with reservations, executed within budgets, and the final nodes.

An edge. What carries a plan out is a script of a few lines, as a site would have it: the export is posted step by step,
a budget that blocks is asked again, and the next round waits until everything runs.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import groupby
from time import monotonic, sleep, time_ns
from urllib.request import urlopen

import numpy as np
from sqlalchemy import Engine

from advisor.database.engine import migrate, open_store, writing
from advisor.placement.reservation_store import add_reservations, withdraw
from advisor.plans.export import ApprovedMove, Eviction, evictions
from benchmarks.serving import CLASSES
from e2e.kube.advisor import Advisor, advisor
from e2e.kube.api import THREADS, Api
from e2e.kube.control_plane import Advice, ControlPlane
from e2e.kube.dry_runs import Asked, asked
from e2e.kube.errors import Refused
from e2e.kube.processes import free_ports
from e2e.kube.runs import Plan
from e2e.kube.workloads import MAX_UNAVAILABLE, STILL_S, Kubelet, Pod, deploy, until_all

ROUNDS = 4
RESERVATION_US = 600 * 10**6
AGAIN_S = 0.2
ENOUGH = 0.99
ADVICES: tuple[Advice, ...] = ("filter, all nodes", "filter", "prioritize")
"""The one that must steer comes first."""


@dataclass(frozen=True)
class Moved:
    """What became of a plan.

    Args:
        advice: what kube-scheduler asked.
        moves: of the plan.
        landed: of these, pods on their target.
        not_offered: pods whose target was not among the nodes offered, as the advisor counted.
        blocked: evictions that a budget blocked at first.
        breaches: apps of which fewer pods were ready at some moment than their budget demands.
        seconds: it took.
    """

    advice: Advice
    moves: int
    landed: int
    not_offered: int
    blocked: int
    breaches: int
    seconds: float

    @property
    def share(self) -> float:
        """Of the moves that ended on their target."""
        return self.landed / max(self.moves, 1)


def moved(plan: Plan, count: int, cluster: str) -> tuple[list[Moved], list[Asked]]:
    """The same number of moves by each way of asking, one after the other, in one cluster; then dry runs."""
    [port] = free_ports(1)
    store = plan.folder / "moves.sqlite"
    settings = {"COHABIT_DATABASE": str(store)}
    with (
        plan.plane("moves") as plane,
        plane.controllers(),
        open_store(str(store)) as engine,
        Kubelet(plane.api).at_work() as kubelet,
    ):
        migrate(engine)
        replicas = max(plan.pods // len(CLASSES), 2 * MAX_UNAVAILABLE)
        deploy(plane.api, CLASSES, replicas)
        _until_ready(kubelet, plane, replicas * len(CLASSES))
        with advisor(plan.folder, port, "advisor-moves", settings) as advised:
            advised.warm(plan.nodes)
            run = _Run(plane, kubelet, advised, engine, cluster, plan.nodes)
            plans = [run.moved(advice, count, replicas, seed) for seed, advice in enumerate(ADVICES)]
        return plans, asked(plane, kubelet, replicas * len(CLASSES))


def steered(plans: Sequence[Moved]) -> bool:
    """Whether no budget was breached, and enough pods are on their target where all nodes are offered."""
    return not any(one.breaches for one in plans) and plans[0].share >= ENOUGH


@dataclass(frozen=True)
class _Run:
    plane: ControlPlane
    kubelet: Kubelet
    advised: Advisor
    store: Engine
    cluster: str
    nodes: Sequence[str]

    def moved(self, advice: Advice, count: int, replicas: int, seed: int) -> Moved:
        before = {pod.metadata.uid for pod in self.kubelet.all()}
        moves = planned(self.kubelet.all(), self.nodes, count, f"e2e-{seed}", np.random.default_rng(seed))
        steps, reservations = evictions(moves, self.cluster, time_ns() // 1000 + RESERVATION_US)
        with writing(self.store) as connection:
            add_reservations(connection, reservations)
        self.advised.process.until(lambda: self._metric("cohabit_reservations_open") == len(reservations))
        missed = self._metric(NOT_OFFERED)
        self.kubelet.watch_from_now()
        began = monotonic()
        with self.plane.scheduler(self.advised.port, advice=advice):
            blocked = self._carry_out(steps, {move.step: move.container for move in moves}, replicas * len(CLASSES))
        seconds = monotonic() - began
        with writing(self.store) as connection:
            withdraw(connection, f"e2e-{seed}")
        self.advised.process.until(lambda: self._metric("cohabit_reservations_open") == 0)
        landed = on_target(moves, (pod for pod in self.kubelet.all() if pod.metadata.uid not in before))
        breaches = sum(fewest < replicas - MAX_UNAVAILABLE for fewest in self.kubelet.fewest.values())
        not_offered = int(self._metric(NOT_OFFERED) - missed)
        return Moved(advice, len(moves), landed, not_offered, blocked, breaches, seconds)

    def _carry_out(self, steps: Sequence[Eviction], uids: Mapping[int, str], pods: int) -> int:
        """Round by round; how many evictions a budget blocked at first."""
        blocked = 0
        with ThreadPoolExecutor(THREADS) as pool:
            for _, steps_of in groupby(steps, lambda step: step.round):
                round_ = list(steps_of)
                blocked += sum(pool.map(partial(evict, self.plane.api), round_))
                until_all(partial(self.kubelet.ready, frozenset(uids[step.step] for step in round_)), pods)
        return blocked

    def _metric(self, name: str) -> float:
        with urlopen(f"{self.advised.main}/metrics", timeout=10) as reply:  # noqa: S310 - loopback
            found = re.search(rf"^{re.escape(name)} (\S+)$", reply.read().decode(), re.MULTILINE)
        return float(found[1]) if found else 0.0


NOT_OFFERED = 'cohabit_pinned_pods_total{outcome="target_not_offered"}'


def planned(
    pods: Sequence[Pod], nodes: Sequence[str], count: int, plan: str, rng: np.random.Generator
) -> list[ApprovedMove]:
    """So many pods, drawn, each to another node, drawn too; in rounds."""
    chosen = rng.permutation(len(pods))[:count].tolist()
    moves = []
    for step, at in enumerate(chosen, 1):
        pod = pods[at]
        target = next(nodes[i] for i in rng.permutation(len(nodes)).tolist() if nodes[i] != pod.spec.nodeName)
        meta = pod.metadata
        moves.append(
            ApprovedMove(
                step,
                1 + (step - 1) * ROUNDS // len(chosen),
                meta.uid,
                "default",
                meta.name,
                meta.labels.app,
                pod.spec.nodeName,
                target,
                plan,
                meta.labels.template_hash,
            )
        )
    return moves


def on_target(moves: Iterable[ApprovedMove], came: Iterable[Pod]) -> int:
    """How many moves have a new pod of their app on their target, one pod for one move."""
    wanted = Counter((move.app, move.target) for move in moves)
    there = Counter((pod.metadata.labels.app, pod.spec.nodeName) for pod in came)
    return (wanted & there).total()


def evict(api: Api, step: Eviction) -> bool:
    """Post an eviction until the budget lets it through; whether it was blocked at first.

    Raises:
        Refused: for another reason than a budget.
    """
    connection, body, blocked = api.connection(), json.dumps(step.body).encode(), False
    deadline = monotonic() + STILL_S
    while True:
        try:
            api.ask(connection, "POST", step.path, body)
        except Refused as error:
            if error.status != HTTPStatus.TOO_MANY_REQUESTS or monotonic() > deadline:
                raise
            blocked = True
            sleep(AGAIN_S)
        else:
            connection.close()
            return blocked


def _until_ready(kubelet: Kubelet, plane: ControlPlane, pods: int) -> None:
    """The first placement is kube-scheduler's own."""
    with plane.scheduler(None):
        until_all(kubelet.ready, pods)
