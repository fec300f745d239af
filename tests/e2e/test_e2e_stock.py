"""The parts of `python -m e2e.stock` that need no Collector."""

import json
from pathlib import Path
from typing import Any

import yaml
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from e2e.stock.judging import WINDOW_MS, stretch_of
from e2e.stock.recording import PHASES, Recorded
from e2e.stock.site import MANIFEST, configuration
from e2e.stock.stretched import Stretch
from ingest.kafka_io.stream_files import Message

STRETCH = Stretch(end_ms=1_700_000_600_000, factor=30)


def request(at_s: int, served: int) -> bytes:
    """A counter, a gauge and a histogram, of so many requests of 20 ms."""
    made = ExportMetricsServiceRequest()
    metrics = made.resource_metrics.add().scope_metrics.add().metrics
    counter, gauge, bars = (
        metrics.add(name=name) for name in ("container_cpu_seconds_total", "memory", "http.server.x")
    )
    counter.sum.is_monotonic = True
    points: tuple[Any, ...] = (counter.sum.data_points.add(), gauge.gauge.data_points.add())
    for point, value in zip(points, (served * 0.02, 5e9), strict=True):
        point.as_double, point.time_unix_nano = value, at_s * 10**9
    one = bars.histogram.data_points.add(count=served, sum=served * 0.02, bucket_counts=[served, 0])
    one.time_unix_nano, one.start_time_unix_nano = at_s * 10**9, (at_s - 100) * 10**9
    return bytes(made.SerializeToString())


def stretched(at_s: int, served: int, without: tuple[str, ...] = ()) -> Any:
    value = STRETCH.message("otlp_metrics", Message(at_s * 1000, b"", request(at_s, served)), without=without).value
    return ExportMetricsServiceRequest.FromString(value or b"").resource_metrics[0].scope_metrics[0].metrics


def test_the_collector_is_the_manifests_but_for_addresses_times_and_what_secures_a_kubelet() -> None:
    made = configuration(MANIFEST.read_text(), Path("kubeconfig"), "127.0.0.1:9092", 4318)

    assert made["exporters"]["kafka"] == {
        "brokers": ["127.0.0.1:9092"],
        "metrics": {"topic": "otlp_metrics", "encoding": "otlp_proto"},
    }
    assert made["service"]["pipelines"]["metrics"] == {"receivers": ["otlp", "prometheus"], "exporters": ["kafka"]}
    kubelet, pods = made["receivers"]["prometheus"]["config"]["scrape_configs"]
    assert {*kubelet} == {"job_name", "metrics_path", "kubernetes_sd_configs", "relabel_configs"}
    assert kubelet["kubernetes_sd_configs"] == [{"role": "node", "kubeconfig_file": "kubeconfig"}]
    assert [one["target_label"] for one in pods["relabel_configs"][-3:]] == ["namespace", "pod", "node"]


def test_the_page_has_the_manifests_exporter_and_puts_the_trials_address_into_it() -> None:
    page = (MANIFEST.parents[2] / "docs" / "quickstart.md").read_text()
    shown = yaml.safe_load(page.partition("```yaml\nexporters:")[2].partition("```")[0])
    words, new = page.partition("sed s/")[2].split("/")[:2]
    manifest = MANIFEST.read_text()
    made = configuration(manifest, Path("kubeconfig"), shown["kafka"]["brokers"][0], 4318)

    assert shown == made["exporters"]
    assert f'brokers: ["{new}:9092"]' in manifest.replace(words, new)
    assert shown["kafka"]["brokers"] == [f"{new}:9092"]


def test_stretched_time_leaves_rates_means_and_gauges_as_they_were() -> None:
    before, after = stretched(1_700_000_500, 100), stretched(1_700_000_510, 140)
    counted, gauges, bars = ([of[number] for of in (before, after)] for number in range(3))

    first, second = (of.sum.data_points[0] for of in counted)
    seconds = (second.time_unix_nano - first.time_unix_nano) / 1e9
    assert seconds == 300
    assert round((second.as_double - first.as_double) / seconds, 9) == 40 * 0.02 / 10
    assert [of.gauge.data_points[0].as_double for of in gauges] == [5e9, 5e9]
    first, second = (of.histogram.data_points[0] for of in bars)
    assert (second.count - first.count) / seconds == 4
    assert round((second.sum - first.sum) / (second.count - first.count), 9) == 0.02
    assert list(second.bucket_counts) == [140 * 30, 0]


def test_stretched_time_ends_where_it_ended_and_leaves_out_what_is_asked_for() -> None:
    record = STRETCH.message("placements", Message(STRETCH.end_ms, b"", b'{"ts": %d}' % (STRETCH.end_ms - 10_000)))

    assert record.arrived_ms == STRETCH.end_ms
    assert json.loads(record.value or b"") == {"ts": STRETCH.end_ms - 300_000}
    assert [metric.name for metric in stretched(1_700_000_500, 1, ("http.",))] == [
        "container_cpu_seconds_total",
        "memory",
    ]


def test_phases_begin_with_windows() -> None:
    first, last = (1_700_000_000_123.4, 1_700_000_150_000.0), (1_700_000_400_000.0, 1_700_000_420_777.7)

    found = stretch_of(Recorded([], {PHASES[0].name: first, "end": last}, {}, {}, 0.0), 30)

    assert found.at_ms(round(first[0])) % WINDOW_MS == 0
    assert found.at_ms(last[1]) <= found.end_ms
