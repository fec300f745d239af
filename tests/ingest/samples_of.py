"""Realistic messages of every foreign format, written for the tests: small, and easy to check by hand."""

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE as CUMULATIVE
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_DELTA as DELTA

from tests.ingest.foreign import CGROUPFS, RFC, SYSTEMD, TS, UID, dumped

NS = TS * 10**9
Json = dict[str, object]


def telegraf(**changes: object) -> Json:
    tags = {"host": "n1", "engine_host": "n1", "container_name": "web", "container_image": "web", "cpu": "cpu-total"}
    fields = {"usage_total": 5_000_000_000, "throttling_throttled_time": 2_000_000_000, "usage_percent": 12.5}
    return {"fields": fields, "name": "docker_container_cpu", "tags": tags, "timestamp": TS, **changes}


def pod_container() -> Json:
    tags = {"host": "agent", "container_name": "web", "namespace": "shop", "node_name": "n1", "pod_name": "web-0"}
    fields = {"cpu_usage_nanocores": 1_500_000_000, "memory_working_set_bytes": 7}
    return {"fields": fields, "name": "kubernetes_pod_container", "tags": tags, "timestamp": TS}


def labels_of_adapter() -> dict[str, str]:
    return {
        "__name__": "container_cpu_usage_seconds_total",
        "container": "web",
        "cpu": "total",
        "id": f"{CGROUPFS}/abc",
        "instance": "10.0.0.1:10250",
        "namespace": "shop",
        "node": "n1",
        "pod": "web-0",
    }


def adapter(**changes: object) -> Json:
    labels = labels_of_adapter()
    return {"labels": labels, "name": labels["__name__"], "timestamp": RFC, "value": "12.5", **changes}


def page(pod: str = "web-0", slice_: str = SYSTEMD) -> str:
    """The kubelet's page: a container, its pod, its pause container, a system slice and the node."""

    def line(name: str, value: str, cgroup: str, **labels: str) -> str:
        own = {"id": cgroup, "node": "n1", **labels}
        told = ",".join(f'{key}="{text}"' for key, text in own.items())
        return f"{name}{{{told}}} {value} {TS}000"

    cpu, network = "container_cpu_usage_seconds_total", "container_network_receive_bytes_total"
    of_pod = {"namespace": "shop", "pod": pod}
    lines = [
        f"# HELP {cpu} Cumulative cpu time consumed",
        f"# TYPE {cpu} counter",
        line(cpu, "12.5", f"{slice_}/cri-containerd-abc.scope", container="web", cpu="total", **of_pod),
        line(cpu, "13", slice_, container="", cpu="total", **of_pod),
        line(cpu, "0.5", f"{slice_}/cri-containerd-pause.scope", container="", cpu="total", **of_pod),
        line(cpu, "4", "/system.slice/kubelet.service", container="", cpu="total"),
        line(cpu, "100", "/", container="", cpu="total"),
        line(network, "70", f"{slice_}/cri-containerd-pause.scope", interface="eth0", **of_pod),
        "node_load1 0.5",
        "",
    ]
    return "\n".join(lines)


PAGE = page()


def request() -> ExportMetricsServiceRequest:
    """A pod's gauges and counters, and histogram, as the Collector sends them."""
    made = ExportMetricsServiceRequest()
    resource = made.resource_metrics.add()
    told = (("k8s.node.name", "n1"), ("k8s.pod.uid", UID), ("k8s.namespace.name", "shop"), ("k8s.pod.name", "web-0"))
    for key, value in told:
        resource.resource.attributes.add(key=key).value.string_value = value
    metrics = resource.scope_metrics.add().metrics
    metrics.add(name="k8s.pod.cpu.usage", unit="{cpu}").gauge.data_points.add(time_unix_nano=NS, as_double=0.5)
    metrics.add(name="k8s.pod.memory.working_set").gauge.data_points.add(time_unix_nano=NS, as_int=7)
    network = metrics.add(name="k8s.pod.network.io").sum
    network.aggregation_temporality, network.is_monotonic = CUMULATIVE, True
    for direction, count in (("receive", 70), ("transmit", 80)):
        point = network.data_points.add(start_time_unix_nano=NS - 10**12, time_unix_nano=NS, as_int=count)
        point.attributes.add(key="interface").value.string_value = "eth0"
        point.attributes.add(key="direction").value.string_value = direction
    served = metrics.add(name="my.request.duration").histogram
    served.aggregation_temporality = CUMULATIVE
    served.data_points.add(time_unix_nano=NS, count=4, sum=2.0, bucket_counts=[4], explicit_bounds=[])
    return made


def plain_request() -> ExportMetricsServiceRequest:
    """Without the histogram: gauges and counters alone, whose layout is kept."""
    made = request()
    made.resource_metrics[0].scope_metrics[0].metrics.pop()
    return made


def delta_request() -> ExportMetricsServiceRequest:
    """The same pod, its network counted anew every ten seconds."""
    made = request()
    metrics = made.resource_metrics[0].scope_metrics[0].metrics
    network = metrics[2].sum
    network.aggregation_temporality = DELTA
    for point in network.data_points:
        point.start_time_unix_nano = NS - 10 * 10**9
    return made


def proto() -> bytes:
    return bytes(request().SerializeToString())


def otlp_json() -> Json:
    """The request as the Collector's JSON: int64 are texts."""

    def attribute(key: str, value: str) -> Json:
        return {"key": key, "value": {"stringValue": value}}

    def network(direction: str, count: int) -> Json:
        own = [attribute("interface", "eth0"), attribute("direction", direction)]
        times = {"startTimeUnixNano": str(NS - 10**12), "timeUnixNano": str(NS)}
        return {"attributes": own, **times, "asInt": str(count)}

    told = (("k8s.node.name", "n1"), ("k8s.pod.uid", UID), ("k8s.namespace.name", "shop"), ("k8s.pod.name", "web-0"))
    count = {"timeUnixNano": str(NS), "count": "4", "sum": 2.0, "bucketCounts": ["4"], "explicitBounds": []}
    metrics: list[Json] = [
        {"name": "k8s.pod.cpu.usage", "gauge": {"dataPoints": [{"timeUnixNano": str(NS), "asDouble": 0.5}]}},
        {"name": "k8s.pod.memory.working_set", "gauge": {"dataPoints": [{"timeUnixNano": str(NS), "asInt": "7"}]}},
        {
            "name": "k8s.pod.network.io",
            "sum": {
                "dataPoints": [network("receive", 70), network("transmit", 80)],
                "aggregationTemporality": 2,
                "isMonotonic": True,
            },
        },
        {"name": "my.request.duration", "histogram": {"dataPoints": [count], "aggregationTemporality": 2}},
    ]
    resource = {"attributes": [attribute(*pair) for pair in told]}
    return {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": metrics}]}]}


def cadvisor(**stats: object) -> Json:
    return {
        "timestamp": "2026-03-01T11:59:56.5Z",
        "machine_name": "n1",
        "container_Name": f"{CGROUPFS}/abc",
        "container_Id": "abc",
        "container_labels": {
            "io.kubernetes.container.name": "web",
            "io.kubernetes.pod.name": "web-0",
            "io.kubernetes.pod.namespace": "shop",
            "io.kubernetes.pod.uid": UID,
        },
        "container_stats": {**stats_of(), **stats},
    }


def psi(some: int, full: int) -> Json:
    return {"full": {"total": full, "avg10": 0.0}, "some": {"total": some, "avg10": 0.1}}


def stats_of() -> Json:
    blocks = [{"device": "/dev/sda", "major": 8, "minor": 0, "stats": {"Read": 40, "Write": 50, "Total": 90}}]
    unread = [{"device": "/dev/sda", "major": 8, "minor": 0, "stats": {"Read": 0, "Write": 0, "Total": 0}}]
    link = {"name": "eth0", "rx_bytes": 70, "tx_bytes": 80}
    return {
        "timestamp": "2026-03-01T11:59:55.123456789Z",
        "cpu": {
            "usage": {"total": 5_000_000_000, "user": 4_000_000_000, "system": 1_000_000_000},
            "cfs": {"periods": 9, "throttled_periods": 3, "throttled_time": 2_000_000_000},
            "schedstat": {"run_time": 0, "runqueue_time": 0, "run_periods": 0},
            "psi": psi(3_000_000, 1_000_000),
        },
        "memory": {"working_set": 100, "rss": 90, "workingset_refault_file": 4, "psi": psi(0, 0)},
        "diskio": {"io_service_bytes": blocks, "io_serviced": unread, "psi": psi(0, 0)},
        "network": {**link, "interfaces": [link, {**link, "name": "lo"}]},
        "perf_stats": [
            {"scaling_ratio": 0.5, "value": 900, "name": "instructions", "cpu": 0},
            {"scaling_ratio": 0, "value": 3, "name": "instructions", "cpu": 1},
            {"scaling_ratio": 1, "value": 1800, "name": "cycles", "cpu": 0},
        ],
        "resctrl": {
            "memory_bandwidth": [{"mbm_total_bytes": 64, "mbm_local_bytes": 32}],
            "cache": [{"llc_occupancy": 6}, {"llc_occupancy": 7}],
        },
    }


MESSAGES: dict[str, list[bytes]] = {
    "telegraf-json": [
        dumped(telegraf()),
        dumped({"metrics": [pod_container(), telegraf(timestamp=TS * 1000)]}),
        dumped(telegraf(name="mem", fields={"used": 5}, timestamp=RFC)),
    ],
    "prom-adapter": [
        dumped(adapter()),
        dumped(adapter(value="NaN")),
        dumped(adapter(timestamp="2026-03-01T11:59:56Z")),
    ],
    "prom-text": [PAGE.encode(), b'up{job="x"} 1\n', page("web-1", SYSTEMD.replace("5555_6666", "5555_7777")).encode()],
    "otlp-proto": [
        proto(),
        bytes(delta_request().SerializeToString()),
        *[bytes(plain_request().SerializeToString())] * 3,
    ],
    "otlp-json": [dumped(otlp_json())],
    "cadvisor": [dumped(cadvisor()), dumped(cadvisor(perf_stats=[]))],
}
"""Good messages by format."""
MESSAGES["auto"] = [message for messages in MESSAGES.values() for message in messages]
