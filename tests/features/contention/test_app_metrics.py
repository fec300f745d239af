"""Requests and response times as apps, meshes and servers report them by default, to usage of their pods."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE as CUMULATIVE

from features.contention.node_state import Facts
from features.contention.usage_rates import rates
from ingest.decode.contract import Context, Decoded
from ingest.decode.formats.format_registry import decoder_named
from ingest.schema.tables import SAMPLES, TIMESTAMP
from tests.features.rows import nodes, placements
from tests.ingest.foreign import dumped

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
UID = "0d5a3f6e-1111-2222-3333-444455556666"
POD = {"namespace": "shop", "pod": "web-0", "instance": "10.1.2.3:8080"}
FACTS = Facts(nodes({"node": "n"}), placements({"node": "n", "container": UID, "namespace": "shop", "name": "web-0"}))
OTEL = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Default bounds of OpenTelemetry's HTTP metrics, s."""
RNG = np.random.default_rng(7)
TOOK = np.exp(RNG.normal(np.log(0.04), 0.7, 600))
"""Response times of a minute of ten requests a second, s."""
Labels = Mapping[str, str]


@dataclass
class Histogram:
    """A histogram as a library keeps it: cumulative from the start of the process."""

    name: str
    labels: Labels = field(default_factory=dict)
    per_second: float = 1.0
    bounds: tuple[float, ...] = OTEL
    took: list[float] = field(default_factory=list)

    def text(self, at_s: float) -> list[str]:
        """Its lines on a page of Prometheus' text, at a time."""
        took = np.array(self.took)
        below = [(f"{bound * self.per_second:g}", int((took <= bound).sum())) for bound in self.bounds]
        lines = [line(f"{self.name}_bucket", n, at_s, **self.labels, le=le) for le, n in [*below, ("+Inf", len(took))]]
        total = float(took.sum()) * self.per_second
        counted = ((f"{self.name}_sum", total), (f"{self.name}_count", len(took)))
        return lines + [line(name, value, at_s, **self.labels) for name, value in counted]


def line(name: str, value: float, at_s: float, **labels: str) -> str:
    told = ",".join(f'{key}="{text}"' for key, text in {**POD, **labels}.items())
    return f"{name}{{{told}}} {value:.12g} {int((BEGIN.timestamp() + at_s) * 1000)}"


def page(at_s: float, *metrics: Histogram) -> bytes:
    return "\n".join(line for metric in metrics for line in metric.text(at_s)).encode()


def decoded(wanted: str, *messages: bytes) -> Decoded:
    arrived = pa.array([BEGIN + timedelta(seconds=600)] * len(messages), TIMESTAMP)
    return decoder_named(wanted)(pa.array(messages, pa.binary()), Context(arrived, "c"))


def usage(wanted: str, *messages: bytes, facts: Facts = FACTS) -> list[dict[str, object]]:
    """Rows of usage, a pod and minute each, of all messages."""
    result = decoded(wanted, *messages)
    assert result.rejects.num_rows == 0
    rows = result.rows.drop_columns(["message"])
    landing = {
        "topic": pa.array(["t"] * rows.num_rows),
        "partition": pa.array([0] * rows.num_rows, pa.int32()),
        "offset": pa.array(range(rows.num_rows)),
        "arrived_at": rows["ts"],
    }
    for name, column in landing.items():
        rows = rows.append_column(name, column)
    return list(rates(rows.select(SAMPLES.schema.names).cast(SAMPLES.schema), facts).usage.to_pylist())


def last(wanted: str, *messages: bytes) -> dict[str, object]:
    """The only pod's row of the last minute."""
    rows = usage(wanted, *messages)
    assert {row["container"] for row in rows} == {UID}
    return max(rows, key=lambda row: str(row["ts"]))


HISTOGRAMS = {
    "OpenTelemetry": Histogram("http_server_request_duration_seconds", {"http_response_status_code": "200"}),
    "OpenTelemetry, old": Histogram(
        "http_server_duration_milliseconds", {"http_status_code": "200", "http_target": "/a"}, 1000
    ),
    "RPC": Histogram("rpc_server_call_duration_seconds", {"rpc_method": "Get"}),
    "RPC, old": Histogram("rpc_server_duration_milliseconds", {"rpc_grpc_status_code": "0"}, 1000),
    "RPC of OBI": Histogram("rpc_server_duration_seconds", {"rpc_grpc_status_code": "0"}),
    "messaging": Histogram("messaging_process_duration_seconds", {"messaging_system": "kafka"}),
    "client libraries": Histogram("http_request_duration_seconds", {"handler": "/a", "code": "200"}),
    "gRPC": Histogram("grpc_server_call_duration_seconds", {"grpc_method": "Get", "grpc_status": "OK"}),
    "Micrometer": Histogram("http_server_requests_seconds", {"uri": "/a", "status": "200", "method": "GET"}),
    "gRPC-Go": Histogram("grpc_server_handling_seconds", {"grpc_type": "unary", "grpc_code": "OK"}),
    "Istio": Histogram(
        "istio_request_duration_milliseconds", {"reporter": "destination", "response_code": "200"}, 1000
    ),
    "Linkerd": Histogram("response_latency_ms", {"direction": "inbound", "status_code": "200"}, 1000),
    "Envoy": Histogram("envoy_cluster_upstream_rq_time", {"envoy_cluster_name": "inbound|8080||"}, 1000),
}


def minute_of(metric: Histogram, took: list[float]) -> list[bytes]:
    """Two pages a minute apart, with requests in between, and some before."""
    before = replace(metric, took=[0.2] * 50)
    return [page(30, before), page(90, replace(before, took=[*before.took, *took]))]


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_a_histogram_gives_requests_and_their_mean_exactly_and_p95_within_its_bucket(name: str) -> None:
    row = last("prom-text", *minute_of(HISTOGRAMS[name], TOOK.tolist()))

    low, high = (
        1e3 * OTEL[np.searchsorted(OTEL, p95 := np.quantile(TOOK, 0.95)) - 1],
        1e3 * OTEL[np.searchsorted(OTEL, p95)],
    )
    assert row["node"] == "n"
    assert row["qps"] == pytest.approx(10.0)
    assert row["rt_mean_ms"] == pytest.approx(1e3 * TOOK.mean())
    if high / low <= 1.6:
        assert low <= float(str(row["rt_p95_ms"])) <= high
    else:
        assert row["rt_p95_ms"] is None


def test_a_percentile_in_a_narrow_bucket_is_told_and_in_a_wide_or_open_one_not() -> None:
    metric = HISTOGRAMS["OpenTelemetry"]

    told = [last("prom-text", *minute_of(metric, [at] * 600))["rt_p95_ms"] for at in (0.09, 0.2, 0.6, 20.0)]

    assert [None if one is None else round(float(str(one)), 1) for one in told] == [98.8, None, 737.5, None]


def test_two_routes_are_added_up_and_failures_count_as_requests_and_not_in_the_mean() -> None:
    route = Histogram("http_server_request_duration_seconds")
    ways = [("/a", "200", 0.1, 600), ("/b", "200", 0.4, 6000), ("/b", "503", 0.001, 60), ("/healthz", "200", 0.001, 60)]
    begun, done = (
        [
            replace(route, labels={"http_route": to, "http_response_status_code": code}, took=[took] * (3 + share * n))
            for to, code, took, n in ways
        ]
        for share in (0, 1)
    )

    row = last("prom-text", page(30, *begun), page(90, *done))

    assert row["qps"] == pytest.approx(111.0)
    assert row["rt_mean_ms"] == pytest.approx(1e3 * (600 * 0.1 + 6000 * 0.4) / 6600)


def test_of_sdk_and_sidecar_one_is_used() -> None:
    sdk, sidecar = HISTOGRAMS["OpenTelemetry"], HISTOGRAMS["Istio"]

    row = last("prom-text", *minute_of(sdk, [0.1] * 600), *minute_of(sidecar, [0.3] * 600))

    assert (row["qps"], row["rt_mean_ms"]) == (pytest.approx(10.0), pytest.approx(100.0))


def test_of_sdk_and_obi_one_is_used_and_the_pod_is_the_one_that_served() -> None:
    sdk = HISTOGRAMS["OpenTelemetry"]
    of_obi = {"k8s_owner_name": "web", "k8s_pod_uid": UID, "pod": "beyla-1"}
    seen = replace(sdk, labels={**sdk.labels, **of_obi})

    row = last("prom-text", *minute_of(sdk, [0.1] * 600), *minute_of(seen, [0.1] * 600))

    assert (row["qps"], row["rt_mean_ms"]) == (pytest.approx(10.0), pytest.approx(100.0))


def test_of_sdk_and_obi_by_otlp_one_is_used() -> None:
    made = [otlp(at, np.full(count, 0.1)) for at, count in ((30, 10), (90, 610))]
    seen = [otlp(at, np.full(count, 0.1), process="obi") for at, count in ((30, 10), (90, 610))]
    for one in seen:
        attribute = one.resource_metrics[0].resource.attributes.add(key="telemetry.distro.name")
        attribute.value.string_value = "opentelemetry-ebpf-instrumentation"

    assert last("otlp-proto", *(one.SerializeToString() for one in (*made, *seen)))["qps"] == pytest.approx(10.0)


def test_old_and_new_names_at_once_count_once() -> None:
    both = (HISTOGRAMS["OpenTelemetry"], HISTOGRAMS["OpenTelemetry, old"])

    row = last("prom-text", *(one for metric in both for one in minute_of(metric, [0.1] * 600)))

    assert (row["qps"], row["rt_mean_ms"]) == (pytest.approx(10.0), pytest.approx(100.0))


def test_what_a_sidecar_saw_as_a_client_is_not_the_pods() -> None:
    sent = replace(HISTOGRAMS["Istio"], labels={"reporter": "source", "response_code": "200"})

    assert usage("prom-text", *minute_of(sent, [0.1] * 600)) == []


def test_a_route_begins_at_zero_while_others_of_its_process_were_there_and_makes_nothing_unknown() -> None:
    old = Histogram("http_server_request_duration_seconds", {"http_route": "/a"})
    new = Histogram("http_server_request_duration_seconds", {"http_route": "/new"}, took=[0.1] * 60)
    pages = [page(30, old), page(90, replace(old, took=[0.1] * 600), new), page(150, replace(old, took=[0.1] * 1200))]

    rows = sorted(usage("prom-text", *pages), key=lambda row: str(row["ts"]))

    assert [row["qps"] for row in rows] == [None, pytest.approx(11.0), pytest.approx(10.0)]


def test_a_process_that_was_not_scraped_for_long_does_not_count_all_of_its_life_at_once() -> None:
    route = Histogram("http_server_request_duration_seconds", {"http_route": "/a"})
    one, other = ({**route.labels, "instance": f"10.1.2.3:{port}"} for port in (8080, 8081))
    pages = [page(30 + 60 * i, replace(route, labels=one, took=[0.1] * 60 * i)) for i in range(6)]

    row = last("prom-text", *pages, page(329, replace(route, labels=other, took=[0.1] * 100_000)))

    assert row["qps"] is None


def test_a_restart_counts_from_zero() -> None:
    metric = Histogram("http_server_request_duration_seconds", {"http_route": "/a"}, took=[0.1] * 900)

    row = last("prom-text", page(30, metric), page(90, replace(metric, took=[0.2] * 300)))

    assert (row["qps"], row["rt_mean_ms"]) == (pytest.approx(5.0), pytest.approx(200.0))


@pytest.mark.parametrize(
    ("counter", "labels", "wanted"),
    [
        ("istio_requests_total", {"reporter": "destination", "response_code": "500"}, 10.0),
        ("istio_requests_total", {"reporter": "source"}, None),
        ("request_total", {"direction": "inbound"}, 10.0),
        ("grpc_server_handled_total", {"grpc_type": "unary", "grpc_method": "Get"}, 10.0),
        ("grpc_server_handled_total", {"grpc_type": "server_stream", "grpc_method": "Get"}, None),
        ("vllm:request_success_total", {"finished_reason": "stop"}, 10.0),
        ("nv_inference_request_success", {"model": "m", "gpu_uuid": "g"}, 10.0),
        ("redis_commands_total", {"cmd": "get"}, 10.0),
        ("redis_commands_total", {"cmd": "blpop"}, None),
        ("redis_commands_total", {"cmd": "get", "pod": "redis-exporter-5d"}, None),
        ("pg_stat_database_xact_commit", {"datname": "shop"}, 10.0),
        ("mysql_global_status_questions", {}, 10.0),
        ("memcached_commands_total", {"command": "get", "status": "hit"}, 10.0),
    ],
)
def test_a_counter_of_requests_gives_their_rate(counter: str, labels: dict[str, str], wanted: float | None) -> None:
    pages = [line(counter, 600 * i + 7, 30 + 60 * i, **labels).encode() for i in range(2)]

    found = [row["qps"] for row in usage("prom-text", *pages) if row["qps"] is not None]

    assert found == ([] if wanted is None else [pytest.approx(wanted)])


@pytest.mark.parametrize(
    "name",
    [
        "nginx_ingress_controller_response_duration_seconds_count",
        "nginx_ingress_controller_requests",
        "traefik_service_request_duration_seconds_count",
        "haproxy_server_http_responses_total",
    ],
)
def test_what_a_controller_passed_on_is_counted_and_credited_to_nobody(name: str) -> None:
    result = decoded("prom-text", line(name, 5, 0, service="shop", pod="ingress-7f").encode())

    assert (result.rows.num_rows, dict(result.unknown_fields)) == (0, {f"{name} of a service": 1})


def test_requests_of_nobody_are_counted_and_no_error() -> None:
    text = f'http_server_request_duration_seconds_count{{service_name="web"}} 5 {int(BEGIN.timestamp() * 1000)}'

    result = decoded("prom-text", text.encode())

    assert (result.rows.num_rows, result.rejects.num_rows) == (0, 0)
    assert dict(result.unknown_fields) == {"http_server_request_duration_seconds_count of no pod": 1}


def test_vllms_answers_are_timed_by_token_and_counted_by_request() -> None:
    tokens = Histogram("vllm:inter_token_latency_seconds", {"model_name": "m"})
    pages = [
        page(30 + 60 * i, replace(tokens, took=[0.02] * 60_000 * i))
        + b"\n"
        + line("vllm:request_success_total", 60 * i, 30 + 60 * i, model_name="m").encode()
        for i in range(2)
    ]

    row = last("prom-text", *pages)

    assert (row["qps"], row["rt_mean_ms"]) == (pytest.approx(1.0), pytest.approx(20.0))


def test_triton_and_redis_count_time_and_requests_apart() -> None:
    for count, time_, per_second in (
        ("nv_inference_request_success", "nv_inference_compute_infer_duration_us", 1e6),
        ("redis_commands_total", "redis_commands_duration_seconds_total", 1.0),
    ):
        pages = [
            "\n".join((line(count, 600 * i, at), line(time_, 600 * i * 0.05 * per_second, at))).encode()
            for i, at in enumerate((30, 90))
        ]
        row = last("prom-text", *pages)
        assert (row["qps"], row["rt_mean_ms"]) == (pytest.approx(10.0), pytest.approx(50.0))


def otlp(
    at_s: float,
    took: np.ndarray,
    *,
    unit: str = "s",
    scale: int | None = None,
    process: str = "i1",
    started_s: float = -3600,
    sdk: bool = True,
) -> ExportMetricsServiceRequest:
    """The HTTP histogram of a process, as explicit buckets or exponential ones of a scale."""
    made = ExportMetricsServiceRequest()
    resource = made.resource_metrics.add()
    for key, value in (
        ("k8s.pod.uid", UID),
        ("service.instance.id", process),
        *((("telemetry.sdk.language", "go"),) * sdk),
    ):
        resource.resource.attributes.add(key=key).value.string_value = value
    metric = resource.scope_metrics.add().metrics.add(name="http.server.request.duration", unit=unit)
    times = {"start_time_unix_nano": int(BEGIN.timestamp() + started_s) * 10**9}
    times["time_unix_nano"] = int(BEGIN.timestamp() + at_s) * 10**9
    total = {"count": len(took), "sum": float(took.sum())}
    if scale is None:
        counts = np.histogram(took, [0, *OTEL, np.inf])[0].tolist()
        metric.histogram.aggregation_temporality = CUMULATIVE
        point = metric.histogram.data_points.add(**times, **total, explicit_bounds=OTEL, bucket_counts=counts)
    else:
        metric.exponential_histogram.aggregation_temporality = CUMULATIVE
        point = metric.exponential_histogram.data_points.add(**times, **total, scale=scale)
        if len(took):
            index = np.ceil(np.log2(took) * 2**scale).astype(int) - 1
            point.positive.offset = int(index.min())
            point.positive.bucket_counts.extend(np.bincount(index - index.min()).tolist())
    point.attributes.add(key="http.response.status_code").value.int_value = 200
    return made


@pytest.mark.parametrize("wanted", ["otlp-proto", "otlp-json"])
@pytest.mark.parametrize("scale", [None, 1, 2, 3, 8])
def test_histograms_of_otlp_give_requests_mean_and_p95(wanted: str, scale: int | None) -> None:
    made = [otlp(30, TOOK[:50], scale=scale), otlp(90, np.append(TOOK[:50], TOOK), scale=scale)]
    messages = [
        one.SerializeToString() if wanted == "otlp-proto" else dumped(json_format.MessageToDict(one)) for one in made
    ]

    row = last(wanted, *messages)

    assert row["qps"] == pytest.approx(10.0)
    assert row["rt_mean_ms"] == pytest.approx(1e3 * TOOK.mean())
    if scale is not None:
        width = 2 ** (1 / 2 ** min(scale, 2))
        assert 1 / width <= float(str(row["rt_p95_ms"])) / (1e3 * np.quantile(TOOK, 0.95)) <= width


@pytest.mark.parametrize(("unit", "mean_ms"), [("s", 100.0), ("ms", 0.1), ("", 100.0)])
def test_the_unit_is_the_one_that_the_metric_names(unit: str, mean_ms: float) -> None:
    made = [otlp(30, np.zeros(0), unit=unit), otlp(90, np.full(600, 0.1), unit=unit)]

    assert last("otlp-proto", *(one.SerializeToString() for one in made))["rt_mean_ms"] == pytest.approx(mean_ms)


@pytest.mark.parametrize("wanted", ["otlp-proto", "otlp-json"])
def test_a_process_in_the_place_of_another_counts_from_its_start_and_the_other_no_more(wanted: str) -> None:
    old = [otlp(30 * i, np.full(10_000 + 300 * i, 0.1)) for i in range(1, 5)]
    new = [otlp(at, np.full(count, 0.2), process="i2", started_s=125) for at, count in ((145, 100), (175, 400))]
    messages = [
        one.SerializeToString() if wanted == "otlp-proto" else dumped(json_format.MessageToDict(one))
        for one in (*old, *new)
    ]

    rows = sorted(usage(wanted, *messages), key=lambda row: str(row["ts"]))

    assert [row["qps"] for row in rows] == [pytest.approx(10.0), pytest.approx(10.0), pytest.approx(8.0)]
    assert rows[-1]["rt_mean_ms"] == pytest.approx(200.0)


@pytest.mark.parametrize("names", ["old", "stable", "both"])
def test_what_an_instrumented_app_exports_is_what_was_asked_of_it(names: str) -> None:
    """An app of FastAPI, instrumented by OpenTelemetry's own package, that was asked 5 times, then 100 times more.

    Its routes are fast, slow, one that fails and one for the kubelet. `took_s` is what the one who asked measured.
    """
    asked = json.loads((Path(__file__).parent / "golden" / f"otel_fastapi_{names}.json").read_text())
    messages = []
    for key, at_s in (("before", 30), ("after", 90)):
        made = json_format.ParseDict(asked[key], ExportMetricsServiceRequest())
        for metric in made.resource_metrics[0].scope_metrics[0].metrics:
            for point in metric.histogram.data_points:
                point.start_time_unix_nano = int(BEGIN.timestamp() - 3600) * 10**9
                point.time_unix_nano = int(BEGIN.timestamp() + at_s) * 10**9
        messages.append(made.SerializeToString())

    row = last("otlp-proto", *messages)

    assert row["qps"] == pytest.approx((60 + 20 + 10) / 60)
    mean_ms = 1e3 * (asked["took_s"]["/fast/N"] + asked["took_s"]["/slow"]) / 80
    assert row["rt_mean_ms"] == pytest.approx(mean_ms, rel=0.05)
    assert row["rt_p95_ms"] is None or 60 <= float(str(row["rt_p95_ms"])) <= 75
