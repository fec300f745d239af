"""What OpenTelemetry's kubeletstats receiver sends through kafkaexporter: one request a node and collection.

Metrics are the receiver's default ones of CPU and the working set, gauge k8s.pod.cpu.usage and sum k8s.pod.cpu.time and
their like for nodes and containers; a point has the collector's time, and the thing's start
(open-telemetry/opentelemetry-collector-contrib v0.140, receiver/kubeletstatsreceiver documentation.md,
internal/kubelet/accumulator.go and cpu.go). Resources of pods have k8s.node.name, as a resource processor sets it.
JSON is that of OTLP: 64-bit integers are strings.
"""

import json
from collections.abc import Callable, Iterator

import numpy as np
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.life.kubelet import Stat, summary
from tests.life.sending import Sent, nanos, scrapes, sent
from tests.life.truth import START_S, Node, Rng, Timeline

Encode = Callable[[Stat, Node], Iterator[bytes]]
"""Makes of one thing's stats the part of the request of each time that is about it."""
SCOPE = "github.com/open-telemetry/opentelemetry-collector-contrib/receiver/kubeletstatsreceiver"
VERSION = "0.140.0"


def as_json(timeline: Timeline, rng: Rng) -> list[Sent]:
    """Records with encoding otlp_json."""
    times, parts = _requests(timeline, rng, _json)
    return sent(timeline, rng, np.array(times), [b'{"resourceMetrics":[%b]}' % b",".join(part) for part in parts])


def as_proto(timeline: Timeline, rng: Rng) -> list[Sent]:
    """Records with encoding otlp_proto: requests of one resource each, put together, are a request of all."""
    times, parts = _requests(timeline, rng, _proto)
    return sent(timeline, rng, np.array(times), [b"".join(part) for part in parts])


def _requests(timeline: Timeline, rng: Rng, encode: Encode) -> tuple[list[float], list[list[bytes]]]:
    times: list[float] = []
    parts: list[list[bytes]] = []
    for node in timeline.nodes:
        requests: dict[float, list[bytes]] = {}
        at = scrapes(timeline, node, float(rng.uniform(0, timeline.interval_s)))
        for stat in summary(timeline, node, at):
            for time, part in zip(stat.at.tolist(), encode(stat, node), strict=True):
                requests.setdefault(time, []).append(part)
        times += requests
        parts += requests.values()
    return times, parts


def _names(stat: Stat, node: Node) -> tuple[str, dict[str, str]]:
    """How its metrics begin, and its resource's attributes."""
    names = {"k8s.node.name": node.name}
    if stat.pod is None:
        return "k8s.node", names
    names |= {"k8s.pod.uid": stat.pod.cgroup_uid, "k8s.pod.name": stat.pod.name}
    names |= {"k8s.namespace.name": stat.pod.namespace}
    return ("container", {**names, "k8s.container.name": stat.container}) if stat.container else ("k8s.pod", names)


def _began(stat: Stat, node: Node) -> int:
    return round((START_S + (stat.pod.start if stat.pod else node.start)) * 1e9)


def _json(stat: Stat, node: Node) -> Iterator[bytes]:
    prefix, names = _names(stat, node)
    attributes = json.dumps([{"key": key, "value": {"stringValue": value}} for key, value in names.items()])
    scope = json.dumps({"name": SCOPE, "version": VERSION})
    point = f'{{"startTimeUnixNano":"{_began(stat, node)}","timeUnixNano":"%d",'
    template = (
        f'{{"resource":{{"attributes":{attributes}}},"scopeMetrics":[{{"scope":{scope},"metrics":['
        f'{{"name":"{prefix}.cpu.usage","unit":"{{cpu}}","gauge":{{"dataPoints":[{point}"asDouble":%r}}]}}}},'
        f'{{"name":"{prefix}.cpu.time","unit":"s","sum":{{"aggregationTemporality":2,"isMonotonic":true,'
        f'"dataPoints":[{point}"asDouble":%r}}]}}}},'
        f'{{"name":"{prefix}.memory.working_set","unit":"By","gauge":{{"dataPoints":[{point}"asInt":"%d"}}]}}}}]}}]}}'
    )
    for time, cores, used, memory in _rows(stat):
        yield (template % (time, cores, time, used, time, memory)).encode()


def _rows(stat: Stat) -> Iterator[tuple[int, float, float, int]]:
    return zip(nanos(stat.at), stat.cores.tolist(), stat.used.tolist(), stat.memory_bytes, strict=True)


def _proto(stat: Stat, node: Node) -> Iterator[bytes]:
    prefix, names = _names(stat, node)
    request = ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    for key, value in names.items():
        resource.resource.attributes.add(key=key).value.string_value = value
    scope = resource.scope_metrics.add()
    scope.scope.name, scope.scope.version = SCOPE, VERSION
    usage = scope.metrics.add(name=f"{prefix}.cpu.usage", unit="{cpu}").gauge.data_points.add()
    counted = scope.metrics.add(name=f"{prefix}.cpu.time", unit="s").sum
    counted.aggregation_temporality, counted.is_monotonic = 2, True
    total = counted.data_points.add()
    held = scope.metrics.add(name=f"{prefix}.memory.working_set", unit="By").gauge.data_points.add()
    for point in (usage, total, held):
        point.start_time_unix_nano = _began(stat, node)
    for time, cores, used, memory in _rows(stat):
        for point in (usage, total, held):
            point.time_unix_nano = time
        usage.as_double, total.as_double, held.as_int = cores, used, memory
        yield request.SerializeToString()
