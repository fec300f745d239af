"""Slowed: who was slowed down by whom, hour by hour, on a cluster whose law says so; and days of a lake judged."""

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from advisor.billing.interference.claims import hour_bound, victims_of
from advisor.diagnosis.analyse import Evidence
from advisor.diagnosis.slowdown_outliers import ALONE, Signs, Windows
from advisor.diagnosis.slowed_hours import HOUR_US, METHOD, added_by, lower_bounds, slowed_hours
from benchmarks.antagonists import START_S, Cast, Scene
from benchmarks.diagnosis import tables_of
from benchmarks.transfers import truths
from cohabit.billing.slowed_days import days_to_judge, judge_days, unjudged
from cohabit.cli.main import app
from features.schema.tables import SLOWED, TABLES
from ingest.lake.tables import Lake
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import USAGE
from tests.advisor.diagnosis.conftest import HOURS
from tests.landed import land_rows

START_US = round(START_S * 1e6)
FIRST_US, END_US = START_US + 2 * HOUR_US, START_US + HOURS * HOUR_US
DAY = datetime.fromtimestamp(START_S, UTC)
Stage = tuple[Cast, Lake, list[Scene]]


@pytest.fixture(scope="module")
def evidence(stage: Stage) -> Evidence:
    return tables_of(stage[1]).evidence


@pytest.fixture(scope="module")
def slowed(evidence: Evidence) -> pa.Table:
    return slowed_hours(evidence, FIRST_US, END_US)


def test_bounds_are_below_what_was_truly_lost_in_nine_hours_of_ten(stage: Stage, slowed: pa.Table) -> None:
    cast, _, scenes = stage
    truth = truths(cast, scenes, FIRST_US, END_US, set())
    below = [
        1.0 - 1.0 / float(hour_bound(np.array(one.low, np.float64)[:, None])[0]) <= truth[one.container, hour].lost
        for hour, victims in victims_of(slowed).items()
        for one in victims
    ]

    assert len(below) > 50
    assert np.mean(below) >= 0.9


def test_who_is_slow_for_a_reason_of_its_own_or_best_effort_is_hardly_ever_a_victim(
    stage: Stage, slowed: pa.Table
) -> None:
    cast, _, scenes = stage
    truth = truths(cast, scenes, FIRST_US, END_US, set())
    own = {key for key, of in truth.items() if of.ill}
    found = {(one.container, hour) for hour, victims in victims_of(slowed).items() for one in victims}
    best_effort = {one.uid for scene in scenes for one in scene.containers if cast.best_effort[one.app]}

    assert len(own) > 10
    assert len(own & found) < 0.5 * len(own)
    assert not {uid for uid, _ in found} & best_effort


def test_every_row_names_those_beside_it_and_their_rules(stage: Stage, slowed: pa.Table) -> None:
    beside = defaultdict[str, set[str]](set)
    for scene in stage[2]:
        for one in scene.containers:
            beside[f"node-{one.node:04d}"].add(one.uid)

    for row in slowed.to_pylist():
        names = {one["container"] for one in row["neighbours"]}
        assert names <= beside[row["node"]] - {row["container"]}
        assert len(row["low"]) == 12
        assert row["method"] == METHOD
    keys = list(zip(*(slowed[name].to_pylist() for name in ("hour", "container", "node")), strict=True))
    assert keys == sorted(set(keys))


def test_rows_in_another_order_and_earlier_ones_make_no_difference(evidence: Evidence, slowed: pa.Table) -> None:
    rng = np.random.default_rng(3)
    mixed = [table.take(pa.array(rng.permutation(table.num_rows))) for table in (evidence.state, evidence.labels)]

    again = slowed_hours(Evidence(mixed[0], mixed[1], evidence.profiles, evidence.facts), FIRST_US, END_US)

    assert again.select(["hour", "container", "node"]).equals(slowed.select(["hour", "container", "node"]))
    lows = [np.array(of["low"].to_pylist(), np.float64) for of in (again, slowed)]
    assert np.allclose(lows[0], lows[1], rtol=1e-9, equal_nan=True)


def test_who_has_a_limit_and_no_throttling_reported_gets_nothing(evidence: Evidence, slowed: pa.Table) -> None:
    """What slowed it down may be its own limit; where the exporter says that it did not, it gets the same as before."""
    placements = evidence.facts.placements
    flags = pa.array([True] * placements.num_rows)
    place = placements.schema.get_field_index("cpu_limited")
    bound = replace(evidence.facts, placements=placements.set_column(place, placements.schema.field(place), flags))
    unheard = put(evidence.state, "cpu_throttled_frac", pa.nulls(evidence.state.num_rows, pa.float64()))

    silent = slowed_hours(replace(evidence, facts=bound, state=unheard), FIRST_US, END_US)

    known = pc.fill_null(evidence.state["cpu_throttled_frac"], 0.0)
    zero = replace(evidence, facts=bound, state=put(evidence.state, "cpu_throttled_frac", known))
    assert slowed_hours(zero, FIRST_US, END_US).equals(slowed)
    assert silent.num_rows == 0 < slowed.num_rows


def put(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, rows.schema.field(place), values)


def test_of_nothing_measured_nobody_is_slowed_down(evidence: Evidence) -> None:
    empty = replace(evidence, state=evidence.state.slice(0, 0), labels=evidence.labels.slice(0, 0))

    assert slowed_hours(empty, FIRST_US, END_US).equals(SLOWED.schema.empty_table())


@given(st.lists(st.tuples(st.floats(-1, 5), st.floats(0, 1)), min_size=1, max_size=6), st.floats(0, 3))
def test_what_neighbours_added_is_shared_out_and_never_below_nothing(
    each: list[tuple[float, float]], sensitive: float
) -> None:
    gained, used = np.array(each).T

    added = added_by(gained, used[:, None], np.array([sensitive]))

    assert (added >= 0).all()
    assert added.sum() == pytest.approx(np.maximum(gained, 0).sum())


def windows(slowdown: list[float], throttled: float = 0.0) -> Windows:
    count = len(slowdown)
    none = np.full((count, 1), np.nan)
    return Windows(
        container=np.zeros(count, np.int64),
        app_platform=np.zeros(count, np.int64),
        number=np.arange(count),
        slowdown=np.array(slowdown),
        label_signal=np.zeros(count, np.int64),
        working=none,
        waiting=none,
        throttled=np.full(count, throttled),
    )


def shown(count: int, *, worked: bool = True, held: bool = False) -> Signs:
    flags = [np.full(count, flag) for flag in (True, True, worked, False, held)]
    return Signs(np.full(count, 1.25), *flags)


@given(st.lists(st.floats(0.5, 10.0), min_size=1, max_size=40), st.floats(1.0, 3.0))
def test_a_bound_is_below_the_slowdown_and_grows_with_it(slowdown: list[float], more: float) -> None:
    low = lower_bounds(windows(slowdown), shown(len(slowdown)))
    grown = [one * more if number == 0 and one >= 1.0 else one for number, one in enumerate(slowdown)]

    assert (low < np.array(slowdown)).all()
    assert lower_bounds(windows(grown), shown(len(grown)))[0] >= low[0]


def test_without_second_signal_with_a_limit_of_its_own_or_by_waiting_alone_nothing_is_shown() -> None:
    two = windows([2.0, float("nan")])

    assert np.isnan(lower_bounds(two, shown(2, worked=False))).all()
    assert np.isnan(lower_bounds(two, shown(2, held=True))).all()
    assert np.isnan(lower_bounds(two, shown(2))[1])
    assert np.isnan(lower_bounds(replace(two, label_signal=np.full(2, ALONE)), shown(2))).all()


def test_days_are_judged_once_each_and_again_where_named(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = stage[1]
    monkeypatch.setenv("COHABIT_LAKE", str(lake.root))
    run = CliRunner().invoke

    early = run(app, ["bill", "judge"])
    named = run(app, ["bill", "judge", "--from", f"{DAY:%Y-%m-%d}", "--to", f"{DAY + timedelta(days=2):%Y-%m-%d}"])

    assert early.exit_code == 0, early.output
    assert "every day that labels cover whole was" in early.output
    assert named.exit_code == 0, named.output
    assert "1 days: " in named.output
    assert f"without labels, not judged: {DAY + timedelta(days=1):%Y-%m-%d}" in named.output
    rows = lake.read("slowed")
    assert rows.num_rows > 50
    assert unjudged(lake, DAY - timedelta(days=1), DAY + timedelta(days=2)) == [
        DAY - timedelta(days=1),
        DAY + timedelta(days=1),
    ]
    judge_days(lake, [DAY], lambda *_: None)
    assert lake.read("slowed").num_rows == rows.num_rows


def test_a_day_on_which_nobody_suffered_counts_as_judged(tmp_path: Path, stage: Stage) -> None:
    lake = Lake.open(tmp_path / "lake", TABLES)
    calm = stage[1].read("labels").slice(0, 1)
    lake.replace("labels", DAY, DAY + timedelta(days=1), "test", calm)

    assert judge_days(lake, [DAY], lambda *_: None) == 0
    assert unjudged(lake, DAY, DAY + timedelta(days=1)) == []


def test_a_day_on_which_nothing_was_measured_between_others_counts_as_judged(tmp_path: Path, stage: Stage) -> None:
    """Nobody can label it, and a month in which somebody really pays is closed only with all of its days judged."""
    lake, days = Lake.open(tmp_path / "lake", TABLES), [DAY + timedelta(days=n) for n in range(4)]
    row = stage[1].read("usage").slice(0, 1).drop_columns(["ts"])
    for number in (0, 2, 3):
        at = pa.array([days[number] + timedelta(hours=1)], USAGE.schema.field("ts").type)
        link = OffsetRange("usage", number, 0, 1)
        rows = row.append_column("ts", at).select(USAGE.schema.names)
        land_rows(lake, "usage", link, rows)
    lacking = list[datetime]()

    judge_days(lake, days, lambda day, rows: lacking.append(day) if rows is None else None)

    assert unjudged(lake, days[0], days[-1] + timedelta(days=1)) == lacking == [days[0], days[2], days[3]]


@pytest.mark.parametrize(("option", "value"), [("--from", "2026-03-02T05"), ("--to", "yesterday")])
def test_what_is_no_day_is_told(stage: Stage, monkeypatch: pytest.MonkeyPatch, option: str, value: str) -> None:
    monkeypatch.setenv("COHABIT_LAKE", str(stage[1].root))

    assert CliRunner().invoke(app, ["bill", "judge", option, value]).exit_code == 2
    with pytest.raises(Exception, match="within a day"):
        days_to_judge(stage[1], DAY + timedelta(hours=5), None, DAY)


def test_a_day_that_is_not_over_is_not_judged_whatever_is_named(stage: Stage) -> None:
    lake, month = stage[1], (DAY, DAY + timedelta(days=31))

    assert days_to_judge(lake, *month, DAY + timedelta(days=2)) == [DAY]
    with pytest.raises(Exception, match="no day that is over"):
        days_to_judge(lake, *month, DAY + timedelta(hours=47))
