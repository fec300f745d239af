"""Messages as exporters write them, for the decoders' benchmark: what a node's exporter sends, moment after moment."""

import json
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

START_S = 1_772_366_400
STEP_S = 30
Make = Callable[[int, np.random.Generator], list[bytes]]
"""About so many samples as messages."""


def _uid(pod: int) -> str:
    return f"0d5a3f6e-1111-2222-3333-{pod:012d}"


def _rfc(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _moments(samples: int, per_moment: int) -> range:
    count = max(1, samples // per_moment)
    return range(START_S, START_S + count * STEP_S, STEP_S)


def telegraf_json(samples: int, rng: np.random.Generator) -> list[bytes]:
    """Input docker: CPU of each container, with tags as it gives them."""
    return [
        json.dumps(
            {
                "fields": {
                    "container_id": f"{pod:064x}",
                    "throttling_periods": int(rng.integers(10**6)),
                    "throttling_throttled_periods": int(rng.integers(10**6)),
                    "throttling_throttled_time": int(rng.integers(10**12)),
                    "usage_in_kernelmode": int(rng.integers(10**15)),
                    "usage_in_usermode": int(rng.integers(10**15)),
                    "usage_percent": float(rng.random()),
                    "usage_system": int(rng.integers(10**15)),
                    "usage_total": int(rng.integers(10**15)),
                },
                "name": "docker_container_cpu",
                "tags": {
                    "container_image": "registry/web",
                    "container_name": f"web-{pod}",
                    "container_status": "running",
                    "container_version": "1.2.3",
                    "cpu": "cpu-total",
                    "engine_host": "node-17",
                    "host": "node-17",
                    "server_version": "24.0.5",
                },
                "timestamp": moment,
            },
            separators=(",", ":"),
        ).encode()
        for moment in _moments(samples, 60)
        for pod in range(30)
    ]


def prom_adapter(samples: int, rng: np.random.Generator) -> list[bytes]:
    """One sample of the kubelet's a message."""
    return [
        json.dumps(
            {
                "labels": {"__name__": name, **_labels(pod), "instance": "10.0.0.17:10250", "job": "kubelet"},
                "name": name,
                "timestamp": _rfc(moment),
                "value": f"{rng.random() * 1e6:.6f}",
            },
            separators=(",", ":"),
        ).encode()
        for moment in _moments(samples, 60)
        for pod in range(30)
        for name in ("container_cpu_usage_seconds_total", "container_memory_working_set_bytes")
    ]


def _labels(pod: int) -> dict[str, str]:
    return {
        "container": "web",
        "id": f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{_uid(pod).replace('-', '_')}.slice/"
        f"cri-containerd-{pod:064x}.scope",
        "image": "registry.example/web:1.2.3",
        "name": f"{pod:064x}",
        "namespace": "shop",
        "node": "node-17",
        "pod": f"web-7d4b9c6f5-{pod:05d}",
    }


def prom_text(samples: int, rng: np.random.Generator) -> list[bytes]:
    """The kubelet's page of one moment a message."""
    names = ("container_cpu_usage_seconds_total", "container_memory_working_set_bytes", "container_fs_reads_total")
    pages = []
    for moment in _moments(samples, 90):
        lines = []
        for name in names:
            lines += [f"# HELP {name} As cAdvisor says.", f"# TYPE {name} counter"]
            for pod in range(30):
                labels = ",".join(f'{key}="{value}"' for key, value in _labels(pod).items())
                lines.append(f"{name}{{{labels}}} {rng.random() * 1e6:.6f} {moment * 1000}")
        pages.append("\n".join([*lines, ""]).encode())
    return pages


GAUGES = (
    ("k8s.pod.cpu.usage", "{cpu}", "Total CPU usage (sum of all cores per second) averaged over the sample window"),
    ("k8s.pod.memory.working_set", "By", "Pod memory working_set"),
    ("container.cpu.usage", "{cpu}", "Total CPU usage (sum of all cores per second) averaged over the sample window"),
    ("container.memory.working_set", "By", "Container memory working_set"),
)


def _resource(request: ExportMetricsServiceRequest, gauges: int, moment: int, rng: np.random.Generator) -> None:
    """100 gauges of one resource, as receiver kubeletstats sends them; every tenth has two attributes of its own."""
    resource = request.resource_metrics.add()
    for key, value in (
        ("k8s.node.name", "node-17"),
        ("k8s.namespace.name", "shop"),
        ("k8s.pod.name", "web-7d4b9c6f5-00001"),
        ("k8s.pod.uid", _uid(1)),
        ("k8s.container.name", "web"),
        ("k8s.deployment.name", "web"),
    ):
        resource.resource.attributes.add(key=key).value.string_value = value
    metrics = resource.scope_metrics.add().metrics
    for number in range(gauges):
        name, unit, description = GAUGES[number % len(GAUGES)]
        metric = metrics.add(name=name, unit=unit, description=description)
        point = metric.gauge.data_points.add(time_unix_nano=moment * 10**9, as_double=float(rng.random()))
        if number % 10 == 0:
            point.attributes.add(key="interface").value.string_value = f"eth{number}"
            point.attributes.add(key="direction").value.string_value = "receive"


def otlp_requests(samples: int, rng: np.random.Generator) -> list[ExportMetricsServiceRequest]:
    """Requests of 100 gauges each."""
    found = []
    for moment in _moments(samples, 100):
        request = ExportMetricsServiceRequest()
        _resource(request, 100, moment, rng)
        found.append(request)
    return found


def otlp_proto(samples: int, rng: np.random.Generator) -> list[bytes]:
    """Requests as protobuf."""
    return [bytes(request.SerializeToString()) for request in otlp_requests(samples, rng)]


BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""OpenTelemetry's advice for http.server.request.duration."""
ROUTES = ("/", "/items/{id}", "/orders", "/report")


def otlp_histograms(samples: int, rng: np.random.Generator) -> list[bytes]:
    """Requests of a pod's SDK, one histogram each: a point of each route."""
    found = []
    for moment in _moments(samples, 30 * len(ROUTES)):
        for pod in range(30):
            request = ExportMetricsServiceRequest()
            resource = request.resource_metrics.add()
            for key, value in (("k8s.node.name", "node-17"), ("k8s.pod.uid", _uid(pod)), ("service.name", "web")):
                resource.resource.attributes.add(key=key).value.string_value = value
            metric = resource.scope_metrics.add().metrics.add(name="http.server.request.duration", unit="s")
            metric.histogram.aggregation_temporality = 2
            for route, counts in zip(ROUTES, rng.integers(1000, size=(len(ROUTES), 1 + len(BOUNDS_S))), strict=True):
                point = metric.histogram.data_points.add(
                    start_time_unix_nano=START_S * 10**9,
                    time_unix_nano=moment * 10**9,
                    count=int(counts.sum()),
                    sum=float(rng.random() * 100),
                    bucket_counts=counts.tolist(),
                    explicit_bounds=BOUNDS_S,
                )
                attributes = {"http.request.method": "GET", "http.response.status_code": "200", "http.route": route}
                for key, value in attributes.items():
                    point.attributes.add(key=key).value.string_value = value
            found.append(bytes(request.SerializeToString()))
    return found


def text_histograms(samples: int, rng: np.random.Generator) -> list[bytes]:
    """The page of one moment a message: a histogram of each pod and route."""
    pages, name = [], "http_server_request_duration_seconds"
    for moment in _moments(samples, 30 * len(ROUTES) * (len(BOUNDS_S) + 3)):
        lines = [f"# HELP {name} Duration of HTTP server requests.", f"# TYPE {name} histogram"]
        for pod in range(30):
            for route in ROUTES:
                labels = f'namespace="shop",pod="web-7d4b9c6f5-{pod:05d}",node="node-17",http_route="{route}"'
                total = np.cumsum(rng.integers(1000, size=1 + len(BOUNDS_S)))
                bounds = (*map(str, BOUNDS_S), "+Inf")
                lines += [
                    f'{name}_bucket{{{labels},le="{bound}"}} {count} {moment * 1000}'
                    for bound, count in zip(bounds, total, strict=True)
                ]
                lines += [
                    f"{name}_sum{{{labels}}} {rng.random() * 100:.6f} {moment * 1000}",
                    f"{name}_count{{{labels}}} {total[-1]} {moment * 1000}",
                ]
        pages.append("\n".join([*lines, ""]).encode())
    return pages


def otlp_json(samples: int, rng: np.random.Generator) -> list[bytes]:
    """The same requests as JSON."""
    return [json.dumps(_as_json(request), separators=(",", ":")).encode() for request in otlp_requests(samples, rng)]


def _as_json(request: ExportMetricsServiceRequest) -> object:
    def attributes(of: object) -> list[object]:
        return [{"key": a.key, "value": {"stringValue": a.value.string_value}} for a in of.attributes]  # type: ignore[attr-defined]

    def point(of: object) -> dict[str, object]:
        told = {"timeUnixNano": str(of.time_unix_nano), "asDouble": of.as_double}  # type: ignore[attr-defined]
        return {**told, "attributes": attributes(of)} if attributes(of) else told

    return {
        "resourceMetrics": [
            {
                "resource": {"attributes": attributes(resource.resource)},
                "scopeMetrics": [
                    {
                        "scope": {"name": "kubeletstats"},
                        "metrics": [
                            {
                                "name": metric.name,
                                "description": metric.description,
                                "unit": metric.unit,
                                "gauge": {"dataPoints": [point(p) for p in metric.gauge.data_points]},
                            }
                            for metric in scope.metrics
                        ],
                    }
                    for scope in resource.scope_metrics
                ],
            }
            for resource in request.resource_metrics
        ]
    }


def cadvisor(samples: int, rng: np.random.Generator) -> list[bytes]:
    """One container at one moment a message, with what cAdvisor adds that nobody asked for."""
    return [
        json.dumps(_cadvisor_record(pod, moment, rng), separators=(",", ":")).encode()
        for moment in _moments(samples, 30 * 27)
        for pod in range(30)
    ]


def _cadvisor_record(pod: int, moment: int, rng: np.random.Generator) -> object:
    def some() -> int:
        return int(rng.integers(1, 10**12))

    def psi() -> dict[str, object]:
        return {level: {"total": some(), "avg10": 0.1, "avg60": 0.1, "avg300": 0.1} for level in ("full", "some")}

    disk = [
        {
            "device": "/dev/sda",
            "major": 8,
            "minor": 0,
            "stats": {k: some() for k in ("Async", "Discard", "Read", "Sync", "Total", "Write")},
        }
    ]
    memory: tuple[str, ...] = (
        "usage",
        "max_usage",
        "cache",
        "rss",
        "swap",
        "mapped_file",
        "working_set",
        "total_active_file",
    )
    memory += ("total_inactive_file", "workingset_refault_file", "workingset_refault_anon", "failcnt", "kernel")
    link = ("rx_bytes", "rx_packets", "rx_errors", "rx_dropped", "tx_bytes", "tx_packets", "tx_errors", "tx_dropped")
    tcp = ("Established", "SynSent", "SynRecv", "FinWait1", "FinWait2", "TimeWait", "Close", "CloseWait", "LastAck")
    zeros = dict.fromkeys(tcp, 0)
    eth0 = {"name": "eth0", **{key: some() for key in link}}
    stamp = _rfc(moment).replace("Z", f".{some():012d}"[:10] + "Z")
    return {
        "timestamp": stamp,
        "machine_name": "node-17",
        "container_Name": f"/kubepods/burstable/pod{_uid(pod)}/{pod:064x}",
        "container_Id": f"{pod:064x}",
        "container_labels": {
            "io.kubernetes.container.name": "web",
            "io.kubernetes.pod.name": f"web-7d4b9c6f5-{pod:05d}",
            "io.kubernetes.pod.namespace": "shop",
            "io.kubernetes.pod.uid": _uid(pod),
        },
        "container_stats": {
            "timestamp": stamp,
            "cpu": {
                "usage": {"total": some(), "per_cpu_usage": [some() for _ in range(8)], "user": 0, "system": 0},
                "cfs": {"periods": 5, "throttled_periods": 2, "throttled_time": some(), "burst_time": 0},
                "schedstat": {"run_time": some(), "runqueue_time": some(), "run_periods": some()},
                "load_average": 0,
                "psi": psi(),
            },
            "diskio": {"io_service_bytes": disk, "io_serviced": disk, "psi": psi()},
            "memory": {**{key: some() for key in memory}, "container_data": {"pgfault": 5}, "psi": psi()},
            "network": {**eth0, "interfaces": [eth0], "tcp": zeros, "tcp6": zeros, "udp": zeros, "udp6": zeros},
            "task_stats": dict.fromkeys(("nr_sleeping", "nr_running", "nr_stopped", "nr_io_wait"), 0),
            "perf_stats": [
                {"scaling_ratio": 1, "value": some(), "name": name, "cpu": 0}
                for name in ("cycles", "instructions", "LLC_MISSES")
            ],
            "resctrl": {"memory_bandwidth": [{"mbm_total_bytes": some()}], "cache": [{"llc_occupancy": some()}]},
        },
    }


def native(samples: int, rng: np.random.Generator) -> list[bytes]:
    """Our own JSON: one record of `usage` a message, with every signal."""
    from ingest.schema.tables import SIGNALS

    low = {column.name: max(column.low, 0.001) for column in SIGNALS}
    return [
        json.dumps(
            {
                "cluster": "c1",
                "ts": moment,
                "interval_s": 30.0,
                "node": "node-17",
                "container": _uid(pod),
                "app": "web",
                "team": "shop",
                "qos": "LS",
                **{name: round(least + float(rng.random()) * 0.9, 6) for name, least in low.items()},
            },
            separators=(",", ":"),
        ).encode()
        for moment in _moments(samples, 30 * len(low))
        for pod in range(30)
    ]
