"""Proposals in a real browser: read, decided on, given out and frozen, by whom that may, while others decide too."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from advisor.auth.api_tokens import TokenRole
from advisor.auth.audit_log import entries
from advisor.plans.plan_service import Actor
from tests.advisor.ui.bench import Bench, bench
from tests.advisor.ui.visits import Visit, visiting

OTHER = Actor("bob", "sre", "r9")


@pytest.fixture(scope="module")
def bench_(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench(tmp_path_factory.mktemp("bench")) as found:
        yield found


def opened(visit: Visit, bench_: Bench, role: TokenRole = "sre") -> str:
    """Log in, and go to a new proposal, whose name is told."""
    name = bench_.put().plan
    visit.log_in(role)
    visit.go(f"/ui/plans/{name}")
    return name


def state(bench_: Bench, name: str) -> tuple[str, int]:
    found = bench_.bureau.desk.one(name)
    return found.state, found.version


def test_a_proposal_is_read_step_by_step(visit: Visit, bench_: Bench) -> None:
    name = opened(visit, bench_)
    plan, page = bench_.bureau.desk.one(name).plan, visit.page

    expect(page.locator("h1")).to_have_text(f"Plan {name}")
    expect(page.locator(".head")).to_contain_text("drafted")
    expect(page.locator(".head")).to_contain_text("version 1")
    expect(page.locator(".verdict")).to_contain_text("Role sre approves steps or rejects the plan, until 20")
    rows = page.locator("table.steps tbody")
    expect(rows).to_have_count(3)
    for number, step in enumerate(plan.open_steps):
        row = rows.nth(number)
        expect(row).to_contain_text(f"shop/{step.who.name}")
        expect(row).to_contain_text(f"{step.gain:.2f}")
        expect(row).to_contain_text(f"{step.low:.2f} to {step.high:.2f}")
        expect(row.locator(f"a[href='/ui/nodes/{step.source}']").first).to_be_visible()
        expect(row.locator(f"a[href='/ui/victims/{step.victims[0]}']")).to_be_visible()
        expect(row).to_contain_text(step.why[1:])
        expect(row.locator("input[type=checkbox]")).not_to_be_checked()
    expect(rows.nth(0).locator("td.num").last).to_have_text("93%")
    expect(rows.nth(2).locator("td.num").last).to_have_text("–")
    expect(rows.nth(1).locator("code")).to_have_text("cpu.max = 480000 100000")
    held = page.locator("section", has=page.locator("#held-title"))
    expect(held).to_contain_text("Randomised control group: do not carry out this step")
    expect(held.locator("tbody tr")).to_have_count(1)


def test_who_did_what_with_a_proposal_is_told(visit: Visit, bench_: Bench) -> None:
    name = bench_.put().plan
    bench_.bureau.desk.reject(name, 1, "release tonight", OTHER)
    visit.log_in("planner")
    visit.go(f"/ui/plans/{name}")

    rows = visit.page.locator("section", has=visit.page.locator("#history-title")).locator("tbody tr")
    expect(rows.last).to_contain_text("bob, sre")
    expect(rows.last).to_contain_text("reject")
    expect(rows.last).to_contain_text("release tonight")


def test_what_a_proposal_does_to_each_node_is_told_before_and_after(visit: Visit, bench_: Bench) -> None:
    name = opened(visit, bench_)
    step = bench_.bureau.desk.one(name).plan.open_steps[0]
    nodes = visit.page.locator("section", has=visit.page.locator("#nodes-title"))

    row = nodes.locator("tbody tr", has=visit.page.locator(f"th a[href='/ui/nodes/{step.source}']"))
    expect(row.locator("td").first).to_have_text(f"{step.gain + step.there:.2f}")
    expect(row.locator("svg.bars rect")).to_have_count(2)


def test_proposals_are_filtered_in_place_and_have_pages(visit: Visit, bench_: Bench) -> None:
    rejected = bench_.put().plan
    bench_.bureau.desk.reject(rejected, 1, "for the filter alone", OTHER)
    for _ in range(51):
        bench_.put()
    visit.log_in()
    visit.page.keyboard.press("g")
    visit.page.keyboard.press("p")
    visit.page.wait_for_url("**/ui/plans")
    expect(visit.page.locator("[role=status]")).to_contain_text("1 to 50 of")
    visit.page.click("text=Next")
    expect(visit.page.locator("[role=status]")).to_contain_text("51 to")

    visit.page.select_option("#state", "rejected")

    visit.page.wait_for_url(re.compile("state=rejected"))
    expect(visit.page.locator("tbody tr", has_text=rejected)).to_contain_text("rejected")
    expect(visit.page.locator(".s-drafted")).to_have_count(0)
    visit.page.click(f"text={rejected}")
    expect(visit.page.locator(".verdict")).to_contain_text("for the filter alone")


def test_some_steps_are_approved_and_the_others_are_not(visit: Visit, bench_: Bench) -> None:
    name = opened(visit, bench_)
    visit.page.check("input[name=step-1]")
    visit.page.check("input[name=step-3]")

    visit.page.click("text=Approve selected")

    expect(visit.page.locator(".head")).to_contain_text("partly")
    assert visit.path() == f"/ui/plans/{name}"
    decided = [one.decision for one in bench_.bureau.desk.one(name).decided]
    assert decided == ["approved", "rejected", "approved", "holdout"]
    newest = list(entries(bench_.bureau.store))[-1]
    assert (newest.action, newest.subject, newest.role) == ("approve", name, "sre")
    assert newest.who.startswith("sre-")


def test_what_does_not_hold_any_more_is_told_with_the_reason(visit: Visit, bench_: Bench) -> None:
    opened(visit, bench_)
    bench_.bureau.gone = {2: "it has ended"}

    visit.page.click("text=Approve all 3")

    expect(visit.page.locator("#step-2")).to_contain_text("Stale. It has ended.")
    bench_.bureau.gone = {}


def test_who_ticks_nothing_is_told_what_to_do(visit: Visit, bench_: Bench) -> None:
    name = opened(visit, bench_)
    visit.page.click("text=Approve selected")

    expect(visit.page.locator("main")).to_contain_text("select the steps to approve")
    visit.page.click("a:text-is('Reload')")
    assert visit.path() == f"/ui/plans/{name}"
    assert state(bench_, name) == ("drafted", 1)


def test_who_comes_second_is_told_and_led_back(visit: Visit, bench_: Bench) -> None:
    name = opened(visit, bench_)
    bench_.bureau.desk.reject(name, 1, "bob was faster", OTHER)

    visit.page.click("text=Approve all 3")

    expect(visit.page.locator("main")).to_contain_text("409")
    expect(visit.page.locator("main")).to_contain_text("changed since version 1")
    visit.page.click("a:text-is('Reload')")
    expect(visit.page.locator(".verdict")).to_contain_text("bob was faster")
    expect(visit.page.locator("#decide-title")).to_have_count(0)
    assert state(bench_, name) == ("rejected", 2)


def test_a_proposal_is_rejected_with_a_reason(visit: Visit, bench_: Bench) -> None:
    name = opened(visit, bench_)
    visit.page.click("text=Reject all steps")
    assert visit.page.evaluate("!document.querySelector('#reason').validity.valid")

    visit.page.fill("#reason", "release today <b>")
    visit.page.keyboard.press("Enter")

    expect(visit.page.locator(".verdict")).to_contain_text("release today <b>")
    assert bench_.bureau.desk.one(name).reason == "release today <b>"


def test_an_approved_proposal_is_given_out_as_a_file_that_stays_the_same(visit: Visit, bench_: Bench) -> None:
    name = opened(visit, bench_)
    visit.page.click("text=Approve all 3")
    visit.page.select_option("#form", "evictions")
    visit.page.click("main button:text-is('Export')")
    expect(visit.page.locator(".head")).to_contain_text("exported")

    files = []
    for _ in range(2):
        with visit.page.expect_download() as download:
            visit.page.click(f"text=Download {name}.json")
        files.append(download.value.path().read_bytes())

    assert download.value.suggested_filename == f"{name}.json"
    assert files == [bench_.bureau.desk.exported(name)] * 2
    assert b'"policy/v1"' in files[0]


def test_one_click_freezes_everything_and_another_goes_on(visit: Visit, bench_: Bench) -> None:
    name = opened(visit, bench_)
    visit.page.click("summary:has-text('Freeze')")
    visit.page.fill("#freeze-reason", "incident 17")
    visit.page.click("text=Freeze all changes")

    expect(visit.page.get_by_role("alert")).to_contain_text("All changes are frozen by sre-")
    assert visit.path() == f"/ui/plans/{name}"
    visit.page.click("text=Approve all 3")
    expect(visit.page.locator("main")).to_contain_text("froze all changes (incident 17)")
    for path in ("/ui/cluster", "/ui/victims", "/ui/plans", "/ui/nowhere"):
        visit.go(path)
        expect(visit.page.get_by_role("alert")).to_contain_text("incident 17")
    assert state(bench_, name) == ("drafted", 1)
    visit.go("/ui/victims")
    visit.page.click("text=Unfreeze")
    expect(visit.page.get_by_role("alert")).to_have_count(0)
    assert visit.path() == "/ui/victims"
    assert bench_.bureau.desk.frozen() is None


def test_a_victim_leads_to_what_would_help_it(visit: Visit, bench_: Bench) -> None:
    made = bench_.put()
    helped, held = made.steps[0].victims[0], made.steps[3].victims[0]
    visit.log_in()
    visit.go(f"/ui/victims/{held}")
    expect(visit.page.locator("#proposals-title")).to_have_count(0)
    visit.go(f"/ui/victims/{helped}")

    visit.page.click(f"text=Plan {made.plan}")

    visit.page.wait_for_url(f"**/ui/plans/{made.plan}")


def test_everything_is_done_with_the_keyboard(visit: Visit, bench_: Bench) -> None:
    name = opened(visit, bench_)
    keys, focused = visit.page.keyboard, "document.activeElement.name || document.activeElement.id"
    keys.press("?")
    expect(visit.page.get_by_role("dialog")).to_contain_text("Focus the approve button")
    keys.press("Escape")
    keys.press("r")
    assert visit.page.evaluate(focused) == "reason"
    keys.press("Tab")
    for key, at in (("j", "step-1"), ("j", "step-2"), ("j", "step-3"), ("k", "step-2")):
        keys.press(key)
        assert visit.page.evaluate(focused) == at
    keys.press("Space")
    keys.press("a")
    keys.press("Enter")

    expect(visit.page.locator(".head")).to_contain_text("partly")
    assert [step.number for step in bench_.bureau.desk.one(name).approved] == [2]


def test_a_planner_reads_and_decides_nothing(visit: Visit, bench_: Bench) -> None:
    opened(visit, bench_, "planner")

    expect(visit.page.locator("table.steps tbody")).to_have_count(3)
    expect(visit.page.locator("main form, main input, summary:text-is('Freeze')")).to_have_count(0)


@pytest.mark.parametrize("role", ["finance", "team"])
def test_other_roles_see_no_proposals(visit: Visit, bench_: Bench, role: TokenRole) -> None:
    opened(visit, bench_, role)

    expect(visit.page.locator("main")).to_contain_text("Access denied")
    expect(visit.page.locator("header nav a[href='/ui/plans']")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_say(browser: Browser, bench_: Bench, scheme: str) -> None:
    done, desk = bench_.put().plan, bench_.bureau.desk
    desk.approve(done, 1, {1, 2}, OTHER, bench_.bureau.office.stale)
    found = {}
    with visiting(browser, bench_.site, scheme) as visit:
        name = opened(visit, bench_)
        visit.page.click("summary:has-text('Freeze')")
        found["drafted"] = visit.violations()
        for path in ("/ui/plans", "/ui/plans?state=refuted", f"/ui/plans/{done}"):
            visit.go(path)
            found[path] = visit.violations()
        visit.go(f"/ui/plans/{name}")
        visit.page.click("summary:has-text('Freeze')")
        visit.page.fill("#freeze-reason", "for axe to see")
        visit.page.keyboard.press("Enter")
        expect(visit.page.get_by_role("alert")).to_be_visible()
        found["frozen"] = visit.violations()
        visit.page.click("text=Unfreeze")
        expect(visit.page.get_by_role("alert")).to_have_count(0)

    assert found == {path: [] for path in found}


def test_a_telephone_needs_no_sideways_scrolling(visit: Visit, bench_: Bench) -> None:
    visit.page.set_viewport_size({"width": 380, "height": 800})
    opened(visit, bench_)

    assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    visit.go("/ui/plans")
    assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
