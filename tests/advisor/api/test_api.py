"""The listener for everything else: full scores, health, readiness, metrics, and who may call what."""

import math
from dataclasses import replace
from typing import Any

import pytest
from fastapi import APIRouter, WebSocket
from fastapi.testclient import TestClient
from starlette.responses import PlainTextResponse

from advisor.api.app import MAX_BODY_BYTES, create_app
from advisor.api.http.application import assembled
from advisor.api.http.roles import allowed, roles_of
from advisor.api.scheduler.scheduler_app import create_scheduler_app
from advisor.api.v1.scores import MAX_HARMED
from advisor.diagnosis.coverage import Coverage, Looked
from advisor.diagnosis.report_file import write_report
from advisor.errors import AdvisorError
from advisor.placement.prioritizer import Prioritizer
from features.schema.catalog import NAMES
from tests.advisor.clusters import snapshot
from tests.advisor.diagnoses import AT_US, told
from tests.advisor.processes import Process


@pytest.fixture
def ready(process: Process) -> Process:
    process.promote("first")
    process.publish(snapshot(11, residents=(0, 9), version=1))
    process.serving.reload()
    return process


@pytest.fixture
def client(ready: Process) -> TestClient:
    return TestClient(create_app(ready.serving))


def scores(client: TestClient, **ask: object) -> dict[str, Any]:
    reply = client.post("/v1/scores", json={"app": "web", **ask})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def test_scores_of_all_nodes_in_their_order(client: TestClient) -> None:
    reply = scores(client)

    assert (reply["source"], reply["reason"], reply["snapshot_version"], reply["age_s"]) == ("model", "", 1, 0.0)
    assert [node["node"] for node in reply["nodes"]] == [f"n{i}" for i in range(6)]


def test_an_app_that_nobody_knows_is_said_to_be_one(client: TestClient) -> None:
    told = {app: client.post("/v1/scores", json={"app": app}).json()["app_known"] for app in ("web", "wbe")}

    assert told == {"web": True, "wbe": False}


def test_scores_of_the_nodes_asked_in_the_order_asked(client: TestClient) -> None:
    every = {node["node"]: node for node in scores(client)["nodes"]}

    assert scores(client, nodes=["n4", "n0", "n4"])["nodes"] == [every["n4"], every["n0"], every["n4"]]
    assert scores(client, nodes=[])["nodes"] == []


def test_each_node_says_what_the_newcomer_suffers_does_and_why(client: TestClient) -> None:
    for node in scores(client)["nodes"]:
        assert 0 <= node["score"] <= 10
        assert 0.9 < node["slowdown_ratio"] <= node["slowdown_upper"]
        assert node["factors"].keys() == set(NAMES)
        assert len(node["harm"]) <= MAX_HARMED
        ratios = [harm["slowdown_ratio"] for harm in node["harm"]]
        assert ratios == sorted(ratios, reverse=True)
        assert all(ratio >= 1 for ratio in ratios)


def test_the_scheduler_gets_the_same_scores(ready: Process, client: TestClient) -> None:
    body = {"Pod": {"metadata": {"labels": {"app": "web"}}}, "NodeNames": ["n3", "n0", "n5"]}
    reply = TestClient(create_scheduler_app(Prioritizer(ready.serving))).post("/extender/prioritize", json=body)

    asked = {node["node"]: node["score"] for node in scores(client)["nodes"]}
    assert {entry["Host"]: entry["Score"] for entry in reply.json()} == {n: asked[n] for n in ("n3", "n0", "n5")}


@pytest.mark.parametrize("nodes", [["elsewhere"], ["n0", "elsewhere", "nowhere"]])
def test_an_unknown_node_is_named(client: TestClient, nodes: list[str]) -> None:
    reply = client.post("/v1/scores", json={"app": "web", "nodes": nodes})

    assert reply.status_code == 404
    assert reply.json() == {"error": "node 'elsewhere' is not in the snapshot: check its messages on topic nodes"}


def test_nothing_honest_to_say_is_said_with_the_reason(process: Process) -> None:
    reply = scores(TestClient(create_app(process.serving)), nodes=["n0"])

    assert reply == {
        "source": "neutral",
        "reason": "not_loaded",
        "snapshot_version": 0,
        "age_s": 0.0,
        "app_known": False,
        "nodes": [],
    }


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{}", "body.app: Field required"),
        (b'{"app": ""}', "body.app: String should have at least 1 character"),
        (b'{"app": "web", "nodse": []}', "body.nodse: Extra inputs are not permitted"),
        (b'{"app": "web", "nodes": [1]}', "body.nodes.0: Input should be a valid string"),
        (b'{"app": "web", "best_effort": 0}', "body.best_effort: Input should be a valid boolean"),
        (b'{"app": NaN}', "body.app: Input should be a valid string"),
        (b'{"app": "web"', "body.13: JSON decode error"),
        (b"[]", "body: Input should be a valid dictionary"),
        (b"", "body: Field required"),
    ],
)
def test_what_does_not_fit_is_named_and_not_echoed(client: TestClient, body: bytes, said: str) -> None:
    reply = client.post("/v1/scores", content=body, headers={"content-type": "application/json"})

    assert reply.status_code == 422
    assert reply.json()["error"].startswith(said)


def test_many_problems_are_counted_instead_of_listed(client: TestClient) -> None:
    reply = client.post("/v1/scores", json={"app": "web", "nodes": [1] * 1000})

    assert reply.status_code == 422
    assert reply.json()["error"].endswith("and 995 more")
    assert len(reply.content) < 1000


def test_a_million_brackets_get_a_400(client: TestClient) -> None:
    reply = client.post("/v1/scores", content=b"[" * 1_000_000, headers={"content-type": "application/json"})

    assert reply.status_code == 400


def test_too_long_a_body_gets_a_413(client: TestClient) -> None:
    reply = client.post("/v1/scores", content=b" " * (MAX_BODY_BYTES + 1))

    assert reply.status_code == 413
    assert str(MAX_BODY_BYTES) in reply.json()["error"]


def test_alive_whatever_is_loaded(process: Process) -> None:
    assert TestClient(create_app(process.serving)).get("/healthz").json() == {"status": "alive"}


def test_readiness_tells_the_truth(process: Process) -> None:
    client = TestClient(create_app(process.serving))

    def said() -> tuple[int, str, str]:
        process.serving.reload()
        reply = client.get("/readyz")
        return reply.status_code, reply.json()["status"], reply.json()["reason"]

    assert client.get("/readyz").json() == {
        "status": "neutral",
        "reason": "not_loaded",
        "looked_at": "unknown",
    }
    assert said() == (503, "neutral", "no_bundle")
    process.promote("first")
    assert said() == (503, "neutral", "no_snapshot")
    process.publish(snapshot(version=1))
    assert said() == (200, "ready", "")
    (process.publish(snapshot(version=2)) / "first.npy").unlink()
    assert said() == (200, "last_good", "no_snapshot")
    process.now_us += 10**9
    assert said() == (503, "neutral", "stale")


def test_how_much_was_looked_at_is_said_and_makes_nothing_unready(ready: Process, client: TestClient) -> None:
    gauges = ("cohabit_label_coverage_ratio", "cohabit_diagnosed_timestamp_seconds")
    assert [ready.counted(name) for name in gauges] == [0, 0]

    write_report(ready.snapshots, replace(told(), coverage=Coverage(Looked(8, 0), 3)))
    blind = client.get("/readyz")
    write_report(ready.snapshots, replace(told(), coverage=Coverage(Looked(8, 5), 3)))

    assert (blind.status_code, blind.json()) == (200, {"status": "ready", "reason": "", "looked_at": "0.00"})
    assert client.get("/readyz").json()["looked_at"] == "0.62"
    assert [ready.counted(name) for name in gauges] == [0.625, AT_US / 1e6]


def test_metrics_can_be_scraped(ready: Process, client: TestClient) -> None:
    scores(client)

    reply = client.get("/metrics")

    assert reply.headers["content-type"].startswith("text/plain")
    assert 'cohabit_score_requests_total{reason="",source="model"} 1.0' in reply.text
    assert "cohabit_snapshot_age_seconds 0.0" in reply.text


def test_metrics_without_snapshot_show_an_infinite_age(process: Process) -> None:
    text = TestClient(create_app(process.serving)).get("/metrics").text

    value = next(line.split()[1] for line in text.splitlines() if line.startswith("cohabit_snapshot_age_seconds "))
    assert math.isinf(float(value))


def test_openapi_describes_the_routes(ready: Process, client: TestClient) -> None:
    assert {"/v1/scores", "/healthz", "/readyz", "/metrics"} <= client.get("/openapi.json").json()["paths"].keys()
    scheduler = TestClient(create_scheduler_app(Prioritizer(ready.serving))).get("/openapi.json").json()
    peers = {"/assumed-pods", "/assumed-pods/query"}
    asked = {"/extender/prioritize", "/extender/filter", "/volcano/prioritize", "/watcher"} | peers
    assert scheduler["paths"].keys() == asked


def test_every_route_says_who_may_call_it(process: Process) -> None:
    assert roles_of(create_app(process.serving)) == {
        "POST /v1/scores": ("scheduler", "sre", "admin"),
        "GET /v1/victims": ("sre", "admin", "planner"),
        "GET /v1/victims/{container}": ("sre", "admin", "planner"),
        "GET /v1/victims/{container}/options": ("sre", "admin", "planner"),
        "GET /v1/capacity/headroom": ("planner", "scheduler", "sre", "admin"),
        "GET /v1/capacity/forecast": ("planner", "sre", "finance", "admin"),
        "GET /v1/capacity/purchases": ("planner", "sre", "finance", "admin"),
        "GET /v1/capacity/what-if": ("planner", "sre", "finance", "admin"),
        "GET /v1/gangs": ("scheduler", "sre", "planner", "admin"),
        "POST /v1/gangs": ("scheduler", "admin"),
        "DELETE /v1/gangs/{id}": ("scheduler", "admin"),
        "POST /v1/gangs/{id}/renew": ("scheduler", "admin"),
        "GET /v1/plans": ("sre", "admin", "planner"),
        "GET /v1/plans/{plan}": ("sre", "admin", "planner"),
        "POST /v1/plans/{plan}/approve": ("sre", "admin"),
        "POST /v1/plans/{plan}/reject": ("sre", "admin"),
        "POST /v1/plans/{plan}/export": ("sre", "admin"),
        "GET /v1/freeze": ("sre", "admin", "planner"),
        "POST /v1/freeze": ("sre", "admin"),
        "POST /v1/unfreeze": ("sre", "admin"),
        "GET /v1/budgets": ("finance", "admin", "planner", "team"),
        "GET /v1/prices": ("finance", "admin"),
        "GET /v1/statements": ("finance", "admin", "planner", "team"),
        "GET /v1/statements/{period}": ("finance", "admin", "planner", "team"),
        "GET /v1/statements/{period}/team": ("finance", "admin", "planner", "team"),
        "POST /v1/quotes": ("finance", "admin", "planner", "team"),
        "GET /healthz": ("anyone",),
        "GET /readyz": ("anyone",),
        "GET /metrics": ("anyone",),
        "GET /openapi.json": ("anyone",),
    }
    assert roles_of(create_scheduler_app(Prioritizer(process.serving))) == {
        "POST /extender/prioritize": ("scheduler",),
        "POST /volcano/prioritize": ("scheduler",),
        "GET /watcher": ("scheduler",),
        "POST /assumed-pods": ("scheduler",),
        "POST /assumed-pods/query": ("scheduler",),
        "POST /extender/filter": ("scheduler",),
        "GET /openapi.json": ("anyone",),
    }


def test_a_route_without_a_role_keeps_the_app_from_starting() -> None:
    router = APIRouter()

    @router.get("/open-door")
    def open_door() -> str:
        return ""

    with pytest.raises(AdvisorError, match=r"/open-door.*@allowed"):
        assembled("open", [router], max_body_bytes=1)


def test_a_route_for_nobody_keeps_the_app_from_starting() -> None:
    router = APIRouter()

    @router.get("/nobody")
    @allowed()
    def nobody() -> str:
        return ""

    with pytest.raises(AdvisorError, match="/nobody"):
        assembled("open", [router], max_body_bytes=1)


def test_a_nested_router_and_what_is_not_a_route_are_looked_into() -> None:
    inner, outer, socket, mounted = APIRouter(), APIRouter(prefix="/outer"), APIRouter(), APIRouter()

    @inner.get("/inner")
    def hidden() -> str:
        return ""

    @socket.websocket("/socket")
    async def open_socket(_: WebSocket) -> None:
        return None

    outer.include_router(inner)
    mounted.mount("/files", PlainTextResponse("anything"))

    for router, path in ((outer, "/outer/inner"), (socket, "/socket"), (mounted, "/files")):
        with pytest.raises(AdvisorError, match=path):
            assembled("open", [router], max_body_bytes=1)
