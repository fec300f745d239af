"""Herd: identical pods within one metric interval, and what the law says they did to everybody, however sent."""

import asyncio
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count as counting
from pathlib import Path
from time import time_ns

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry

from advisor.cluster.assumed_pod_load import Booked, crowded
from advisor.cluster.pending_pod import PodClass
from advisor.cluster.snapshot import Snapshot, publish
from advisor.cluster.worker_bus import Journal
from advisor.placement.encoded_scores import Replies, spell
from advisor.placement.exact_counts import ExactCounts
from advisor.placement.model_state import Serving
from advisor.placement.offer import Offer
from advisor.placement.prioritizer import Prioritizer
from advisor.scoring.score_table import ScoreTable, begun, score_columns
from advisor.scoring.scorer import ModelScorer
from benchmarks.choices import members_of, nodes_of, profiles_of
from benchmarks.herd_site import Site
from benchmarks.laws import CONFIG, World, simulated_world
from benchmarks.runner import OURS, Benchmark, Result
from cohabit.training.train_model import Effort, train_bundle
from features.contention.node_state import capacities
from features.training.model_input import node_matrix
from ingest.simulator.law import PLATFORMS, Law, counters
from ingest.simulator.laws import LAWS
from ingest.simulator.messages import app_name
from ingest.simulator.simulate import Plan, built_in
from ingest.simulator.simulated_cluster import load_at
from models.registry.registry import Registry

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NOON_S = 12 * 3600.0
OFFERED, DECISIONS = 50, 1000
SWARMS = 6
"""Apps whose pods come, each over the same cluster as it was."""
Send = Callable[[PodClass], int]
"""Row of the node that the next pod of a class is sent to."""


@dataclass(frozen=True)
class Cluster:
    """A cluster at noon.

    Args:
        view: what a refresher would publish of it.
        law: the truth.
        platform: (n,) of each node.
        counts: (n, apps) containers.
    """

    view: Snapshot
    law: Law
    platform: Ints
    counts: Ints

    def suffered_by_node(self, counts: Ints) -> Floats:
        """(n,) sum over the containers of each node of true slowdown above 1."""
        nodes, apps = counts.shape
        load = load_at(np.arange(apps), NOON_S)
        node, app = np.repeat(np.arange(nodes), apps), np.tile(np.arange(apps), nodes)
        others = (counts * load)[node]
        others[np.arange(len(app)), app] -= load[app]
        ratio = self.law.slowdown(app, np.maximum(others, 0.0), load[app], self.platform[node])
        found: Floats = (counts * (ratio - 1.0).reshape(nodes, apps)).sum(axis=1)
        return found

    def suffered(self, counts: Ints) -> float:
        """Sum over all containers of true slowdown above 1."""
        return float(self.suffered_by_node(counts).sum())

    def harm(self, app: int, sent: Ints) -> float:
        """What pods of an app, sent to these nodes, add to that: on everybody and on themselves."""
        after = self.counts.copy()
        np.add.at(after[:, app], sent, 1)
        return self.suffered(after) - self.suffered(self.counts)


def run(arguments: Namespace, rng: np.random.Generator) -> Result:
    """Harm by way of sending, in slowdowns of one container, and over that of a model that sees every pod at once."""
    found: dict[str, dict[str, float]] = {}
    for law in LAWS:
        plan = Plan(12, 24, hours=arguments.hours, seed=arguments.seed, law=law)
        with tempfile.TemporaryDirectory(prefix="cohabit-herd-") as folder:
            world = simulated_world(Path(folder), plan)
            cluster = drawn(world, arguments.nodes, rng)
            scorer = published(Path(folder), world, cluster)
            site = Site(Path(folder), arguments.servers, arguments.workers)
            harm = sent_by_all(cluster, scorer, site, arguments.pods, rng)
            found.setdefault(OURS, {})[f"{law}_all_equal"] = all_equal(scorer, rng)
        for who, values in harm.items():
            mine = found.setdefault(who, {})
            mine[f"{law}_harm"] = float(values.sum())
            mine[f"{law}_vs_fresh"] = float(values.sum() / harm["fresh"].sum())
    return found


def all_equal(scorer: ModelScorer, rng: np.random.Generator) -> float:
    """Share of decisions, a random class among random nodes, in which all nodes get the same score."""
    classes = [PodClass(app, best_effort) for app in scorer.snapshot.apps for best_effort in (False, True)]
    points = begun(scorer, "", classes).points
    drawn = [rng.choice(points.shape[1], OFFERED, replace=False) for _ in range(DECISIONS)]
    return float(np.mean([np.ptp(points[rng.integers(len(classes)), nodes]) == 0 for nodes in drawn]))


def sent_by_all(
    cluster: Cluster, scorer: ModelScorer, site: Site, pods: int, rng: np.random.Generator
) -> dict[str, Floats]:
    """(SWARMS,) true harm of each app's pods, by way of sending."""
    apps = rng.choice(cluster.counts.shape[1], SWARMS, replace=False)
    classes = [PodClass("", False), *(PodClass(app_name(int(app)), False) for app in apps)]
    table = begun(scorer, "", classes)
    found = {name: np.zeros(SWARMS) for name in (OURS, "alone", "fresh", "blind", "spread", "random")}
    for number, (app, of) in enumerate(zip(apps.tolist(), classes[1:], strict=True)):
        ways: dict[str, Send] = {
            "alone": guarded(table, scorer, site.fresh_folder()),
            "fresh": fresh(table, scorer),
            "blind": lambda of: int(table.cost[table.classes.index(of)].argmin()),
            "spread": least_crowded(cluster.counts.sum(axis=1)),
            "random": lambda _: int(rng.integers(len(table.nodes))),
        }
        for name, send in ways.items():
            found[name][number] = cluster.harm(app, np.array([send(of) for _ in range(pods)]))
        with site.running(of) as ask:
            sent = [chosen(ask(of, f"pod-{pod}", table.nodes), rng) for pod in range(pods)]
        found[OURS][number] = cluster.harm(app, np.array(sent))
    return found


def chosen(points: Ints, rng: np.random.Generator) -> int:
    """As kube-scheduler does that has no preference of its own: one of the best."""
    return int(rng.choice(np.flatnonzero(points == points.max())))


def guarded(table: ScoreTable, scorer: ModelScorer, folder: Path) -> Send:
    """One process of ours, each pod on the node it was booked on: a table from before the swarm, and assumed pods.

    All nodes that wait are counted exactly after each pod.
    """
    journal, counts = Journal(folder, 0, 2), ExactCounts(Journal(folder, 1, 2), lambda: time_ns() // 1000)
    advisor, loop, turn = _advisor(table, scorer, journal), asyncio.new_event_loop(), counting()

    def send(of: PodClass) -> int:
        number = next(turn)
        loop.run_until_complete(advisor.answer(Offer(of.pending_pod(), str(number), table.nodes)))
        while counts.listen():
            counts.count(table, scorer)
        return table.nodes.index(list(advisor.assumed.bookings)[-1].node)

    return send


def _advisor(table: ScoreTable, scorer: ModelScorer, journal: Journal) -> Prioritizer:
    nowhere = Path()
    serving = Serving(nowhere, Registry(nowhere), float("inf"), lambda: time_ns() // 1000, CollectorRegistry())
    serving.scorer = scorer
    made = Prioritizer(serving, nowhere, journal=journal)
    made.take(Replies(table, spell(table.nodes)))
    return made


def fresh(table: ScoreTable, scorer: ModelScorer) -> Send:
    """The same model with a fresh state: after each pod its node is scored anew, the pod being a resident."""
    cost, coming = table.cost.copy(), list[Booked]()

    def send(of: PodClass) -> int:
        row = table.classes.index(of)
        best = int(cost[row].argmin())
        coming.append(Booked(str(len(coming)), table.nodes[best], of, 0))
        there = [one for one in coming if one.node == table.nodes[best]]
        view = crowded(scorer.snapshot, [table.nodes[best]], there)
        again = score_columns(replace(scorer, snapshot=view), [of], np.zeros(1, np.int32))
        cost[row, best] = again.cost[0, 0]
        return best

    return send


def least_crowded(counts: Ints) -> Send:
    """As many containers as possible on every node: what a scheduler does that counts them."""
    there = counts.copy()

    def send(_: PodClass) -> int:
        best = int(there.argmin())
        there[best] += 1
        return best

    return send


def drawn(world: World, nodes: int, rng: np.random.Generator) -> Cluster:
    """A cluster of random nodes and residents of a world's apps."""
    plan, (law, best_effort) = world.plan, built_in(world.plan)
    platform = rng.integers(len(PLATFORMS), size=nodes)
    size = np.round(plan.per_node * rng.uniform(0.1, 1.5, nodes)).astype(np.int64)
    group, app = np.repeat(np.arange(nodes), size), rng.integers(plan.apps, size=size.sum())
    load, where = load_at(app, NOON_S), nodes_of(world.lake, platform)
    shown = counters(law.apps, app, load, slowdown=np.ones(len(app)), platform=platform[group], rng=rng)
    counts = np.zeros((nodes, plan.apps), np.int64)
    np.add.at(counts, (group, app), 1)
    names = tuple(app_name(number) for number in range(plan.apps))
    by_name = sorted(range(plan.apps), key=lambda number: names[number])
    place = np.argsort(by_name)
    every = nodes_of(world.lake, np.repeat(np.arange(len(PLATFORMS)), plan.apps))
    profile = profiles_of(world.lake, every, np.tile(by_name, len(PLATFORMS)))
    view = Snapshot(
        version=1,
        as_of_us=0,
        cluster=world.table["cluster"][0].as_py(),
        nodes=tuple(f"n{row:04d}" for row in range(nodes)),
        platforms=tuple(p.name for p in PLATFORMS),
        apps=tuple(names[number] for number in by_name),
        containers=tuple(f"uid-{row}" for row in range(len(app))),
        cpusets=(None,) * len(app),
        node_platform=platform,
        node_capacity=capacities(where),
        node_facts=node_matrix(where),
        node_seen_us=np.zeros(nodes, np.int64),
        node_known=np.ones(nodes, np.bool_),
        first=np.append(0, np.cumsum(size)),
        resident_app=place[app],
        resident_best_effort=np.array(best_effort)[app],
        resident_use=members_of(group, shown, capacities(where)[group], np.array(best_effort)[app]).use,
        profile=np.swapaxes(profile.reshape(len(PLATFORMS), plan.apps, -1), 0, 1),
    )
    return Cluster(view, law, platform, counts)


def published(folder: Path, world: World, cluster: Cluster) -> ModelScorer:
    """A registry with what was learnt from the world, snapshots with the cluster, and who scores by both."""
    registry, snapshots = Registry(folder / "registry"), folder / "snapshots"
    train_bundle(world.table, registry, datetime.now(UTC), {}, Effort(CONFIG))
    publish(snapshots, replace(cluster.view, as_of_us=time_ns() // 1000))
    serving = Serving(snapshots, registry, float("inf"), lambda: 0, CollectorRegistry())
    serving.reload()
    assert serving.scorer is not None, serving.refused  # noqa: S101 - both were written just now
    return serving.scorer


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, default=100, help="nodes that pods are sent to (100)")
    parser.add_argument("--pods", type=int, default=500, help="identical pods in each swarm (500)")
    parser.add_argument("--servers", type=int, default=2, help="servers that take turns (2)")
    parser.add_argument("--workers", type=int, default=4, help="processes that answer in each of them (4)")
    parser.add_argument("--hours", type=float, default=12.0, help="simulated hours that are learnt from (12)")
    parser.add_argument("--seed", type=int, default=1, help="of the simulation (1)")


BENCHMARK = Benchmark(
    "herd",
    "true harm of identical pods within one metric interval, beside a model that sees each at once, and no guard",
    run,
    runs=1,
    add_arguments=_arguments,
)
