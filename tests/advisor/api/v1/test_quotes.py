"""Quotes over HTTP: new containers, other requests and moves, who is told them, and what is said where one is not."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from advisor.api.app import create_app
from advisor.auth.api_tokens import ROLES, TokenRole
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger.closing import Closing
from advisor.billing.pricing.price_book import HOUR_US
from advisor.billing.quotes.dependencies import BillOffice
from advisor.errors import NotFound
from models.drift.drift_status import DriftStatus, write_status
from tests.advisor.api.http.test_auth_middleware import Guarded
from tests.advisor.billing.bill_offices import bill_office, last_hour
from tests.advisor.billing.metered_month import COST, HOURS
from tests.advisor.billing.months_drawn import ANN, BOB, NOW_US
from tests.advisor.neighbourhood import neighbourhood
from tests.advisor.processes import Process
from tests.advisor.stores import migrated_store

WORTH = 8 * 0.04 + 16 * 0.005
"""What the book says that the pool's capacity is worth in an hour, of which it costs something else."""
CPU = {"cpu": {"request": 2.0, "use": 1.0}}
NEW = {"team": "shop", "app": "web", "node": "n0", "resources": CPU}


@pytest.fixture
def guarding(tmp_path: Path) -> Iterator[Guarded]:
    with migrated_store(tmp_path / "store.sqlite") as store:
        yield Guarded(store)


@pytest.fixture
def office(guarding: Guarded, tmp_path: Path) -> BillOffice:
    return bill_office(guarding.store, tmp_path)


@pytest.fixture
def ready(process: Process) -> Process:
    process.promote("first")
    process.publish(neighbourhood())
    process.serving.reload()
    return process


@pytest.fixture
def finance(guarding: Guarded, office: BillOffice, ready: Process) -> TestClient:
    return client_of(guarding, office, ready, "finance")


def client_of(guarding: Guarded, office: BillOffice, process: Process, role: TokenRole) -> TestClient:
    client = TestClient(create_app(process.serving, guarding.guard, bills=office))
    client.headers["Authorization"] = f"Bearer {guarding.token(role)}"
    return client


def asked(client: TestClient, ask: dict[str, Any], status: int = 200) -> dict[str, Any]:
    reply = client.post("/v1/quotes", json=ask)
    assert reply.status_code == status, reply.text
    found: dict[str, Any] = reply.json()
    return found


def test_a_new_container_is_quoted_with_its_neighbours(finance: TestClient) -> None:
    found = asked(finance, {**NEW, "hours": 720})

    assert (found["before"], found["change"]) == (None, None)
    told = found["quote"]
    price = 0.04 * (COST + len(HOURS) - 1) / WORTH
    assert told["charges"][0]["amount_micros"] == pytest.approx(1.5 * price, abs=1)  # half of what is reserved and idle
    assert told["base_micros"] == 720 * told["charges"][0]["amount_micros"]
    moved, total = told["transfers"], told["total_micros"]
    assert {one["container"] for one in moved["neighbours"]} == {"uid-0", "uid-1", "uid-2", "uid-3"}
    assert moved["slowdown"]["low"] <= moved["slowdown"]["expected"] <= moved["slowdown"]["high"]
    assert 0 <= total["low"] <= total["expected"] <= total["high"]
    assert (told["shadow"], told["owed_micros"]) == (False, total["expected"])


def test_another_request_is_the_difference_of_two_quotes(finance: TestClient) -> None:
    found = asked(finance, {"container": "web-2", "resources": {"cpu": {"request": 2}}})

    before, after, change = found["before"], found["quote"], found["change"]
    assert (before["charges"][0]["request"], after["charges"][0]["request"]) == (1.0, 2.0)
    assert change["base_micros"] == after["base_micros"] - before["base_micros"]
    assert change["base_micros"] < 0  # it used 1.7 and more: beyond its request that costs three times as much
    assert before["transfers"]["slowdown"] == after["transfers"]["slowdown"]
    neighbours = {one["container"] for one in before["transfers"]["neighbours"]}
    assert neighbours == {"web-1", "crawl-1", "lost-1"}


def test_a_move_is_the_difference_of_two_nodes_and_back_again(finance: TestClient) -> None:
    found = asked(finance, {"container": "crawl-1", "move_to": "n2", "hours": 24})

    assert (found["before"]["node"], found["quote"]["node"]) == ("n1", "n2")
    assert found["before"]["tier"] == found["quote"]["tier"] == "BE"
    assert found["change"]["base_micros"] == 0  # the same pool
    assert found["change"]["total_micros"]["low"] <= found["change"]["total_micros"]["high"]
    here = {one["container"]: one["team"] for one in found["before"]["transfers"]["neighbours"]}
    assert here == {"web-1": "shop", "web-2": "shop", "lost-1": "unattributed"}
    there = {one["container"] for one in found["quote"]["transfers"]["neighbours"]}
    assert there == {f"uid-{row}" for row in range(8, 12)}


def test_as_it_is_a_container_is_quoted_what_its_hour_was_billed(finance: TestClient, office: BillOffice) -> None:
    found = asked(finance, {"container": "web-1"})

    lines = office.drilling.hours(office.closing.one("2026-11").draft.batches, "shop", "web-1")  # type: ignore[union-attr]
    hour = [row for row in lines.to_pylist() if row["hour"] == HOURS[-1]]
    assert found["quote"]["base_micros"] == sum(row["amount_micros"] for row in hour)
    nothing = {"low": 0, "expected": 0, "high": 0}
    assert all(value in (0, nothing) for of, value in found["change"].items() if of != "total_micros")
    assert found["quote"] == found["before"]


def test_a_team_is_quoted_for_itself_alone(guarding: Guarded, office: BillOffice, ready: Process) -> None:
    shop = client_of(guarding, office, ready, "team")

    assert asked(shop, NEW)["quote"]["team"] == "shop"
    assert asked(shop, {"container": "web-1"})["quote"]["team"] == "shop"
    for ask in ({**NEW, "team": "search"}, {"container": "crawl-1"}, {"container": "nobody-1"}):
        assert "is for team 'shop' only" in asked(shop, ask, 403)["error"]


def test_a_team_reads_the_names_of_its_own_neighbours_alone(
    guarding: Guarded, office: BillOffice, ready: Process, finance: TestClient
) -> None:
    shop, ask = client_of(guarding, office, ready, "team"), {"container": "web-1", "move_to": "n0"}
    whole, seen = asked(finance, ask), asked(shop, ask)

    for side in ("before", "quote"):
        named, own = (of[side]["transfers"].pop("neighbours") for of in (whole, seen))
        hidden = {"container": "a container of another team", "app": None, "team": None}
        assert own == [one if one["team"] == "shop" else one | hidden for one in named]
        assert named != own
    assert whole == seen


@pytest.mark.parametrize("role", ROLES)
def test_who_pays_plans_or_keeps_prices_may_ask(
    guarding: Guarded, office: BillOffice, ready: Process, role: TokenRole
) -> None:
    reply = client_of(guarding, office, ready, role).post("/v1/quotes", json=NEW)

    assert reply.status_code == (200 if role in {"finance", "admin", "planner", "team"} else 403)


@pytest.mark.parametrize(
    ("ask", "status", "says"),
    [
        ({**NEW, "node": "n9"}, 404, "the pool of node 'n9' is unknown"),
        ({**NEW, "node": None, "pool": "gpu@a"}, 404, "known pools are std@a"),
        ({**NEW, "node": None}, 404, "name a node or a pool: known pools are std@a"),
        ({**NEW, "pool": "gpu@a"}, 404, "known pools are std@a"),
        ({**NEW, "tier": "gold"}, 404, "choose one of BE, LS, SYSTEM"),
        (
            {"container": "gone-1"},
            404,
            "was not metered in the hour from 2026-11-30 23:00 UTC: name a running container",
        ),
        ({"container": "web-1", "move_to": "n9"}, 404, "the pool of node 'n9' is unknown"),
        ({**NEW, "resources": {"gold": {"request": 1}}}, 422, "Input should be 'cpu', 'memory', 'gpu', 'network'"),
        ({**NEW, "resources": {}}, 422, "at least 1 item"),
        ({**NEW, "resources": {"cpu": {"request": -1}}}, 422, "greater than or equal to 0"),
        ({**NEW, "hours": 0}, 422, "greater than or equal to 1"),
        ({"resources": CPU}, 422, "team: Field required"),
    ],
)
def test_what_cannot_be_quoted_is_said(finance: TestClient, ask: dict[str, Any], status: int, says: str) -> None:
    assert says in asked(finance, ask, status)["error"]


def test_a_body_that_is_not_called_json_is_told_what_to_be_sent_with(finance: TestClient) -> None:
    reply = finance.post("/v1/quotes", content=b"{}", headers={"Content-Type": "application/x-www-form-urlencoded"})

    assert (reply.status_code, "Content-Type: application/json" in reply.json()["error"]) == (422, True)


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("no model", "no model is promoted: run `cohabit model train`"),
        ("stale", "the newest snapshot is too old"),
        ("fallen back", "the model failed its drift check: see `cohabit model drift`"),
        ("other node", "the containers on node 'n2' are unknown"),
        ("pool alone", "name a node"),
    ],
)
def test_without_a_model_the_base_charge_is_told_and_why_there_is_no_more(
    guarding: Guarded, office: BillOffice, process: Process, state: str, says: str
) -> None:
    if state != "no model":
        process.promote("first")
    process.publish(
        replace(neighbourhood(), node_known=neighbourhood().node_facts[:, 0] < 0)
        if state == "other node"
        else neighbourhood()
    )
    if state == "fallen back":
        fallen = DriftStatus(bundle="first", state="fallen_back", checked_at=datetime(2026, 3, 1, tzinfo=UTC))
        write_status(process.registry, fallen)
    process.serving.reload()
    process.now_us += 10**12 if state == "stale" else 0
    where = {"node": None, "pool": "std@a"} if state == "pool alone" else {"node": "n2"}

    told = asked(client_of(guarding, office, process, "finance"), {**NEW, **where})["quote"]

    assert told["base_micros"] > 0
    assert (told["transfers"], told["total_micros"]) == (None, None)
    assert says in told["reason"]


def test_before_there_is_a_price_or_an_hour_it_is_said_what_to_do(
    guarding: Guarded, ready: Process, tmp_path: Path
) -> None:
    bare = BillOffice(Closing(guarding.store, "c", lambda: NOW_US), tmp_path / "lines", newest=last_hour)
    client = client_of(guarding, bare, ready, "finance")
    assert "no price book covers 2026-12-01 00:00 UTC" in asked(client, NEW, 404)["error"]
    bill_office(guarding.store, tmp_path)

    def nothing() -> Any:
        raise NotFound(
            "no hour of cluster 'c' is metered yet, so the cost of its pools is unknown: run `cohabit bill meter`"
        )

    client = client_of(guarding, replace(bare, newest=nothing), ready, "finance")
    assert "run `cohabit bill meter`" in asked(client, NEW, 404)["error"]
    nowhere = BillOffice(bare.closing, bare.lines)
    assert "COHABIT_LAKE" in asked(client_of(guarding, nowhere, ready, "finance"), NEW, 503)["error"]
    unkept = TestClient(create_app(ready.serving)).post("/v1/quotes", json=NEW)
    assert (unkept.status_code, "cohabit admin database migrate" in unkept.json()["error"]) == (503, True)


def test_a_book_that_begins_now_is_the_one_that_is_quoted_by(finance: TestClient, office: BillOffice) -> None:
    store = office.closing.engine
    book = replace(book_store.books(store)[0], version="2026-12", start_us=NOW_US, end_us=None, approved_by=None)
    before = asked(finance, NEW)["quote"]["book"]
    earlier = NOW_US - HOUR_US
    book_store.propose(store, book, earlier, office.entry(ANN, "propose price book", book.version))
    book_store.approve(store, book.version, "bob", earlier, office.entry(BOB, "approve price book", book.version))

    assert (before, asked(finance, NEW)["quote"]["book"]) == ("2026-11", "2026-12")
