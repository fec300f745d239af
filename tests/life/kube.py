"""What the API server says: pods and nodes as a list and a watch deliver them, to the real watcher.

Objects are written from the Kubernetes API reference, v1.34, and from what its parts do:

- a mirror pod stands for a static pod under a uid of the API's own; annotations kubernetes.io/config.hash and
  config.mirror have the uid that the kubelet made of the manifest (pkg/kubelet/config/common.go, applyDefaults, and
  pkg/kubelet/pod/mirror_client.go);
- a graceful deletion sets deletionTimestamp to the end of the grace period, then containers end, then the object goes;
- a forced deletion removes the object at once, and the same name comes back with another uid;
- an evicted pod stays as phase Failed, reason Evicted, until it is removed;
- the object of a node goes at once; its pods follow when the garbage collector finds them orphaned.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from pathlib import Path
from threading import Event
from typing import NamedTuple

import numpy as np
from prometheus_client import CollectorRegistry

from ingest.kafka_io.stream_files import Message
from ingest.kube.events import CLUSTER_NODES, PODS, Kind
from ingest.kube.list_watch import Feed
from ingest.kube.watcher import Backoff, Follower, Surroundings, WatchMetrics
from tests.life.sending import Sent, stamps
from tests.life.truth import END_S, START_S, Node, Pod, Timeline

Object = dict[str, object]
ALWAYS = Backoff(1e-6, 1e-6)
GRACE_S = 30.0
HEARTBEAT_S = 300.0


class Change(NamedTuple):
    """One version of one object; `None`: it was deleted."""

    at: float
    key: str
    there: bool
    body: Object


def rfc(at: float) -> str:
    """A time as the API writes it."""
    return stamps(np.array([at]))[0]


def pod_object(pod: Pod, at: float) -> Object:
    """A pod as the API has it at a time."""
    annotations, owner = {}, {"apiVersion": "apps/v1", "kind": pod.kind, "name": pod.owner, "uid": "o"}
    if pod.hash is not None:
        code = {"hash": pod.hash, "mirror": pod.hash, "source": "file", "seen": rfc(pod.start)}
        annotations = {f"kubernetes.io/config.{name}": value for name, value in code.items()}
        owner = {"apiVersion": "v1", "kind": "Node", "name": pod.node.name, "uid": pod.node.uid}
    meta: Object = {
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid,
        "creationTimestamp": rfc(pod.start),
        "annotations": annotations,
        "labels": {"app": "kube-proxy" if pod.hash else "shop"}
        | ({"pod-template-hash": "7d4b9c6f58"} if pod.kind == "ReplicaSet" else {}),
        "ownerReferences": [{**owner, "controller": True}],
        "managedFields": [{"manager": "kubelet", "subresource": "status", "time": rfc(at)}],
    }
    if at >= pod.deleted or (pod.ending == "deleted" and at >= pod.end - 5):
        grace = GRACE_S if pod.ending == "deleted" else 0.0
        meta |= {"deletionTimestamp": rfc(min(at, pod.end - 5) + grace if grace else at)}
    names = sorted({one.name for one in pod.instances})
    share = pod.request_cores / len(names)
    containers = [
        {"name": name, "image": f"shop/{name}:1.4", "resources": {"requests": {"cpu": f"{share * 1000:.3f}m"}}}
        for name in names
    ]
    spec = {"nodeName": pod.node.name, "containers": containers, "priority": 0}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec, "status": _status(pod, names, at)}


def _status(pod: Pod, names: list[str], at: float) -> Object:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": rfc(pod.start)}
    over = pod.ending in ("deleted", "evicted") and at >= pod.end
    state = {"terminated": {"finishedAt": rfc(pod.end)}} if over else {"running": {"startedAt": rfc(pod.start)}}
    phase: Object = {"phase": "Failed", "reason": "Evicted"} if over and pod.ending == "evicted" else {}
    return {
        "phase": "Running",
        "startTime": rfc(pod.start),
        "conditions": [scheduled],
        "containerStatuses": [{"name": name, "state": state} for name in names],
        **phase,
    }


def node_object(node: Node, at: float) -> Object:
    """A node as the API has it at a time; its pool is its name, so that each is metered by itself."""
    beat = node.start + max(0.0, (at - node.start) // HEARTBEAT_S * HEARTBEAT_S)
    labels = {
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": "z1",
        "node.kubernetes.io/instance-type": node.sku,
        "karpenter.sh/nodepool": node.name,
    }
    meta = {
        "name": node.name,
        "uid": node.uid,
        "creationTimestamp": rfc(node.start),
        "labels": labels,
        "managedFields": [{"manager": "kubelet", "subresource": "status", "time": rfc(beat)}],
    }
    milli = round(node.allocatable_cores * 1000)
    status = {
        "capacity": {"cpu": str(node.cores), "memory": "32Gi"},
        "allocatable": {"cpu": f"{milli}m", "memory": "31Gi"},
        "nodeInfo": {"architecture": "amd64"},
    }
    return {"kind": "Node", "apiVersion": "v1", "metadata": meta, "spec": {}, "status": status}


def pod_changes(pod: Pod) -> Iterator[Change]:
    """Versions of a pod's object."""
    moments = [pod.start, pod.start + 5]
    if pod.ending == "deleted":
        moments.append(max(pod.end - 5, pod.start + 6))
    if pod.ending in ("deleted", "evicted"):
        moments.append(pod.end)
    for at in moments:
        yield Change(at, pod.uid, there=True, body=pod_object(pod, at))
    if pod.deleted < inf:
        yield Change(pod.deleted, pod.uid, there=False, body=pod_object(pod, pod.deleted))


def node_changes(node: Node) -> Iterator[Change]:
    """Versions of a node's object."""
    beats = int((min(node.end, END_S) - node.start) // HEARTBEAT_S) + 1
    for at in (node.start + number * HEARTBEAT_S for number in range(beats)):
        if at < node.end:
            yield Change(at, node.name, there=True, body=node_object(node, at))
    if node.end < inf:
        yield Change(node.end, node.name, there=False, body=node_object(node, node.end))


@dataclass
class Response:
    """What the client's raw response has, as far as the watcher reads it."""

    content: bytes | Iterator[bytes]
    status: int = 200
    reason: str = ""

    def read(self) -> object:
        return self.content

    def stream(self, amt: int | None) -> object:
        return self.content

    def release_conn(self) -> None: ...

    def close(self) -> None: ...

    def shutdown(self) -> None: ...


@dataclass
class Server:
    """The API of one resource while one watcher runs: from `begins` until `ends` on the cluster's clock."""

    changes: list[Change]
    begins: float
    ends: float
    stop: Event = field(default_factory=Event)
    now: float = 0.0

    def call(self, **asked: object) -> Response:
        """A list, or a watch that goes on from a version unless that is from before this watcher began."""
        if not asked.get("watch"):
            return Response(json.dumps(self._list()).encode())
        if int(str(asked["resource_version"])) < self._version(self.begins):
            return Response(b"", 410, "Gone")
        return Response(self._events(int(str(asked["resource_version"]))))

    def _version(self, at: float) -> int:
        return 1000 + sum(change.at <= at for change in self.changes)

    def _list(self) -> Object:
        newest = {change.key: change for change in self.changes if change.at <= self.begins}
        items = [change.body for change in newest.values() if change.there]
        return {"metadata": {"resourceVersion": str(self._version(self.begins))}, "items": items}

    def _events(self, version: int) -> Iterator[bytes]:
        seen = {change.key for change in self.changes[: version - 1000] if change.there}
        for number, change in enumerate(self.changes[version - 1000 :], version + 1):
            if change.at >= self.ends:
                break
            self.now = change.at
            name = ("MODIFIED" if change.key in seen else "ADDED") if change.there else "DELETED"
            seen = seen | {change.key} if change.there else seen - {change.key}
            body = json.loads(json.dumps(change.body))
            body["metadata"]["resourceVersion"] = str(number)
            yield json.dumps({"type": name, "object": body}).encode() + b"\n"
        self.stop.set()


@dataclass
class Published:
    """An outlet that keeps what is sent, by topic."""

    clock: Callable[[], float]
    messages: list[tuple[str, Sent]] = field(default_factory=list)

    def send(self, topic: str, message: Message) -> None:
        self.messages.append((topic, Sent(message.arrived_ms, message.value or b"")))

    def flush(self) -> None: ...


def watched(timeline: Timeline, folder: Path) -> dict[str, list[Sent]]:
    """Records of three topics, as watchers publish them that hear what the timeline lets them hear."""
    edges = [timeline.begin, *(edge for lost in timeline.unheard for edge in (lost.start, lost.end)), END_S]
    spans = list(pairwise(edges))[::2]
    topics: dict[str, list[Sent]] = {"nodes": [], "placements": [], "node_usage": []}
    objects = (
        (PODS, [change for pod in timeline.pods for change in pod_changes(pod)]),
        (CLUSTER_NODES, [change for node in timeline.nodes for change in node_changes(node)]),
    )
    for kind, changes in objects:
        changes.sort(key=lambda change: (change.at, change.there))
        for number, (begins, ends) in enumerate(spans):
            state = folder / ("kept" if timeline.state_kept else str(number)) / f"{kind.name}.json"
            for topic, record in _follow(kind, Server(changes, begins, ends, now=begins), timeline.cluster, state):
                topics[topic].append(record)
    return topics


def _follow(kind: Kind, server: Server, cluster: str, state: Path) -> list[tuple[str, Sent]]:
    outlet = Published(lambda: server.now)
    metrics = WatchMetrics(CollectorRegistry())
    around = Surroundings(cluster, outlet, lambda: round((START_S + server.now) * 1000) + 500, metrics, ALWAYS)
    Follower(kind, Feed(kind.name, server.call), state, around).run(server.stop)
    return outlet.messages
