"""The page of capacity in a real browser: demand, days until full, orders by date and what limits them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from advisor.capacity.capacity_reports import (
    ForecastReport,
    PublishedPurchase,
    read_capacity_report,
    write_capacity_report,
)
from advisor.ui.views.planner.fan_chart import HEIGHT, WIDTH, fan_chart
from tests.advisor.capacity.published_reports import HOUR_US, plan, publish_all, series
from tests.advisor.ui.bench import Bench, bench
from tests.advisor.ui.visits import Visit, visiting


@pytest.fixture(scope="module")
def bench_(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench(tmp_path_factory.mktemp("capacity")) as found:
        yield found


@pytest.fixture
def planned(bench_: Bench) -> Bench:
    publish_all(bench_.serving.snapshots, bench_.bureau.now_us)
    return bench_


def test_before_anything_is_published_the_page_says_what_to_run(visit: Visit, bench_: Bench) -> None:
    visit.log_in("planner")
    visit.go("/ui/capacity")

    for command in ("capacity forecast", "capacity plan", "capacity headroom", "capacity what-if"):
        expect(visit.page.locator("main")).to_contain_text(f"cohabit {command} --publish")


def test_a_planner_reads_demand_orders_and_headroom(visit: Visit, planned: Bench) -> None:
    visit.log_in("planner")
    visit.page.keyboard.press("g")
    visit.page.keyboard.press("k")
    visit.page.wait_for_url("**/ui/capacity")
    page = visit.page

    expect(page.locator("#demand tbody tr")).to_have_count(1)
    expect(page.locator("#demand tbody tr")).to_contain_text("215.5")
    expect(page.locator("#demand tbody tr")).to_contain_text("2 days")
    expect(page.locator("#demand tbody tr")).to_contain_text("1 to beyond the forecast")
    expect(page.locator("main")).to_contain_text("Requests grow by 3 % a month, said eve.")
    expect(page.locator("figure.fan svg .band")).to_have_count(1)
    expect(page.locator(".verdict")).to_contain_text("12 machines for 14,400.00 EUR.")
    expect(page.locator(".verdict")).to_contain_text("no plan costs less than 3,500.00")
    expect(page.locator("#orders tbody tr")).to_contain_text("2027-01-04")
    expect(page.locator("#periods tbody tr")).to_contain_text("410")
    expect(page.locator("#binding")).to_contain_text("1 kW more is worth 310 EUR a month")
    expect(page.locator("#changes tbody tr").last).to_contain_text("4,000.00")
    expect(page.locator("#offers tbody tr")).to_contain_text("11.5")
    expect(page.locator("#what-if tbody tr").first).to_contain_text("no plan was found in time")
    expect(page.locator("#what-if tbody tr").last).to_have_text("grow:30902027-01-0130 m-large36,000.009,000.001")


def test_a_team_sees_no_purchases(visit: Visit, planned: Bench) -> None:
    visit.log_in("team")
    visit.go("/ui/capacity")

    expect(visit.page.locator("main")).to_contain_text("Access denied")


@pytest.mark.parametrize("width", [360, 390, 1440])
def test_no_sideways_scrolling(visit: Visit, planned: Bench, width: int) -> None:
    visit.page.set_viewport_size({"width": width, "height": 900})
    visit.log_in("planner")
    visit.go("/ui/capacity")

    assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_say(browser: Browser, planned: Bench, scheme: str) -> None:
    with visiting(browser, planned.site, scheme) as visit:
        visit.log_in("planner")
        visit.go("/ui/capacity")

        assert visit.violations() == []


def test_a_broken_file_is_named_and_the_rest_is_shown(visit: Visit, planned: Bench) -> None:
    (planned.serving.snapshots / "purchase-plan.json").write_text('{"cluster": 3}')
    visit.log_in("planner")
    visit.go("/ui/capacity")

    expect(visit.page.locator(".notice").first).to_contain_text("purchase-plan.json cannot be read (cluster:")
    expect(visit.page.locator("#demand tbody tr")).to_have_count(1)


def test_a_drawing_stays_within_its_edges_and_begins_at_zero() -> None:
    drawn = fan_chart(series(capacity=None))

    points = [tuple(map(float, one.split(","))) for one in f"{drawn.past} {drawn.middle} {drawn.band}".split()]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    assert drawn.capacity is None
    assert drawn.top == 215.0


def test_reports_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_capacity_report(tmp_path, plan(HOUR_US))

    assert read_capacity_report(tmp_path, PublishedPurchase) == plan(HOUR_US)
    assert read_capacity_report(tmp_path, ForecastReport) is None
