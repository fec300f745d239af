"""Quotes in a real browser: a new container, another request, a move, and what is said where one cannot be told."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import time_ns

import pytest
from playwright.sync_api import Browser, expect

from advisor.billing.lines.money import written
from advisor.billing.quotes.cost_estimate import Need
from advisor.billing.quotes.service import Ask, answered, grounds_of
from advisor.cluster.snapshot import publish
from tests.advisor.clusters import trained, write
from tests.advisor.neighbourhood import neighbourhood
from tests.advisor.ui.bench import Bench, bench
from tests.advisor.ui.visits import Visit, visiting

PLACE = "/ui/quotes"


@pytest.fixture(scope="module")
def modelless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench(tmp_path_factory.mktemp("modelless")) as found:
        yield found


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(trained(), tmp_path_factory.mktemp("bundles") / "small")


@pytest.fixture
def bench_(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[Bench]:
    """Who was metered is in the newest snapshot, and a model foresees what they do to each other."""
    with bench(tmp_path_factory.mktemp("bench")) as found:
        registry = found.serving.registry
        (registry.root / "first").symlink_to(model)
        registry.promote("first")
        publish(found.site.folder / "snapshots", replace(neighbourhood(time_ns() // 1000), version=2))
        found.serving.reload()
        yield found


def test_a_new_container_is_quoted_by_keyboard_with_its_neighbours(visit: Visit, bench_: Bench) -> None:
    page = visit.page
    visit.log_in("finance")
    page.keyboard.press("g")
    page.keyboard.press("q")
    expect(page.locator("h1")).to_have_text("Cost estimates")
    page.focus("#new-team")
    for told in ("shop", "web", "", "n1", "", "2", "1"):
        page.keyboard.type(told)
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    expect(page.locator("#neighbours tbody tr")).to_have_count(4)
    expect(page.locator("#neighbours")).to_contain_text("crawl-1")
    ask = Ask(needs=(Need("cpu", 2.0, 1.0),), team="shop", app="web", node="n1", hours=720)
    quote = answered(ask, grounds_of(bench_.bills, bench_.serving)).quote
    assert quote.transfers is not None
    expect(page.locator("main")).to_contain_text(f"720 hours: {written(quote.base_micros, 'EUR')}")
    expect(page.locator("#moved")).to_contain_text(f"Rebate {written(quote.transfers.rebate.expected, 'EUR')}")
    expect(page.locator("#new-team")).to_have_value("shop")
    expect(page.locator("#running-container")).to_have_value("")


def test_a_move_and_another_request_are_shown_beside_what_is(visit: Visit) -> None:
    page = visit.page
    visit.log_in("finance")
    visit.go(PLACE)
    page.fill("#running-container", "crawl-1")
    page.fill("#running-move_to", "n2")
    page.fill("#running-request-cpu", "3")
    page.click("text=Estimate the change")

    head = page.locator("#change thead")
    expect(head).to_contain_text("Now, n1")
    expect(head).to_contain_text("Estimate, n2")
    expect(page.locator("#change tbody tr")).to_have_count(5)
    expect(page.locator("#charges tbody tr").first).to_contain_text("3.000")


def test_what_cannot_be_quoted_is_said_and_the_form_keeps_what_was_filled_in(visit: Visit) -> None:
    page = visit.page
    visit.log_in("admin")
    visit.go(PLACE)
    for node, request, says in (
        ("n9", "2", "The pool of node 'n9' is unknown"),
        ("n1", "two", "request of cpu is 'two': write a number"),
        ("", "2", "Name a node or a pool: known pools are std@a"),
    ):
        page.fill("#new-team", "shop")
        page.fill("#new-node", node)
        page.fill("#new-request-cpu", request)
        page.click("text=Estimate cost")
        expect(page.get_by_role("alert").first).to_contain_text(says)
        expect(page.locator("#new-request-cpu")).to_have_value(request)


def test_a_team_is_quoted_for_itself_alone(visit: Visit) -> None:
    page = visit.page
    visit.log_in("team")
    visit.go(PLACE)
    expect(page.locator("#new")).to_contain_text("Team shop")
    page.fill("#running-container", "web-1")
    page.click("text=Estimate the change")
    expect(page.locator("#quote")).to_contain_text("shop, tier LS, on n1")
    page.fill("#running-container", "crawl-1")
    page.click("text=Estimate the change")

    expect(page.locator("main")).to_contain_text("is for team 'shop' only")
    csrf = page.locator("input[name=csrf]").first.input_value()
    forged = page.request.post(
        f"{visit.site.main}{PLACE}", form={"csrf": csrf, "kind": "new", "team": "search", "node": "n1", "use-cpu": "1"}
    )
    assert "shop, tier LS" in forged.text()
    assert visit.page.request.post(f"{visit.site.main}{PLACE}", form={"kind": "running"}).status == 403


def test_without_a_model_the_base_charge_is_shown_and_why_there_is_no_more(browser: Browser, modelless: Bench) -> None:
    with visiting(browser, modelless.site) as visit:
        visit.log_in("finance")
        visit.go(PLACE)
        visit.page.fill("#running-container", "web-1")
        visit.page.fill("#running-use-cpu", "2")
        visit.page.click("text=Estimate the change")

        expect(visit.page.locator("#charges tbody tr")).to_have_count(2)
        expect(visit.page.get_by_role("note")).to_contain_text("Not known: no model is promoted")
        expect(visit.page.locator("#change tbody tr")).to_have_count(2)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_say_about_quotes(browser: Browser, bench_: Bench, scheme: str) -> None:
    found = {}
    with visiting(browser, bench_.site, scheme) as visit:
        visit.log_in("finance")
        visit.go(PLACE)
        found["forms"] = visit.violations()
        visit.page.fill("#running-container", "web-1")
        visit.page.fill("#running-move_to", "n0")
        visit.page.click("text=Estimate the change")
        found["quoted"] = visit.violations()
        visit.page.fill("#running-move_to", "n9")
        visit.page.click("text=Estimate the change")
        found["refused"] = visit.violations()

    assert found == {name: [] for name in found}
