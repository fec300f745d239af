"""Targets: steps of plans on drawn clusters, each pod evicted, then created anew for kube-scheduler to place.

Evictions are asked of the API with the disruption budgets of the cluster, which come back to what they allow after each
round, as once all replacements are ready. An edge.

An extender passes the target alone: a pod gets it only if all filters of kube-scheduler itself accept it there.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.client import HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any
from urllib.parse import urlencode

import numpy as np

from advisor.plans.planner import draft
from advisor.plans.rules.plan_record import Step
from advisor.plans.rules.policy import Rules
from advisor.remediation.action import MOVES
from benchmarks import synthetic
from e2e.kube.api import NODES, Api
from e2e.kube.control_plane import control_plane
from e2e.kube.drawn import NAMESPACES, Drawn, drawn, situation
from e2e.kube.errors import Refused
from e2e.kube.processes import HOST
from e2e.kube.workloads import READY
from ingest.kube.api_types import LabelSelector

TREES = 40
RULES = Rules(max_daily_share=1.0, holdout_share=0.0)
TARGET = "cohabit.io/target"
SEEN_S = 0.3
"""Until kube-scheduler has seen a new cluster."""
REJECTED_S = 8.0
"""A pod without a node for so long is rejected: kube-scheduler tries again after a second, then after two and four."""
PATIENT = {"httpTimeout": "10s", "ignorable": False}
"""Of the extender: without its reply a pod must not go anywhere."""


@dataclass(frozen=True)
class Tried:
    """One step: its pod, its target, and what kube-scheduler said; empty where it accepted the target."""

    cluster: int
    pod: str
    target: str
    said: str


def targets(folder: Path, programs: Path, clusters: int) -> list[Tried]:
    """Every move of plans on so many drawn clusters, one cluster after the other in one control plane."""
    rng = np.random.default_rng(0)
    scorer = synthetic.scorer(synthetic.cluster(6, 3, rng), TREES, rng)
    found = list[Tried]()
    with control_plane(folder / "targets", programs, ()) as plane, extender() as port:
        with suppress(Refused):
            plane.api.create("/api/v1/namespaces", [json.dumps({"metadata": {"name": NAMESPACES[1]}}).encode()])
        with plane.scheduler(port, advice="filter, all nodes", changed=PATIENT):
            for seed in range(clusters):
                view = synthetic.cluster(6 + seed % 10, 2 + seed % 3, np.random.default_rng(seed))
                of = drawn(view, seed)
                plan = draft(situation(of, replace(scorer, snapshot=view), seed), RULES).plan
                found += carried_out(plane.api, of, seed, [s for s in (plan.steps if plan else ()) if s.kind in MOVES])
    return found


def carried_out(api: Api, of: Drawn, seed: int, steps: Sequence[Step]) -> list[Tried]:
    """Create a cluster, carry out steps one after the other, and remove it."""
    if not steps:
        return []
    bodies = [{**one, "metadata": {key: one["metadata"][key] for key in ("name", "labels")}} for one in of.nodes]
    api.create(NODES, [json.dumps(body).encode() for body in bodies])
    for namespace in NAMESPACES:
        here = [one for one in of.pods if one["metadata"]["namespace"] == namespace]
        made = [as_created(one, one["metadata"]["name"], node=one["spec"]["nodeName"]) for one in here]
        api.create(pods_of(namespace), [json.dumps(body).encode() for body in made])
        budgets = [one for one in of.budgets if one["metadata"]["namespace"] == namespace]
        api.create(budgets_of(namespace), [json.dumps(one).encode() for one in map(_budget_as_created, budgets)])
    sleep(SEEN_S)
    connection, by_uid = api.connection(), {one["metadata"]["uid"]: one for one in of.pods}
    found, turn = [*_selected_otherwise(api, connection, seed, of)], 0
    for step in sorted(steps, key=lambda one: one.round):
        if step.round != turn:
            _allow(api, connection, of.budgets)
            turn = step.round
        found.append(_tried(api, connection, seed, by_uid[step.who.container], str(step.target)))
    for path in (*map(budgets_of, NAMESPACES), *map(pods_of, NAMESPACES), NODES):
        api.ask(connection, "DELETE", f"{path}?gracePeriodSeconds=0")
    connection.close()
    return found


def as_created(pod: dict[str, Any], name: str, *, node: str = "", target: str = "") -> dict[str, Any]:
    """A pod as it is created: on a node, or for the scheduler to place."""
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    spec |= {"automountServiceAccountToken": False, **({"nodeName": node} if node else {})}
    meta = {key: pod["metadata"][key] for key in ("namespace", "labels")}
    return {"metadata": {"name": name, **meta, "annotations": {TARGET: target}}, "spec": spec}


def pods_of(namespace: str) -> str:
    """Path of a namespace's pods."""
    return f"/api/v1/namespaces/{namespace}/pods"


def budgets_of(namespace: str) -> str:
    """Path of a namespace's disruption budgets."""
    return f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"


def _budget_as_created(budget: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": budget["metadata"]["name"]}, "spec": budget["spec"]}


def _allow(api: Api, connection: HTTPSConnection, budgets: Sequence[dict[str, Any]]) -> None:
    """Let budgets allow what they were drawn with: no controller counts them."""
    for one in budgets:
        healthy = {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1}
        path = f"{budgets_of(one['metadata']['namespace'])}/{one['metadata']['name']}/status"
        api.ask(connection, "PATCH", path, json.dumps({"status": {**one["status"], **healthy}}).encode())


def _selected_otherwise(api: Api, connection: HTTPSConnection, seed: int, of: Drawn) -> Iterator[Tried]:
    """Budgets that the API reads as selecting other pods than Cohabit."""
    for one in of.budgets:
        namespace, selector = one["metadata"]["namespace"], LabelSelector.model_validate(one["spec"]["selector"])
        here = [pod["metadata"] for pod in of.pods if pod["metadata"]["namespace"] == namespace]
        ours = {meta["name"] for meta in here if selector.matches(meta["labels"])}
        asked = api.ask(connection, "GET", f"{pods_of(namespace)}?{urlencode({'labelSelector': selector.query()})}")
        theirs = {pod["metadata"]["name"] for pod in json.loads(asked)["items"]}
        if ours != theirs:
            yield Tried(seed, one["metadata"]["name"], "", f"it selects {sorted(theirs)}, not {sorted(ours)}")


def _tried(api: Api, connection: HTTPSConnection, seed: int, pod: dict[str, Any], target: str) -> Tried:
    """Evict a ready pod, and create one that may go to its target alone."""
    path, name = pods_of(pod["metadata"]["namespace"]), f"{pod['metadata']['name']}-moved"
    here = f"{path}/{pod['metadata']['name']}"
    eviction = {"metadata": {"name": pod["metadata"]["name"]}, "deleteOptions": {"gracePeriodSeconds": 0}}
    api.ask(connection, "PATCH", f"{here}/status", READY)
    try:
        api.ask(connection, "POST", f"{here}/eviction", json.dumps(eviction).encode())
    except Refused as error:
        return Tried(seed, pod["metadata"]["name"], target, f"it is not evicted: {error}")
    api.ask(connection, "POST", path, json.dumps(as_created(pod, name, target=target)).encode())
    node, said = _placed(api, connection, f"{path}/{name}")
    said = f"it went to {node}" if node not in {"", target} else said
    return Tried(seed, pod["metadata"]["name"], target, said)


def _placed(api: Api, connection: HTTPSConnection, path: str) -> tuple[str, str]:
    """Node of a pod once it has one; else what kube-scheduler says against all nodes."""
    deadline, said = monotonic() + REJECTED_S, "it was not tried"
    while monotonic() < deadline:
        pod = json.loads(api.ask(connection, "GET", path))
        if node := pod["spec"].get("nodeName"):
            return node, ""
        for one in pod["status"].get("conditions", []):
            said = one.get("message", said) if one["type"] == "PodScheduled" else said
        sleep(0.02)
    return "", said


class _Only(BaseHTTPRequestHandler):
    """Passes the node that a pod's annotation names, if it is offered."""

    def do_POST(self) -> None:
        """Answer filter and prioritize."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        names = body.get("NodeNames") or []
        wanted = body["Pod"]["metadata"].get("annotations", {}).get(TARGET)
        passed = [name for name in names if name == wanted]
        scores = [{"Host": name, "Score": 0} for name in names]
        reply = {"NodeNames": passed, "FailedNodes": dict.fromkeys(set(names) - set(passed), "not the target")}
        content = json.dumps(reply if self.path.endswith("/filter") else scores).encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Nothing."""


@contextmanager
def extender() -> Iterator[int]:
    """Port of an extender that passes targets alone."""
    with ThreadingHTTPServer((HOST, 0), _Only) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()
