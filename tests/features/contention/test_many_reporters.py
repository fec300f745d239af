"""Several reports of the same requests, and labels that are not what they seem: counted once, and of their pod."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from google.protobuf import json_format

from ingest.decode.metrics.known_metrics import EXPORTERS
from ingest.decode.metrics.metric_mapping import MAX_SERIES
from ingest.schema.tables import EXPORTER_PREFERENCE
from tests.features.contention.test_app_metrics import (
    HISTOGRAMS,
    UID,
    Histogram,
    decoded,
    last,
    line,
    minute_of,
    otlp,
    page,
    usage,
)
from tests.ingest.foreign import dumped

Labels = Mapping[str, str]
TEN = pytest.approx(10.0)
ROUTE = "http_request_duration_seconds"
OPERATORS = {"job": "web", "container": "main", "endpoint": "http", "service": "web"}
"""Labels that prometheus-operator gives to all metrics of a target."""


@pytest.mark.parametrize("label", ["endpoint", "service", "host", "id", "scheme", "handler"])
def test_routes_are_added_up_whatever_their_label_is_called(label: str) -> None:
    begun, done = (
        [
            Histogram(ROUTE, {label: to}, took=[took] * n * share)
            for to, took, n in (("/a", 0.1, 600), ("/b", 0.4, 6000))
        ]
        for share in (0, 1)
    )

    row = last("prom-text", page(30, *begun), page(90, *done))

    assert (row["qps"], row["rt_mean_ms"]) == (pytest.approx(110.0), pytest.approx(1e3 * (60 + 2400) / 6600))


def test_a_label_service_of_a_pod_that_a_podmonitor_names_is_the_applications() -> None:
    labels = {**OPERATORS, "job": "shop/web"}
    both = [Histogram(ROUTE, {**labels, "service": to}) for to in ("cart", "pay")]

    row = last("prom-text", *(one for metric in both for one in minute_of(metric, [0.1] * 600)))

    assert row["qps"] == pytest.approx(20.0)


def test_a_pod_behind_two_services_of_which_each_is_scraped_counts_once() -> None:
    metric = HISTOGRAMS["client libraries"]
    both = [replace(metric, labels={**metric.labels, **OPERATORS, "service": to, "job": to}) for to in ("web", "all")]

    assert last("prom-text", *(one for metric in both for one in minute_of(metric, [0.1] * 600)))["qps"] == TEN


def test_a_pod_that_two_jobs_scrape_with_other_labels_of_its_own_counts_once() -> None:
    metric = HISTOGRAMS["client libraries"]
    more = {"job": "all", "pod_template_hash": "5d", "helm_sh_chart": "web-1.2", "app_kubernetes_io_name": "web"}
    both = [replace(metric, labels={**metric.labels, **given}) for given in ({"job": "web"}, more)]

    assert last("prom-text", *(one for metric in both for one in minute_of(metric, [0.1] * 600)))["qps"] == TEN


@pytest.mark.parametrize("name", ["Istio", "Linkerd", "Envoy"])
def test_a_proxy_that_is_scraped_at_two_of_its_ports_counts_once(name: str) -> None:
    metric = HISTOGRAMS[name]
    both = [replace(metric, labels={**metric.labels, "instance": f"10.1.2.3:{port}"}) for port in (15020, 15090)]

    assert last("prom-text", *(one for metric in both for one in minute_of(metric, [0.1] * 600)))["qps"] == TEN


def test_both_interceptors_of_grpc_at_once_count_once() -> None:
    both = (HISTOGRAMS["gRPC"], HISTOGRAMS["gRPC-Go"])

    assert last("prom-text", *(one for metric in both for one in minute_of(metric, [0.1] * 600)))["qps"] == TEN


@pytest.mark.parametrize("name", ["http.server.request.duration", "rpc.server.duration", "messaging.process.duration"])
def test_what_a_library_sends_and_what_is_scraped_of_it_are_alternatives(name: str) -> None:
    unit = "milliseconds" if name == "rpc.server.duration" else "seconds"
    names = (f"{name}_count", f"{name.replace('.', '_')}_{unit}_count")

    found = [{one.exporter for one in EXPORTERS.metrics[spelled] if one.exporter != "obi"} for spelled in names]

    assert not found[0] & found[1]
    assert {*found[0], *found[1]} <= {*EXPORTER_PREFERENCE}


def test_beyla_by_its_older_name_counts_once_beside_the_library() -> None:
    made, seen = ([otlp(at, np.full(count, 0.1), process=who) for at, count in ((30, 10), (90, 610))] for who in "ab")
    for one in seen:
        one.resource_metrics[0].resource.attributes.add(key="telemetry.sdk.name").value.string_value = "beyla"

    assert last("otlp-proto", *(one.SerializeToString() for one in (*made, *seen)))["qps"] == TEN


def test_a_minute_in_which_the_library_was_not_scraped_is_not_the_sidecars() -> None:
    sdk, sidecar = HISTOGRAMS["OpenTelemetry"], HISTOGRAMS["Istio"]
    pages = [page(at, replace(sdk, took=[0.1] * 10 * at)) for at in (30, 90, 150, 270)]
    pages += [page(at, replace(sidecar, took=[0.3] * 10 * at)) for at in (30, 90, 150, 210, 270)]

    rows = sorted(usage("prom-text", *pages), key=lambda row: str(row["ts"]))

    assert [row["rt_mean_ms"] for row in rows][1:] == [pytest.approx(100.0)] * 4


def test_a_mean_is_of_one_reporters_times_and_requests() -> None:
    """Triton says how long requests took, and not of how many."""
    lines = [
        "\n".join(
            (line("nv_inference_request_success", 600 * i, at), line(MODELS_TIME, 600 * i * 0.05 * 1e6, at))
        ).encode()
        for i, at in enumerate((30, 90))
    ]

    row = last("prom-text", *lines, *minute_of(HISTOGRAMS["Istio"], [0.02] * 1800))

    assert row["rt_mean_ms"] == pytest.approx(20.0)


MODELS_TIME = "nv_inference_compute_infer_duration_us"


def test_an_applications_own_namespace_is_not_its_pods() -> None:
    metric = replace(HISTOGRAMS["client libraries"], labels={"exported_namespace": "tenant-a"})

    assert last("prom-text", *minute_of(metric, [0.1] * 600))["container"] == UID


def test_what_a_collector_passes_on_is_not_of_the_collectors_pod() -> None:
    labels = {"pod": "collector-1", "k8s_pod_name": "web-0", "k8s_namespace_name": "shop", "namespace": "monitoring"}
    metric = replace(HISTOGRAMS["client libraries"], labels=labels)

    assert last("prom-text", *minute_of(metric, [0.1] * 600))["qps"] == TEN


@pytest.mark.parametrize("label", ["pod", "exported_pod", "k8s_pod_name", "pod_name"])
def test_requests_of_a_database_are_never_its_exporters(label: str) -> None:
    own = {"pod": "", label: "redis-exporter-5d"}
    pages = [line("redis_commands_total", 600 * i, at, **own).encode() for i, at in enumerate((30, 90))]

    found = decoded("prom-text", *pages)

    assert found.rows.num_rows == 0
    assert dict(found.unknown_fields) == {"redis_commands_total of no pod": 2}


def test_a_front_proxy_serves_no_requests_of_its_own() -> None:
    labels = {"envoy_http_conn_manager_prefix": "ingress_http"}

    assert usage("prom-text", *minute_of(Histogram("envoy_http_downstream_rq_time", labels, 1000), [0.1] * 600)) == []


def test_a_failure_of_grpc_within_an_answer_of_http_has_no_time() -> None:
    good = replace(HISTOGRAMS["Istio"], labels={**HISTOGRAMS["Istio"].labels, "grpc_response_status": "0"})
    bad = replace(good, labels={**good.labels, "grpc_response_status": "14"})

    row = last("prom-text", *minute_of(good, [0.2] * 60), *minute_of(bad, [0.001] * 600))

    assert (row["qps"], row["rt_mean_ms"]) == (pytest.approx(11.0), pytest.approx(200.0))


def test_no_percentile_is_made_of_histograms_whose_bounds_do_not_fit_together() -> None:
    python = Histogram(ROUTE, {"handler": "/a"}, bounds=(0.1, 0.25, 0.5, 10.0))
    go = Histogram(ROUTE, {"handler": "/b"}, bounds=(0.05, 0.08, 0.1, 0.25))

    row = last("prom-text", *minute_of(python, [0.2] * 600), *minute_of(go, [0.07] * 600))

    assert row["rt_p95_ms"] is None


def test_without_its_last_bucket_a_histogram_has_no_percentile() -> None:
    metric = Histogram(ROUTE, {"handler": "/a"}, bounds=(0.05, 0.075, 0.1))
    pages = minute_of(metric, [0.07] * 300 + [20.0] * 300)
    cut = [b"\n".join(one for one in text.split(b"\n") if b"+Inf" not in one) for text in pages]

    assert last("prom-text", *cut)["rt_p95_ms"] is None


def test_a_route_that_ends_leaves_what_others_do() -> None:
    """Prometheus writes NaN once a series has ended."""
    stays, ends = (Histogram(ROUTE, {"handler": to}) for to in ("/stays", "/ends"))
    pages = [page(at, replace(stays, took=[0.1] * 10 * at), replace(ends, took=[0.1] * 5 * at)) for at in (30, 90)]
    stale = [one.rpartition(" ") for one in page(150, ends).decode().split("\n")]
    pages += [
        page(150, replace(stays, took=[0.1] * 1500)),
        "\n".join(f"{head.rpartition(' ')[0]} NaN {ts}" for head, _, ts in stale).encode(),
    ]

    rows = sorted(usage("prom-text", *pages), key=lambda row: str(row["ts"]))

    assert [row["qps"] for row in rows][1:] == [pytest.approx(15.0), TEN]
    assert rows[-1]["rt_mean_ms"] == pytest.approx(100.0)


@pytest.mark.parametrize("wanted", ["otlp-proto", "otlp-json"])
def test_a_route_that_was_never_asked_makes_nothing_unknown(wanted: str) -> None:
    """Zero is left out of JSON."""
    made = [otlp(at, np.full(count, 0.1)) for at, count in ((30, 10), (90, 610))]
    for one in made:
        points = one.resource_metrics[0].scope_metrics[0].metrics[0].histogram.data_points
        unasked = points.add(time_unix_nano=points[0].time_unix_nano, sum=0.0)
        unasked.attributes.add(key="http.route").value.string_value = "/unasked"

    messages = [
        one.SerializeToString() if wanted == "otlp-proto" else dumped(json_format.MessageToDict(one)) for one in made
    ]

    assert last(wanted, *messages)["qps"] == TEN


@pytest.mark.parametrize("turned", [False, True])
def test_a_counter_that_was_first_seen_when_it_says_it_began_is_not_all_counted_at_once(*, turned: bool) -> None:
    """As a Collector that takes the time of its first scrape for the start of a counter."""
    made = [otlp(at, np.full(9000 + 10 * at, 0.1), started_s=30, sdk=False) for at in (30, 60, 90)]
    messages = [one.SerializeToString() for one in (reversed(made) if turned else made)]

    found = [row["qps"] for row in usage("otlp-proto", *messages) if row["qps"] is not None]

    assert found
    assert found == [TEN] * len(found)


def test_a_label_as_long_as_a_message_does_not_make_each_series_so_long() -> None:
    long = replace(HISTOGRAMS["client libraries"], labels={"process_command_line": "x" * 9999, "handler": "y" * 9999})

    rows = decoded("prom-text", *minute_of(long, [0.1] * 600)).rows

    assert max(map(len, rows["series"].to_pylist())) < 2 * MAX_SERIES
    assert last("prom-text", *minute_of(long, [0.1] * 600))["qps"] == TEN
