"""Victims as JSON: all of them by what is wanted, or one with what was seen."""

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from advisor.api.app import create_app
from advisor.diagnosis.report_file import FILE, write_report
from advisor.remediation.action import Field, remedy_of
from advisor.remediation.benefit import Amount
from advisor.remediation.options_file import FILE as LADDERS
from advisor.remediation.options_file import keep_ladders
from advisor.remediation.ranked_options import Ladder
from tests.advisor.clusters import snapshot
from tests.advisor.diagnoses import AT_US, FOUND, WINDOWS
from tests.advisor.processes import Process


@pytest.fixture
def client(process: Process) -> TestClient:
    write_report(process.snapshots, FOUND)
    process.now_us = AT_US + 90 * 10**6
    return TestClient(create_app(process.serving))


def victims(client: TestClient, query: str = "") -> list[str]:
    reply = client.get(f"/v1/victims{query}")
    assert reply.status_code == 200, reply.text
    return [one["container"] for one in reply.json()["victims"]]


def test_all_are_told_the_slowest_first_and_how_old_that_is(client: TestClient) -> None:
    reply: dict[str, Any] = client.get("/v1/victims").json()

    assert (reply["cluster"], reply["at_us"], reply["age_s"], reply["matching"]) == ("c", AT_US, 90.0, 4)
    assert [one["container"] for one in reply["victims"]] == ["web-1", "web-2", "db-1", "cache-1"]
    assert [one["slowdown_ratio"] for one in reply["victims"]] == [1.8, 1.5, 1.4, None]
    assert reply["victims"][0]["suspects"][0] == {
        "container": "batch-1",
        "app": "batch",
        "qos": "BE",
        "resource": "memory_bandwidth",
        "added": 0.6,
        "low": 0.52,
        "high": 0.68,
        "surely": 0.97,
    }
    assert "slowdowns" not in reply["victims"][0]
    assert reply["coverage"]["share"] == 0.75
    assert reply["coverage"]["unseen"] == [{"reason": "idle", "share": 0.25, "containers": 1}]
    assert reply["coverage"]["nodes"] == [{"name": "n1", "share": 0.5}, {"name": "n0", "share": 1.0}]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?verdict=host", ["web-2"]),
        ("?node=n1", ["web-2", "db-1"]),
        ("?app=web", ["web-1", "web-2"]),
        ("?app=web&node=n1", ["web-2"]),
        ("?node=elsewhere", []),
        ("?limit=2", ["web-1", "web-2"]),
    ],
)
def test_only_those_that_are_wanted_are_told(client: TestClient, query: str, found: list[str]) -> None:
    assert victims(client, query) == found


def test_more_are_counted_than_told(client: TestClient) -> None:
    assert client.get("/v1/victims?limit=1").json()["matching"] == 4


@pytest.mark.parametrize("query", ["?limit=0", "?limit=1001", "?verdict=guilty", "?limit=x"])
def test_what_nobody_can_want_is_refused(client: TestClient, query: str) -> None:
    assert client.get(f"/v1/victims{query}").status_code == 422


def test_one_is_told_with_what_was_seen(client: TestClient) -> None:
    reply: dict[str, Any] = client.get("/v1/victims/web-1").json()

    assert (reply["verdict"], reply["node"], reply["age_s"]) == ("antagonist", "n0", 90.0)
    assert len(reply["ends_us"]) == len(reply["slowdowns"]) == len(reply["suspects"][0]["used"]) == WINDOWS
    assert reply["slowdowns"][2:5] == [1.02, None, 1.02]


def test_who_does_not_suffer_is_named(client: TestClient) -> None:
    reply = client.get("/v1/victims/web-9")

    assert reply.status_code == 404
    assert reply.json()["error"].startswith("container 'web-9' is not among the victims")


@pytest.mark.parametrize("path", ["/v1/victims", "/v1/victims/web-1"])
def test_where_nobody_looked_or_nothing_can_be_read_that_is_said(process: Process, path: str) -> None:
    client = TestClient(create_app(process.serving))

    nothing = client.get(path)
    process.snapshots.mkdir(exist_ok=True)
    (process.snapshots / FILE).write_text("{")
    broken = client.get(path)

    assert (nothing.status_code, "cohabit victims --publish" in nothing.json()["error"]) == (404, True)
    assert (broken.status_code, FILE in broken.json()["error"]) == (503, True)


def test_what_can_be_done_is_told_with_the_fields_it_is_done_with(client: TestClient, process: Process) -> None:
    gain = Amount(1.5, 0.04)
    mild = remedy_of(
        "cpu.max",
        "batch-1",
        gain,
        cost=0.1,
        sufficient=0.9,
        why="holds it to 80%",
        fields=(Field("cgroup", "cpu.max", "320000 100000"),),
        kept=0.8,
    )
    more = remedy_of("add capacity", "web-1", Amount(0.0, 0.0), cost=0.0, sufficient=None, why="no room")
    keep_ladders(process.snapshots, "c", AT_US, (Ladder("web-1", (mild, more)), Ladder("web-2", (), "look at it")))

    told = client.get("/v1/victims/web-1/options").json()

    assert [(one["kind"], one["enough"], one["sufficient"]) for one in told["remedies"]] == [
        ("cpu.max", True, 0.9),
        ("add capacity", False, None),
    ]
    assert told["remedies"][0]["fields"] == [{"where": "cgroup", "name": "cpu.max", "value": "320000 100000"}]
    assert client.get("/v1/victims/web-2/options").json() == {"victim": "web-2", "rest": "look at it", "remedies": []}
    assert client.get("/v1/victims/web-9/options").status_code == 404


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"\xff", b'{"x":' + b"[" * 5000, b'{"format": 9, "cluster": "c", "at_us": 1, "ladders": []}'],
)
def test_ladders_that_cannot_be_read_are_an_error_and_no_crash(
    client: TestClient, process: Process, content: bytes
) -> None:
    (process.snapshots / LADDERS).write_bytes(content)

    reply = client.get("/v1/victims/web-1/options")

    assert reply.status_code == 503
    assert LADDERS in reply.json()["error"]


@pytest.mark.parametrize("path", ["/v1/victims?team=shop", "/v1/victims/web-1?app=web", "/v1/plans?nodes=n1"])
def test_a_parameter_that_a_route_lacks_is_refused(client: TestClient, path: str) -> None:
    reply = client.get(path)

    assert reply.status_code == 422
    assert "no such parameter" in reply.json()["error"]


def test_a_victim_that_has_ended_is_counted_and_not_listed(client: TestClient, process: Process) -> None:
    of = snapshot(3)
    process.publish(replace(of, containers=("web-2", *of.containers[1:])))
    process.serving.reload()

    reply: dict[str, Any] = client.get("/v1/victims").json()

    assert ([one["container"] for one in reply["victims"]], reply["ended"]) == (["web-2"], 3)
    assert client.get("/v1/victims/web-1").status_code == 404
