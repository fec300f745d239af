"""Pool: a kube-scheduler of its own for a pool of nodes, by deploy/kubernetes/scheduler-pool. An edge.

The released kube-apiserver applies the policy, the released kube-scheduler reads the ConfigMap, and a second one is the
cluster's own. Each may use its own nodes only, also while the other is gone.
"""

import json
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import yaml

from benchmarks.serving import CLASSES
from e2e.kube.advisor import advisor
from e2e.kube.api import PODS, Api, numbered
from e2e.kube.control_plane import REQUESTS_PER_S, ControlPlane, scheduler_of
from e2e.kube.errors import NotScheduled
from e2e.kube.processes import Running, free_ports, running
from e2e.kube.runs import STILL_S, Plan

MANIFESTS = Path(__file__).parents[2] / "deploy" / "kubernetes" / "scheduler-pool"
LABEL, VALUE, OPT_IN = "cohabit.io/pool", "scheduled", "cohabit.io/schedule=pool"
OTHERS = "others"
"""Namespace without the label."""


@dataclass(frozen=True)
class Pooled:
    """Where the pods of both namespaces went.

    Args:
        within: pods of the labelled namespace on nodes of the pool.
        outside: pods of the other namespace on other nodes.
        pods: of each namespace.
        without_ours: pods of the other namespace that were bound while ours was not running.
        answers: of the advisor, by source.
    """

    within: int
    outside: int
    pods: int
    without_ours: int
    answers: Counter[str]

    @property
    def whole(self) -> bool:
        """Whether every pod is where it belongs."""
        return self.within == self.outside == self.pods and self.without_ours == self.pods // 2


def pooled(plan: Plan) -> Pooled:
    """Pods of two namespaces, two schedulers, and one half of the nodes for each."""
    [port] = free_ports(1)
    pool = plan.nodes[: len(plan.nodes) // 2]
    path = f"/api/v1/namespaces/{OTHERS}/pods"
    with plan.plane("pool") as plane, advisor(plan.folder, port, "advisor-pool") as advised:
        _prepared(plane, pool)
        advised.warm(plan.nodes)
        before = advised.counts()
        half = plan.pods // 2
        bodies = numbered("pod", plan.pods, lambda i: CLASSES[i % len(CLASSES)])
        plane.api.create(path, bodies[:half])
        with plane.scheduler_by(scheduler_of([], plane.kubeconfig), 2):
            _until(plane.api, path, half)
            without_ours = len(_nodes(plane.api, path))
            plane.api.create(PODS, bodies)
            plane.api.create(path, bodies[half:])
            with _ours(plane, port):
                _until(plane.api, PODS, plan.pods)
                _until(plane.api, path, plan.pods)
        within = sum(node in pool for node in _nodes(plane.api, PODS).values())
        outside = sum(node not in pool for node in _nodes(plane.api, path).values())
        return Pooled(within, outside, plan.pods, without_ours, advised.counts().since(before).sources)


def _prepared(plane: ControlPlane, pool: Sequence[str]) -> None:
    """The nodes of the pool, the policy, and a namespace that opted in; returns when the policy is in force."""
    _kubectl(plane, "create", "namespace", OTHERS)
    _kubectl(plane, "label", "nodes", *pool, f"{LABEL}={VALUE}")
    _kubectl(plane, "taint", "nodes", *pool, f"{LABEL}={VALUE}:NoSchedule")
    _kubectl(plane, "label", "namespace", "default", OPT_IN)
    _kubectl(plane, "apply", "-f", str(MANIFESTS / "policy.yaml"))
    [body] = numbered("asked", 1, lambda _: "web")
    deadline = monotonic() + STILL_S
    while not _is_ours(json.loads(plane.api.ask(plane.api.connection(), "POST", f"{PODS}?dryRun=All", body))):
        if monotonic() > deadline:
            raise NotScheduled(0, 1, STILL_S)
        sleep(0.5)


def _is_ours(pod: Mapping[str, Any]) -> bool:
    spec = pod["spec"]
    return bool(spec["schedulerName"] == "cohabit-scheduler" and spec["nodeSelector"] == {LABEL: VALUE})


def _ours(plane: ControlPlane, port: int) -> AbstractContextManager[Running]:
    """kube-scheduler by the ConfigMap, but for addresses, limits and the election."""
    [made] = [one for one in yaml.safe_load_all((MANIFESTS / "scheduler.yaml").read_text()) if "data" in one]
    content = yaml.safe_load(made["data"]["scheduler.yaml"])
    [extender] = content["extenders"]
    extender["urlPrefix"] = extender["urlPrefix"].replace(":8081", f":{port}")
    connection = {"kubeconfig": str(plane.kubeconfig), "qps": REQUESTS_PER_S, "burst": REQUESTS_PER_S}
    content |= {"clientConnection": connection, "leaderElection": {"leaderElect": False}}
    config = plane.folder / "scheduler-pool.json"
    config.write_text(json.dumps(content))
    words = (f"--config={config}", "--secure-port=0", "--v=2")
    return running([plane.binaries / "kube-scheduler", *words], plane.folder / "kube-scheduler-pool.log")


def _nodes(api: Api, path: str) -> Mapping[str, str]:
    items = json.loads(api.ask(api.connection(), "GET", path))["items"]
    return {pod["metadata"]["name"]: node for pod in items if (node := pod["spec"].get("nodeName"))}


def _until(api: Api, path: str, count: int) -> None:
    deadline, bound = monotonic() + STILL_S, 0
    while (now := len(_nodes(api, path))) < count:
        if now > bound:
            bound, deadline = now, monotonic() + STILL_S
        if monotonic() > deadline:
            raise NotScheduled(now, count, STILL_S)
        sleep(0.5)


def _kubectl(plane: ControlPlane, *words: str) -> None:
    command = [str(plane.binaries / "kubectl"), f"--kubeconfig={plane.kubeconfig}", *words]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
