"""Metering: sums of minutes, whatever order or pieces they come in; what is missing is never zero."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.contention.node_state import Facts
from features.metering.units import GIB, HOUR_US, MICROS, RESOURCES, Hours
from features.metering.usage_hours import metered, minutes_of, standing_in
from features.schema.tables import METERED
from ingest.lake.row_filter import microseconds
from tests.features.rows import T0, at, nodes, placements, usage

NAN = float("nan")
START_US = microseconds(T0)
ONE, TWO = Hours(START_US, 1), Hours(START_US, 2)
NODE = nodes({"pool": "std", "zone": "a"})
SUMS = ("requested", "within", "beyond", "minutes", "gap_minutes")
Row = dict[str, object]


def where(*names: str) -> pa.Table:
    return pa.table(
        {"cluster": ["c"] * len(names), "node": list(names)},
        pa.schema([("cluster", pa.string()), ("node", pa.string())]),
    )


def meter(used: pa.Table, placed: pa.Table, hours: Hours = ONE, *on: str, described: pa.Table = NODE) -> pa.Table:
    return metered(used, Facts(described, placed), hours, where(*(on or ("n",))))


def cpu(found: pa.Table) -> list[tuple[int, ...]]:
    rows = [row for row in found.to_pylist() if row["resource"] == "cpu"]
    return [tuple(row[name] for name in SUMS) for row in rows]


def steady(container: str = "c", cores: float = 2.0, minutes: Iterable[int] = range(60), **more: object) -> list[Row]:
    """Two rows a minute."""
    return [
        {"container": container, "cpu_cores": cores, "ts": minute * 60 + second, **more}
        for minute in minutes
        for second in (30, 60)
    ]


def test_use_up_to_the_request_and_beyond_it_are_told_apart_minute_by_minute() -> None:
    used = usage(*steady(cores=1.0, minutes=range(30)), *steady(cores=5.0, minutes=range(30, 60)))

    found = meter(used, placements({"container": "c", "cpu_request_cores": 2.0}))

    assert cpu(found) == [(120 * MICROS, 90 * MICROS, 90 * MICROS, 60, 0)]
    assert found["pool"][0].as_py() == "std@a"
    assert found["app"][0].as_py() == "web"


def test_where_one_is_missing_the_other_stands_for_it() -> None:
    by_use = meter(usage(*steady()), placements({"container": "c"}))
    by_request = meter(usage(), placements({"container": "c", "cpu_request_cores": 2.0}))

    assert cpu(by_use) == cpu(by_request) == [(120 * MICROS, 120 * MICROS, 0, 60, 0)]


def test_minutes_with_neither_are_gaps_never_zero() -> None:
    found = meter(usage(*steady(minutes=range(20))), placements({"container": "c"}))

    assert cpu(found) == [(40 * MICROS, 40 * MICROS, 0, 20, 40)]
    blind = meter(usage(), placements({"container": "c"})).to_pylist()
    assert [(r["resource"], r["minutes"], r["gap_minutes"]) for r in blind] == [("cpu", 0, 60), ("memory", 0, 60)]


def test_an_equal_part_of_a_shared_gpu_is_no_use_that_has_a_price() -> None:
    doubted = usage(*steady(gpu_sm_frac=0.3, gpu_share_unknown=True))
    known = usage(*steady(gpu_sm_frac=0.3, gpu_share_unknown=False))

    def gpu(used: pa.Table, **asked: object) -> list[tuple[int, ...]]:
        found = meter(used, placements({"container": "c", **asked})).to_pylist()
        return [tuple(row[name] for name in SUMS) for row in found if row["resource"] == "gpu"]

    assert gpu(doubted) == []
    assert gpu(doubted, gpu_request=0.25) == [(15 * MICROS, 15 * MICROS, 0, 60, 0)]
    assert gpu(known, gpu_request=0.25) == [(15 * MICROS, 15 * MICROS, 3 * MICROS, 60, 0)]


def test_a_minute_is_the_mean_of_what_overlaps_it_by_time() -> None:
    """A row of 90 s, then one of 30 s: minutes of 1 and of (30 x 1 + 30 x 4) / 60 cores."""
    rows = usage(
        {"container": "c", "ts": 90, "interval_s": 90.0, "cpu_cores": 1.0},
        {"container": "c", "ts": 120, "interval_s": 30.0, "cpu_cores": 4.0},
    )

    assert cpu(meter(rows, placements())) == [(3_500_000, 3_500_000, 0, 2, 0)]


def test_a_row_across_two_hours_counts_in_both() -> None:
    rows = usage({"container": "c", "ts": 3630, "interval_s": 60.0, "cpu_cores": 1.0})

    assert cpu(meter(rows, placements(), TWO)) == [(MICROS // 2, MICROS // 2, 0, 1, 0)] * 2


def test_use_of_the_first_and_last_minute_counts_for_as_long_as_it_ran() -> None:
    runs = [{"container": "c", "ts": 80 + 20 * i, "interval_s": 20.0, "cpu_cores": 3.0} for i in range(6)]
    placed = placements(
        {"container": "c", "ts": 60, "cpu_request_cores": 1.0}, {"container": "c", "ts": 185, "event": "delete"}
    )

    alone, from_before = meter(usage(*runs), placements()), meter(usage(*runs[1:]), placed)

    assert cpu(alone) == [(6 * MICROS, 6 * MICROS, 0, 2, 0)]  # 60 to 180 s
    assert cpu(meter(usage(*runs[2:-1]), placements())) == [(3 * MICROS, 3 * MICROS, 0, 2, 0)]  # 100 to 160 s
    assert cpu(from_before) == [(2 * MICROS, 2 * MICROS, 4 * MICROS, 2, 0)]  # placed at 60, on from 120 to 180


def test_what_the_first_value_of_a_pod_speaks_of_begins_with_its_placement() -> None:
    runs = [{"container": "c", "ts": 40 + 20 * i, "interval_s": 20.0, "cpu_cores": 3.0} for i in range(2)]
    placed = placements({"container": "c", "ts": 8}, {"container": "c", "ts": 60, "event": "delete"})

    assert cpu(meter(usage(*runs), placed)) == [(2_600_000, 2_600_000, 0, 1, 0)]  # from 8 on, measured from 20


def test_late_rows_count_and_doubled_rows_count_once() -> None:
    once = steady(minutes=range(1))
    twice = [{**row, "topic": "z", "cpu_cores": 9.0} for row in once]
    rows = usage(*twice, *once)
    late = rows.set_column(
        rows.schema.get_field_index("arrived_at"),
        "arrived_at",
        pa.array([at(90_000)] * 4, rows.schema.field("arrived_at").type),
    )

    assert cpu(meter(late, placements())) == [(2 * MICROS, 2 * MICROS, 0, 1, 0)]


def test_a_container_is_there_from_its_addition_to_its_deletion() -> None:
    events = placements(
        {"container": "c", "ts": 600, "cpu_request_cores": 1.0},
        {"container": "c", "ts": 1200, "event": "change", "cpu_request_cores": 3.0},
        {"container": "c", "ts": 1800, "event": "delete"},
    )

    assert cpu(meter(usage(), events)) == [((10 + 30) * MICROS, 40 * MICROS, 0, 20, 0)]


def test_a_container_that_moves_has_a_row_on_each_node() -> None:
    events = placements(
        {"container": "c", "node": "n", "cpu_request_cores": 1.0, "team": "ads", "app": "web"},
        {"container": "c", "node": "m", "ts": 900, "event": "change", "cpu_request_cores": 1.0, "team": "ads"},
    )

    found = meter(usage(), events, ONE, "n", "m")

    rows = [(r["node"], r["minutes"], r["team"]) for r in found.to_pylist() if r["resource"] == "cpu"]
    assert rows == [("m", 45, "ads"), ("n", 15, "ads")]
    assert meter(usage(), events, ONE, "m").num_rows == 2, "nodes that are not asked for are left out"


def test_without_placements_a_container_is_there_from_its_first_to_its_last_usage_in_the_hour() -> None:
    found = meter(usage(*steady(minutes=[5, 9])), placements())

    assert cpu(found) == [(4 * MICROS, 4 * MICROS, 0, 2, 3)]


def test_usage_before_the_first_placement_and_after_the_last_counts() -> None:
    events = placements(
        {"container": "c", "ts": 600, "cpu_request_cores": 1.0}, {"container": "c", "ts": 660, "event": "delete"}
    )

    found = meter(usage(*steady(cores=1.0, minutes=[8, 13])), events)

    assert cpu(found) == [(3 * MICROS, 3 * MICROS, 0, 3, 1)]


def test_units_are_cores_gib_gpus_and_gib_moved() -> None:
    measured: Row = {"memory_bytes": 3 * GIB, "gpu_sm_frac": 0.5, "net_rx_bytes_s": GIB, "net_tx_bytes_s": GIB / 2}
    events = placements({"container": "c", "memory_request_bytes": 2 * GIB, "gpu_request": 1.0})

    found = meter(usage(*({**row, **measured} for row in steady())), events)

    rows = {r["resource"]: (r["requested"] // 60, r["within"] // 60, r["beyond"] // 60) for r in found.to_pylist()}
    assert rows == {
        "cpu": (2_000_000, 2_000_000, 0),
        "memory": (2_000_000, 2_000_000, 1_000_000),
        "gpu": (1_000_000, 500_000, 0),
        "network": (90_000_000, 90_000_000, 0),
    }


def test_half_of_a_sum_is_no_sum() -> None:
    found = meter(usage(*steady(net_rx_bytes_s=5.0)), placements())

    assert set(found["resource"].to_pylist()) == {"cpu", "memory"}


def test_a_node_that_nobody_described_is_of_an_unknown_pool() -> None:
    found = meter(usage(*steady(minutes=range(1))), placements(), described=nodes())

    assert found["pool"][0].as_py() == "unknown@unknown"


def test_nothing_is_metered_of_nothing() -> None:
    assert meter(usage(), placements()).equals(METERED.schema.empty_table())


MINUTE = st.tuples(st.one_of(st.none(), st.floats(0, 64)), st.one_of(st.none(), st.floats(0, 64)))


@given(minutes=st.lists(MINUTE, min_size=1, max_size=60), cut=st.integers(0, 60))
def test_an_hour_is_the_sum_of_its_minutes_however_they_are_cut(
    minutes: list[tuple[float | None, float | None]], cut: int
) -> None:
    """I11, and what each minute is, by a loop."""
    request, use = (np.array([NAN if v is None else v for v in column]) for column in zip(*minutes, strict=True))

    whole, parts = minutes_of(request, use), [minutes_of(request[p], use[p]) for p in (slice(cut), slice(cut, None))]

    for name in ("requested", "within", "beyond"):
        assert getattr(whole, name).sum() == sum(getattr(part, name).sum() for part in parts)
    for i, (asked, used) in enumerate(minutes):
        if asked is None or used is None:
            known = round((asked if used is None else used) or 0.0, 9)
            assert (whole.requested[i], whole.beyond[i]) == (pytest.approx(known * MICROS, abs=1), 0)
        else:
            assert whole.within[i] == pytest.approx(min(asked, used) * MICROS, abs=1)
            assert whole.beyond[i] == pytest.approx(max(used - asked, 0) * MICROS, abs=1)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Row], list[Row]]:
    """Rows of usage and of placements of four containers on two nodes, over two hours."""
    containers, places = st.sampled_from("abcd"), st.sampled_from(["n", "m"])
    value = st.one_of(st.none(), st.floats(0, 16))
    used = st.fixed_dictionaries(
        {"container": containers, "node": places, "ts": st.integers(1, 7300), "cpu_cores": value,
         "interval_s": st.sampled_from([15.0, 30.0, 45.5, 300.0])}
    )  # fmt: skip
    placed = st.fixed_dictionaries(
        {"container": containers, "node": places, "ts": st.integers(-100, 7300), "cpu_request_cores": value,
         "event": st.sampled_from(["add", "change", "delete"]), "team": st.sampled_from(["x", None])}
    )  # fmt: skip
    return draw(st.lists(used, max_size=25)), draw(st.lists(placed, max_size=6))


def minute_by_loop(
    used: list[Row], placed: list[Row], who: tuple[str, str], minute: int
) -> tuple[bool, bool, float, float]:
    """Whether it is placed there, whether usage overlaps the minute, its request and its use."""
    low, high = minute * 60, minute * 60 + 60
    newest = [e for e in placed if e["container"] == who[0] and e["ts"] < high]  # type: ignore[operator]
    event = max(enumerate(newest), key=lambda one: (one[1]["ts"], one[0]))[1] if newest else None
    here = event is not None and event["event"] != "delete" and event["node"] == who[1]
    seen, over = set(), []
    for row in used:
        overlap = min(high, row["ts"]) - max(low, row["ts"] - row["interval_s"])  # type: ignore[operator, call-overload]
        if (row["container"], row["node"]) == who and row["ts"] not in seen:
            seen.add(row["ts"])  # of rows with one key the first counts
            over += [(overlap, row["cpu_cores"])] * (overlap > 0)
    known = [(weight, value) for weight, value in over if value is not None]
    use = sum(w * v for w, v in known) / sum(w for w, _ in known) if known else NAN
    use *= part_by_loop(used, placed, who, minute) if over else 1.0
    request = event["cpu_request_cores"] if here and event is not None else None
    return here, bool(over), NAN if request is None else request, use  # type: ignore[return-value]


def part_by_loop(used: list[Row], placed: list[Row], who: tuple[str, str], minute: int) -> float:
    """Part of a measured minute that counts."""
    low, high = minute * 60, minute * 60 + 60
    rows = {row["ts"]: row for row in reversed(used) if (row["container"], row["node"]) == who}.values()
    own = [(float(str(row["ts"])) - float(str(row["interval_s"])), float(str(row["ts"]))) for row in rows]

    def measured(start: int, end: int) -> bool:
        same_hour = start // 3600 == minute // 60
        return same_hour and any(a < end and b > start for a, b in own)

    def held(at: int) -> float | None:
        """When the placement was that holds at a time."""
        newest = [e for e in placed if e["container"] == who[0] and e["ts"] < at]  # type: ignore[operator]
        last = max(enumerate(newest), key=lambda one: (one[1]["ts"], one[0]))[1] if newest else None
        here = last is not None and last["event"] != "delete" and last["node"] == who[1]
        return float(str(last["ts"])) if here and last is not None else None

    inside = [(max(a, low), min(b, high)) for a, b in own if a < high and b > low]
    begins = [a for a, _ in inside] + [at for at in [held(high)] if at is not None]
    first = low if held(low) is not None or measured(low - 60, low) else max(low, min(begins))
    last = high if held(high) is not None or measured(high, high + 60) else max(b for _, b in inside)
    return (last - first) / 60


def hour_by_loop(used: list[Row], placed: list[Row], who: tuple[str, str], hour: int) -> tuple[int, ...]:
    """Sums of cores."""
    minutes = range(hour * 60, hour * 60 + 60)
    first = min((e["ts"] for e in placed if e["container"] == who[0]), default=9e9)  # type: ignore[type-var]
    found = {minute: minute_by_loop(used, placed, who, minute) for minute in minutes}
    touched = [minute for minute, one in found.items() if one[1]]
    sums = [0] * 5
    for minute, (here, over, request, use) in found.items():
        between = bool(touched) and touched[0] < minute < touched[-1] and minute * 60 + 60 <= first  # type: ignore[operator]
        if not (here or over or between):
            continue
        asked, taken = (use if np.isnan(request) else request), (request if np.isnan(use) else use)
        if np.isnan(asked):
            sums[4] += 1
            continue
        amounts = (asked, min(asked, taken), max(taken - asked, 0.0))
        for place, amount in enumerate(amounts):
            sums[place] += round(amount * MICROS)
        sums[3] += 1
    return tuple(sums)


@given(world=worlds())
def test_hours_are_what_a_loop_over_minutes_says(world: tuple[list[Row], list[Row]]) -> None:
    used, placed = world
    found = meter(usage(*used), placements(*placed), TWO, "n", "m").to_pylist()

    told = {
        (row["container"], row["node"], (row["hour"] - T0).seconds // 3600): tuple(row[name] for name in SUMS)
        for row in found
        if row["resource"] == "cpu"
    }
    expected = {(c, n, h): hour_by_loop(used, placed, (c, n), h) for c in "abcd" for n in "nm" for h in (0, 1)}
    assert told.keys() == {key for key, sums in expected.items() if sums[3] + sums[4]}
    for key, sums in told.items():
        assert sums == pytest.approx(expected[key], abs=60), key
        assert sums[3:] == expected[key][3:]


@given(world=worlds(), seed=st.integers(0, 99))
def test_neither_the_order_of_rows_nor_how_time_and_nodes_are_cut_makes_a_difference(
    world: tuple[list[Row], list[Row]], seed: int
) -> None:
    used, placed = usage(*world[0]), placements(*world[1])
    rng = np.random.default_rng(seed)

    def shuffled(rows: pa.Table) -> pa.Table:
        return rows.take(pa.array(rng.permutation(rows.num_rows)))

    whole = meter(used, placed, TWO, "n", "m")

    assert meter(shuffled(used), shuffled(placed), TWO, "m", "n").equals(whole)
    pieces = []
    for node in ("n", "m"):
        for hour in (Hours(START_US, 1), Hours(START_US + HOUR_US, 1)):
            own = used.filter(pa.array([name == node for name in used["node"].to_pylist()], pa.bool_()))
            pieces.append(meter(own, standing_in(placed, hour), hour, node))
    assert pa.concat_tables(pieces).sort_by([(name, "ascending") for name in METERED.key]).equals(whole)


def test_whose_a_deleted_container_was_is_still_told_hours_later() -> None:
    events = placements(
        {"container": "c", "ts": -7000, "team": "ads"}, {"container": "c", "ts": -6000, "event": "delete"}
    )

    found = meter(usage(*steady(minutes=range(1))), standing_in(events, ONE))

    assert found["team"].to_pylist() == ["ads", "ads"]
    assert standing_in(events, ONE).num_rows == 2


def test_every_resource_is_named_in_the_order_of_the_table() -> None:
    assert {resource.name for resource in RESOURCES} == {"cpu", "memory", "gpu", "network", "disk"}
