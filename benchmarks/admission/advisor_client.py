"""Advisor client: a real `cohabit serve --admission advise`, asked as kube-apiserver and the scheduler ask. An edge."""

import base64
import http.client
import json
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count as counting
from pathlib import Path
from time import monotonic, sleep, time_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.cluster.pending_pod import PodClass
from benchmarks.herd_site import free_ports, gauge, serving
from cohabit.server.reload import RELOAD_EVERY_S
from cohabit.server.webhook_certificate import WebhookFiles, write_webhook_files

Json = dict[str, Any]
NAME = "localhost"
ALWAYS_THERE = 2
"""Classes of unknown apps in every table."""
LOOK_S, SLACK_S, WITHIN_S = 0.1, 0.5, 300.0


@dataclass
class Advisor:
    """A running advisor, and a connection of each client.

    Args:
        main: its address for people.
        scheduler: the connection of kube-scheduler.
        apiserver: that of kube-apiserver.
    """

    main: str
    scheduler: http.client.HTTPConnection
    apiserver: http.client.HTTPSConnection
    _turn: Iterator[int] = field(default_factory=counting)

    def admitted(self, pod: Json) -> Json:
        """A pod as kube-apiserver keeps it: with the patch of the webhook."""
        request = {
            "uid": f"review-{next(self._turn)}",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "namespace": pod["metadata"]["namespace"],
            "operation": "CREATE",
            "object": pod,
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        response = _asked(self.apiserver, "/admission", review)["response"]
        if not response["allowed"] or response["uid"] != request["uid"]:
            raise ValueError(f"no reply that kube-apiserver takes: {response}")
        return patched(pod, json.loads(base64.b64decode(response["patch"]))) if "patch" in response else pod

    def points(self, pod: Json, uid: str, names: Sequence[str]) -> NDArray[np.int64]:
        """Points of nodes by the extender, for a pod that has a uid by now."""
        known = {**pod, "metadata": {**pod["metadata"], "uid": uid}}
        said = _asked(self.scheduler, "/extender/prioritize", {"Pod": known, "NodeNames": list(names)})
        return np.array([one["Score"] for one in said], np.int64)

    def until_known(self, classes: Iterable[PodClass]) -> None:
        """Wait until its table holds classes, and has been taken up."""
        wanted = list(classes)
        for of in wanted:
            qos = "BE" if of.best_effort else "LS"
            labels = {"app": of.app, "cohabit.io/qos": qos}
            self.points({"metadata": {"name": of.app, "namespace": "default", "labels": labels}}, "", ["nowhere"])
        enough = len(wanted) + ALWAYS_THERE
        _until(lambda: gauge(self.main, "cohabit_score_table_pod_classes") >= enough)
        sleep(2 * RELOAD_EVERY_S)

    def until_taken_up(self, as_of_us: int) -> None:
        """Wait until its table is of a snapshot, and no pod of that is assumed any more."""

        def is_new() -> bool:
            age_s = gauge(self.main, "cohabit_score_table_age_seconds")
            return time_ns() / 1e9 - age_s >= as_of_us / 1e6 - SLACK_S

        _until(lambda: is_new() and not gauge(self.main, "cohabit_assumed_pods"))


@contextmanager
def advising(folder: Path) -> Iterator[Advisor]:
    """An advisor with its webhook over a folder's registry and snapshots."""
    port, webhook = free_ports(2)
    files = write_webhook_files(folder / "tls", [NAME], 1, datetime.fromtimestamp(time_ns() / 1e9, UTC))
    with serving(folder, port, _settings(webhook, files)) as main:
        secured = http.client.HTTPSConnection(NAME, webhook, context=ssl.create_default_context(cafile=files.ca))
        made = Advisor(main, http.client.HTTPConnection("127.0.0.1", port, timeout=10), secured)
        try:
            yield made
        finally:
            made.scheduler.close()
            made.apiserver.close()


def _settings(port: int, files: WebhookFiles) -> Mapping[str, str]:
    wished = {"": "advise", "_PORT": str(port), "_CERTIFICATE": str(files.certificate), "_KEY": str(files.key)}
    return {f"ADMISSION{name}": value for name, value in wished.items()}


def patched(pod: Json, steps: Iterable[Json]) -> Json:
    """A pod with a JSON Patch of `add` steps, as RFC 6902 has it; the pod given stays."""
    found = deepcopy(pod)
    for step in steps:
        if step["op"] != "add":
            raise ValueError(f"a step that adds was expected: {step}")
        *way, last = (word.replace("~1", "/").replace("~0", "~") for word in step["path"].split("/")[1:])
        at: Any = found
        for word in way:
            at = at[word]
        if isinstance(at, list):
            at.append(step["value"])
        else:
            at[last] = step["value"]
    return found


def _asked(by: http.client.HTTPConnection, path: str, body: Json) -> Any:
    """The reply's JSON; a connection that was idle and closed meanwhile is opened again, as Go's clients do."""
    try:
        reply = _sent(by, path, body)
    except ConnectionError:
        by.close()
        reply = _sent(by, path, body)
    said = reply.read()
    if reply.status != http.client.OK:
        raise ValueError(f"{path} replied {reply.status}: {said[:200]!r}")
    return json.loads(said)


def _sent(by: http.client.HTTPConnection, path: str, body: Json) -> http.client.HTTPResponse:
    by.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    return by.getresponse()


def _until(done: Callable[[], bool]) -> None:
    deadline = monotonic() + WITHIN_S
    while not done():
        if monotonic() > deadline:
            raise TimeoutError("the advisor does not take up what was published")
        sleep(LOOK_S)
