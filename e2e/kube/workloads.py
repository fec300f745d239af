"""Workloads: Deployments under disruption budgets, and a kubelet that only says that their pods are ready. An edge.

A pod of nodes that are only objects would be pending for ever, and those are evicted without asking any budget.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from threading import Event, Lock, Thread, local
from time import monotonic, sleep

import msgspec

from e2e.kube.api import PODS, THREADS, Api
from e2e.kube.errors import NotScheduled, Refused

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MAX_UNAVAILABLE = 2
WATCH_S = 600
STILL_S = 60.0
"""Without any pod becoming ready."""
READY = json.dumps({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}).encode()


class Labels(msgspec.Struct):
    """Of a pod."""

    app: str = ""
    template_hash: str = msgspec.field(name="pod-template-hash", default="")


class Metadata(msgspec.Struct):
    """The part of a pod's metadata that is read."""

    name: str
    uid: str
    resourceVersion: str = ""  # noqa: N815
    labels: Labels = msgspec.field(default_factory=Labels)
    deletionTimestamp: str | None = None  # noqa: N815


class Spec(msgspec.Struct):
    """The part of a pod's spec that is read."""

    nodeName: str = ""  # noqa: N815


class Status(msgspec.Struct):
    """The part of a pod's status that is read."""

    phase: str = ""


class Pod(msgspec.Struct):
    """A pod."""

    metadata: Metadata
    spec: Spec
    status: Status

    @property
    def is_ready(self) -> bool:
        """Whether it counts for a budget; here all that run are ready."""
        return self.status.phase == "Running" and self.metadata.deletionTimestamp is None


class Changed(msgspec.Struct):
    """One event of a watch."""

    type: str
    object: Pod


class _Version(msgspec.Struct):
    resourceVersion: str  # noqa: N815


class _Pods(msgspec.Struct):
    metadata: _Version


_decode = msgspec.json.Decoder(Changed).decode


def deploy(api: Api, apps: Sequence[str], replicas: int, *, max_unavailable: int = MAX_UNAVAILABLE) -> None:
    """A Deployment and a disruption budget for each app."""
    api.create(BUDGETS, [budget_body(app, max_unavailable) for app in apps])
    api.create(DEPLOYMENTS, [deployment_body(app, replicas) for app in apps])


def budget_body(app: str, max_unavailable: int) -> bytes:
    """So many pods of the app may be away at once."""
    spec = {"maxUnavailable": max_unavailable, "selector": {"matchLabels": {"app": app}}}
    return json.dumps({"metadata": {"name": app}, "spec": spec}).encode()


def deployment_body(app: str, replicas: int) -> bytes:
    """So many pods of an app, which are gone at once when they are deleted."""
    requests = {"cpu": "100m", "memory": "256Mi"}
    pod = {
        "containers": [{"name": "main", "image": f"{app}:1", "resources": {"requests": requests}}],
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
    }
    labels = {"app": app}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return json.dumps({"metadata": {"name": app}, "spec": spec}).encode()


@dataclass
class Kubelet:
    """Says of every pod that has a node that it is ready, and keeps count of those that are.

    Args:
        api: where pods are watched.
    """

    api: Api
    pods: dict[str, Pod] = field(default_factory=dict, init=False)
    """By uid, in the order in which they came."""
    fewest: Counter[str] = field(default_factory=Counter, init=False)
    """By app the fewest that were ready at once since `watch_from_now`."""
    _ready: Counter[str] = field(default_factory=Counter, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)
    _ended: Event = field(default_factory=Event, init=False)
    _said: set[str] = field(default_factory=set, init=False)
    _connections: local = field(default_factory=local, init=False)

    def ready(self, gone: Collection[str] = ()) -> int:
        """How many pods are ready; none as long as one of those by uid is there that shall be gone."""
        with self._lock:
            return 0 if any(uid in self.pods for uid in gone) else self._ready.total()

    def all(self) -> list[Pod]:
        """All pods there are."""
        with self._lock:
            return list(self.pods.values())

    def watch_from_now(self) -> None:
        """From now on the fewest count."""
        with self._lock:
            self.fewest = Counter(self._ready)

    @contextmanager
    def at_work(self) -> Iterator["Kubelet"]:
        """During the block."""
        with ThreadPoolExecutor(THREADS) as pool:
            thread = Thread(target=self._run, args=(pool,), daemon=True)
            thread.start()
            try:
                yield self
            finally:
                self._ended.set()

    def _run(self, pool: ThreadPoolExecutor) -> None:
        version = msgspec.json.decode(self.api.ask(self.api.connection(), "GET", PODS), type=_Pods).metadata
        at = version.resourceVersion
        while not self._ended.is_set():
            for line in self._lines(at):
                changed = _decode(line)
                at = changed.object.metadata.resourceVersion
                if self.take(changed) and not self._ended.is_set():
                    pool.submit(self._say_ready, changed.object.metadata.name)

    def _lines(self, version: str) -> Iterator[bytes]:
        connection = self.api.connection()
        path = f"{PODS}?watch=1&resourceVersion={version}&timeoutSeconds={WATCH_S}"
        connection.request("GET", path, headers={"Authorization": f"Bearer {self.api.token}"})
        reply = connection.getresponse()
        with suppress(OSError):  # nothing happened for as long as a connection may be silent
            while not self._ended.is_set() and (line := reply.readline()):
                yield line
        connection.close()

    def take(self, changed: Changed) -> bool:
        """Count; whether the pod is to be made ready."""
        pod, uid = changed.object, changed.object.metadata.uid
        with self._lock:
            before = self.pods.pop(uid, None)
            app = pod.metadata.labels.app
            if changed.type != "DELETED":
                self.pods[uid] = pod
            is_ready = changed.type != "DELETED" and pod.is_ready
            self._ready[app] += is_ready - (before is not None and before.is_ready)
            self.fewest[app] = min(self.fewest[app], self._ready[app])
            new = bool(pod.spec.nodeName) and pod.status.phase == "Pending" and uid not in self._said
            if new:
                self._said.add(uid)
            return new

    def _say_ready(self, name: str) -> None:
        if not hasattr(self._connections, "own"):
            self._connections.own = self.api.connection()
        try:
            self.api.ask(self._connections.own, "PATCH", f"{PODS}/{name}/status", READY)
        except Refused as error:
            if error.status != HTTPStatus.NOT_FOUND:  # evicted meanwhile
                raise


def until_all(count: Callable[[], int], pods: int) -> None:
    """Wait until so many pods are ready.

    Raises:
        NotScheduled: none more was for a minute.
    """
    before, since = -1, monotonic()
    while (now := count()) < pods:
        if now != before:
            before, since = now, monotonic()
        elif monotonic() - since > STILL_S:
            raise NotScheduled(now, pods, STILL_S)
        sleep(0.05)
