"""Rebuilt: records whose exporter cannot be had as a Go module, after its source, never after a decoder. Kernel."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from math import inf, isinf, isnan

from prometheus_client.parser import text_string_to_metric_families

ADAPTER = "the adapter's record: serializers.go:57 of Telefonica/prometheus-kafka-adapter ccc8413"
CADVISOR = "the record around container_stats: cmd/internal/storage/kafka/kafka.go:55 of google/cadvisor 0c48e07"
DCGM = "the page: internal/pkg/rendermetrics/render_metrics.go:47 of NVIDIA/dcgm-exporter d5e5f51"
KUBELET = "the kubelet's labels: pkg/kubelet/server/server.go:1297 of kubernetes v1.36.3"
OTLP = "the request: examples/metrics.json:1 of open-telemetry/opentelemetry-proto 2487cf3"
KOORDLET = "values, since its tests keep none: recorded by pkg/koordlet/metrics/cpi.go:47, psi.go:137, common.go:143"
NETWORK = "/proc/net/dev, which node_exporter's fixtures lack: of this machine"
OWN = "records: examples of docs/ingest.md"
"""Where what is rebuilt stands."""

DCGM_LABELS = 'gpu="0",UUID="GPU-1",pci_bus_id="0",device="nvidia0",modelName="A100",hostname="n1"'
DCGM_VALUES = {
    "DCGM_FI_PROF_SM_ACTIVE": "0.25",
    "DCGM_FI_DEV_FB_USED": "1024",
    "DCGM_FI_PROF_DRAM_ACTIVE": "0.125",
    "DCGM_FI_PROF_PCIE_TX_BYTES": "3000000",
    "DCGM_FI_PROF_PCIE_RX_BYTES": "2000000",
}
_OF_POD = 'container="web",namespace="shop",pod="web-0"'


def dcgm_page() -> str:
    """What dcgm-exporter shows of one GPU of a pod."""
    return "".join(f"{name}{{{DCGM_LABELS},{_OF_POD}}} {value}\n" for name, value in DCGM_VALUES.items())


def scraped(page: str, target: Mapping[str, str], at: datetime) -> Iterator[tuple[dict[str, str], float, float]]:
    """Labels, value and time in seconds of each sample of a page, after Prometheus scraped it from a target.

    Args:
        page: text exposition.
        target: labels of the target; where the page has a label of the same name, it becomes exported_.
        at: time of samples that have none.
    """
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            exposed = {f"exported_{name}" if name in target else name: text for name, text in sample.labels.items()}
            labels = {"__name__": sample.name, **exposed, **target}
            when = at.timestamp() if sample.timestamp is None else float(sample.timestamp)
            yield {name: text for name, text in sorted(labels.items()) if text}, sample.value, when


def adapter_records(
    page: str, target: Mapping[str, str], kept: re.Pattern[str], at: datetime
) -> Iterator[tuple[str, bytes]]:
    """Metric and record of each sample as prometheus-kafka-adapter writes it; source: ADAPTER."""
    for labels, value, when in scraped(page, target, at):
        name = labels["__name__"]
        if kept.fullmatch(name):
            time = f"{datetime.fromtimestamp(int(when), UTC):%Y-%m-%dT%H:%M:%SZ}"
            record = {"labels": labels, "name": name, "timestamp": time, "value": go_float(value)}
            yield name, json.dumps(record, separators=(",", ":")).encode()


def go_float(value: float) -> str:
    """A number as strconv.FormatFloat(value, 'f', -1, 64) writes it: never with an exponent."""
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value == inf else "-Inf"
    return f"{Decimal(repr(value)):f}".removesuffix(".0")


def text_page(page: str, target: Mapping[str, str]) -> bytes:
    """A page with the labels of its target, which exporters without Prometheus have to add themselves."""
    added = ",".join(f'{name}="{text}"' for name, text in target.items())

    def labelled(line: str) -> str:
        name, brace, rest = line.strip().partition("{")
        if not name or name.startswith("#"):
            return line.strip()
        if brace:
            return f"{name}{{{added},{rest}"
        metric, _, value = name.partition(" ")
        return f"{metric}{{{added}}} {value}"

    return "\n".join([*map(labelled, page.split("\n")), ""]).encode()


def otlp_example(at: datetime) -> bytes:
    """A service's counter and gauge, with times as JSON numbers; source: OTLP."""
    time = int(at.timestamp()) * 10**9
    point = {"asDouble": 5, "startTimeUnixNano": time, "timeUnixNano": time, "attributes": []}
    counter = {"aggregationTemporality": 1, "isMonotonic": True, "dataPoints": [point]}
    metrics = [
        {"name": "my.counter", "unit": "1", "sum": counter},
        {"name": "my.gauge", "gauge": {"dataPoints": [point]}},
    ]
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "my.service"}}]}
    return json.dumps({"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": metrics}]}]}).encode()


def go_pages(source: str, metric: str) -> list[str]:
    """Text expositions that a Go test expects and that have a metric."""
    return [page for page in re.findall(r"`([^`]*)`", source) if f"{metric}{{" in page or f"{metric} " in page]
