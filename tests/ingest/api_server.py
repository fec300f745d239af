"""A Kubernetes API server on loopback for tests: lists, pages, watches and versions as the real one has them.

It can be told to misbehave: each fault is met once, by the next answer for that resource. A watch that has something to
say says it and ends, as a server's timeout would have it; one that has nothing waits, and then its resource is settled:
the client has come back with the newest version, so it has dealt with everything before.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]
KINDS = {"pods": ("Pod", "uid"), "nodes": ("Node", "name"), "poddisruptionbudgets": ("PodDisruptionBudget", "name")}
EXPIRED = "The provided continue parameter is too old to display a consistent list result."


@dataclass(frozen=True)
class Status:
    """Answer with this status code; of a list only when asked to continue it, if `paging`."""

    code: int
    paging: bool = False


@dataclass(frozen=True)
class GoneEvent:
    """Answer a watch with 200 and the event ERROR 410."""


@dataclass(frozen=True)
class Cut:
    """Break the connection in the middle of the line after so many events."""

    after: int = 0


@dataclass(frozen=True)
class Line:
    """Send this line in a watch, then go on."""

    content: bytes


Fault = Status | GoneEvent | Cut | Line


@dataclass
class ApiServer:
    """What the server holds; `pods` and `nodes` change through `put` and `remove`."""

    page: int = 500
    version: int = 1000
    objects: dict[str, dict[str, Object]] = field(default_factory=lambda: defaultdict(dict))
    log: dict[str, list[tuple[int, str, Object]]] = field(default_factory=lambda: defaultdict(list))
    faults: dict[str, list[Fault]] = field(default_factory=lambda: defaultdict(list))
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    waiting: dict[tuple[str, int], int] = field(default_factory=dict)
    changed: Condition = field(default_factory=Condition)
    removed: set[str] = field(default_factory=set)
    closing: bool = False
    oldest: int = 0

    def put(self, resource: str, made: Object) -> None:
        """Make or change an object."""
        with self.changed:
            self.version += 1
            made = json.loads(json.dumps(made))
            made["metadata"]["resourceVersion"] = str(self.version)
            key = made["metadata"][KINDS[resource][1]]
            kind = "MODIFIED" if key in self.objects[resource] else "ADDED"
            self.objects[resource][key] = made
            self._happened(resource, kind, made)

    def remove(self, resource: str, key: str) -> None:
        """Delete an object."""
        with self.changed:
            self.version += 1
            self.removed.add(key)
            made = json.loads(json.dumps(self.objects[resource].pop(key)))
            made["metadata"]["resourceVersion"] = str(self.version)
            self._happened(resource, "DELETED", made)

    def forget(self) -> None:
        """Serve no version before the present one, as after compaction."""
        with self.changed:
            self.oldest = self.version

    def turn_away(self) -> None:
        """Let go of watches whose clients may have left; only a client that asks from now on can be settled."""
        with self.changed:
            self.version += 1
            self.changed.notify_all()

    def settle(self, *resources: str) -> None:
        """Wait until watches of these have nothing to say to their clients, and no fault is left."""
        with self.changed:
            done = self.changed.wait_for(lambda: all(map(self._settled, resources)), 20)
            assert done, f"not settled: {self.waiting} at {self.version}, faults {dict(self.faults)}, {self.asked[-5:]}"

    def requests(self, resource: str, *, watch: bool) -> list[dict[str, str]]:
        """Queries of lists or watches, in order."""
        return [query for name, query in self.asked if name == resource and ("watch" in query) is watch]

    def _settled(self, resource: str) -> bool:
        here = (version == self.version for (name, _), version in self.waiting.items() if name == resource)
        return any(here) and not self.faults[resource]

    def _happened(self, resource: str, kind: str, made: Object) -> None:
        self.log[resource].append((self.version, kind, made))
        self.changed.notify_all()


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    api: ApiServer

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        resource = parts.path.rsplit("/", 1)[1]
        with self.api.changed:
            self.api.asked.append((resource, query))
            fault = self._fault(resource, query)
        if isinstance(fault, Status):
            self._status(fault.code)
        elif "watch" in query:
            self._watch(resource, int(query["resourceVersion"]), fault)
        elif isinstance(fault, Cut):
            self.close_connection = True
        else:
            self._list(resource, query)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def _fault(self, resource: str, query: dict[str, str]) -> Fault | None:
        faults = self.api.faults[resource]
        if not faults or (isinstance(faults[0], Status) and faults[0].paging and "continue" not in query):
            return None
        return faults.pop(0)

    def _status(self, code: int) -> None:
        message = EXPIRED if code == 410 else "etcdserver: request timed out"
        reason = "Expired" if code == 410 else "InternalError"
        self._body(code, {"kind": "Status", "status": "Failure", "message": message, "reason": reason, "code": code})

    def _body(self, code: int, body: Object) -> None:
        content = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _list(self, resource: str, query: dict[str, str]) -> None:
        with self.api.changed:
            objects, version = list(self.api.objects[resource].values()), self.api.version
        start = int(query.get("continue", "0:0").partition(":")[0])
        version = int(query.get("continue", f"0:{version}").partition(":")[2])
        end = start + min(int(query["limit"]), self.api.page)
        meta: Object = {"resourceVersion": str(version)}
        if end < len(objects):
            meta |= {"continue": f"{end}:{version}", "remainingItemCount": len(objects) - end}
        kind = f"{KINDS[resource][0]}List"
        self._body(200, {"kind": kind, "apiVersion": "v1", "metadata": meta, "items": objects[start:end]})

    def _watch(self, resource: str, version: int, fault: Fault | None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if version < self.api.oldest:
            fault = GoneEvent()
        fault = fault or self._await(resource, version)
        news = self._news(resource, version)
        if isinstance(fault, Cut):
            self._cut(news, fault.after)
            return
        if isinstance(fault, GoneEvent):
            news = [self._expired(version)]
        for line in [fault.content, *news] if isinstance(fault, Line) else news:
            self._chunk(line + b"\n")
        self._chunk(b"")

    def _expired(self, version: int) -> bytes:
        gone: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired"}
        message = f"too old resource version: {version} ({self.api.version})"
        return event("ERROR", {**gone, "message": message, "code": 410})

    def _cut(self, news: list[bytes], after: int) -> None:
        for line in news[:after]:
            self._chunk(line + b"\n")
        broken = [*news, event("MODIFIED", {"kind": "Pod", "metadata": {}})][min(after, len(news))]
        self._chunk(broken[:40])
        self.close_connection = True

    def _news(self, resource: str, version: int) -> list[bytes]:
        """Events after a version and a bookmark; nothing when there is nothing new."""
        with self.api.changed:
            if version == self.api.version:
                return []
            found = [event(kind, made) for at, kind, made in self.api.log[resource] if at > version]
            bookmark = {"kind": KINDS[resource][0], "apiVersion": "v1"}
            return [*found, event("BOOKMARK", {**bookmark, "metadata": {"resourceVersion": str(self.api.version)}})]

    def _await(self, resource: str, version: int) -> Fault | None:
        """Wait until there is news; the fault that its telling meets."""
        with self.api.changed:
            self.api.waiting[resource, id(self)] = version
            self.api.changed.notify_all()
            self.api.changed.wait_for(lambda: self.api.closing or self.api.version > version, 20)
            del self.api.waiting[resource, id(self)]
            faults = self.api.faults[resource]
            return faults.pop(0) if faults and not isinstance(faults[0], Status) else None

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))


def event(kind: str, made: Object) -> bytes:
    """A line of a watch."""
    return json.dumps({"type": kind, "object": made}).encode()


class Server(ThreadingHTTPServer):
    """Quiet where a client leaves in the middle."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@contextmanager
def api_server(page: int = 500) -> Iterator[tuple[ApiServer, str]]:
    """A server, and its address."""
    api = ApiServer(page)
    server = Server(("127.0.0.1", 0), type("Bound", (Handler,), {"api": api}))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield api, f"http://127.0.0.1:{server.server_port}"
    finally:
        with api.changed:
            api.closing = True
            api.changed.notify_all()
        server.shutdown()
        server.server_close()
        thread.join()


def a_pod(uid: str, **changes: Any) -> Object:
    """A running pod of a Deployment as the API has it, with what is different."""
    meta = {
        "name": f"web-7d4b9c6f58-{uid}",
        "namespace": "shop",
        "uid": uid,
        "creationTimestamp": "2026-03-01T11:59:58Z",
        "labels": {"pod-template-hash": "7d4b9c6f58", **changes.get("labels", {})},
        "annotations": changes.get("annotations"),
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c6f58", "uid": "r", "controller": True}
        ],
        "managedFields": [
            {"manager": "kubelet", "operation": "Update", "subresource": "status", "time": "2026-03-01T12:30:00Z"},
            {"manager": "kubectl", "operation": "Update", "time": changes.get("changed", "2026-03-01T11:59:58Z")},
        ],
        **changes.get("metadata", {}),
    }
    resources = {"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
    spec = {
        "nodeName": "n1",
        "containers": [{"name": "web", "image": "registry.local:5000/shop/web:1.4", "resources": resources}],
        "priority": 0,
        **changes.get("spec", {}),
    }
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-01T12:00:00Z"}
    status = {"phase": "Running", "startTime": "2026-03-01T12:00:01Z", "conditions": [scheduled]}
    status |= changes.get("status", {})
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec, "status": status}


def a_node(name: str, **changes: Any) -> Object:
    """A node as the API has it, with what is different."""
    labels = {
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": "z1",
        "node.kubernetes.io/instance-type": "m5.2xlarge",
        **changes.get("labels", {}),
    }
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110", **changes.get("capacity", {})}
    heartbeat = changes.get("heartbeat", "2026-03-01T12:00:00Z")
    meta = {"name": name, "uid": f"uid-{name}", "creationTimestamp": "2026-03-01T10:00:00Z", "labels": labels}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {**meta, "managedFields": [{"manager": "kubelet", "subresource": "status", "time": heartbeat}]},
        "spec": {"taints": changes.get("taints")},
        "status": {
            "capacity": capacity,
            "allocatable": {"cpu": "7910m", "memory": "31Gi", "pods": "110"},
            "nodeInfo": {"architecture": "amd64"},
        },
    }


def a_budget(name: str, selector: Object | None, allowed: int, **meta: Any) -> Object:
    """A disruption budget of namespace shop as the API has it."""
    return {
        "kind": "PodDisruptionBudget",
        "apiVersion": "policy/v1",
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", "generation": 1, **meta},
        "spec": {"maxUnavailable": 1, "selector": selector},
        "status": {"disruptionsAllowed": allowed, "observedGeneration": 1, "currentHealthy": 3, "desiredHealthy": 2},
    }
