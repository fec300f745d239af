"""What Prometheus sends on of kubelets and node exporters: by prometheus-kafka-adapter, or as text.

- Labels of cAdvisor's metrics are those that the kubelet gives them: id, name, image, pod, namespace, container
  (kubernetes pkg/kubelet/server/server.go, containerPrometheusLabelsFunc, v1.34). An empty label is none: series of a
  pod's own cgroup and of its sandbox have no container.
- kube-prometheus (v0.15) adds node, job and metrics_path, and scrapes cAdvisor with honorTimestamps false: a sample has
  the time of the scrape on the clock of the Prometheus that scraped. External labels name the replica.
- prometheus-kafka-adapter writes one JSON object a sample: keys in order, value a string, time in whole seconds
  (Telefonica/prometheus-kafka-adapter 1.9, serializers.go and README.md).
- Text is the exposition format 0.0.4 with times in milliseconds, one message a scrape.
"""

import json
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np

from tests.life.cgroups import cgroups
from tests.life.sending import Sent, read_at, scrapes, sent, stamps
from tests.life.truth import START_S, Floats, Node, Replica, Rng, Timeline

CPU, MEMORY = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
TYPES = {
    CPU: "counter",
    MEMORY: "gauge",
    "node_memory_MemAvailable_bytes": "gauge",
    "node_memory_MemTotal_bytes": "gauge",
}


class Series(NamedTuple):
    """One series of one replica: when it was scraped, and its values as Go prints floats."""

    name: str
    labels: dict[str, str]
    at: Floats
    values: list[str]


def adapter(timeline: Timeline, rng: Rng) -> list[Sent]:
    """Records of prometheus-kafka-adapter."""
    times: list[Floats] = []
    values: list[bytes] = []
    for replica in timeline.replicas:
        for series in _all(timeline, replica):
            labels = {"__name__": series.name, **series.labels, **_external(timeline, replica)}
            head = f'{{"labels":{json.dumps(labels, separators=(",", ":"), sort_keys=True)},"name":"{series.name}"'
            stamped = stamps(series.at + replica.ahead_s)
            pairs = zip(stamped, series.values, strict=True)
            values += [f'{head},"timestamp":"{stamp}","value":"{value}"}}'.encode() for stamp, value in pairs]
            times.append(series.at)
    return sent(timeline, rng, np.concatenate(times), values)


def text(timeline: Timeline, rng: Rng) -> list[Sent]:
    """Messages of text, all that one scrape of one node found."""
    lines: dict[tuple[str, float], dict[str, list[str]]] = {}
    for replica in timeline.replicas:
        for series in _all(timeline, replica):
            labels = {**series.labels, **_external(timeline, replica)}
            shown = ",".join(f'{name}="{value}"' for name, value in labels.items())
            head = f"{series.name}{{{shown}}}"
            millis = np.round((series.at + replica.ahead_s + START_S) * 1000).astype(np.int64).tolist()
            for at, stamp, value in zip(series.at.tolist(), millis, series.values, strict=True):
                found = lines.setdefault((replica.name + labels["node"], at), {})
                found.setdefault(series.name, []).append(f"{head} {value} {stamp}")
    bodies = [
        "\n".join(chain.from_iterable((f"# TYPE {name} {TYPES[name]}", *rows) for name, rows in found.items()))
        for found in lines.values()
    ]
    return sent(timeline, rng, np.array([at for _, at in lines]), [f"{body}\n".encode() for body in bodies])


def _external(timeline: Timeline, replica: Replica) -> dict[str, str]:
    alone = {"prometheus": "monitoring/k8s"}
    return alone | ({"prometheus_replica": replica.name} if len(timeline.replicas) > 1 else {})


def _all(timeline: Timeline, replica: Replica) -> Iterator[Series]:
    for number, node in enumerate(timeline.nodes):
        phase = (replica.phase_s + 3.7 * number) % timeline.interval_s
        at = scrapes(timeline, node, phase)
        yield from _cadvisor(timeline, node, at)
        if len(at):
            yield from _node_exporter(timeline, node, at)


def _cadvisor(timeline: Timeline, node: Node, at: Floats) -> Iterator[Series]:
    common = {"job": "kubelet", "metrics_path": "/metrics/cadvisor", "node": node.name, "instance": "10.0.0.1:10250"}
    if len(at):
        yield Series(MEMORY, {**common, "id": "/"}, at, [str(9 << 30)] * len(at))
    for group in cgroups(timeline, node):
        there = at[(at >= group.start) & (at < group.end) & (read_at(at) >= group.start)]
        if not len(there):
            continue
        labels = {**common, "id": group.path, "namespace": group.pod.namespace, "pod": group.pod.name}
        if group.id:
            labels |= {"name": group.id, "image": f"shop/{group.run.name}:1.4" if group.run else "pause:3.10"}
        if group.run is not None:
            labels["container"] = group.run.name
        read = read_at(there)
        yield Series(CPU, {**labels, "cpu": "total"}, there, [repr(value) for value in group.used(read).tolist()])
        yield Series(MEMORY, labels, there, [str(value) for value in group.memory(read)])


def _node_exporter(timeline: Timeline, node: Node, at: Floats) -> Iterator[Series]:
    labels = {"job": "node-exporter", "instance": node.name, "node": node.name}
    total, free = 32 << 30, 20 << 30
    yield Series("node_memory_MemTotal_bytes", labels, at, [str(total)] * len(at))
    yield Series("node_memory_MemAvailable_bytes", labels, at, [str(free)] * len(at))
