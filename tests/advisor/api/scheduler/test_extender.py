"""kube-scheduler's extender: its bytes in, its bytes out, and nothing it could not read, whatever comes."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import Message

from advisor.api.http.application import assembled
from advisor.api.scheduler.extender import extender_routes
from advisor.api.scheduler.scheduler_app import MAX_SCHEDULER_BODY_BYTES, create_scheduler_app
from advisor.placement.prioritizer import Prioritizer
from tests.advisor.drawn import METADATA, NODE_NAMES, POD, or_null, without_name
from tests.advisor.processes import STATES, Process

GOLDEN = Path(__file__).parents[3] / "golden"
PATH = "/extender/prioritize"


def refuse_float(text: str) -> float:
    raise AssertionError(f"a number that Go does not decode into int64: {text}")


def go_decodes(body: bytes) -> list[dict[str, Any]]:
    """Read a HostPriorityList as strictly as Go does, and more: no float, no bool, no other key."""
    reply = json.loads(body, parse_float=refuse_float, parse_constant=refuse_float)
    assert isinstance(reply, list)
    for entry in reply:
        assert entry.keys() == {"Host", "Score"}
        assert type(entry["Host"]) is str
        assert type(entry["Score"]) is int
        assert 0 <= entry["Score"] <= 10
    return reply


@pytest.fixture
def client(process: Process) -> TestClient:
    return TestClient(create_scheduler_app(Prioritizer(process.made_ready().serving)))


EXCHANGES = [
    *(f"prioritize-{of}" for of in ("names", "nodes", "nothing")),
    *(f"prioritize-released-{of}" for of in ("names", "nodes", "no-names", "no-nodes")),
]


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_golden_exchange(client: TestClient, exchange: str) -> None:
    """Requests were written by Go's encoding/json from the protocol's types, `released` ones by kube-scheduler.

    See tests/golden/README.md.
    """
    request, expected = (GOLDEN / f"{exchange}.{part}.json" for part in ("request", "reply"))

    reply = client.post(PATH, content=request.read_bytes(), headers={"content-type": "application/json"})

    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    assert reply.content == expected.read_bytes(), f"kube-scheduler reads these bytes; see {expected}"


def test_without_snapshot_and_bundle_every_offered_node_gets_0(process: Process) -> None:
    client = TestClient(create_scheduler_app(Prioritizer(process.serving)))

    reply = client.post(PATH, content=(GOLDEN / "prioritize-names.request.json").read_bytes())

    assert [entry["Host"] for entry in go_decodes(reply.content)] == ["n4", "n0", "n-unknown", "n2", "n5", "n1", "n3"]
    assert {entry["Score"] for entry in go_decodes(reply.content)} == {0}


@st.composite
def extender_args(draw: st.DrawFn) -> tuple[dict[str, Any], list[str]]:
    """A valid request in either mode, and the names it offers."""
    names = draw(NODE_NAMES)
    whole = [{"metadata": {"name": name, **draw(METADATA.map(without_name))}, "spec": {}} for name in names]
    by_name = {"Nodes": None, "NodeNames": names}
    by_node = {"Nodes": {"metadata": {}, "items": whole}, "NodeNames": None}
    request = {"Pod": draw(or_null(POD)), **draw(st.sampled_from([by_name, by_node]))}
    return request, names


@given(args=extender_args(), state=st.sampled_from(STATES))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_float_an_unknown_host_or_an_accidental_empty_reply_can_never_leave(
    states: dict[str, TestClient], args: tuple[dict[str, Any], list[str]], state: str
) -> None:
    request, offered = args

    reply = states[state].post(PATH, content=json.dumps(request).encode())

    assert reply.status_code == 200
    scores = go_decodes(reply.content)
    assert [entry["Host"] for entry in scores] == offered
    if state not in {"model", "last_good"}:
        assert all(entry["Score"] == 0 for entry in scores)


@given(names=st.lists(st.sampled_from([f"n{i}" for i in range(6)]), min_size=1, max_size=8))
@settings(max_examples=30, deadline=None)
def test_a_node_scores_the_same_in_any_company(states: dict[str, TestClient], names: list[str]) -> None:
    def scores(offered: list[str]) -> list[int]:
        body = json.dumps({"Pod": {"metadata": {"labels": {"app": "web"}}}, "Nodes": None, "NodeNames": offered})
        return [entry["Score"] for entry in go_decodes(states["model"].post(PATH, content=body).content)]

    assert scores(names) == [scores([name])[0] for name in names]


MALFORMED = {
    "empty": b"",
    "cut off": b'{"Pod": {"metadata": {"name": "x"',
    "not an object": b"[]",
    "null": b"null",
    "not unicode": b'{"NodeNames": ["\xff"]}',
    "half a surrogate pair": b'{"NodeNames": ["\\ud800"]}',
    "a number as a name": b'{"NodeNames": [1]}',
    "null as a name": b'{"NodeNames": [null]}',
    "names as text": b'{"NodeNames": "n0"}',
    "text after the end": b'{"NodeNames": []} x',
    "NaN": b'{"NodeNames": NaN}',
    "a million brackets": b"[" * 1_000_000,
    "a million brackets in an unknown field": b'{"Other": ' + b"[" * 1_000_000,
    "a million objects in the pod": b'{"Pod": ' + b'{"spec":' * 1_000_000,
    "closed nesting": b'{"Other": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_not_extender_args_gets_a_clear_400_at_once(client: TestClient, body: bytes) -> None:
    started = time.perf_counter()

    reply = client.post(PATH, content=body)

    assert reply.status_code == 400
    assert reply.json()["error"].startswith("cannot read the request: not ExtenderArgs")
    assert time.perf_counter() - started < 2.0


def test_unknown_and_nested_fields_are_passed_over(client: TestClient) -> None:
    nested: object = []
    for _ in range(200):
        nested = [nested]
    body = {"Pod": None, "NodeNames": ["n0"], "Nodes": None, "Groups": nested}

    assert len(go_decodes(client.post(PATH, content=json.dumps(body)).content)) == 1


@pytest.fixture
def narrow(process: Process) -> TestClient:
    """The same listener with room for 1,000 bytes."""
    return TestClient(assembled("narrow", [extender_routes(Prioritizer(process.serving))], max_body_bytes=1000))


def test_a_body_declared_too_long_is_refused_unread(client: TestClient) -> None:
    length = {"content-length": str(MAX_SCHEDULER_BODY_BYTES + 1)}

    reply = client.post(PATH, content=b"{}", headers=length)

    assert reply.status_code == 413
    assert "nodeCacheCapable: true" in reply.json()["error"]


def test_a_body_without_length_is_read_no_further_than_the_limit(narrow: TestClient) -> None:
    sent: list[bytes] = []
    replies: list[Message] = []

    async def endless() -> Message:
        assert len(sent) < 100, "the body is read on and on"
        sent.append(b" " * 100)
        return {"type": "http.request", "body": sent[-1], "more_body": True}

    async def collect(message: Message) -> None:
        replies.append(message)

    scope = {"type": "http", "method": "POST", "path": PATH, "headers": [], "query_string": b""}

    async def post() -> None:
        await narrow.app(scope, endless, collect)

    asyncio.run(post())

    assert replies[0]["status"] == 413
    assert json.loads(replies[1]["body"])["error"].startswith("the request body exceeds the limit of 1000 bytes")
    assert len(sent) == 11


@pytest.mark.parametrize("length", ["abc", "-5", "0", "9" * 400])
def test_a_length_that_lies_does_not_help(narrow: TestClient, length: str) -> None:
    assert narrow.post(PATH, content=b" " * 2000, headers={"content-length": length}).status_code == 413


def test_a_body_at_the_limit_passes(narrow: TestClient) -> None:
    body = json.dumps({"NodeNames": ["n0"]}).encode()

    assert narrow.post(PATH, content=body + b" " * (1000 - len(body))).status_code == 200
    assert narrow.post(PATH, content=body + b" " * (1001 - len(body))).status_code == 413


def test_the_scheduler_app_offers_nothing_else(client: TestClient) -> None:
    assert client.get(PATH).status_code == 405
    assert client.post("/v1/scores", json={"app": "web"}).status_code == 404
    assert client.get("/metrics").json() == {"error": "Not Found"}
