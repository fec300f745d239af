"""Objects: everything that a Kubernetes API holds, and a kubelet that only says that pods run. An edge."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from threading import Event, Thread
from typing import Any

from e2e.kube.api import Api
from e2e.kube.errors import Refused

PASSING = frozenset({"events", "leases", "controllerrevisions"})
"""Kinds that Kubernetes' own programs write and remove by themselves."""
CLAIMS = ("lake", "models", "snapshots", "backups", "watch")
COMPONENT = "app.kubernetes.io/component"
EVERY_S = 0.1
ONCE = ("prepare",)
"""Components whose pods end."""
ALIVE = ("Pending", "Running")
Status = dict[str, Any]
ENDED: Status = {"status": {"phase": "Succeeded"}}


def get(api: Api, path: str) -> Any:
    """A reply as an object."""
    return json.loads(api.ask(api.connection(), "GET", path))


def everything(api: Api) -> set[str]:
    """Every object there is: group and version, kind, namespace, name."""
    groups = [f"/apis/{group['preferredVersion']['groupVersion']}" for group in get(api, "/apis")["groups"]]
    return {found for base in ("/api/v1", *groups) for found in _of_group(api, base)}


def _of_group(api: Api, base: str) -> Iterator[str]:
    for kind in get(api, base)["resources"]:
        if "list" in kind["verbs"] and "/" not in kind["name"] and kind["name"] not in PASSING:
            for item in get(api, f"{base}/{kind['name']}")["items"]:
                place = item["metadata"]
                yield f"{base} {kind['name']} {place.get('namespace', '-')} {place['name']}"


def volumes() -> list[bytes]:
    """Volumes for all claims, on nodes that are only objects."""
    return [
        json.dumps(
            {
                "metadata": {"name": f"volume-{name}"},
                "spec": {
                    "capacity": {"storage": "500Gi"},
                    "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                    "hostPath": {"path": "/nowhere"},
                    "claimRef": {"namespace": "cohabit", "name": f"cohabit-{name}"},
                },
            }
        ).encode()
        for name in CLAIMS
    ]


def status_of(pod: Any) -> Status:
    """Status of a pod that runs, or of one that ended well."""
    ends = pod["spec"].get("restartPolicy") == "Never" or pod["metadata"]["labels"].get(COMPONENT) in ONCE
    return ENDED if ends else running_status(ready=True)


def running_status(*, ready: bool) -> Status:
    """Status of a pod that runs."""
    conditions = [{"type": kind, "status": str(ready)} for kind in ("ContainersReady", "Ready")]
    return {"status": {"phase": "Running", "conditions": conditions}}


@dataclass
class Kubelet:
    """Says of every pod of a namespace that has a node what its status is.

    Args:
        api: where pods are.
        namespace: of the pods.
        state: status of a pod, by default that it is ready, or that it ended well.
        gone: called with the uid of a pod that is to be deleted.
        every_s: seconds between two looks.
    """

    api: Api
    namespace: str
    state: Callable[[Any], Status] = status_of
    gone: Callable[[str], None] = lambda _uid: None
    every_s: float = EVERY_S
    ran: set[str] = field(default_factory=set, init=False)
    """Pods of which it has said something."""
    _said: dict[str, Status] = field(default_factory=dict, init=False)
    """The last status, by uid."""
    _ended: Event = field(default_factory=Event, init=False)

    @property
    def path(self) -> str:
        """Of the pods."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @contextmanager
    def at_work(self) -> Iterator["Kubelet"]:
        """During the block."""
        thread = Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self.every_s):
            with suppress(Refused, OSError):  # the namespace is not there yet, or the server has ended
                for pod in get(self.api, self.path)["items"]:
                    self._serve(pod)

    def _serve(self, pod: Any) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if "deletionTimestamp" in pod["metadata"]:
            self.gone(uid)
            self._ask("DELETE", f"{self.path}/{name}?gracePeriodSeconds=0")
        elif pod["status"].get("phase") in ALIVE and "nodeName" in pod["spec"]:
            if (status := self.state(pod)) != self._said.get(uid):
                self._ask("PATCH", f"{self.path}/{name}/status", json.dumps(status).encode())
            self._said[uid] = status
            self.ran.add(name)

    def _ask(self, method: str, path: str, body: bytes | None = None) -> None:
        try:
            self.api.ask(self.api.connection(), method, path, body)
        except Refused as error:
            if error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:  # deleted or written meanwhile
                raise
