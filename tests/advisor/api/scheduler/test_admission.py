"""Webhook: a pod is always allowed; advice prefers the table's best nodes, books the best one, and fits the pod."""

import asyncio
import json
import os
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.types import Message

from advisor.admission.admission_advice import GROUP_US, AdmissionAdvice, Mode
from advisor.admission.node_room import NodeRoom, Rooms
from advisor.admission.pod_bounds import MAX_POD_BYTES
from advisor.admission.preference import MAX_ANNOTATION_BYTES, PREFERRED
from advisor.admission.room_file import NewestRooms, write_rooms
from advisor.api.scheduler.admission import MAX_REVIEW_BYTES, Admit, create_admission_app
from advisor.api.scheduler.scheduler_app import create_scheduler_app
from advisor.errors import BadRequest
from advisor.placement.prioritizer import Prioritizer
from tests.advisor.admission.reviews import POD, advice, advising, patch_of, review
from tests.advisor.admission.test_preference import applied
from tests.advisor.clusters import NOW_US
from tests.advisor.processes import STATES, Process, process_in


class Webhook:
    """An advisor, asked over HTTP."""

    def __init__(self, process: Process, advice: AdmissionAdvice) -> None:
        self.process, self.advice = process, advice
        self.client = TestClient(create_admission_app(advice))

    def ask(self, pod: Any = POD, **changed: Any) -> list[dict[str, Any]]:
        """The patch of a pod."""
        reply = self.client.post("/admission", content=review(pod, **changed))
        assert reply.status_code == 200, reply.content
        return patch_of(reply.content)

    def outcome(self, pod: Any = POD, **changed: Any) -> str:
        """Outcome and reason, as counted."""
        before = self.counts()
        self.ask(pod, **changed)
        [found] = (name for name, count in self.counts().items() if count > before.get(name, 0))
        return found

    def counts(self) -> dict[str, float]:
        [metric] = (one for one in self.process.serving.metrics.collect() if one.name == "cohabit_admission")
        return {
            f"{one.labels['outcome']} {one.labels['reason']}".strip(): one.value
            for one in metric.samples
            if one.name.endswith("_total")
        }

    def booked(self) -> dict[str, str]:
        return {one.uid: one.node for one in self.advice.prioritizer.assumed.bookings}


@pytest.fixture
def webhook(process: Process, tmp_path: Path) -> Webhook:
    return Webhook(process, advising(process, tmp_path))


def terms_of(patch: list[dict[str, Any]], pod: Any = POD) -> list[Any]:
    return list(applied(pod, patch)["spec"]["affinity"]["nodeAffinity"][PREFERRED])


def listed(terms: list[Any]) -> list[str]:
    fields = [one["preference"]["matchFields"] for one in terms]
    return [one["values"][0] for [one, *_] in fields if one["operator"] == "In"]


def changed(**spec: Any) -> dict[str, Any]:
    return {**POD, "spec": {**POD["spec"], **spec}}


def labelled(**labels: str) -> dict[str, Any]:
    by_name = {name.replace("_", "/"): value for name, value in labels.items()}
    return {**POD, "metadata": {"name": "p", "labels": by_name}}


def test_the_best_nodes_of_the_table_are_preferred_and_the_first_is_booked(webhook: Webhook) -> None:
    replies = webhook.advice.prioritizer.replies
    assert replies is not None

    terms = terms_of(webhook.ask())

    names = listed(terms)
    rows = replies.rows(names)
    [of] = (one for one in replies.row_of if one.app == "web")
    assert (replies.table.points[replies.row_of[of]][rows] > 0).all()
    assert 0 < len(names) <= 12
    assert set(names) <= set(replies.table.nodes)
    assert webhook.booked() == {advice(0): names[0]}


def test_another_pod_is_advised_with_the_first_one_counted(webhook: Webhook) -> None:
    first = [listed(terms_of(webhook.ask()))[0] for _ in range(12)]

    assert len(set(first)) > 1


def test_a_dry_run_gets_the_same_patch_and_books_nothing(webhook: Webhook) -> None:
    assert webhook.ask(dryRun=True)
    assert webhook.booked() == {}


def test_the_extender_books_the_pod_again_under_the_id_of_its_advice(webhook: Webhook) -> None:
    patched = applied(dict(POD), webhook.ask())
    pod = {"metadata": {**patched["metadata"], "uid": "real", "name": "web-1"}}

    TestClient(create_scheduler_app(webhook.advice.prioritizer)).post(
        "/extender/prioritize", content=json.dumps({"Pod": pod, "NodeNames": ["n0", "n1"]})
    )

    assert list(webhook.booked()) == [advice(0)]
    assert webhook.booked()[advice(0)] in {"n0", "n1"}


@pytest.mark.parametrize(
    ("said", "app", "known"),
    [(advice(0), "web", True), (advice(7), "web", False), (advice(0), "other", False), ("x" * 5000, "web", False)],
)
def test_only_an_id_that_is_booked_for_the_class_stands_for_the_pod(
    webhook: Webhook, said: str, app: str, *, known: bool
) -> None:
    webhook.ask()
    notes = {"cohabit.io/advice": said}
    pod = {"metadata": {"uid": "real", "name": "p", "labels": {"app": app}, "annotations": notes}}

    TestClient(create_scheduler_app(webhook.advice.prioritizer)).post(
        "/extender/prioritize", content=json.dumps({"Pod": pod, "NodeNames": ["n0", "n1"]})
    )

    assert said not in webhook.booked() or said == advice(0)
    assert ("real" in webhook.booked()) is not known


def test_a_booking_ends_when_the_pod_is_observed_and_else_after_two_minutes(webhook: Webhook) -> None:
    webhook.ask()
    webhook.ask()
    nodes = tuple(NodeRoom(f"n{i}", cores=8.0) for i in range(24))
    write_rooms(webhook.process.snapshots, Rooms("c", NOW_US, nodes, {advice(0): "n3", "unknown": "n4"}))
    prioritizer = webhook.advice.prioritizer

    webhook.advice.reload()
    prioritizer.take(None, prioritizer.arrived())
    assert list(webhook.booked()) == [advice(1)]

    webhook.process.now_us += 121_000_000
    prioritizer.take(None, prioritizer.arrived())
    assert webhook.booked() == {}


def test_all_members_of_a_group_get_the_same_terms_for_ten_minutes(webhook: Webhook) -> None:
    member = labelled(app="web", **{"scheduling.x-k8s.io_pod-group": "g"})

    terms = [terms_of(webhook.ask(member)) for _ in range(20)]
    others = terms_of(webhook.ask(member, namespace="other"))

    assert all(one == terms[0] for one in terms)
    assert others != terms[0]
    webhook.process.now_us += GROUP_US + 1
    assert webhook.outcome(member) == "neutral stale"


def test_own_terms_stay_and_ours_are_a_quarter_of_the_greatest(webhook: Webhook) -> None:
    own: list[Any] = [{"weight": weight, "preference": {"matchExpressions": []}} for weight in (8, 80)]
    pod = changed(affinity={"nodeAffinity": {PREFERRED: own}})

    terms = terms_of(webhook.ask(pod), pod)

    assert terms[:2] == own
    assert 1 <= max(one["weight"] for one in terms[2:]) <= 20
    own[1]["weight"] = 3
    own[0]["weight"] = 3
    assert webhook.outcome(pod) == "skipped own_terms"


def test_only_nodes_that_take_the_pod_are_listed(webhook: Webhook) -> None:
    tainted = ("x:NoSchedule",)
    nodes = tuple(
        NodeRoom(f"n{i}", {"zone": "ab"[i % 2]}, tainted * (i % 3 == 0), cores=1.0 * (i % 5)) for i in range(24)
    )
    write_rooms(webhook.process.snapshots, Rooms("c", NOW_US, nodes))
    webhook.advice.reload()

    names = listed(terms_of(webhook.ask(changed(nodeSelector={"zone": "a"}))))

    assert names
    assert {int(name[1:]) for name in names} <= {i for i in range(24) if i % 2 == 0 and i % 3 and i % 5}
    assert webhook.outcome(changed(nodeSelector={"zone": "c"})) == "neutral no_preference"


def test_a_node_is_full_once_pods_that_are_assumed_there_request_all_that_is_left(webhook: Webhook) -> None:
    nodes = tuple(NodeRoom(f"n{i}", cores=0.25 if i < 3 else 0.0) for i in range(24))
    write_rooms(webhook.process.snapshots, Rooms("c", NOW_US, nodes))
    webhook.advice.reload()

    asked = [webhook.outcome() for _ in range(7)]

    assert asked == ["advised"] * 6 + ["neutral no_preference"]
    assert sorted(webhook.booked().values()) == ["n0", "n0", "n1", "n1", "n2", "n2"]


def test_a_pod_whose_requests_are_taken_off_already_is_not_counted_again(webhook: Webhook) -> None:
    nodes = tuple(NodeRoom(f"n{i}", cores=0.15 if i < 1 else 0.0) for i in range(24))
    write_rooms(webhook.process.snapshots, Rooms("c", NOW_US, nodes))
    webhook.advice.reload()
    assert [webhook.outcome() for _ in range(2)] == ["advised", "neutral no_preference"]

    write_rooms(webhook.process.snapshots, Rooms("c", NOW_US + 1, nodes, {}, frozenset({advice(0)})))
    webhook.advice.reload()

    assert webhook.outcome() == "advised"


@pytest.mark.parametrize(
    ("pod", "outcome"),
    [
        (labelled(app="web", **{"cohabit.io_advice": "off"}), "skipped opted_out"),
        (changed(nodeName="n1"), "skipped node_bound"),
        ({**POD, "metadata": {"name": "p", "annotations": {"kubernetes.io/config.mirror": "x"}}}, "skipped node_bound"),
        ({**POD, "metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": "d"}]}}, "skipped node_bound"),
        (labelled(**{"app.kubernetes.io_name": "cohabit"}), "skipped system"),
        (changed(nodeSelector={"kubernetes.io/hostname": "n1"}), "skipped one_host"),
        (changed(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]), "skipped gated"),
        ({"metadata": {}, "spec": {}}, "failed unreadable"),
        ({"spec": {"containers": [{}]}}, "failed unreadable"),
        ({"metadata": {}, "spec": {"containers": [{}]}}, "advised"),
        (changed(affinity={"nodeAffinity": "x"}), "failed unreadable"),
        (changed(affinity={"nodeAffinity": {PREFERRED: [{"weight": "1"}]}}), "failed unreadable"),
        ([1], "failed unreadable"),
        (None, "skipped other_object"),
    ],
    ids=str,
)
def test_who_gets_no_advice_is_counted_with_the_reason(webhook: Webhook, pod: Any, outcome: str) -> None:
    assert webhook.outcome(pod) == outcome


def test_the_system_namespace_and_other_objects_are_left_alone(webhook: Webhook) -> None:
    assert webhook.outcome(namespace="kube-system") == "skipped system"
    assert webhook.outcome(operation="UPDATE") == "skipped other_object"
    assert webhook.outcome(kind={"group": "apps", "version": "v1", "kind": "Deployment"}) == "skipped other_object"
    assert webhook.booked() == {}


def test_a_pod_that_is_only_annotated_keeps_its_affinity(process: Process, tmp_path: Path) -> None:
    webhook = Webhook(process, advising(process, tmp_path, "annotate"))

    [step] = webhook.ask()

    assert step["path"] == "/metadata/annotations"
    assert list(step["value"]) == ["cohabit.io/would-advise"]
    assert webhook.booked() == {}


def test_advice_that_comes_too_late_is_dropped_and_books_nothing(process: Process, tmp_path: Path) -> None:
    webhook = Webhook(process, advising(process, tmp_path, late_s=0.0))

    assert webhook.outcome() == "late late"
    assert webhook.booked() == {}


def test_a_pod_of_more_bytes_than_real_ones_is_unreadable(webhook: Webhook) -> None:
    def noted(size: int) -> dict[str, Any]:
        return {**POD, "spec": {**POD["spec"], "hostname": "x" * size}}

    assert webhook.outcome(noted(MAX_POD_BYTES)) == "failed unreadable"
    assert webhook.outcome(noted(MAX_POD_BYTES - 1000)) == "advised"


@pytest.mark.parametrize("mode", ["advise", "annotate"])
def test_annotations_stay_below_the_limit_of_kube_apiserver(process: Process, tmp_path: Path, mode: Mode) -> None:
    webhook = Webhook(process, advising(process, tmp_path, mode))

    def noted(size: int) -> dict[str, Any]:
        return {**POD, "metadata": {**POD["metadata"], "annotations": {"é": "é" * (size // 2 - 1)}}}

    assert webhook.outcome(noted(MAX_ANNOTATION_BYTES)) == "skipped no_space"
    assert webhook.booked() == {}
    patched = applied(noted(MAX_ANNOTATION_BYTES - 500), webhook.ask(noted(MAX_ANNOTATION_BYTES - 500)))
    notes = patched["metadata"]["annotations"]
    assert len(notes) == 2
    assert sum(len(f"{key}{value}".encode()) for key, value in notes.items()) <= MAX_ANNOTATION_BYTES


@pytest.mark.parametrize("state", STATES)
def test_in_every_state_of_serving_a_pod_is_allowed(bundle: Path, tmp_path: Path, state: str) -> None:
    process = process_in(state, bundle, tmp_path)
    advice = AdmissionAdvice(Prioritizer(process.serving), NewestRooms(process.snapshots), "advise", lambda: "id")
    advice.reload()

    assert Webhook(process, advice).outcome().startswith("neutral ")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"request": {}}', b'{"request": {"uid": 1}}', b"\xff"])
def test_a_request_without_a_uid_gets_400(webhook: Webhook, body: bytes) -> None:
    assert webhook.client.post("/admission", content=body).status_code == 400


def test_other_methods_paths_and_larger_bodies_are_rejected(webhook: Webhook) -> None:
    assert webhook.client.get("/admission").status_code == 405
    assert webhook.client.post("/extender/prioritize", content=review()).status_code == 404
    assert webhook.client.post("/admission", content=b" " * (MAX_REVIEW_BYTES + 1)).status_code == 413


FUZZED = int(os.environ.get("FUZZED_REVIEWS", "2000"))
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**70, 1e308, "", "x", "\u0000", "é" * 300, "n" * 5000, [], {}, [None], [[]], {"": ""}),
    *({"a": None}, [{}], "1", "1Ei", "-5m", "In", "metadata.name", "kubernetes.io/hostname", "cohabit.io/advice"),
)
FULL: dict[str, Any] = {
    "metadata": {
        "name": "p",
        "generateName": "p-",
        "labels": {"app": "web", "scheduling.x-k8s.io/pod-group": "g"},
        "annotations": {"a/b": "c"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "controller": True, "apiVersion": "apps/v1"}],
    },
    "spec": {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}}}],
        "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"limits": {"cpu": "1"}}}],
        "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}],
        "nodeSelector": {"zone": "a"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "In", "values": ["a"]}]}]
                },
                PREFERRED: [{"weight": 50, "preference": {"matchFields": []}}],
            },
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]},
        },
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}],
        "overhead": {"cpu": "1m"},
        "priority": 1,
        "schedulingGroup": {"podGroupName": "g"},
    },
}


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every holder and key inside a value."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in [(value, key), *places(value[key])]]


def fuzzed(rng: Random) -> bytes:
    """A review in which some values are others, are gone, or whose bytes are damaged."""
    whole: Any = json.loads(review(deepcopy(FULL)))
    for _ in range(rng.randint(0, 4)):
        holder, key = rng.choice([(h, k) for h, k in places(whole) if h is not whole])
        if rng.random() < 0.25:
            del holder[key]
        else:
            holder[key] = deepcopy(rng.choice(ODD))
    body = bytearray(json.dumps(whole).encode())
    for _ in range(rng.choice((0, 0, 0, 1, 3))):
        body[rng.randrange(len(body))] = rng.randrange(256)
    return bytes(body[: rng.randrange(len(body))] if rng.random() < 0.03 else body)


async def asked(admit: Admit, body: bytes) -> tuple[int, bytes]:
    """Status and body, without a framework around the route: it maps BadRequest to 400."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    try:
        await admit({"type": "http"}, receive, send)
    except BadRequest:
        return 400, b""
    return sent[0]["status"], sent[1]["body"]


def test_fuzzed_reviews_get_a_valid_review_or_have_no_uid(webhook: Webhook) -> None:
    """`FUZZED_REVIEWS=100000 pytest tests/advisor/api/scheduler/test_admission.py -k fuzzed` takes minutes."""
    labels, pieces = {"zone": "a", "z": "a"}, {"nvidia.com/gpu": 8.0}
    nodes = tuple(NodeRoom(f"n{i}", labels, (), "a", 64.0, 1e12, 250.0, pieces) for i in range(24))
    write_rooms(webhook.process.snapshots, Rooms("c", NOW_US, nodes))
    webhook.advice.reload()
    rng, admit, statuses = Random(7), Admit(webhook.advice), {200: 0, 400: 0}
    bodies = [fuzzed(rng) for _ in range(FUZZED)]

    async def all_asked() -> list[tuple[int, bytes]]:
        return [await asked(admit, body) for body in bodies]

    for body, (status, reply) in zip(bodies, asyncio.run(all_asked()), strict=True):
        statuses[status] += 1
        if status == 200 and (patch := patch_of(reply)):
            applied(json.loads(body.decode(errors="replace"))["request"]["object"], patch)
    assert statuses[200] > FUZZED / 2
    assert webhook.counts().get("failed error", 0) == 0
    assert {name.split()[0] for name in webhook.counts()} >= {"advised", "neutral", "failed", "skipped"}
