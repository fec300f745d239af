"""OTLP: the same request gives the same rows, as protobuf and as JSON."""

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from ingest.decode.metrics.known_metrics import EXPORTERS
from ingest.decode.metrics.metric_mapping import ForeignMetric, MetricMap
from tests.ingest.foreign import AT, TS, UID, decoded, dumped, reasons, same, short
from tests.ingest.samples_of import NS, Json, delta_request, otlp_json, proto, request

ROWS = [
    (UID, None, "cpu_cores", None, 0.5, "gauge"),
    (UID, None, "memory_bytes", None, 7.0, "gauge"),
    (UID, None, "net_rx_bytes_s", "eth0", 70.0, "counter"),
    (UID, None, "net_tx_bytes_s", "eth0", 80.0, "counter"),
]
UNKNOWN = {"my.request.duration_count": 1, "my.request.duration_sum": 1}


def both(made: ExportMetricsServiceRequest) -> tuple[bytes, bytes]:
    """A request as protobuf and as JSON."""
    as_json = json_format.MessageToDict(made)
    return bytes(made.SerializeToString()), dumped(as_json)


def gauge(**point: object) -> Json:
    metric = {"name": "k8s.node.cpu.usage", "gauge": {"dataPoints": [{"timeUnixNano": str(NS), **point}]}}
    node = {"key": "k8s.node.name", "value": {"stringValue": "n1"}}
    return {"resourceMetrics": [{"resource": {"attributes": [node]}, "scopeMetrics": [{"metrics": [metric]}]}]}


@pytest.mark.parametrize(("name", "message"), [("otlp-proto", proto()), ("otlp-json", dumped(otlp_json()))])
def test_gauges_and_counters_of_a_pod_become_samples(name: str, message: bytes) -> None:
    result = decoded(name, message)

    assert short(result) == ROWS
    assert set(result.rows["ts"].to_pylist()) == {AT}
    assert (reasons(result), result.unknown_fields) == ([], UNKNOWN)


@pytest.mark.parametrize("made", [request(), delta_request()])
def test_protobuf_and_json_of_a_request_give_the_same_rows(made: ExportMetricsServiceRequest) -> None:
    as_proto, as_json = both(made)

    assert same(decoded("otlp-proto", as_proto, as_proto), decoded("otlp-json", as_json, as_json))


def test_a_delta_becomes_a_rate_over_its_own_span() -> None:
    result = decoded("otlp-proto", both(delta_request())[0])

    assert short(result)[2:] == [
        (UID, None, "net_rx_bytes_s", "eth0", 7.0, "gauge"),
        (UID, None, "net_tx_bytes_s", "eth0", 8.0, "gauge"),
    ]


def test_a_delta_without_its_start_has_no_value() -> None:
    made = delta_request()
    made.resource_metrics[0].scope_metrics[0].metrics[2].sum.data_points[0].ClearField("start_time_unix_nano")

    for name, message in zip(("otlp-proto", "otlp-json"), both(made), strict=True):
        result = decoded(name, message)
        assert short(result)[2][4] is None
        assert reasons(result) == [("0.k8s.pod.network.io.eth0", "wrong_type")]


def test_a_histogram_gives_its_sum_and_count_where_they_are_mapped() -> None:
    mapping = MetricMap.of(
        [
            *(metric for same in EXPORTERS.metrics.values() for metric in same),
            ForeignMetric("my.request.duration_sum", "rt_s", "counter"),
            ForeignMetric("my.request.duration_count", "qps", "counter"),
        ]
    )

    for name, message in zip(("otlp-proto", "otlp-json"), both(request()), strict=True):
        assert short(decoded(name, message, mapping=mapping))[4:] == [
            (UID, None, "rt_s", None, 2.0, "counter"),
            (UID, None, "qps", None, 4.0, "counter"),
        ]


def test_a_value_that_was_not_recorded_is_missing() -> None:
    made = request()
    made.resource_metrics[0].scope_metrics[0].metrics[0].gauge.data_points[0].flags = 1

    for name, message in zip(("otlp-proto", "otlp-json"), both(made), strict=True):
        result = decoded(name, message)
        assert short(result)[0] == (UID, None, "cpu_cores", None, None, "gauge")
        assert not result.rejects.num_rows


def test_points_of_one_resource_may_have_different_times() -> None:
    made = request()
    made.resource_metrics[0].scope_metrics[0].metrics[1].gauge.data_points[0].time_unix_nano = NS - 10**9
    made.resource_metrics[0].scope_metrics[0].metrics[2].sum.data_points[0].time_unix_nano = 0

    for name, message in zip(("otlp-proto", "otlp-json"), both(made), strict=True):
        result = decoded(name, message, message)
        assert [int(ts.timestamp()) - TS for ts in result.rows["ts"].to_pylist()] == [0, -1, 0] * 2
        assert reasons(result) == [("0.k8s.pod.network.io.eth0", "missing_key")] * 2
        assert result.unknown_fields == dict.fromkeys(UNKNOWN, 2)


@pytest.mark.parametrize(
    ("point", "value", "wrong"),
    [
        ({"asDouble": 1.5}, 1.5, []),
        ({"asDouble": "1.5"}, 1.5, []),
        ({"asInt": "3"}, 3.0, []),
        ({"asInt": 3}, 3.0, []),
        ({"asDouble": "NaN"}, None, []),
        ({}, None, []),
        ({"asDouble": "Infinity"}, None, ["wrong_type"]),
        ({"asDouble": -1}, None, ["negative"]),
        ({"asDouble": 1e9}, None, ["out_of_range"]),
        ({"asDouble": [1]}, None, ["wrong_type"]),
        ({"asInt": "3", "flags": 1}, None, []),
    ],
)
def test_values_of_json_are_numbers_or_texts(point: Json, value: float | None, wrong: list[str]) -> None:
    result = decoded("otlp-json", dumped(gauge(**point)))

    assert short(result) == [("/", None, "cpu_cores", None, value, "gauge")]
    assert [why for _, why in reasons(result)] == wrong


@pytest.mark.parametrize(
    ("time", "reason"),
    [
        (None, "missing_key"),
        ("x", "bad_timestamp"),
        ("5", "bad_timestamp"),
        (str(NS + 306 * 10**9), "future_timestamp"),
    ],
)
def test_a_bad_time_rejects_the_point(time: str | None, reason: str) -> None:
    assert reasons(decoded("otlp-json", dumped(gauge(asDouble=1, timeUnixNano=time)))) == [("0", reason)]


@pytest.mark.parametrize("message", [None, b"", b"{}", b"[]", b'{"resourceMetrics": 7}'])
def test_what_is_no_request_is_undecodable_json(message: bytes | None) -> None:
    assert reasons(decoded("otlp-json", message)) == [("", "undecodable")]


@pytest.mark.parametrize("message", [None, b"", b"{}", b"\x0a\x05abc", proto()[:-1]])
def test_what_is_no_request_is_undecodable_protobuf(message: bytes | None) -> None:
    assert reasons(decoded("otlp-proto", message)) == [("", "undecodable")]


@pytest.mark.parametrize(
    ("name", "message"),
    [("otlp-json", b'{"resourceMetrics": [{"scopeMetrics": [7, {"metrics": 7}]}]}'), ("otlp-proto", b"\x0a\x00")],
)
def test_a_request_without_points_is_counted(name: str, message: bytes) -> None:
    assert decoded(name, message).unknown_fields == {"no data points": 1}


def test_many_points_are_not_all_read() -> None:
    made = request()
    points = made.resource_metrics[0].scope_metrics[0].metrics[0].gauge.data_points
    points.extend([points[0]] * 40_000)

    result = decoded("otlp-proto", bytes(made.SerializeToString()))

    assert reasons(result) == [("0.40000", "undecodable")]
    assert result.rows.num_rows == len(ROWS) - 1


def test_a_request_that_repeats_with_other_values_is_read_anew_each_time() -> None:
    made = request()
    first = bytes(made.SerializeToString())
    metrics = made.resource_metrics[0].scope_metrics[0].metrics
    metrics[0].gauge.data_points[0].as_double = 2.5
    metrics[1].gauge.data_points[0].as_int = 9
    for metric in metrics:
        for point in (*metric.gauge.data_points, *metric.sum.data_points):
            point.time_unix_nano = NS + 10**9
    second = bytes(made.SerializeToString())

    result = decoded("otlp-proto", first, second, first)

    assert result.rows["value"].to_pylist() == [0.5, 7, 70, 80, 2.5, 9, 70, 80, 0.5, 7, 70, 80]
    assert [int(ts.timestamp()) - TS for ts in result.rows["ts"].to_pylist()] == [0] * 4 + [1] * 4 + [0] * 4
