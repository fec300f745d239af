"""Drawn: clusters with taints, labels, affinity, spread, budgets, gangs and leaving nodes, as Kubernetes objects.

Objects become rows the way `cohabit watch` makes them, so that plans are drafted from what the scheduler sees too.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from advisor.cluster.snapshot import Snapshot
from advisor.diagnosis.slowdown_causes import Diagnosis, Suspect
from advisor.optimizer.assignment_cost import homes
from advisor.plans.planner import Situation
from advisor.plans.rules.evictable import roster_of
from advisor.plans.rules.policy import HOUR_US
from advisor.remediation.migration_options import Scene
from advisor.scoring.scorer import ModelScorer
from features.contention.node_state import Facts
from features.schema.catalog import NAMES
from ingest.kube.api_types import Node, Pod
from ingest.kube.nodes import node_facts
from ingest.kube.pod_disruption import budget_of, by_namespace, columns_of
from ingest.kube.pods import placement
from ingest.schema.tables import LANDED

Object = dict[str, Any]
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NAMESPACES = ("default", "ads")
TAINTS: tuple[tuple[float, Object], ...] = (
    (0.15, {"key": "dedicated", "value": "ads", "effect": "NoSchedule"}),
    (0.05, {"key": "spot", "effect": "NoExecute"}),
    (0.06, {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}),
    (0.04, {"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"}),
    (0.05, {"key": "DeletionCandidateOfClusterAutoscaler", "value": "1", "effect": "PreferNoSchedule"}),
    (0.06, {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}),
)
"""Share of nodes with each taint."""
TOLERATIONS: tuple[tuple[float, Object], ...] = (
    (0.3, {"key": "dedicated", "operator": "Equal", "value": "ads", "effect": "NoSchedule"}),
    (0.1, {"key": "spot", "operator": "Exists"}),
    (0.05, {"key": "dedicated", "operator": "Equal", "value": "", "effect": "NoSchedule"}),
    (0.05, {"operator": "Exists"}),
)
GPU, FPGA = "nvidia.com/gpu", "example.com/fpga"
MINIMUM = "gang.scheduling.koordinator.sh/min-available"
"""How many pods a gang needs, in all pods of two gangs of three."""
VICTIMS = 8
"""Diagnosed containers of one cluster at most, each on a node of its own."""
SLOW_WINDOWS = 24


@dataclass(frozen=True)
class Drawn:
    """A cluster.

    Args:
        snapshot: of it.
        nodes: (n) objects.
        pods: (m) objects, in the order of the snapshot's containers.
        budgets: disruption budgets, with what they allow.
    """

    snapshot: Snapshot
    nodes: tuple[Object, ...]
    pods: tuple[Object, ...]
    budgets: tuple[Object, ...]


def drawn(of: Snapshot, seed: int) -> Drawn:
    """Rules and requests for the nodes and residents of a snapshot."""
    rng = np.random.default_rng(seed)
    home = homes(of)
    use = np.nan_to_num(of.resident_use[:, [NAMES.index("cpu"), NAMES.index("memory")]])
    requests = np.maximum(use * rng.uniform(0.5, 1.5, use.shape), [0.01, 1e6])
    pods = tuple(_pod(of, row, of.nodes[home[row]], requests[row], rng) for row in range(len(of.containers)))
    taken = np.zeros((len(of.nodes), 2))
    np.add.at(taken, home, np.maximum(requests, use))
    counts = np.bincount(home, minlength=len(of.nodes))
    nodes = tuple(_node(of, row, taken[row], int(counts[row]), rng) for row in range(len(of.nodes)))
    return Drawn(of, nodes, pods, tuple(_budgets(of, rng)))


def situation(of: Drawn, scorer: ModelScorer, seed: int) -> Situation:
    """What a plan is drafted from: a few latency-sensitive containers are slowed by a neighbour."""
    roster = roster_of(of.snapshot, facts(of))
    team = {uid: one.team for uid, one in roster.identity.items()}
    scene = Scene(scorer, roster.room, team, of.snapshot.as_of_us, roster.began_us)
    return Situation(_diagnoses(of.snapshot, seed), scene, roster, (), 1.0, "bundle", f"seed {seed}")


def facts(of: Drawn) -> Facts:
    """Rows of nodes and placements, as the watcher makes them."""
    ts = of.snapshot.as_of_us - HOUR_US
    stamp = {"ts": ts, "arrived_at": ts, "event": "add"}
    nodes = [{**node_facts(Node.model_validate(one), of.snapshot.cluster), **stamp} for one in of.nodes]
    budgets = by_namespace([budget_of(one) for one in of.budgets])
    pods = [Pod.model_validate(one) for one in of.pods]
    placed = [
        {
            **placement(one, of.snapshot.cluster),
            **columns_of(one.metadata.namespace, one.metadata.labels, budgets),
            **stamp,
        }
        for one in pods
    ]
    return Facts(_rows("nodes", nodes), _rows("placements", placed))


def _rows(table: str, rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=LANDED[table].schema)


def _node(of: Snapshot, row: int, taken: np.ndarray[Any, Any], pods: int, rng: np.random.Generator) -> Object:
    """A node; three in ten have room for little more than they hold."""
    name, tight = of.nodes[row], rng.random(3) < 0.3
    capacity = np.maximum(of.node_capacity[row, [NAMES.index("cpu"), NAMES.index("memory")]] * 0.95, taken)
    room = np.where(tight[:2], taken * rng.uniform(1.0, 1.4, 2), capacity)
    taints = [taint for share, taint in TAINTS if rng.random() < share]
    amounts = {
        "cpu": f"{math.ceil(room[0] * 1000)}m",
        "memory": str(math.ceil(room[1])),
        "pods": str(pods + int(rng.integers(0, 3)) if tight[2] else 110),
        GPU: str(int(rng.integers(0, 3))),
        FPGA: str(int(rng.integers(0, 5))),
    }
    labels = {
        HOST: name,
        ZONE: str(rng.choice(["a", "b", "c"])),
        "disk": str(rng.choice(["ssd", "hdd"], p=[0.7, 0.3])),
        "generation": str(int(rng.integers(1, 5))),
    }
    cordoned = any(taint["key"] == "node.kubernetes.io/unschedulable" for taint in taints)
    return {
        "metadata": {"name": name, "uid": name, "labels": labels},
        "spec": {"taints": taints, "unschedulable": cordoned},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _pod(of: Snapshot, row: int, node: str, request: np.ndarray[Any, Any], rng: np.random.Generator) -> Object:
    """A pod of an app, with the rules that pods of services and batch jobs have."""
    uid, calm = of.containers[row], bool(of.resident_best_effort[row])
    app = of.apps[of.resident_app[row]] if of.resident_app[row] >= 0 else "other"
    labels = {"app": app, "cohabit.io/qos": "BE"} if calm else {"app": app}
    annotations = Object()
    if rng.random() < 0.18:
        gang = of.apps.index(app) % 3 if app in of.apps else 0
        labels["scheduling.x-k8s.io/pod-group"] = f"gang-{gang}"
        annotations = {MINIMUM: "2"} if gang else {}
    amounts = {"cpu": f"{math.floor(request[0] * 1000)}m", "memory": str(math.floor(request[1]))}
    amounts |= {GPU: "1"} if rng.random() < 0.05 else {}
    amounts |= {FPGA: "1"} if rng.random() < 0.15 else {}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": app, "uid": app, "controller": True}
    return {
        "metadata": {
            "name": uid.lower(),
            "uid": uid,
            "namespace": str(rng.choice(NAMESPACES, p=[0.7, 0.3])),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": node,
            "containers": [
                {"name": "main", "image": "i:1", "resources": {"requests": amounts, "limits": _devices(amounts)}}
            ],
            "tolerations": [one for share, one in TOLERATIONS if rng.random() < share],
            **_rules(app, rng),
        },
        "status": {"phase": "Running"},
    }


def _budgets(of: Snapshot, rng: np.random.Generator) -> Iterator[Object]:
    """A budget of each third app and namespace, some by expressions; some allow nothing, a few share their pods."""
    for number, app in enumerate(of.apps[::3]):
        exact = {"matchLabels": {"app": app}}
        listed = {"matchExpressions": [{"key": "app", "operator": "In", "values": [app, "none"]}]}
        for namespace in NAMESPACES:
            allowed, selector = int(rng.choice([0, 1, 2], p=[0.2, 0.4, 0.4])), listed if number % 2 else exact
            yield _budget(f"a-{number}", namespace, selector, allowed)
            if rng.random() < 0.05:
                yield _budget(f"b-{number}", namespace, exact, allowed)


def _budget(name: str, namespace: str, selector: Object, allowed: int) -> Object:
    return {
        "metadata": {"name": name, "uid": f"{namespace}-{name}", "namespace": namespace},
        "spec": {"maxUnavailable": 1, "selector": selector},
        "status": {"disruptionsAllowed": allowed},
    }


def _devices(amounts: dict[str, str]) -> dict[str, str]:
    return {name: amounts[name] for name in (GPU, FPGA) if name in amounts}


def _rules(app: str, rng: np.random.Generator) -> Object:
    """Node selector, affinity and spread of a pod."""
    wanted, spec, affinity = rng.random(6), Object(), Object()
    own = {"labelSelector": {"matchLabels": {"app": app}}}
    if wanted[0] < 0.15:
        spec["nodeSelector"] = {"disk": "ssd"}
    if wanted[1] < 0.2:
        zones = {"key": ZONE, "operator": "In", "values": [str(zone) for zone in rng.choice(["a", "b", "c"], 2)]}
        newer = {"key": "generation", "operator": "Gt", "values": ["1"]}
        terms = [{"matchExpressions": [zones]}, {"matchExpressions": [newer]}]
        affinity["nodeAffinity"] = {_REQUIRED: {"nodeSelectorTerms": terms[: int(rng.integers(1, 3))]}}
    if wanted[2] < 0.15:
        affinity["podAntiAffinity"] = {_REQUIRED: [{**own, "topologyKey": HOST if wanted[3] < 0.8 else ZONE}]}
    if wanted[4] < 0.05:
        affinity["podAffinity"] = {_REQUIRED: [{**own, "topologyKey": ZONE}]}
    if wanted[5] < 0.1:
        even = {"maxSkew": int(rng.integers(1, 3)), "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [{**even, **own}]
    return {**spec, "affinity": affinity} if affinity else spec


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _diagnoses(of: Snapshot, seed: int) -> tuple[Diagnosis, ...]:
    """Slowed latency-sensitive containers with a latency-sensitive antagonist, which only moves can help."""
    rng, found = np.random.default_rng([seed, 1]), list[Diagnosis]()
    for node in rng.permutation(len(of.nodes)).tolist():
        rows = [r for r in range(int(of.first[node]), int(of.first[node + 1])) if not of.resident_best_effort[r]]
        if len(rows) > 1 and len(found) < VICTIMS:
            victim, antagonist = rng.choice(rows, 2, replace=False).tolist()
            added = float(rng.uniform(1.0, 2.5))
            found.append(_diagnosis(of, node, of.containers[victim], of.containers[antagonist], added))
    return tuple(sorted(found, key=lambda one: -one.slowdown))


def _diagnosis(of: Snapshot, node: int, victim: str, antagonist: str, added: float) -> Diagnosis:
    used = (0.4,) * SLOW_WINDOWS
    suspect = Suspect(antagonist, None, "LS", "memory_bandwidth", added, added - 0.1, added + 0.1, 0.97, added, used)
    ends = tuple(of.as_of_us - 300_000_000 * number for number in reversed(range(SLOW_WINDOWS)))
    slow = (1.0 + added,) * SLOW_WINDOWS
    reason = "it adds most of the slowdown"
    return Diagnosis(
        of.cluster, of.nodes[node], victim, None, of.as_of_us, 1.0 + added, "antagonist", reason, ends, slow, (suspect,)
    )
