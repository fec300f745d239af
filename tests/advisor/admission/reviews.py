"""AdmissionReviews as kube-apiserver sends them, what it would do with a reply, and an advisor that answers them."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.admission.admission_advice import LATE_S, AdmissionAdvice, Mode
from advisor.admission.room_file import NewestRooms
from advisor.cluster.pending_pod import PodClass
from advisor.placement.prioritizer import Prioritizer
from cohabit.server.score_table_process import Tabling
from ingest.schema.workload_identity import ADVISED
from tests.advisor.clusters import snapshot
from tests.advisor.processes import Process

POD: Mapping[str, Any] = {
    "metadata": {"generateName": "web-", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "100m"}}}]},
}


def review(pod: Any = POD, **changed: Any) -> bytes:
    """A review of a pod that is created."""
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "admin", "groups": ["system:authenticated"]},
        "object": pod,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        **changed,
    }
    return json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}).encode()


def patch_of(reply: bytes) -> list[dict[str, Any]]:
    """The patch of a reply, which is one that kube-apiserver takes; empty without one."""
    said = json.loads(reply)
    assert (said.pop("apiVersion"), said.pop("kind")) == ("admission.k8s.io/v1", "AdmissionReview")
    response = said.pop("response")
    assert not said
    assert response.pop("allowed") is True
    assert isinstance(response.pop("uid"), str)
    assert all(isinstance(text, str) and len(text) <= 120 for text in response.pop("warnings", []))
    if not response:
        return []
    assert response.keys() == {"patchType", "patch"}
    assert response["patchType"] == "JSONPatch"
    found = json.loads(base64.b64decode(response["patch"], validate=True))
    assert isinstance(found, list)
    return found


def advice(number: int) -> str:
    """Id of the advice that a test's advisor gives at a time."""
    return f"{ADVISED}{number:016x}"


def advising(process: Process, folder: Path, mode: Mode = "advise", late_s: float = LATE_S) -> AdmissionAdvice:
    """With a bundle, a snapshot of 24 nodes, and a table of app `web`."""
    process.promote("first")
    process.publish(snapshot(11, nodes=24, missing=0.0, version=1))
    process.serving.reload()
    tabling = Tabling(process.serving, folder / "table")
    tabling.ask(PodClass("web", False), 0.0)
    tabling.step(0.0)
    prioritizer = Prioritizer(process.serving, tabling.path)
    prioritizer.take(prioritizer.newer())
    numbers = iter(range(1_000_000))
    made = AdmissionAdvice(prioritizer, NewestRooms(process.snapshots), mode, lambda: advice(next(numbers)), late_s)
    made.reload()
    return made
