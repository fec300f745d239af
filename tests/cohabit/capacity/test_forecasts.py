"""Demand forecasts of a real lake: what is read, what the planner adds, and one command for all of it."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from advisor.capacity.capacity_reports import ForecastReport, read_capacity_report
from cohabit.capacity.demand_series import DemandSeries, demand_series
from cohabit.capacity.forecasts import Asked, Forecasts, forecasts
from cohabit.capacity.planner_files import read_events, read_pending
from cohabit.cli.main import app
from cohabit.config.errors import CohabitError
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from tests.cohabit.capacity.metered_weeks import lake_of, services

WEEKS = 8
HEADER = "at,until,class,pool,factor,who,why\n"
WEB = ("LS", "std@a", "cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("metered")
    lake_of(folder / "lake", WEEKS)
    return folder


@pytest.fixture(scope="module")
def past(folder: Path) -> DemandSeries:
    return demand_series(Lake.open(folder / "lake", TABLES), "c", 365, "qos")


def found_in(past: DemandSeries, events: Path | None = None, growth: float = 0.0) -> Forecasts:
    given = [] if events is None else read_events(events)
    return forecasts(past, None, Asked(48, 60, growth, "eve", given))


def of_web(found: Forecasts) -> dict[str, float]:
    return next(one.maximum for one in found.series if (one.app_class, one.measure) == ("LS", "requests"))


def run(folder: Path, *words: str) -> Result:
    environment = {"COHABIT_LAKE": str(folder / "lake"), "COHABIT_CLUSTER": "c", "COLUMNS": "160"}
    return CliRunner().invoke(app, ["capacity", "forecast", *words], env=environment)


def test_series_are_requests_and_use_of_each_class_by_the_hour(past: DemandSeries) -> None:
    row = past.keys.index(WEB)

    np.testing.assert_allclose(past.requests[row], services(WEEKS * 168), rtol=1e-6)
    np.testing.assert_allclose(past.use[row], 0.6 * services(WEEKS * 168), rtol=1e-6)
    assert past.keys == [("BE", "std@a", "cpu"), WEB]
    assert past.capacity["std@a", "cpu"].tolist() == [64.0] * WEEKS * 168


def test_a_class_without_containers_demands_nothing_and_an_hour_without_metering_is_unknown(tmp_path: Path) -> None:
    past = demand_series(lake_of(tmp_path, 3, missing=slice(30, 33)), "c", 365, "app")

    crawl = past.requests[past.keys.index(("crawl", "std@a", "cpu"))]
    assert crawl[:8].tolist() == [12.0] * 6 + [0.0] * 2
    assert np.flatnonzero(np.isnan(crawl)).tolist() == [30, 31, 32]


def test_a_lake_without_metered_hours_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(CohabitError, match="run `cohabit bill meter`"):
        demand_series(Lake.open(tmp_path, TABLES), "c", 30, "qos")


def test_growth_and_events_raise_the_maximum_and_stay_apart_from_the_past(past: DemandSeries, tmp_path: Path) -> None:
    events = tmp_path / "events.csv"
    events.write_text(HEADER + "2026-11-30,2026-12-01,LS,,2,eve,launch\n")

    plain, both = found_in(past), found_in(past, events, growth=1.0)

    web = next(one for one in both.series if (one.app_class, one.measure) == ("LS", "requests"))
    assert web.maximum["p95"] == pytest.approx(2 * of_web(plain)["p95"], rel=0.05)
    assert web.without_inputs == of_web(plain)
    batch = [next(one for one in found.series if one.app_class == "BE").maximum["p50"] for found in (plain, both)]
    assert batch[1] == pytest.approx(batch[0], rel=0.02)


def test_a_past_event_is_taken_off_and_not_continued(tmp_path: Path) -> None:
    past = demand_series(lake_of(tmp_path / "lake", 6), "c", 365, "qos")
    past.requests[past.keys.index(WEB), -48:] *= 2
    events = tmp_path / "events.csv"
    events.write_text(HEADER + "2026-11-28,2026-11-30,LS,std@a,2,eve,sale\n")

    told, untold = of_web(found_in(past, events)), of_web(found_in(past))

    assert told["p50"] < 0.8 * untold["p50"]


def test_a_full_pools_requests_are_unknown_until_pending_pods_are_known(tmp_path: Path) -> None:
    cut = demand_series(lake_of(tmp_path / "lake", 6, cores=28.0), "c", 365, "qos")
    waiting = tmp_path / "pending.csv"
    rows = [f"2026-11-{day:02}T{hour}:00Z,LS,std@a,cpu,9" for day in range(1, 30) for hour in range(10, 18)]
    waiting.write_text("\n".join(["ts,class,pool,resource,amount", *rows, "2026-10-01,LS,std@a,cpu,0"]) + "\n")
    asked = Asked(48, 60, 0.0, "", [])

    without, with_pending = (forecasts(cut, of, asked) for of in (None, read_pending(waiting, cut)))

    web = [next(one for one in found.series if one.app_class == "LS") for found in (without, with_pending)]
    assert web[0].full_hours > 0
    assert web[0].unknown_hours > 0
    assert web[1].unknown_hours == 0
    assert web[1].maximum["p95"] > web[0].maximum["p95"] + 3


def test_the_same_lake_gives_the_same_to_the_digit(past: DemandSeries) -> None:
    assert found_in(past) == found_in(past)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("soon,,,,2,eve,why", r"events.csv:2: column at: 'soon' is not a time such as"),
        ("2026-11-30,2026-11-29,,,2,eve,why", r"events.csv:2: column until: '2026-11-29' is not after `at`"),
        ("2026-11-30,,,,0,eve,why", r"events.csv:2: column factor: '0' is not a factor above 0"),
        ("2026-11-30,,,,nan,eve,why", r"events.csv:2: column factor: 'nan'"),
        ("2026-11-30,,,,2,,why", r"events.csv:2: column who: '' is not a text: an event is signed"),
    ],
)
def test_a_bad_event_is_refused_by_file_line_and_column(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "events.csv"
    file.write_text(HEADER + line + "\n")

    with pytest.raises(CohabitError, match=message):
        read_events(file)


def test_a_missing_column_is_named_with_the_header(tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    file.write_text("at,factor\n")

    with pytest.raises(CohabitError, match=r"events.csv:1: no column until, class, pool, who, why: the header is at,"):
        read_events(file)


def test_pending_pods_of_an_unknown_pool_are_refused(past: DemandSeries, tmp_path: Path) -> None:
    file = tmp_path / "pending.csv"
    file.write_text("ts,class,pool,resource,amount\n2026-11-01,LS,gone,cpu,1\n")

    with pytest.raises(CohabitError, match=r"pending.csv:2: column pool: 'gone' is not a pool that is known"):
        read_pending(file, past)


def test_the_command_shows_and_writes_what_it_looked_at(folder: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.csv"
    events.write_text(HEADER + "2026-12-01,,LS,,1.5,eve,region b closes\n")
    out = tmp_path / "forecast.json"

    ran = run(
        folder, "--horizon", "7d", "--events", str(events), "--growth", "0.2", "--signed-by", "bo", "--json", str(out)
    )

    assert ran.exit_code == 0, ran.output
    assert "looked at 1,344 hours of cluster c" in ran.output
    assert "growth of +20% a year beyond the past, says bo" in ran.output
    assert "region b closes (says eve)" in ran.output
    written = json.loads(out.read_text())
    assert written["horizon_hours"] == 168
    assert written["events"][0]["until"] is None
    assert {one["app_class"] for one in written["series"]} == {"LS", "BE"}
    assert written["pools"][0]["low"] <= written["pools"][0]["middle"]


def test_too_short_a_past_is_left_out_with_the_reason_and_exit_3(tmp_path: Path) -> None:
    lake_of(tmp_path / "lake", 2)

    ran = run(tmp_path)

    assert ran.exit_code == 3
    assert "no forecast of LS std@a cpu requests: 336 hours are metered, 384 are needed" in ran.output
    assert "2 weeks have a known day, 6 are needed" in ran.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--horizon", "soon"], "--horizon soon: give hours, days or weeks"),
        (["--by", "node"], "--by node: give class, app, team"),
        (["--growth", "0.2"], "--growth 0.2: name who expects it with --signed-by"),
    ],
)
def test_options_that_do_not_fit_are_refused(folder: Path, words: list[str], message: str) -> None:
    ran = run(folder, *words)

    assert ran.exit_code == 3
    assert message in ran.stderr


def test_a_published_forecast_has_each_pool_with_its_past_its_fan_and_who_said_what(folder: Path) -> None:
    snapshots = {"COHABIT_SNAPSHOTS": str(folder / "snapshots")}
    environment = {"COHABIT_LAKE": str(folder / "lake"), "COHABIT_CLUSTER": "c", "COLUMNS": "160", **snapshots}
    words = ["capacity", "forecast", "--horizon", "7d", "--growth", "0.2", "--signed-by", "eve", "--publish"]

    said = CliRunner().invoke(app, words, env=environment)

    report = read_capacity_report(folder / "snapshots", ForecastReport)
    assert "published:" in said.output
    assert report is not None
    (cpu,) = report.series
    assert (cpu.pool, cpu.resource, cpu.unit, cpu.capacity) == ("std@a", "cpu", "cores", 64.0)
    assert (len(cpu.past), len(cpu.future)) == (WEEKS * 7, 7)
    assert all(day.low <= day.middle <= day.high for day in cpu.future)
    assert max(day.middle for day in cpu.future) <= cpu.peak_p95
    assert cpu.measured == WEEKS * 168
    assert report.inputs == ("growth of +20% a year beyond the past, says eve",)
