"""The pages in a real browser, on a real server over 10,000 nodes."""

import re
from collections.abc import Iterator
from time import monotonic

import pytest
from playwright.sync_api import Browser, expect

from advisor.diagnosis.report_file import DiagnosisReport, read_report
from advisor.diagnosis.slowdown_causes import Diagnosis
from tests.advisor.ui.page_site import Site
from tests.advisor.ui.visits import Visit, visiting


@pytest.fixture
def visit(browser: Browser, large: Site) -> Iterator[Visit]:
    with visiting(browser, large) as found:
        yield found


@pytest.fixture
def told(large: Site) -> DiagnosisReport:
    found = read_report(large.folder / "snapshots")
    assert found is not None
    return found


@pytest.fixture
def victim(told: DiagnosisReport) -> Diagnosis:
    return next(one for one in told.diagnoses if one.verdict == "antagonist" and len(one.suspects) > 1)


def test_who_has_a_token_logs_in_where_the_link_led_and_out_again(visit: Visit, large: Site) -> None:
    visit.go("/ui/victims?verdict=host")
    assert visit.path() == "/ui/login?next=%2Fui%2Fvictims%3Fverdict%3Dhost"
    visit.page.fill("#token", large.token("in-and-out"))
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_url("**/ui/victims?verdict=host")
    expect(visit.page.locator(".who")).to_contain_text("in-and-out")
    [cookie] = visit.page.context.cookies()

    visit.page.click("text=Log out")

    visit.page.wait_for_url("**/ui/login")
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == ("cohabit_session", True, "Strict")
    visit.go("/ui/victims")
    assert visit.path() == "/ui/login?next=%2Fui%2Fvictims"
    done = [entry.action for entry in large.audit() if entry.who == "in-and-out"]
    assert done == ["log in", "log out"]


def test_a_wrong_token_is_told_and_not_shown(visit: Visit) -> None:
    visit.go("/ui/login")
    visit.page.fill("#token", "chb_wrong")
    visit.page.click("main button[type=submit]")

    expect(visit.page.get_by_role("alert")).to_contain_text("This token is invalid, expired or revoked")
    assert visit.page.input_value("#token") == ""
    assert not visit.page.evaluate("document.cookie")


def test_a_session_ends_when_its_token_is_taken_back(visit: Visit, large: Site) -> None:
    name = visit.log_in()
    large.revoke(name)

    ends = monotonic() + 15  # remembered for five seconds
    while visit.path() != "/ui/login?next=%2Fui%2Fvictims" and monotonic() < ends:
        visit.go("/ui/victims")

    assert visit.path() == "/ui/login?next=%2Fui%2Fvictims"


def test_another_role_is_told_in_words(browser: Browser, large: Site) -> None:
    with visiting(browser, large) as visit:
        visit.log_in("scheduler")

        expect(visit.page.locator("main")).to_contain_text("Access denied")
        assert visit.page.locator("header nav").count() == 0
        visit.page.click("text=Log out")
        visit.page.wait_for_url("**/ui/login")


def test_a_link_of_another_site_leads_to_the_page_it_names(visit: Visit, large: Site) -> None:
    visit.log_in()
    elsewhere = large.main.replace("127.0.0.1", "localhost")
    visit.page.goto(f"{elsewhere}/ui/login")
    visit.page.evaluate("there => { location.href = there }", f"{large.main}/ui/victims?verdict=host")

    visit.page.wait_for_url(f"{large.main}/ui/victims?verdict=host")

    expect(visit.page.locator("h1")).to_have_text("Victims")
    visit.wrong = [url for url in visit.wrong if not url.startswith(elsewhere)]


def test_victims_are_filtered_in_place(visit: Visit, told: DiagnosisReport) -> None:
    hosts = [one for one in told.diagnoses if one.verdict == "host"]
    visit.log_in()
    visit.go("/ui/victims")
    visit.page.evaluate("window.same = true")

    visit.page.select_option("#verdict", "host")
    visit.page.wait_for_url(re.compile("verdict=host"))
    expect(visit.page.locator("#victims tbody tr")).to_have_count(len(hosts))
    visit.page.fill("#node", hosts[0].node)
    expect(visit.page.locator("#victims tbody tr")).to_have_count(1)

    expect(visit.page.locator("#victims tbody th")).to_have_text(hosts[0].container)
    assert visit.page.evaluate("window.same"), "the page was loaded anew"
    visit.page.reload()
    expect(visit.page.locator("#victims tbody th")).to_have_text(hosts[0].container)
    assert visit.page.input_value("#node") == hosts[0].node


def test_victims_have_pages_of_their_own(visit: Visit, told: DiagnosisReport) -> None:
    visit.log_in()
    visit.go("/ui/victims")

    visit.page.click("text=Next")

    expect(visit.page.locator("[role=status]")).to_contain_text(f"51 to 100 of {len(told.diagnoses)}")
    visit.page.click("text=Previous")
    expect(visit.page.locator("[role=status]")).to_contain_text(f"1 to 50 of {len(told.diagnoses)}")


def test_a_victim_is_explained_in_words_numbers_and_a_chart(visit: Visit, victim: Diagnosis) -> None:
    visit.log_in()
    visit.go(f"/ui/victims/{victim.container}")
    page = visit.page

    expect(page.locator("h1")).to_have_text(victim.container)
    expect(page.locator(".verdict")).to_contain_text(f"{victim.slowdown:.2f}")
    expect(page.locator(".verdict")).to_contain_text(victim.suspects[0].container)
    expect(page.locator(".interval svg")).to_have_count(len(victim.suspects))
    page.wait_for_selector("#charts[data-drawn='2']")
    assert page.evaluate(DRAWN, "#charts canvas") == [True, True]
    assert not page.is_visible("#series")
    page.click("summary")
    expect(page.locator("#series tbody tr")).to_have_count(len(victim.ends_us))
    expect(page.locator("#series tbody tr").last).to_contain_text(f"{victim.slowdowns[-1]:.2f}")


DRAWN = """selector => [...document.querySelectorAll(selector)].map((canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size > 3;
})"""
"""Whether each canvas has more than a few colours on it."""


def test_ten_thousand_nodes_are_drawn_filtered_and_opened_by_keyboard(visit: Visit) -> None:
    visit.log_in()
    page = visit.page
    page.wait_for_selector("canvas[data-drawn='10000']")
    assert page.evaluate(DRAWN, "#map canvas") == [True]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    page.keyboard.press("/")
    page.keyboard.type("node-0012")
    page.wait_for_selector("canvas[data-drawn='10']")
    expect(page.locator("#map-said")).to_have_text("10 of 10000 nodes")
    expect(page.locator("#nodes tbody tr")).to_have_count(10)
    page.focus("#map")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#map-said")).to_contain_text("node-00121 · ")
    page.keyboard.press("Enter")

    page.wait_for_url("**/ui/nodes/node-00121")
    expect(page.locator("h1")).to_have_text("node-00121")


def test_a_square_of_the_map_opens_its_node(visit: Visit) -> None:
    visit.log_in()
    visit.page.wait_for_selector("canvas[data-drawn]")

    visit.page.click("#map canvas", position={"x": 3, "y": 3})

    visit.page.wait_for_url("**/ui/nodes/node-00000")


def test_the_map_shows_a_resource_or_the_verdicts(visit: Visit) -> None:
    visit.log_in()
    page = visit.page
    page.wait_for_selector("#colour option[value=cpu]", state="attached")
    drawn = "document.querySelector('#map canvas').toDataURL()"
    pictures = {page.evaluate(drawn)}
    for value in ("cpu", "verdict"):
        page.select_option("#colour", value)
        pictures.add(page.evaluate(drawn))

    assert len(pictures) == 3
    expect(page.locator("#legend")).to_contain_text("no victims")


def test_a_node_tells_who_lives_there_and_who_slows_whom(visit: Visit, victim: Diagnosis) -> None:
    visit.log_in()
    visit.go(f"/ui/nodes/{victim.node}")

    row = visit.page.locator("tbody tr", has=visit.page.locator("th", has_text=victim.container))
    expect(row.locator("td")).to_contain_text([victim.app or "", "LS", "antagonist", f"{victim.slowdown:.2f}"])
    by = visit.page.locator("tbody tr", has=visit.page.locator("th", has_text=victim.suspects[0].container))
    expect(by).to_contain_text(f"slows {victim.container}")
    row.locator("th a").click()
    visit.page.wait_for_url(f"**/ui/victims/{victim.container}")


def test_shortcuts_go_everywhere_and_are_listed(visit: Visit) -> None:
    visit.log_in()
    page = visit.page
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keyboard shortcuts")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)

    page.keyboard.press("g")
    page.keyboard.press("v")
    page.wait_for_url("**/ui/victims")
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement === document.querySelectorAll('a[data-row]')[1]")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/ui/victims/."))
    page.keyboard.press("g")
    page.keyboard.press("c")
    page.wait_for_url("**/ui/cluster")


def test_the_first_thing_that_tab_reaches_skips_to_the_content(visit: Visit) -> None:
    visit.log_in()
    visit.page.keyboard.press("Tab")
    expect(visit.page.locator(":focus")).to_have_text("Skip to content")
    visit.page.keyboard.press("Enter")

    assert visit.path().endswith("#main")


SURFACE = "getComputedStyle(document.body).backgroundColor"


def test_dark_follows_the_machine_until_somebody_chooses_and_then_stays(browser: Browser, large: Site) -> None:
    with visiting(browser, large, "dark") as visit:
        visit.log_in()
        dark = visit.page.evaluate(SURFACE)
        visit.page.keyboard.press("t")
        light = visit.page.evaluate(SURFACE)
        visit.go("/ui/victims")

        assert dark != light
        assert visit.page.evaluate(SURFACE) == light
        visit.page.emulate_media(color_scheme="light")
        assert visit.page.evaluate(SURFACE) == light


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_say(browser: Browser, large: Site, victim: Diagnosis, scheme: str) -> None:
    with visiting(browser, large, scheme) as visit:
        visit.go("/ui/login")
        found = {"login": visit.violations()}
        visit.log_in()
        paths = (
            "/ui/cluster",
            "/ui/victims",
            "/ui/victims?node=nowhere",
            f"/ui/victims/{victim.container}",
            f"/ui/nodes/{victim.node}",
            "/ui/nowhere",
        )
        for path in paths:
            visit.go(path)
            visit.page.wait_for_load_state("networkidle")
            found[path] = visit.violations()
        visit.page.keyboard.press("?")
        found["dialog"] = visit.violations()

    assert found == {path: [] for path in found}


def test_axe_would_say_what_is_wrong(visit: Visit) -> None:
    visit.log_in()
    visit.page.evaluate("document.querySelector('main').append(document.createElement('input'))")

    assert visit.violations() == ["label: <input>"]


@pytest.mark.parametrize("path", ["/ui/cluster", "/ui/victims"])
def test_a_telephone_needs_no_sideways_scrolling(visit: Visit, path: str) -> None:
    visit.page.set_viewport_size({"width": 380, "height": 800})
    visit.log_in()
    visit.go(path)

    assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
