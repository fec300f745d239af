"""Api: the little of Kubernetes' API that the test needs, over as many connections as there are threads. An edge."""

import http.client
import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from e2e.kube.errors import Refused
from e2e.kube.processes import HOST

THREADS, PART = 8, 50
"""Objects are created in parts, so that an interrupted test does not create the rest."""
PATCH = "application/strategic-merge-patch+json"
PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
CPU_CORES, MEMORY, MAX_PODS = 64, "256Gi", 250
POD_CPU, POD_MEMORY = "100m", "256Mi"


class _Metadata(msgspec.Struct):
    name: str


class _Spec(msgspec.Struct):
    nodeName: str = ""  # noqa: N815


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class _PodList(msgspec.Struct):
    items: list[_Pod]


@dataclass(frozen=True)
class Api:
    """A kube-apiserver on loopback.

    Args:
        port: where it listens.
        token: of an administrator.
        certificate: of the server, which it made itself.
    """

    port: int
    token: str
    certificate: Path

    def connection(self) -> http.client.HTTPSConnection:
        """A connection that is kept."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        return http.client.HTTPSConnection(HOST, self.port, context=context, timeout=60)

    def ask(self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None) -> bytes:
        """One exchange.

        Raises:
            Refused: the answer is not of the 200s.
        """
        kind = PATCH if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        content = reply.read()
        if not 200 <= reply.status < 300:
            raise Refused(f"{method} {path}", reply.status, content)
        return content

    def is_ready(self) -> bool:
        """Whether it serves, with its first namespace."""
        try:
            connection = self.connection()
            self.ask(connection, "GET", "/readyz")
            self.ask(connection, "GET", "/api/v1/namespaces/default")
        except (OSError, Refused):  # the certificate is not written, nobody listens, or not everything has begun
            return False
        return True

    def create(self, path: str, bodies: Sequence[bytes]) -> None:
        """Create objects, many at once."""
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(partial(self._create, path), [bodies[i : i + PART] for i in range(0, len(bodies), PART)]))

    def _create(self, path: str, bodies: Sequence[bytes]) -> None:
        connection = self.connection()
        for body in bodies:
            self.ask(connection, "POST", path, body)

    def bound(self) -> Mapping[str, str]:
        """Node of each pod that has one, by pod."""
        content = self.ask(self.connection(), "GET", PODS)
        pods = msgspec.json.decode(content, type=_PodList).items
        return {pod.metadata.name: pod.spec.nodeName for pod in pods if pod.spec.nodeName}


def node_body(name: str, now: str) -> bytes:
    """A node that is ready and has nothing behind it.

    Nobody renews leases or heartbeats: what would doubt the node for that is kube-controller-manager, which is not run.
    """
    room = {"cpu": str(CPU_CORES), "memory": MEMORY, "pods": str(MAX_PODS)}
    ready = {"type": "Ready", "status": "True", "reason": "Fake", "lastHeartbeatTime": now, "lastTransitionTime": now}
    labels = {"kubernetes.io/hostname": name}
    return json.dumps(
        {
            "metadata": {"name": name, "labels": labels},
            "status": dict.fromkeys(("capacity", "allocatable"), room) | {"conditions": [ready]},
        }
    ).encode()


def pod_body(name: str, app: str) -> bytes:
    """A pod of an app, waiting for a node."""
    container = {
        "name": "main",
        "image": f"{app}:1",
        "resources": {"requests": {"cpu": POD_CPU, "memory": POD_MEMORY}},
    }
    spec = {"containers": [container], "automountServiceAccountToken": False}
    return json.dumps({"metadata": {"name": name, "labels": {"app": app}}, "spec": spec}).encode()


def numbered(prefix: str, count: int, app_of: Callable[[int], str]) -> list[bytes]:
    """So many pods, the apps taking turns."""
    return [pod_body(f"{prefix}-{i:05d}", app_of(i)) for i in range(count)]
