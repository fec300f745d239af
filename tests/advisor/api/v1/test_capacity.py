"""Headroom as JSON: by node, pool, resource and horizon, with its age; what is too old is 0 with the reason."""

import pytest
from fastapi.testclient import TestClient

from advisor.api.app import create_app
from advisor.capacity.offer_file import OfferReport, write_offers
from advisor.capacity.offers import RESOURCES, Correction, NodeOffer, Resource
from tests.advisor.processes import Process

AT_US = 1_772_323_200_000_000
MINUTE_US = 60 * 10**6


def offer(node: str, resource: Resource, horizon_s: int) -> NodeOffer:
    return NodeOffer(node, f"pool-{node}", resource, horizon_s, 0.05, 3.0, 5.0, 7.0, 16.0, 2.0, "peak", "left")


OFFERS = tuple(offer(node, resource, s) for node in ("a", "b") for resource in RESOURCES for s in (300, 3600))


@pytest.fixture
def client(process: Process) -> TestClient:
    back = Correction("be-1", "a", "cpu", "throttle", 0.5, 0.5)
    write_offers(process.snapshots, OfferReport("c", AT_US, AT_US, OFFERS, (back,)))
    process.now_us = AT_US + 5 * MINUTE_US
    return TestClient(create_app(process.serving))


def test_all_offers_come_with_age_and_who_gives_back_first(client: TestClient) -> None:
    reply = client.get("/v1/capacity/headroom").json()

    assert (reply["cluster"], reply["at_us"], reply["age_s"]) == ("c", AT_US, 300.0)
    assert (reply["nodes"], reply["matching"], len(reply["offers"])) == (2, 8, 8)
    assert reply["corrections"] == [
        {"node": "a", "container": "be-1", "resource": "cpu", "action": "throttle", "frees": 0.5, "needed": 0.5}
    ]


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("node=a", 4),
        ("pool=pool-b&resource=cpu", 2),
        ("horizon_s=3600&resource=memory", 2),
        ("node=gone", 0),
        ("limit=3", 3),
    ],
)
def test_offers_are_found_by_what_is_wanted(client: TestClient, query: str, count: int) -> None:
    assert len(client.get(f"/v1/capacity/headroom?{query}").json()["offers"]) == count


def test_what_is_too_old_for_its_horizon_is_nothing_with_the_reason(client: TestClient, process: Process) -> None:
    process.now_us = AT_US + 20 * MINUTE_US

    short, hour = client.get("/v1/capacity/headroom?node=a&resource=cpu").json()["offers"]

    assert (short["offered"], short["total"], short["bound_by"]) == (0.0, 0.0, "stale")
    assert "older than 10 minutes" in short["reason"]
    assert hour["offered"] == 3.0


@pytest.mark.parametrize("query", ["resource=gpu", "horizon_s=1", "limit=0", "nodes=a", f"node={'x' * 300}"])
def test_a_question_that_cannot_be_meant_is_refused(client: TestClient, query: str) -> None:
    assert client.get(f"/v1/capacity/headroom?{query}").status_code == 422


def test_before_the_first_offers_the_reply_says_what_to_run(process: Process) -> None:
    reply = TestClient(create_app(process.serving)).get("/v1/capacity/headroom")

    assert reply.status_code == 503
    assert "cohabit capacity headroom --publish" in reply.text
