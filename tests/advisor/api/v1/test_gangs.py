"""Gangs as JSON: one answer for the whole group, reservations, and who may make them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from advisor.admission.node_room import NodeRoom, Rooms
from advisor.api.app import create_app
from advisor.gangs.gang_costs import exact_costs
from advisor.gangs.gang_desk import GangDesk
from tests.advisor.clusters import NOW_US, snapshot
from tests.advisor.processes import Process
from tests.advisor.stores import migrated_store

WORKERS = {"name": "worker", "app": "batch", "count": 4, "cpu_cores": 2.0, "devices": 1}


@pytest.fixture
def desk(process: Process, tmp_path: Path) -> Iterator[GangDesk]:
    """Six nodes in two racks, each with room for two members."""
    process.promote("first")
    view = replace(snapshot(11, version=1), racks=("r0",) * 3 + ("r1",) * 3, node_known=np.ones(6, np.bool_))
    process.publish(view)
    process.serving.reload()
    nodes = tuple(NodeRoom(name, cores=5.0, memory_bytes=1e9, extended={"nvidia.com/gpu": 2.0}) for name in view.nodes)
    with migrated_store(tmp_path / "gangs.sqlite") as store:
        serving = process.serving
        yield GangDesk(
            store,
            lambda: serving.snapshot,
            lambda: Rooms(view.cluster, NOW_US, nodes),
            lambda classes, held: exact_costs(serving.scorer, classes, held),
            serving.now_us,
            serving.metrics,
        )


@pytest.fixture
def client(process: Process, desk: GangDesk) -> TestClient:
    return TestClient(create_app(process.serving, gangs=desk))


def asked(client: TestClient, **ask: Any) -> dict[str, Any]:
    body = {"gang": "train", "members": [WORKERS], "topology": {"level": "rack"}, **ask}
    reply = client.post("/v1/gangs", json=body)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def test_a_gang_is_reserved_whole_in_one_rack(client: TestClient) -> None:
    reply = asked(client)

    placement, reservation = reply["placement"], reply["reservation"]
    assert (reply["feasible"], placement["level"], placement["domains"]) == (True, "rack", 1)
    assert placement["cost"] >= placement["among_members_cost"] >= 0
    assert len(placement["seats"]) == 4
    slots = [{"member": slot["member"], "node": slot["node"]} for slot in reservation["slots"]]
    assert slots == placement["seats"]
    assert (reservation["state"], reservation["until_us"]) == ("open", NOW_US + 120_000_000)
    assert asked(client)["reservation"] == reservation
    assert client.get("/v1/gangs").json() == {"gangs": [reservation]}


def test_a_dry_run_answers_the_same_and_reserves_nothing(client: TestClient) -> None:
    dry = asked(client, dry_run=True)

    assert dry["reservation"] is None
    assert client.get("/v1/gangs").json() == {"gangs": []}
    assert asked(client)["placement"] == dry["placement"]


def test_an_infeasible_gang_gets_the_best_rack_and_what_runs_short(client: TestClient) -> None:
    reply = asked(client, members=[{**WORKERS, "count": 8}])

    assert (reply["feasible"], reply["reservation"]) == (False, None)
    why = reply["infeasible"]
    assert (why["missing"], why["earliest_us"]) == ({"worker": 2}, None)
    assert why["best"].endswith(": 6 of 8; gpu")
    assert asked(client, members=[{**WORKERS, "count": 8}], topology={"level": "rack", "mode": "preferred"})["feasible"]


def test_shares_of_a_device_share_it(client: TestClient) -> None:
    halves = [{**WORKERS, "count": 12, "devices": 0.5, "cpu_cores": 0}]

    assert asked(client, members=halves, topology={"level": "rack"})["feasible"]
    assert not asked(client, gang="more", members=[{**WORKERS, "count": 25, "devices": 0.5, "cpu_cores": 0}])[
        "feasible"
    ]


def test_more_members_than_there_are_never_start(client: TestClient) -> None:
    assert asked(client, min_count=5)["infeasible"]["best"] == "min_count 5 exceeds its 4 members"


def test_undeclared_zones_are_one_node_set(client: TestClient) -> None:
    placement = asked(client, topology={"level": "zone"})["placement"]

    assert (placement["level"], placement["domain"]) == ("set", "node set")


def test_members_are_reported_as_they_are_bound_and_a_release_may_be_repeated(client: TestClient) -> None:
    made = asked(client, min_count=3)["reservation"]
    url = f"/v1/gangs/{made['id']}"
    pods = [{"uid": f"p{at}", "node": slot["node"]} for at, slot in enumerate(made["slots"])]

    assert client.post(f"{url}/renew", json={"bound": pods}).json()["state"] == "settled"
    assert client.post(f"{url}/renew", json={"failed": ["p1"]}).json()["bound"] == 3
    assert client.post(f"{url}/renew", json={}).status_code == 409
    assert client.delete(url).json()["state"] == client.delete(url).json()["state"] == "released"
    assert client.delete("/v1/gangs/abc").status_code == 404


@pytest.mark.parametrize(
    "wrong",
    [
        {"members": []},
        {"members": [{**WORKERS, "devices": 1.5}]},
        {"members": [{**WORKERS, "count": True}]},
        {"members": [{**WORKERS, "count": 1025}]},
        {"members": [WORKERS] * 9},
        {"topology": {"level": "row"}},
        {"reserve_s": 0},
        {"gang": "a\x00b"},
        {"gangs": 1},
    ],
)
def test_requests_that_mean_nothing_are_rejected(client: TestClient, wrong: dict[str, object]) -> None:
    body = {"gang": "train", "members": [WORKERS], **wrong}

    assert client.post("/v1/gangs", json=body).status_code == 422


def test_an_older_generation_is_a_conflict(client: TestClient) -> None:
    asked(client, generation=2)

    reply = client.post("/v1/gangs", json={"gang": "train", "members": [WORKERS], "generation": 1})

    assert reply.status_code == 409
    assert "generation 2" in reply.json()["error"]


def test_without_a_database_the_setting_is_named(process: Process) -> None:
    client = TestClient(create_app(process.serving))

    for reply in (client.get("/v1/gangs"), client.delete("/v1/gangs/a1")):
        assert reply.status_code == 503
        assert "COHABIT_DATABASE" in reply.json()["error"]
