"""Prometheus text: a line a sample; the kubelet's page is the hard case, with its slices and pause containers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ingest.foreign import ARRIVED, AT, SYSTEMD, TS, UID, decoded, reasons, short
from tests.ingest.samples_of import PAGE

LINE = 'container_memory_working_set_bytes{node="n1",namespace="shop",pod="web-0",container="web"}'


def test_a_page_of_the_kubelets_gives_containers_pods_and_the_node() -> None:
    result = decoded("prom-text", PAGE.encode())

    assert short(result) == [
        (UID, "web", "cpu_cores", None, 12.5, "counter"),
        (UID, None, "cpu_cores", None, 13.0, "counter"),
        ("/", None, "cpu_cores", None, 100.0, "counter"),
        (UID, None, "net_rx_bytes_s", "eth0", 70.0, "counter"),
    ]
    assert set(result.rows["ts"].to_pylist()) == {AT}
    assert result.unknown_fields == {
        "container_cpu_usage_seconds_total of no pod": 1,
        "container_cpu_usage_seconds_total of pause": 1,
        "node_load1": 1,
    }


def test_cores_counted_one_by_one_are_series() -> None:
    lines = [f'container_cpu_usage_seconds_total{{node="n1",id="{SYSTEMD}",cpu="cpu0{n}"}} {n}' for n in (0, 1)]

    assert [row[3:5] for row in short(decoded("prom-text", "\n".join(lines).encode()))] == [
        ("cpu00", 0.0),
        ("cpu01", 1.0),
    ]


def test_perf_events_and_llc_are_told_by_their_labels() -> None:
    own = f'node="n1",id="{SYSTEMD}/cri-containerd-abc.scope",container="web"'
    page = f"""container_perf_events_total{{{own},event="instructions",cpu="0"}} 9
container_perf_events_total{{{own},event="LLC-load-misses",cpu="0"}} 3
container_perf_events_total{{{own},event="branches",cpu="0"}} 3
container_llc_occupancy_bytes{{{own},node_id="1"}} 7
"""

    assert [row[2:] for row in short(decoded("prom-text", page.encode()))] == [
        ("instructions_s", "0", 9.0, "counter"),
        ("llc_misses_s", "0", 3.0, "counter"),
        ("llc_occupancy_bytes", "1", 7.0, "gauge"),
    ]


@pytest.mark.parametrize(
    ("tail", "value", "ts"),
    [
        (" 7", 7.0, ARRIVED),
        (f" 7 {TS}000", 7.0, AT),
        (f"\t7\t{TS}000\r", 7.0, AT),
        (f" 7 {TS}.000", 7.0, AT),
        ("7", 7.0, ARRIVED),
        (" 7e0", 7.0, ARRIVED),
        (" NaN", None, ARRIVED),
        (' 7 # {trace_id="a}b"} 0.5 1', 7.0, ARRIVED),
    ],
)
def test_a_value_may_be_followed_by_a_time_and_an_exemplar(tail: str, value: float | None, ts: object) -> None:
    result = decoded("prom-text", f"{LINE}{tail}\n{LINE}{tail}".encode())

    assert [(row["value"], row["ts"]) for row in result.rows.to_pylist()] == [(value, ts)] * 2
    assert not result.rejects.num_rows


def test_label_values_may_hold_anything_that_is_escaped() -> None:
    line = 'container_memory_working_set_bytes{ node = "n1" , namespace="a\\\\b", pod="}\\"\\n" ,container="web",} 7'

    result = decoded("prom-text", line.encode())

    assert short(result)[0][0] == 'a\\b/}"\n'


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"{LINE} -1", "negative"),
        (f"{LINE} +Inf", "wrong_type"),
        (f"{LINE} seven", "wrong_type"),
        (f"{LINE} 1e16", "out_of_range"),
        (f"{LINE} 7 5", "bad_timestamp"),
        (f"{LINE} 7 soon", "bad_timestamp"),
        (f"{LINE} 7 {TS + 306}000", "future_timestamp"),
        (f"{LINE}", "undecodable"),
        (f"{LINE} 7 8 9", "undecodable"),
        ('x{a="b} 7', "undecodable"),
        ('x{a=b} 7', "undecodable"),
        ("7", "undecodable"),
        ("x", "undecodable"),
    ],
)  # fmt: skip
def test_a_bad_line_is_rejected_and_the_others_read(line: str, reason: str) -> None:
    result = decoded("prom-text", f"{LINE} 1\n{line}\n{LINE} 2\n{line}".encode())

    assert [row["value"] for row in result.rows.to_pylist() if row["value"] is not None] == [1.0, 2.0]
    assert [(item.split(".")[0], why) for item, why in reasons(result)] == [("1", reason), ("3", reason)]


def test_comments_alone_are_counted() -> None:
    assert decoded("prom-text", b"# TYPE x counter\n").unknown_fields == {"comments only": 1}


@pytest.mark.parametrize("message", [None, b"", b"  \n", b"\xff\xfe"])
def test_what_is_no_text_is_undecodable(message: bytes | None) -> None:
    assert reasons(decoded("prom-text", message)) == [("", "undecodable")]


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_label_survives_its_escaping(pod: str, namespace: str) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'

    line = f'container_memory_working_set_bytes{{node="n1",namespace={quoted(namespace)},pod={quoted(pod)}}} 7'

    result = decoded("prom-text", line.encode())

    if pod and namespace:
        assert short(result)[0][0] == f"{namespace}/{pod}"
    else:
        assert not result.rows.num_rows
