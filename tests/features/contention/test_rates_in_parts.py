"""Rates of a stretch of time are the same, whether all samples are read or those that runners read around it."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.columnar.asof_join import NEVER
from features.contention.node_state import Facts
from features.contention.series_minutes import LOOK_AHEAD_US, LOOK_BACK_US
from features.contention.usage_rates import rates
from features.metering.units import Hours
from features.metering.usage_hours import standing_in
from ingest.schema.tables import SAMPLES
from tests.features.rows import at, nodes, placements, rows_of

Row = dict[str, object]
HOUR = 3600
HOURS = Hours(round(at(HOUR).timestamp() * 1e6), 1)
BEFORE, AFTER = LOOK_BACK_US // 1_000_000, LOOK_AHEAD_US // 1_000_000
REMEMBERED = 300
"""Seconds for which exporters go on to report a run that has ended."""
SHOWN = ("container", "ts", "interval_s", "cpu_cores", "memory_bytes")


def minutes(rows: list[Row], events: list[Row], *, in_part: bool) -> list[Row]:
    """Rows of usage that overlap the hour, made of all samples and placements or of those that are read for it."""
    placed = placements(*events)
    if in_part:
        rows = [row for row in rows if HOUR - BEFORE <= int(str(row["ts"])) < 2 * HOUR + AFTER]
        placed = standing_in(placed, HOURS)
    facts = Facts(nodes(), placed)
    made = rates(rows_of(SAMPLES, *rows), facts, lateness_us=NEVER, trim=True).usage
    found: list[Row] = made.select(SHOWN).sort_by([("container", "ascending"), ("ts", "ascending")]).to_pylist()
    return [row for row in found if end(row) > HOUR and end(row) - float(str(row["interval_s"])) < 2 * HOUR]


def end(row: Row) -> float:
    """Seconds after T0."""
    return (datetime.fromisoformat(str(row["ts"])) - at(0)).total_seconds()


@st.composite
def lives(draw: st.DrawFn) -> tuple[list[Row], list[Row]]:
    """Samples and placements of a container around one end of an hour.

    Its runs have names or none. Scrapes fail one by one or for minutes, counters fall, ended runs are remembered.
    """
    edge = draw(st.sampled_from([HOUR, 2 * HOUR]))
    step = draw(st.sampled_from([10, 15, 30, 60]))
    named = draw(st.booleans())
    starts = [edge + draw(st.integers(-1100, 200))]
    for pause in draw(st.lists(st.integers(20, 600), max_size=4)):
        starts.append(starts[-1] + pause)
    ended = starts[-1] + draw(st.integers(60, 1500))
    outage = edge + draw(st.integers(-700, 300))
    out = range(outage, outage + draw(st.sampled_from([0, 0, 100, 250])))
    rng = draw(st.randoms(use_true_random=False))
    rows: list[Row] = []
    for number, (start, until) in enumerate(zip(starts, [*starts[1:], ended], strict=True)):
        over, rate, memory = until - rng.randrange(20), rng.choice([0.0, 0.5, 2.0]), rng.randrange(1, 9) * 1e8
        shown = min(over + (REMEMBERED if named else 0), edge + 900)
        key: Row = {"container": "p", "part": "a", "instance": f"run-{number}" if named else None}
        for ts in range(-(-start // step) * step, shown, step):
            if ts not in out and rng.random() > 0.1:
                value = rate * max(min(ts, over) - start - (10 if rng.random() < 0.1 else 0), 0)
                rows.append({**key, "ts": ts, "metric": "cpu_cores", "kind": "counter", "value": value})
                rows.append({**key, "ts": ts, "metric": "memory_bytes", "kind": "gauge", "value": memory})
    moments = [
        (starts[0], "add"),
        *((starts[0] + rng.randrange(1, 300), "change") for _ in range(2)),
        (ended, "delete"),
    ]
    events: list[Row] = [
        {"container": "p", "ts": ts, "event": event, "arrived_at": at(ts + rng.randrange(30))} for ts, event in moments
    ]
    return rows, events[: draw(st.sampled_from([0, 3, 4]))]


@given(life=lives())
def test_a_part_has_the_rows_of_the_whole(life: tuple[list[Row], list[Row]]) -> None:
    rows, events = life
    if rows:
        assert minutes(rows, events, in_part=True) == minutes(rows, events, in_part=False)


def counted(*readings: tuple[int, float]) -> list[Row]:
    """Readings of CPU time of container p."""
    return [{"container": "p", "metric": "cpu_cores", "kind": "counter", "ts": t, "value": v} for t, v in readings]


FALLEN = [(HOUR - 500, 1000.0), *((HOUR - 485 + 15 * n, 700.0 + 0.05 * n) for n in range(50))]


@pytest.mark.parametrize(
    ("rows", "events", "expected"),
    [
        pytest.param(
            counted((2 * HOUR - 60, 10.0), (2 * HOUR - 8, 36.0), (2 * HOUR + 130, 105.0)),
            [],
            60.0,
            id="scrapes fail for two minutes at the end of the hour, and the container goes on",
        ),
        pytest.param(
            counted((HOUR + 20, 25.0), (HOUR + 60, 45.0)),
            [{"container": "p", "ts": HOUR - 30}, {"container": "p", "ts": HOUR - 10, "event": "change"}],
            40.0,
            id="a container is placed and then described anew just before the hour",
        ),
    ],
)
def test_what_lies_around_an_hour_counts(rows: list[Row], events: list[Row], expected: float) -> None:
    found = minutes(rows, events, in_part=True)

    assert found == minutes(rows, events, in_part=False)
    assert found[-1]["interval_s"] == expected


def test_a_fall_long_ago_hides_no_use() -> None:
    found = minutes(counted(*FALLEN), [], in_part=True)

    assert found == minutes(counted(*FALLEN), [], in_part=False)
    assert {round(float(str(row["cpu_cores"])), 6) for row in found} == {round(0.05 / 15, 6)}
