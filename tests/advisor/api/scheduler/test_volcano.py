"""Volcano's extender plugin: whatever comes in, what leaves decodes into Volcano's Go types and names every node."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.api.scheduler.scheduler_app import MAX_SCHEDULER_BODY_BYTES, create_scheduler_app
from advisor.api.scheduler.volcano import PrioritizeRequest, offer_of
from advisor.cluster.pending_pod import PendingPod
from advisor.placement.offer import Offer
from advisor.placement.prioritizer import Prioritizer
from tests.advisor.drawn import ANYTHING, METADATA, NODE_NAMES, POD, TEXT, or_null, without_name
from tests.advisor.processes import STATES, Process

GOLDEN = Path(__file__).parents[3] / "golden"
PATH = "/volcano/prioritize"


def go_decodes(body: bytes) -> dict[str, float]:
    """Read a PrioritizeResponse as strictly as Go does, and more; the scores that Volcano would add."""
    reply = json.loads(body, parse_constant=pytest.fail)
    assert reply.keys() == {"nodeScore", "errorMessage"}
    assert reply["errorMessage"] == "", "an errorMessage is an error even if the extender is ignorable"
    assert type(reply["nodeScore"]) is dict, "without nodeScore the task gets no node"
    for node, score in reply["nodeScore"].items():
        assert type(node) is str
        assert type(score) in {int, float}
        assert math.isfinite(score)
        assert 0 <= score <= 100
    return dict(reply["nodeScore"])


def asked(client: TestClient, request: object) -> dict[str, float]:
    reply = client.post(PATH, content=json.dumps(request).encode())
    assert reply.status_code == 200, reply.text
    return go_decodes(reply.content)


@pytest.fixture
def client(process: Process) -> TestClient:
    return TestClient(create_scheduler_app(Prioritizer(process.made_ready().serving)))


RELEASED = [f"{by}-released-{of}" for by in ("volcano", "volcano-1.14") for of in ("tasks", "bare", "empty")]
EXCHANGES = ["volcano-prioritize", "volcano-nothing", *RELEASED]


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_golden_exchange(client: TestClient, exchange: str) -> None:
    """`released` requests were sent by Volcano's own plugin, see tests/golden/README.md."""
    request, expected = (GOLDEN / f"{exchange}.{part}.json" for part in ("request", "reply"))

    reply = client.post(PATH, content=request.read_bytes(), headers={"content-type": "application/json"})

    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    assert (reply.headers["cohabit-version"], reply.headers["cohabit-age-ms"]) == ("1", "0")
    assert reply.content == expected.read_bytes(), f"Volcano reads these bytes; see {expected}"


def test_volcano_gets_ten_times_what_kube_scheduler_gets(client: TestClient) -> None:
    by_name = (GOLDEN / "prioritize-names.request.json").read_bytes()
    points = {e["Host"]: e["Score"] for e in client.post("/extender/prioritize", content=by_name).json()}

    scores = go_decodes(client.post(PATH, content=(GOLDEN / "volcano-prioritize.request.json").read_bytes()).content)

    assert scores == {node: 10 * value for node, value in points.items()}
    assert len(set(scores.values())) > 1


def test_the_pod_is_who_kube_scheduler_says_it_is() -> None:
    read = offer_of(
        msgspec.json.decode((GOLDEN / "volcano-prioritize.request.json").read_bytes(), type=PrioritizeRequest)
    )

    names = ["n4", "n0", "n-unknown", "n2", "n5", "n1", "n3"]
    uid = "3f0c8a52-7a5e-4d63-9d63-2f1e6a1c9b10"
    assert read == Offer(PendingPod("web", "shop"), uid, names, "", "shop", "7d4b9c6f58")


def test_a_task_without_its_pod_is_known_by_its_own_name_and_uid() -> None:
    task = {"UID": "7", "Name": "web", "Namespace": "shop", "Pod": None}

    assert offer_of(msgspec.convert({"task": task, "nodes": None}, PrioritizeRequest)) == Offer(
        PendingPod("web", "shop"), "7", [], "", "shop"
    )


def test_nodes_may_be_a_map_and_lack_their_own_name(client: TestClient) -> None:
    own = {"metadata": {"name": "n1", "labels": 5}}
    listed = [{"Name": "n0", "Node": None}, {"Name": "", "Node": own}, {"Name": "n0", "Node": {}}, None, {}]
    mapped = {"n0": {"Idle": None}, "n1": None}

    assert asked(client, {"nodes": listed}).keys() == asked(client, {"nodes": mapped}).keys() == {"n0", "n1"}


TASK = st.fixed_dictionaries(
    {},
    optional={"UID": TEXT, "Name": TEXT, "Namespace": TEXT, "Pod": or_null(POD), "Resreq": ANYTHING, "New": ANYTHING},
)


@st.composite
def requests(draw: st.DrawFn) -> tuple[dict[str, Any], set[str]]:
    """A request of any release, and the names it offers."""
    names = draw(NODE_NAMES)
    infos: list[Any] = [
        {"Name": name, "Node": {"metadata": draw(METADATA.map(without_name))}, "Tasks": draw(ANYTHING)}
        for name in names
    ]
    nodes = draw(st.sampled_from([infos, [*infos, None], dict(zip(names, infos, strict=True))]))
    request = {"task": draw(or_null(TASK)), "nodes": nodes, "later": draw(ANYTHING)}
    return request, {name for name in names if name}


@given(drawn=requests(), state=st.sampled_from(STATES))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_an_error_an_empty_reply_or_a_missing_node_can_never_leave(
    states: dict[str, TestClient], drawn: tuple[dict[str, Any], set[str]], state: str
) -> None:
    request, offered = drawn

    scores = asked(states[state], request)

    assert scores.keys() == offered
    if state not in {"model", "last_good"}:
        assert set(scores.values()) <= {0}


@given(body=ANYTHING)
@settings(max_examples=200, deadline=None)
def test_anything_at_all_is_answered_or_refused_in_a_sentence(states: dict[str, TestClient], body: object) -> None:
    for request in (body, {"task": body, "nodes": [{"Name": "n0"}]}, {"nodes": body}, {"nodes": {"n0": body}}):
        reply = states["model"].post(PATH, content=json.dumps(request).encode())

        if reply.status_code == 200:
            go_decodes(reply.content)
        else:
            assert reply.status_code == 400
            assert reply.json()["error"].startswith("cannot read the request: not Volcano's PrioritizeRequest")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"nodes": ["n0"]}',
        b'{"nodes": [{"Name": "\xff"}]}',
        b"[" * 1_000_000,
        b'{"x": ' + b"[" * 1_000_000,
    ],
    ids=["empty", "list", "names", "not unicode", "brackets", "brackets in an unknown field"],
)
def test_what_is_no_request_gets_a_400(client: TestClient, body: bytes) -> None:
    assert client.post(PATH, content=body).status_code == 400


def test_too_long_a_body_is_refused_unread(client: TestClient) -> None:
    length = {"content-length": str(MAX_SCHEDULER_BODY_BYTES + 1)}

    assert client.post(PATH, content=b"{}", headers=length).status_code == 413


def test_whatever_fails_inside_every_node_gets_0(client: TestClient, process: Process) -> None:
    scorer = process.serving.scorer
    assert scorer is not None
    process.serving.scorer = replace(scorer, snapshot=replace(scorer.snapshot, node_capacity=np.zeros((0, 0))))

    assert asked(client, {"nodes": [{"Name": "n0"}, {"Name": "n1"}]}) == {"n0": 0, "n1": 0}
