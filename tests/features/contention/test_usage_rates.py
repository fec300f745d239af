"""Rates: samples of counters and gauges to one row of usage per pod and minute."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.contention.node_state import Facts
from features.contention.pod_metrics import LARGEST
from features.contention.series_minutes import MAX_GAP_US, counter_rates
from features.contention.usage_rates import rates
from ingest.schema.tables import JITTERED, SAMPLES
from tests.features.rows import at, nodes, placements, rows_of

Row = dict[str, object]
NOBODY = Facts(nodes(), placements())


def samples(*rows: Mapping[str, object]) -> pa.Table:
    """Counters of pod p on node n unless said otherwise."""
    return rows_of(SAMPLES, *({"container": "p", "metric": "cpu_cores", "kind": "counter", **row} for row in rows))


def gauges(*rows: Mapping[str, object]) -> pa.Table:
    return samples(*({"kind": "gauge", **row} for row in rows))


def of(table: pa.Table, column: str) -> list[object]:
    return list[object](
        rates(table, NOBODY).usage.sort_by([("container", "ascending"), ("ts", "ascending")])[column].to_pylist()
    )


def test_a_counter_becomes_its_rate_over_each_minute() -> None:
    rows = samples(*({"ts": 15 * k, "value": 30.0 * k} for k in range(1, 9)))

    usage = rates(rows, NOBODY).usage.to_pylist()

    assert [(r["ts"], r["cpu_cores"], r["interval_s"]) for r in usage] == [(at(60), 2.0, 60.0), (at(120), 2.0, 60.0)]
    assert usage[0]["memory_bytes"] is None


@pytest.mark.parametrize("value", [0.0, 3.0, 49.0])
def test_what_a_counter_reads_after_a_reset_was_counted_since_the_reading_before(value: float) -> None:
    rows = samples({"ts": 60, "value": 100.0}, {"ts": 120, "value": value}, {"ts": 180, "value": value + 60})

    assert of(rows, "cpu_cores") == [None, value / 60, 1.0]


def test_a_reading_too_long_after_the_last_gives_no_rate() -> None:
    gap_s = MAX_GAP_US / 1e6
    rows = samples({"ts": 60, "value": 0.0}, {"ts": 60 + gap_s, "value": gap_s}, {"ts": 61 + 2 * gap_s, "value": 1e3})

    assert of(rows, "cpu_cores") == [None, 1.0, None]


def test_a_scrape_that_failed_is_bridged_by_the_next() -> None:
    rows = samples({"ts": 60, "value": 0.0}, {"ts": 90, "value": None}, {"ts": 120, "value": 60.0})

    assert of(rows, "cpu_cores") == [None, 1.0]


def test_series_are_rated_one_by_one_and_then_added() -> None:
    disk: Row = {"metric": "disk_read_bytes_s"}
    rows = samples(
        {**disk, "series": "sda", "ts": 60, "value": 1000.0},
        {**disk, "series": "sda", "ts": 120, "value": 1600.0},
        {**disk, "series": "sdb", "ts": 60, "value": 50.0},
        {**disk, "series": "sdb", "ts": 120, "value": 110.0},
    )

    assert of(rows, "disk_read_bytes_s") == [None, 11.0]


def test_containers_are_added_up_even_when_scraped_at_different_seconds() -> None:
    rows = gauges(
        {"part": "app", "ts": 70, "metric": "memory_bytes", "value": 5.0},
        {"part": "log", "ts": 110, "metric": "memory_bytes", "value": 7.0},
    )

    assert of(rows, "memory_bytes") == [12.0]


def test_a_container_not_scraped_in_a_minute_counts_with_its_minute_before() -> None:
    rows = gauges(
        *({"part": "app", "ts": 60 * m + 5, "metric": "memory_bytes", "value": 5.0} for m in range(4)),
        {"part": "log", "ts": 10, "metric": "memory_bytes", "value": 7.0},
    )

    assert of(rows, "memory_bytes") == [12.0, 12.0, 5.0, 5.0]


def test_a_pod_that_ended_is_not_carried_on() -> None:
    rows = gauges(
        {"container": "p", "ts": 10, "metric": "memory_bytes", "value": 5.0},
        {"container": "q", "ts": 70, "metric": "memory_bytes", "value": 7.0},
    )

    assert rates(rows, NOBODY).usage.num_rows == 2


def test_one_container_without_a_value_makes_the_sum_missing_and_a_metric_of_one_alone_does_not() -> None:
    rows = gauges(
        {"part": "app", "ts": 60, "metric": "memory_bytes", "value": 5.0},
        {"part": "log", "ts": 60, "metric": "memory_bytes", "value": None},
        {"part": "app", "ts": 60, "metric": "gpu_sm_frac", "value": 0.5},
    )

    assert of(rows, "memory_bytes") == [None]
    assert of(rows, "gpu_sm_frac") == [0.5]


def test_the_pods_own_cgroup_goes_before_its_containers() -> None:
    rows = gauges(
        {"ts": 60, "metric": "memory_bytes", "value": 9.0},
        {"part": "app", "ts": 60, "metric": "memory_bytes", "value": 5.0},
        {"part": "app", "ts": 60, "metric": "qps", "value": 3.0},
    )

    assert (of(rows, "memory_bytes"), of(rows, "qps")) == ([9.0], [3.0])


def test_a_pods_own_cgroup_does_not_count_what_its_containers_limits_throttled() -> None:
    rows = gauges(
        {"ts": 60, "metric": "cpu_throttled_frac", "value": 0.0},
        {"part": "app", "ts": 60, "metric": "cpu_throttled_frac", "value": 0.4},
        {"part": "log", "ts": 60, "metric": "cpu_throttled_frac", "value": 0.1},
        {"container": "q", "ts": 60, "metric": "cpu_throttled_frac", "value": 0.3},
        {"container": "q", "part": "app", "ts": 60, "metric": "cpu_throttled_frac", "value": 0.2},
    )

    assert of(rows, "cpu_throttled_frac") == [0.4, 0.3]


def test_waiting_is_the_worst_containers_and_cpi_is_weighed_by_instructions() -> None:
    rows = gauges(
        {"part": "a", "ts": 60, "metric": "psi_cpu_some_frac", "value": 0.1},
        {"part": "b", "ts": 60, "metric": "psi_cpu_some_frac", "value": 0.3},
        {"part": "a", "ts": 60, "metric": "cycles_s", "value": 1000.0},
        {"part": "b", "ts": 60, "metric": "cycles_s", "value": 9000.0},
        {"part": "a", "ts": 60, "metric": "instructions_s", "value": 1000.0},
        {"part": "b", "ts": 60, "metric": "instructions_s", "value": 3000.0},
    )

    assert of(rows, "psi_cpu_some_frac") == [0.3]
    assert of(rows, "cpi") == [2.5]


def test_gauges_of_a_mean_are_weighed_and_without_weights_missing() -> None:
    a: Row = {"part": "a", "ts": 60}
    b: Row = {"part": "b", "ts": 60}
    two = [{**a, "metric": "rt_mean_ms", "value": 1.0}, {**b, "metric": "rt_mean_ms", "value": 5.0}]
    loads = [{**a, "metric": "qps", "value": 30.0}, {**b, "metric": "qps", "value": 10.0}]

    assert of(gauges(*two), "rt_mean_ms") == [None]
    assert of(gauges(*two, *loads), "rt_mean_ms") == [2.0]


def test_ratios_are_made_of_their_ingredients_and_a_ratio_to_nothing_is_missing() -> None:
    rows = gauges(
        {"ts": 60, "metric": "rt_s", "value": 2.0},
        {"ts": 60, "metric": "qps", "value": 100.0},
        {"ts": 60, "metric": "disk_io_s", "value": 0.5},
        {"ts": 60, "metric": "disk_ios_s", "value": 0.0},
        {"ts": 60, "metric": "run_queue_frac", "value": 0.5},
        {"ts": 60, "metric": "cpu_throttled_frac", "value": 0.2},
    )

    assert of(rows, "rt_mean_ms") == [20.0]
    assert of(rows, "disk_await_ms") == [None]
    assert of(rows, "run_delay_frac") == [pytest.approx(0.3)]


def test_shares_of_time_end_at_their_most_and_the_impossible_is_counted_and_missing() -> None:
    rows = gauges(
        {"ts": 60, "metric": "psi_cpu_some_frac", "value": 1.7},
        {"ts": 60, "metric": "cpu_throttled_frac", "value": 1.04},
        {"ts": 60, "metric": "cpu_cores", "value": 1e9},
    )

    found = rates(rows, NOBODY)

    assert found.usage["psi_cpu_some_frac"].to_pylist() == [JITTERED]
    assert found.usage["cpu_throttled_frac"].to_pylist() == [1.0]
    assert found.usage["cpu_cores"].to_pylist() == [None]
    assert len(found.impossible_us) == 1


def test_pods_called_by_name_get_the_uid_of_who_had_that_name_then() -> None:
    told = Facts(
        nodes(),
        placements(
            {"container": "uid-1", "namespace": "shop", "name": "db-0", "ts": -60},
            {"container": "uid-2", "namespace": "shop", "name": "db-0", "ts": 100},
        ),
    )
    rows = gauges(
        {"container": "shop/db-0", "ts": 60, "value": 1.0},
        {"container": "shop/db-0", "ts": 120, "value": 2.0},
        {"container": "shop/web", "ts": 60, "value": 3.0},
    )

    usage = rates(rows, told).usage

    assert dict(zip(usage["container"].to_pylist(), usage["cpu_cores"].to_pylist(), strict=True)) == {
        "uid-1": 1.0,
        "uid-2": 2.0,
        "shop/web": 3.0,
    }


def test_samples_of_the_node_itself_become_node_usage() -> None:
    found = rates(gauges({"container": "/", "ts": 60, "value": 7.0}), NOBODY)

    assert found.usage.num_rows == 0
    assert found.node_usage.select(["node", "cpu_cores", "cpu_frac"]).to_pylist() == [
        {"node": "n", "cpu_cores": 7.0, "cpu_frac": None}
    ]


def test_what_a_node_cannot_have_done_is_counted_and_missing() -> None:
    small = Facts(nodes({"cores": 2.0}), placements())
    found = rates(gauges({"ts": 60, "value": 3.0}, {"container": "q", "ts": 60, "value": 3.1}), small)

    assert found.usage.sort_by("container")["cpu_cores"].to_pylist() == [3.0, None]
    assert len(found.impossible_us) == 1


def test_late_and_doubled_samples_and_unknown_metrics_change_nothing() -> None:
    rows: list[Row] = [{"ts": 15 * k, "value": 30.0 * k} for k in range(1, 9)]
    more: list[Row] = [
        {"ts": 40, "value": 9e9, "arrived_at": at(200)},
        {"ts": 60, "value": 9e9, "partition": 1},
        {"ts": 60, "metric": "queue_size", "value": 3.0},
    ]

    assert rates(samples(*rows, *more), NOBODY).usage.equals(rates(samples(*rows), NOBODY).usage)


PARTS: list[list[str | None]] = [[None], ["a"], ["a", "b"], [None, "a"]]


@st.composite
def series(draw: st.DrawFn) -> list[Row]:
    """Counters and gauges of two pods' containers, at odd seconds, some without a value, some falling."""
    rows: list[Row] = []
    for container in ("p", "q"):
        for part in draw(st.sampled_from(PARTS)):
            for metric, kind in (("cpu_cores", "counter"), ("memory_bytes", "gauge"), ("psi_io_some_frac", "counter")):
                times = draw(st.lists(st.integers(1, 400), unique=True, max_size=8))
                for second in sorted(times):
                    value = draw(st.none() | st.integers(0, 40).map(float))
                    key: Row = {"container": container, "part": part, "metric": metric, "kind": kind}
                    rows.append({**key, "ts": second, "value": value})
    return rows


def largest(read: list[tuple[int, float]]) -> float:
    """The largest value read within two minutes of the last one."""
    return max(value for second, value in read if read[-1][0] - second <= 120)


def naive(rows: list[Row]) -> dict[tuple[str, int, str], float | None]:
    """The same by loops: (pod, minute, metric) to its value."""
    cells: dict[tuple[object, object, object, int], list[tuple[float, float]]] = {}
    by_series: dict[tuple[object, object, object], list[Row]] = {}
    for row in rows:
        by_series.setdefault((row["container"], row["part"], row["metric"]), []).append(row)
    for key, points in by_series.items():
        before: Row | None = None
        read: list[tuple[int, float]] = []
        for row in sorted(points, key=lambda r: int(str(r["ts"]))):
            second, value = int(str(row["ts"])), row["value"]
            cell = cells.setdefault((*key, -(-second // 60)), [])
            if row["kind"] == "gauge" and value is not None:
                cell.append((float(str(value)), 1.0))
            elif value is not None:
                number = float(str(value))
                if before is None:
                    read = [(second, number)]
                else:
                    gap, reset = second - int(str(before["ts"])), number < 0.5 * float(str(before["value"]))
                    lower = 0.0 if reset else largest(read)
                    read = [(second, number)] if reset else [*read, (second, number)]
                    if gap <= 180 and largest(read) >= lower:
                        cell.append(((largest(read) - lower) / gap, float(gap)))
                before = row
    alive = {(pod, minute) for pod, _, _, minute in cells}
    for (pod, part, metric, minute), values in list(cells.items()):
        if (pod, minute + 1) in alive:
            cells.setdefault((pod, part, metric, minute + 1), values)
    found: dict[tuple[str, int, str], float | None] = {}
    for pod, _, metric, minute in cells:
        own = cells.get((pod, None, metric, minute))
        parts = [v for (p, c, m, t), v in cells.items() if (p, m, t) == (pod, metric, minute) and c is not None]
        means = [
            sum(v * w for v, w in c) / sum(w for _, w in c) if c else None
            for c in ([own] if own is not None else parts)
        ]
        known = [mean for mean in means if mean is not None]
        together = max if metric in LARGEST else sum
        value = None if len(known) < len(means) else together(known)
        found[str(pod), minute, str(metric)] = min(value, 1.5) if value is not None and metric in LARGEST else value
    return found


@given(rows=series(), seed=st.integers(0, 99))
def test_rates_are_what_loops_say_in_any_order_of_rows(rows: list[Row], seed: int) -> None:
    if not rows:
        return
    table = samples(*rows)
    mixed = table.take(pa.array(np.random.default_rng(seed).permutation(table.num_rows)))

    found = {
        (r["container"], round((r["ts"] - at(0)).total_seconds()) // 60, metric): r[metric]
        for r in rates(mixed, NOBODY).usage.to_pylist()
        for metric in ("cpu_cores", "memory_bytes", "psi_io_some_frac")
    }

    expected = naive(rows)
    assert {k for k, v in found.items() if v is not None} == {k for k, v in expected.items() if v is not None}
    for key, value in expected.items():
        assert found[key] == (pytest.approx(value) if value is not None else None)


@given(value=st.lists(st.floats(0, 1e12) | st.just(float("nan")), min_size=1, max_size=12))
def test_a_rate_is_never_negative(value: list[float]) -> None:
    found, _ = counter_rates(np.array(value), np.arange(len(value)) * 10_000_000, np.zeros(len(value), np.int64))

    assert (found[np.isfinite(found)] >= 0).all()


def twice(first: Row, second: Row) -> list[Row]:
    """Two reports of the same counter, every half minute for four minutes, by 0.5 and 3 a second."""
    both = ((first, 0.5), (second, 3.0))
    return [{**who, "ts": t, "value": 1000 + rate * t} for who, rate in both for t in range(0, 241, 30)]


def test_the_last_value_of_a_replica_that_stopped_gives_way_to_what_another_one_reads() -> None:
    """Use rises from 0.1 to 4 cores when replica a, the preferred one, stops; b reads on."""
    before = [{"ts": 15 * k, "value": 1.5 * k} for k in range(1, 9)]
    after = [{"ts": 120 + 15 * k, "value": 12.0 + 60.0 * k} for k in range(1, 13)]
    rows = samples(*({**row, "replica": "a"} for row in before), *({**row, "replica": "b"} for row in before + after))

    assert of(rows, "cpu_cores") == [0.1, 0.1, 4.0, 4.0, 4.0]


def test_of_several_replicas_of_a_collector_one_is_used() -> None:
    rows = samples(*twice({"replica": "a"}, {"replica": "b"}))

    assert of(rows, "cpu_cores") == [None, 0.5, 0.5, 0.5, 0.5]


def test_of_several_exporters_the_preferred_one_that_knows_is_used() -> None:
    rows = twice({"exporter": "kubelet"}, {"exporter": "kubeletstats by counters"})
    known = [row for row in rows if row.get("exporter") != "kubelet" or int(str(row["ts"])) < 150]

    assert of(samples(*rows), "cpu_cores") == [None, 0.5, 0.5, 0.5, 0.5]
    assert of(samples(*known), "cpu_cores")[-1] == 3.0


def test_of_two_runs_of_a_container_the_one_that_goes_on_counts_and_the_frozen_one_does_not() -> None:
    old = [{"instance": "old", "part": "a", "ts": t, "value": 100.0 + min(t, 90)} for t in range(0, 361, 30)]
    new = [{"instance": "new", "part": "a", "ts": t, "value": 0.5 * (t - 100)} for t in range(120, 361, 30)]

    found = of(samples(*old, *new), "cpu_cores")

    assert found[:2] == [None, 1.0]
    assert found[3:] == [0.5, 0.5, 0.5, 0.5]


def test_a_minute_with_a_restart_has_what_both_runs_used() -> None:
    old = [{"instance": "old", "part": "a", "ts": t, "value": 100.0 + t} for t in range(0, 91, 15)]
    new = [{"instance": "new", "part": "a", "ts": t, "value": 0.5 * (t - 90)} for t in range(105, 241, 15)]

    assert of(samples(*old, *new), "cpu_cores")[2:4] == [0.75, 0.5]


@pytest.mark.parametrize(
    ("placed", "first"),
    [
        ({"ts": 30}, 0.5),
        ({"ts": 30, "event": "change"}, None),
        ({"ts": -130}, None),
        ({"ts": 30, "arrived_at": at(100)}, None),
    ],
)
def test_the_first_value_of_a_pod_is_what_it_used_since_it_was_placed(placed: Row, first: float | None) -> None:
    rows = samples(*({"ts": t, "value": 0.5 * (t - 30)} for t in (60, 120)))

    found = rates(rows, Facts(nodes(), placements({"container": "p", **placed}))).usage

    assert found["cpu_cores"].to_pylist() == [first, 0.5]


def test_an_addition_that_was_not_known_yet_hides_none_that_was() -> None:
    rows = samples(*({"ts": t, "value": 0.5 * (t - 30)} for t in (60, 120)))
    events = ({"container": "p", "ts": 30}, {"container": "p", "ts": 40, "arrived_at": at(600)})

    assert rates(rows, Facts(nodes(), placements(*events))).usage["cpu_cores"].to_pylist() == [0.5, 0.5]


def test_memory_of_a_run_that_ended_is_not_taken_for_that_of_the_next() -> None:
    of_old = [
        {"instance": "old", "part": "a", "ts": t, "metric": "memory_bytes", "value": 1e9} for t in range(0, 361, 30)
    ]
    of_new = [
        {"instance": "new", "part": "a", "ts": t, "metric": "memory_bytes", "value": 2e8} for t in range(120, 361, 30)
    ]

    assert of(gauges(*of_old, *of_new), "memory_bytes")[2:] == [2e8] * 5


@given(skew=st.floats(0, 12), phase=st.floats(0, 29), rate=st.floats(0.05, 20))
def test_writers_whose_clocks_differ_leave_the_mean_as_it_is(skew: float, phase: float, rate: float) -> None:
    """Two writers of one series, without a label that distinguishes them; the second one's clock is ahead."""
    first = [(t, rate * t + 1e6) for t in range(0, 1801, 30)]
    second = [(t + phase + skew, rate * (t + phase) + 1e6) for t in range(0, 1801, 30)]
    rows = samples(*({"ts": round(t, 3), "value": v} for t, v in (*first, *second)))

    found = [float(str(value)) for value in of(rows, "cpu_cores") if value is not None][1:-1]

    assert np.mean(found) == pytest.approx(rate, rel=0.02)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("step", [5, 10, 15, 20, 30])
def test_a_crash_loop_counts_what_it_used_and_never_more(step: int, *, named: bool) -> None:
    """Forty seconds at one core, twenty down, for twenty minutes: of each run less than a scrape's interval is lost."""
    times = [t for t in range(2, 1200, step) if t % 60 < 40]
    rows = samples(
        *({"ts": t, "value": float(t % 60), "part": "app", "instance": f"r{t // 60}" if named else None} for t in times)
    )

    used = sum(float(str(value or 0.0)) for value in of(rows, "cpu_cores"))

    assert (40 - step) / 3 <= used <= 40 / 3


@pytest.mark.parametrize("share", [0.2, 0.9, 1.0])
def test_uneven_age_of_readings_leaves_the_mean_of_a_share_as_it_is(share: float) -> None:
    age = np.random.default_rng(1).uniform(0, 25, 360)
    rows = samples(
        *({"metric": "psi_cpu_some_frac", "ts": 60 * k, "value": share * (60 * k - age[k]) + 1e6} for k in range(360))
    )

    found = [float(str(value)) for value in of(rows, "psi_cpu_some_frac")[1:]]

    assert np.mean(found) == pytest.approx(share, rel=0.002)


def test_of_two_exporters_the_one_that_knows_more_of_a_pods_containers_is_used() -> None:
    def said(exporter: str, part: str, cores: float) -> list[Row]:
        return [{"ts": t, "exporter": exporter, "part": part, "value": cores} for t in (60, 120)]

    rows = gauges(*said("kubelet", "app", 1.0), *said("kubeletstats", "app", 1.0), *said("kubeletstats", "proxy", 0.5))

    assert of(rows, "cpu_cores") == [1.5, 1.5]


def test_what_exporters_remember_of_a_deleted_pod_is_no_use_of_it() -> None:
    gone = Facts(
        nodes(),
        placements({"container": "p"}, {"container": "p", "ts": 120, "event": "delete", "arrived_at": at(121)}),
    )
    rows = gauges(*({"ts": t, "metric": "memory_bytes", "value": 1e9} for t in range(30, 500, 30)))

    found = rates(rows, gone).usage

    assert [second for second in range(60, 540, 60) if at(second) in found["ts"].to_pylist()] == [60, 120, 180, 480]


@pytest.mark.parametrize("ahead", [-20, -5, 0, 5, 20])
def test_clocks_of_exporter_and_api_that_differ_give_no_pod_more_than_it_used(ahead: int) -> None:
    """One core from the start, the placement dated by another clock."""
    for start in range(60, 120, 7):
        rows = samples(*({"ts": t, "value": float(t - start)} for t in range(70, 400, 30) if t > start))
        placed = placements({"container": "p", "ts": start + ahead, "arrived_at": at(start)})

        cores = rates(rows, Facts(nodes(), placed)).usage["cpu_cores"].to_pylist()

        assert max(value for value in cores if value is not None) <= 1.8
        assert cores[2:] == [pytest.approx(1.0)] * len(cores[2:])


def test_a_static_pod_runs_on_whatever_becomes_of_its_mirror() -> None:
    pod = "9aac5b5c8815def09a2ef9e37b89da55@n"
    gone = Facts(nodes(), placements({"container": pod}, {"container": pod, "ts": 120, "event": "delete"}))
    rows = gauges(*({"container": pod, "ts": t, "value": 1.0} for t in range(60, 500, 60)))

    assert rates(rows, gone).usage["cpu_cores"].to_pylist() == [1.0] * 8
