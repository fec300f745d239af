"""Bills in a real browser: from a month to an hour, prices that two people agree on, and a month that is closed."""

import re
from collections.abc import Iterator
from csv import DictReader
from decimal import Decimal

import pytest
from playwright.sync_api import Browser, expect

from advisor.auth.audit_log import entries
from advisor.billing.budgets import store as budget_store
from advisor.billing.budgets.budget_status import Budget
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.pricing.price_book_toml import EXAMPLE
from tests.advisor.billing.metered_month import COST, HOURS
from tests.advisor.billing.months_drawn import PERIOD
from tests.advisor.ui.bench import Bench, bench
from tests.advisor.ui.visits import Visit, visiting

TEXT = EXAMPLE.replace('"2026-12"', '"2027-02"').replace("2026-12-01", "2027-02-01")
MONTH = f"/ui/bills/{PERIOD}"


@pytest.fixture
def bench_(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench(tmp_path_factory.mktemp("bench")) as found:
        yield found


def test_one_goes_from_a_month_down_to_a_line_of_an_hour(visit: Visit, bench_: Bench) -> None:
    page = visit.page
    visit.log_in("finance")
    assert visit.path() == "/ui/bills"
    page.click(f"text={PERIOD}")
    total = Decimal(sum(COST + n for n in range(len(HOURS)))) / 10**6
    expect(page.locator("main")).to_contain_text(f"Total {total:,.6f} EUR")
    expect(page.locator("#bars[data-drawn] canvas")).to_be_visible()
    expect(page.locator("#idle tbody th")).to_have_text(["failure", "headroom", "stranded"])
    expect(page.locator("#idle .meter")).to_have_count(3)

    page.click("#accounts a:text-is('shop')")
    page.click("#containers a:text-is('web-1')")

    rows = page.locator("#hours tbody tr")
    lines = bench_.bills.drilling.hours(bench_.bills.closing.one(PERIOD).draft.batches, "shop", "web-1")  # type: ignore[union-attr]
    expect(rows).to_have_count(lines.num_rows)
    expect(rows.first.locator("code")).to_have_text(lines["line"][0].as_py())
    expect(rows.first).to_contain_text("2026-11-29 18:00")
    page.click("nav.crumbs a:text-is('shop')")
    with page.expect_download() as download:
        page.click("text=Download all")
    with download.value.path().open() as file:
        told = list(DictReader(file))
    expect(page.locator(".big")).to_contain_text(
        f"{Decimal(sum(int(row['amount_micros']) for row in told)) / 10**6:,.2f}"
    )
    assert download.value.suggested_filename == f"statement-{PERIOD}-shop.csv"
    assert {row["account"] for row in told} == {"shop"}


def set_budget(bench_: Bench, team: str, micros: int, currency: str = "EUR") -> None:
    at = bench_.bills.closing
    budget = Budget(at.cluster, team, micros, currency, 800_000, PERIOD, at.now_us(), "ann")
    budget_store.set_budget(at.engine, budget, bench_.bills.entry(bench_.bills.actor(None), "set budget", team))


def set_budgets(bench_: Bench) -> None:
    """One of each state."""
    _, accounts = bench_.bills.billed(PERIOD, None)
    owed = {one.name: one.owed_micros for one in accounts}
    set_budget(bench_, "shop", 2 * owed["shop"])
    set_budget(bench_, "search", owed["search"] - 1)
    set_budget(bench_, "platform", owed["platform"] * 10 // 9)
    set_budget(bench_, "unattributed", 10**9, "USD")


def test_budgets_stand_beside_what_teams_owe(visit: Visit, bench_: Bench) -> None:
    visit.log_in("finance")
    visit.go(MONTH)
    expect(visit.page.locator("#budgets")).to_have_count(0)
    set_budgets(bench_)

    visit.go(MONTH)

    told = {row.locator("th").inner_text(): row for row in visit.page.locator("#budgets tbody tr").all()}
    states = {team: row.locator(".badge").inner_text() for team, row in told.items()}
    assert states == {
        "platform": "warned",
        "search": "exceeded",
        "shop": "within",
        "unattributed": "other currency",
    }
    expect(told["shop"].locator(".meter")).to_have_text("50%")
    assert float(told["shop"].locator("rect.fill").get_attribute("width") or 0) == 50.0
    assert float(told["search"].locator("rect.fill.full").get_attribute("width") or 0) == 100.0
    expect(told["unattributed"]).to_contain_text("USD")
    expect(told["unattributed"].locator(".meter")).to_have_count(0)
    visit.go(f"{MONTH}/team?team=shop")
    expect(visit.page.locator("#budgets tbody th")).to_have_text(["shop"])


def test_transfers_are_shown_with_what_they_were_worked_out_from(visit: Visit) -> None:
    page = visit.page
    visit.log_in("finance")
    visit.go(f"{MONTH}/container?team=shop&container=web-2")
    rebate = page.locator("#hours tbody tr", has_text="rebate").first
    expect(rebate).to_contain_text("slowdown low 1.5")
    expect(rebate).to_contain_text("search 0.600")

    visit.go(f"{MONTH}/team?team=search")
    page.locator("#containers tr", has_text="surcharge").locator("a").click()

    expect(page.locator("h1")).to_have_text("without a container")
    expect(page.locator("#hours tbody tr")).to_have_count(3)
    expect(page.locator("#hours tbody tr").first).to_contain_text("cap ppm 200000")


def test_a_month_is_closed_with_what_was_checked(visit: Visit, bench_: Bench) -> None:
    visit.log_in("finance")
    visit.go(MONTH)
    digest = bench_.bills.closing.one(PERIOD).digest
    expect(visit.page.locator("#digest")).to_have_text(digest)
    expect(visit.page.locator("#checks .c-fine")).to_have_count(4)

    visit.page.click(f"text=Close {PERIOD}")

    expect(visit.page.locator(".head")).to_contain_text("closed")
    expect(visit.page.locator("main form")).to_have_count(0)
    expect(visit.page.locator("#accounts thead")).to_contain_text("Pays")
    newest = list(entries(bench_.bureau.store))[-1]
    assert (newest.action, newest.role, newest.outcome) == ("close", "finance", f"draft {digest[:12]}")


def test_a_month_that_somebody_opened_again_meanwhile_is_not_closed(visit: Visit, bench_: Bench) -> None:
    visit.log_in("finance")
    with visiting(visit.page.context.browser, bench_.site) as other:  # type: ignore[arg-type]
        other.log_in("admin")
        visit.go(MONTH)
        other.go(MONTH)
        other.page.click("text=Reopen")
        expect(other.page.locator("#months tbody")).to_contain_text("open")

    visit.page.click(f"text=Close {PERIOD}")

    expect(visit.page.locator("main")).to_contain_text("409")
    expect(visit.page.locator("main")).to_contain_text("is open and cannot be closed")


def test_prices_are_previewed_proposed_by_one_and_approved_by_another(visit: Visit, bench_: Bench) -> None:
    page = visit.page
    proposer = visit.log_in("finance")
    visit.go("/ui/prices")
    page.fill("#text", TEXT.replace("[prices]", "[price]"))
    page.click("text=Preview")
    expect(page.get_by_role("alert")).to_contain_text("The price book cannot be parsed")
    page.fill("#text", TEXT)
    page.click("text=Preview")
    expect(page.locator("#compared thead")).to_contain_text("2026-11")
    expect(page.locator("#compared tr", has_text="kappa")).to_contain_text("0.5")
    assert len(book_store.kept_books(bench_.bureau.store)) == 1

    page.click("text=Propose 2027-02")

    row = page.locator("#books tbody tr").first
    expect(row).to_contain_text("another person approves")
    csrf = page.locator("input[name=csrf]").first.input_value()
    tried = page.request.post(f"{bench_.site.main}/ui/prices/2027-02/approve", form={"csrf": csrf})
    assert tried.status == 403
    assert "another person" in tried.text()
    with visiting(page.context.browser, bench_.site) as other:  # type: ignore[arg-type]
        approver = other.log_in("finance")
        other.go("/ui/prices")
        other.page.click("[aria-label='Approve 2027-02']")
        expect(other.page.locator("#books tbody tr").first).to_contain_text(f"{proposer}, approved by {approver}")
    visit.go("/ui/prices")
    page.click("[aria-label='Withdraw 2027-02']")
    expect(row).to_contain_text("withdrawn by")


def test_a_team_sees_its_own_statement_once_it_is_closed(visit: Visit, bench_: Bench) -> None:
    visit.log_in("team")
    expect(visit.page.locator("main")).to_contain_text("No month is closed yet")
    visit.go(MONTH)
    expect(visit.page.locator("main")).to_contain_text("404")
    closing = bench_.bills.closing
    closing.close(PERIOD, closing.one(PERIOD).digest, bench_.bills.actor(None))

    visit.go("/ui/bills")
    visit.page.click(f"text={PERIOD}")

    expect(visit.page.locator("h1")).to_have_text("shop")
    expect(visit.page.locator(".verdict")).to_contain_text(re.compile(r"To pay: [\d,]+\.\d\d EUR"))
    expect(visit.page.locator("#containers tbody tr")).to_have_count(3)
    for path in ("team?team=search", "container?team=search&container=crawl-1", "lines.csv?team=platform"):
        visit.go(f"{MONTH}/{path}")
        expect(visit.page.locator("main")).to_contain_text("is for team 'shop' only")
    visit.go("/ui/prices")
    expect(visit.page.locator("main")).to_contain_text("Access denied")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_say_about_bills(browser: Browser, bench_: Bench, scheme: str) -> None:
    found = {}
    set_budgets(bench_)
    with visiting(browser, bench_.site, scheme) as visit:
        visit.log_in("finance")
        for path in ("/ui/bills", MONTH, f"{MONTH}/team?team=shop", f"{MONTH}/container?team=shop&container=web-1"):
            visit.go(path)
            found[path] = visit.violations()
        visit.go("/ui/prices")
        found["prices"] = visit.violations()
        visit.page.fill("#text", TEXT)
        visit.page.click("text=Preview")
        found["preview"] = visit.violations()

    assert found == {path: [] for path in found}
