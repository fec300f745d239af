"""Proposals over HTTP: read, decided on, exported, frozen; by whom, and what is told when it cannot be."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from advisor.api.app import create_app
from advisor.auth.api_tokens import ROLES, TokenRole
from advisor.auth.audit_log import entries
from advisor.plans.rules.plan_record import Identity
from advisor.plans.rules.policy import Freeze, Rules
from tests.advisor.api.http.test_auth_middleware import Guarded
from tests.advisor.plans.made import LASTS_US, NOW_US, plan, step, who
from tests.advisor.plans.offices import Bureau, mixed
from tests.advisor.processes import Process


@pytest.fixture
def client(process: Process, bureau: Bureau) -> TestClient:
    return TestClient(create_app(process.serving, office=bureau.office))


def approve(client: TestClient, version: int = 1, **more: object) -> Response:
    return client.post("/v1/plans/p1/approve", json={"version": version, **more})


def export(client: TestClient, version: int, form: str = "plain") -> Response:
    return client.post("/v1/plans/p1/export", json={"version": version, "form": form})


def test_proposals_are_told_the_newest_first_with_what_they_save(client: TestClient, bureau: Bureau) -> None:
    bureau.put(mixed("p2", created_us=NOW_US + 1))

    reply: dict[str, Any] = client.get("/v1/plans").json()

    assert (reply["matching"], [one["plan"] for one in reply["plans"]]) == (2, ["p2", "p1"])
    first = reply["plans"][1]
    assert (first["state"], first["version"], first["steps"], first["holdout"]) == ("drafted", 1, 2, 1)
    assert first["saves"]["expected"] == pytest.approx(3.0)
    assert first["saves"]["low"] < 3.0 < first["saves"]["high"]
    assert first["expires_us"] == NOW_US + LASTS_US


def test_only_those_in_a_state_are_told_where_one_is_named(client: TestClient, bureau: Bureau) -> None:
    bureau.put(mixed("p2"), mixed("p3"))
    client.post("/v1/plans/p2/reject", json={"version": 1, "reason": "not today"})

    def told(query: str) -> list[str]:
        return [one["plan"] for one in client.get(f"/v1/plans?{query}").json()["plans"]]

    assert told("state=rejected") == ["p2"]
    assert told("state=drafted&limit=1") == ["p1"]
    assert client.get("/v1/plans?limit=1").json()["matching"] == 3
    bureau.now_us += LASTS_US
    assert told("state=drafted") == []
    assert told("state=expired") == ["p1", "p3"]


@pytest.mark.parametrize("query", ["state=guilty", "limit=0", "limit=1001", "limit=x"])
def test_what_nobody_can_want_is_refused(client: TestClient, query: str) -> None:
    assert client.get(f"/v1/plans?{query}").status_code == 422


def test_one_is_told_step_by_step(client: TestClient) -> None:
    reply: dict[str, Any] = client.get("/v1/plans/p1").json()

    steps = reply["document"]["steps"]
    assert [(one["number"], one["kind"], one["source"], one["target"]) for one in steps] == [
        (1, "move antagonist", "n0", "n1"),
        (2, "cpu.max", "n2", None),
        (3, "move antagonist", "n3", "n1"),
    ]
    assert steps[1]["fields"] == [{"where": "cgroup", "name": "cpu.max", "value": "50000 100000"}]
    assert [one["decision"] for one in reply["decided"]] == ["open", "open", "holdout"]


def test_a_proposal_is_approved_in_part_and_given_out_the_same_to_the_byte(client: TestClient, bureau: Bureau) -> None:
    approved = approve(client, steps=[1])
    first = export(client, 2, "evictions")
    again = export(client, 2, "evictions")
    otherwise = export(client, 2)

    assert (otherwise.status_code, "was exported as evictions" in otherwise.json()["error"]) == (409, True)
    assert approved.status_code == 200
    assert (approved.json()["state"], approved.json()["version"]) == ("partly", 2)
    assert [one["decision"] for one in approved.json()["decided"]] == ["approved", "rejected", "holdout"]
    assert first.content == again.content == bureau.desk.exported("p1")
    assert first.headers["content-type"] == "application/json"
    assert first.json()["format"] == "cohabit.export/2"
    assert client.get("/v1/plans/p1").json()["state"] == "exported"


def test_all_open_steps_are_approved_where_none_is_named(client: TestClient) -> None:
    assert approve(client).json()["state"] == "approved"


def test_what_does_not_hold_any_more_is_left_out_with_the_reason(client: TestClient, bureau: Bureau) -> None:
    bureau.gone = {2: "batch-2 has ended"}

    decided = approve(client).json()["decided"]

    assert decided[1] == {"number": 2, "decision": "stale", "reason": "batch-2 has ended"}


def test_a_proposal_is_rejected_with_the_reason(client: TestClient) -> None:
    reply = client.post("/v1/plans/p1/reject", json={"version": 1, "reason": " gar nicht\n heute "})

    assert (reply.json()["state"], reply.json()["reason"]) == ("rejected", "gar nicht heute")


def test_every_decision_is_in_the_audit_as_the_reply_names_it(client: TestClient, bureau: Bureau) -> None:
    replies = [
        approve(client),
        export(client, 2),
        client.post("/v1/freeze", json={"reason": "incident 17"}),
        client.post("/v1/unfreeze"),
    ]

    found = list(entries(bureau.store))[1:]
    assert [(one.who, one.role, one.action, one.subject) for one in found] == [
        ("local:me", "admin", "approve", "p1"),
        ("local:me", "admin", "export", "p1"),
        ("local:me", "admin", "freeze", "c"),
        ("local:me", "admin", "unfreeze", "c"),
    ]
    assert [one.request_id for one in found] == [reply.headers["x-request-id"] for reply in replies]


def test_who_decides_on_an_older_version_is_told_and_changes_nothing(client: TestClient, bureau: Bureau) -> None:
    client.post("/v1/plans/p1/reject", json={"version": 1, "reason": "not today"})

    for late in (approve(client), export(client, 1)):
        assert late.status_code == 409
        assert "changed since version 1" in late.json()["error"]
    assert bureau.desk.one("p1").version == 2


def test_what_its_state_does_not_allow_is_refused(client: TestClient) -> None:
    early = export(client, 1)
    client.post("/v1/plans/p1/reject", json={"version": 1, "reason": "not today"})
    late = approve(client, 2)

    assert [reply.status_code for reply in (early, late)] == [409, 409]
    assert "approve it first" in early.json()["error"]
    assert "cannot be approved any more" in late.json()["error"]


def test_a_proposal_of_which_nothing_holds_expires(client: TestClient, bureau: Bureau) -> None:
    bureau.gone = {1: "gone", 2: "gone too"}

    reply = approve(client)

    assert (reply.status_code, "gone too" in reply.json()["error"]) == (409, True)
    assert client.get("/v1/plans/p1").json()["state"] == "expired"


@pytest.mark.parametrize("steps", [[3], [9], [1, 9], [], [0], ["1"], "all"])
def test_steps_that_are_not_there_to_decide_on_are_refused(client: TestClient, steps: object) -> None:
    assert approve(client, steps=steps).status_code == 422
    assert client.get("/v1/plans/p1").json()["version"] == 1


@pytest.mark.parametrize("reason", ["", "no", "  \n\t ", "\x00\x00\x00", "x" * 501])
def test_a_reason_that_is_none_is_refused(client: TestClient, reason: str) -> None:
    for path, more in (("/v1/plans/p1/reject", {"version": 1}), ("/v1/freeze", {})):
        assert client.post(path, json={"reason": reason, **more}).status_code == 422
    assert client.get("/v1/freeze").json() == {"frozen": False, "by": None}


@pytest.mark.parametrize("version", [0, -1, 2**70, 1.5, "1", None])
def test_a_version_that_is_none_is_refused(client: TestClient, version: object) -> None:
    assert client.post("/v1/plans/p1/approve", json={"version": version}).status_code == 422


@pytest.mark.parametrize(("name", "status"), [("p9", 404), ("p'%20OR%201", 422), ("p%00", 422), ("x" * 101, 422)])
def test_a_name_that_is_none_is_refused(client: TestClient, name: str, status: int) -> None:
    assert client.get(f"/v1/plans/{name}").status_code == status
    assert client.post(f"/v1/plans/{name}/approve", json={"version": 1}).status_code == status


def test_a_form_that_is_none_is_refused(client: TestClient) -> None:
    approve(client)

    assert export(client, 2, "yaml").status_code == 422


def test_a_container_without_a_name_cannot_be_given_to_kubernetes(client: TestClient, bureau: Bureau) -> None:
    nameless = Identity("uid-1", None, None, None, None, best_effort=False, budget=None)
    bureau.put(plan(name="p2", of=(step(of=nameless),)), plan(name="p3", of=(step(of=who(app="Not A Name")),)))
    replies = []
    for name in ("p2", "p3"):
        client.post(f"/v1/plans/{name}/approve", json={"version": 1})
        asked = {"version": 2, "form": "evictions"}
        replies.append(client.post(f"/v1/plans/{name}/export", json=asked).status_code)

    assert replies == [422, 422]
    assert bureau.desk.one("p2").state == "approved"


def test_while_everything_is_frozen_nothing_is_approved_or_given_out(client: TestClient, bureau: Bureau) -> None:
    bureau.put(mixed("p2"))
    client.post("/v1/plans/p2/approve", json={"version": 1})
    frozen = client.post("/v1/freeze", json={"reason": "incident 17"})
    refused = [approve(client), client.post("/v1/plans/p2/export", json={"version": 2, "form": "plain"})]
    told = client.get("/v1/freeze").json()
    lifted = client.post("/v1/unfreeze").json()

    assert (
        frozen.json() == told == {"frozen": True, "by": {"who": "local:me", "reason": "incident 17", "at_us": NOW_US}}
    )
    assert [reply.status_code for reply in refused] == [423, 423]
    assert "local:me froze all changes (incident 17)" in refused[0].json()["error"]
    assert lifted == {"ended": 1}
    assert approve(client).status_code == 200


def test_in_a_freeze_nothing_is_approved(process: Process, bureau: Bureau) -> None:
    frozen = Bureau(bureau.store, Rules(freezes=(Freeze(NOW_US - 1, NOW_US + 1),)))
    client = TestClient(create_app(process.serving, office=frozen.office))

    reply = approve(client)

    assert (reply.status_code, "frozen" in reply.json()["error"]) == (423, True)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/plans", None),
        ("GET", "/v1/plans/p1", None),
        ("POST", "/v1/plans/p1/approve", {"version": 1}),
        ("POST", "/v1/plans/p1/reject", {"version": 1, "reason": "not today"}),
        ("POST", "/v1/plans/p1/export", {"version": 1, "form": "plain"}),
        ("GET", "/v1/freeze", None),
        ("POST", "/v1/freeze", {"reason": "incident"}),
        ("POST", "/v1/unfreeze", None),
    ],
)
def test_where_no_proposals_are_kept_each_route_says_what_they_need(
    process: Process, method: str, path: str, body: object
) -> None:
    reply = TestClient(create_app(process.serving)).request(method, path, json=body)

    assert reply.status_code == 503
    assert "cohabit admin database migrate" in reply.json()["error"]


@pytest.mark.parametrize("role", ROLES)
def test_sre_and_admin_decide_in_their_own_name_and_planner_reads(
    process: Process, bureau: Bureau, role: TokenRole
) -> None:
    guarding = Guarded(bureau.store)
    client = TestClient(create_app(process.serving, guarding.guard, office=bureau.office))
    client.headers["Authorization"] = f"Bearer {guarding.token(role)}"

    read, decided = client.get("/v1/plans/p1").status_code, approve(client).status_code

    assert read == (200 if role in {"sre", "admin", "planner"} else 403)
    assert decided == (200 if role in {"sre", "admin"} else 403)
    found = [(one.who, one.role) for one in guarding.entries() if one.action == "approve"]
    assert found == ([(role, role)] if decided == 200 else [])
