"""Bills over HTTP: what accounts owe, to whom that is told, and who may do what about prices and moves."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from advisor.api.app import create_app
from advisor.auth.api_tokens import ROLES, TokenRole
from advisor.billing.budgets import store as budget_store
from advisor.billing.budgets.budget_status import Budget
from advisor.billing.quotes.dependencies import BillOffice
from tests.advisor.api.http.test_auth_middleware import Guarded
from tests.advisor.billing.bill_offices import bill_office, closed, proposed
from tests.advisor.billing.metered_month import COST, HOURS
from tests.advisor.billing.months_drawn import ANN, PERIOD
from tests.advisor.processes import Process, new_process
from tests.advisor.stores import migrated_store

STATEMENT = f"/v1/statements/{PERIOD}"


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return new_process(tmp_path / "no-bundle", tmp_path)


@pytest.fixture
def guarding(tmp_path: Path) -> Iterator[Guarded]:
    with migrated_store(tmp_path / "store.sqlite") as store:
        yield Guarded(store)


@pytest.fixture
def office(guarding: Guarded, tmp_path: Path) -> BillOffice:
    return bill_office(guarding.store, tmp_path)


@pytest.fixture
def client(guarding: Guarded, office: BillOffice, process: Process) -> TestClient:
    return TestClient(create_app(process.serving, guarding.guard, bills=office))


def as_role(client: TestClient, guarding: Guarded, role: TokenRole) -> TestClient:
    client.headers["Authorization"] = f"Bearer {guarding.token(role)}"
    return client


def test_a_closed_month_is_told_by_account_to_the_micro_unit_and_in_coins(
    client: TestClient, guarding: Guarded, office: BillOffice
) -> None:
    finance = as_role(client, guarding, "finance")
    begun: dict[str, Any] = finance.get(STATEMENT).json()
    closed(office)
    reply: dict[str, Any] = finance.get(STATEMENT).json()

    accounts = {one["account"]: one for one in reply["accounts"]}
    assert (begun["state"], reply["state"], reply["currency"]) == ("closing", "closed", "EUR")
    assert {one["minor"] for one in begun["accounts"]} == {None}
    assert sum(one["owed_micros"] for one in accounts.values()) == sum(COST + n for n in range(len(HOURS)))
    assert set(accounts) == {"shop", "search", "platform", "unattributed"}
    assert all(sum(one["by_kind"].values()) == one["owed_micros"] for one in accounts.values())
    assert abs(accounts["shop"]["minor"] * 10_000 - accounts["shop"]["owed_micros"]) <= 10_000
    months = finance.get("/v1/statements").json()["statements"]
    assert [(one["period"], one["state"]) for one in months] == [(PERIOD, "closed")]


def test_a_team_is_told_by_container_a_bounded_number_at_a_time(client: TestClient, guarding: Guarded) -> None:
    finance = as_role(client, guarding, "finance")

    pages: list[dict[str, Any]] = [
        finance.get(f"{STATEMENT}/team?team=shop&limit=1&offset={n}").json() for n in range(3)
    ]

    told = [(one["container"], one["kind"]) for page in pages for one in page["containers"]]
    assert told == [("web-2", "base"), ("web-1", "base"), ("web-2", "rebate")]
    assert {page["matching"] for page in pages} == {3}
    owed = sum(one["amount_micros"] for page in pages for one in page["containers"])
    assert owed == pages[0]["account"]["owed_micros"]
    assert finance.get(f"{STATEMENT}/team?team=shop&limit=1001").status_code == 422
    slashed = finance.get(f"{STATEMENT}/team", params={"team": "org/shop"})
    assert "no statement of 'org/shop'" in slashed.json()["error"]
    for path, status in (
        (f"{STATEMENT}/team?team=nobody", 404),
        ("/v1/statements/2026-10", 404),
        ("/v1/statements/x", 422),
    ):
        assert finance.get(path).status_code == status


def test_a_planner_reads_all_bills_as_finance_does_and_no_prices(client: TestClient, guarding: Guarded) -> None:
    finance, planner = (as_role(client, guarding, role).get(STATEMENT).json() for role in ("finance", "planner"))

    assert planner == finance
    assert len(planner["accounts"]) == 4
    assert as_role(client, guarding, "planner").get("/v1/prices").status_code == 403


def test_a_team_sees_its_own_closed_months_and_nothing_else(
    client: TestClient, guarding: Guarded, office: BillOffice
) -> None:
    shop = as_role(client, guarding, "team")
    assert shop.get("/v1/statements").json() == {"statements": []}
    assert shop.get(STATEMENT).status_code == 404  # a draft may still change
    assert shop.get(f"{STATEMENT}/team?team=shop").status_code == 404
    closed(office)

    assert [one["account"] for one in shop.get(STATEMENT).json()["accounts"]] == ["shop"]
    assert shop.get(f"{STATEMENT}/team?team=shop").json()["account"]["account"] == "shop"
    for other in ("search", "platform", "nobody"):
        refused = shop.get(f"{STATEMENT}/team?team={other}")
        assert refused.status_code == 403
        assert "is for team 'shop' only" in refused.json()["error"]
    assert shop.get("/v1/prices").status_code == 403


def test_a_token_that_is_for_no_team_sees_no_bill(office: BillOffice, process: Process, guarding: Guarded) -> None:
    closed(office)
    client = TestClient(create_app(process.serving, guarding.guard, bills=office))
    with guarding.store.begin() as connection:  # as one that was made before there were teams
        guarding.token("team")
        connection.exec_driver_sql("UPDATE tokens SET team = NULL")

    for path in ("/v1/statements", STATEMENT, f"{STATEMENT}/team?team=shop", "/v1/budgets"):
        refused = as_role(client, guarding, "team").get(path)
        assert (refused.status_code, "has no team" in refused.json()["error"]) == (403, True)


def set_budget(office: BillOffice, team: str, micros: int) -> None:
    at = office.closing
    budget = Budget(at.cluster, team, micros, "EUR", 800_000, PERIOD, at.now_us(), "ann")
    budget_store.set_budget(at.engine, budget, office.entry(ANN, "set budget", team))


def test_budgets_are_told_beside_what_is_owed_and_to_a_team_its_own(
    client: TestClient, guarding: Guarded, office: BillOffice
) -> None:
    finance = as_role(client, guarding, "finance")
    accounts: list[dict[str, Any]] = finance.get(STATEMENT).json()["accounts"]
    owed = {one["account"]: one["owed_micros"] for one in accounts}
    set_budget(office, "shop", 2 * owed["shop"])
    set_budget(office, "search", owed["search"] - 1)

    reply: dict[str, Any] = finance.get("/v1/budgets").json()

    assert (reply["period"], reply["state"], reply["currency"]) == (PERIOD, "closing", "EUR")
    told = {one["team"]: (one["state"], one["budget_micros"], one["owed_micros"]) for one in reply["budgets"]}
    assert told["search"] == ("exceeded", owed["search"] - 1, owed["search"])
    assert told["shop"] == ("within", 2 * owed["shop"], owed["shop"])
    assert finance.get(f"/v1/budgets?period={PERIOD}").json() == reply
    for query, status in (("2026-10", 404), ("2026-13", 422), ("", 422)):
        assert finance.get(f"/v1/budgets?period={query}").status_code == status
    shop = as_role(client, guarding, "team")
    assert shop.get("/v1/budgets").status_code == 404  # a draft may still change
    closed(office)
    assert [one["team"] for one in shop.get("/v1/budgets").json()["budgets"]] == ["shop"]


def test_price_books_are_told_as_they_are_in_force_or_proposed(
    client: TestClient, guarding: Guarded, office: BillOffice
) -> None:
    proposed(office)

    told = as_role(client, guarding, "finance").get("/v1/prices").json()["books"]

    assert [(one["version"], one["state"], one["approved_by"]) for one in told] == [
        ("2026-11", "approved", "bob"),
        ("2027-01", "proposed", None),
    ]
    assert told[0]["prices"][0] == {"resource": "cpu", "unit": "core", "weight_micros": 40_000}


@pytest.mark.parametrize("role", ROLES)
def test_finance_approves_no_moves_and_others_see_no_bills(
    client: TestClient, guarding: Guarded, role: TokenRole
) -> None:
    caller = as_role(client, guarding, role)
    approved = caller.post("/v1/plans/p1/approve", json={"version": 1}).status_code
    months, prices = (caller.get(path).status_code for path in ("/v1/statements", "/v1/prices"))
    budgets = caller.get("/v1/budgets").status_code

    assert (approved == 403) == (role not in {"sre", "admin"})
    assert (months == 200) == (role in {"finance", "admin", "planner", "team"})
    assert budgets == {"team": 404}.get(
        role, 200 if role in {"finance", "admin", "planner"} else 403
    )  # no month is closed
    assert prices == (200 if role in {"finance", "admin"} else 403)


def test_where_no_bills_are_kept_it_is_said_what_they_need(process: Process) -> None:
    refused = TestClient(create_app(process.serving)).get("/v1/statements")

    assert (refused.status_code, "cohabit admin database migrate" in refused.json()["error"]) == (503, True)
