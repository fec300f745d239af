"""Metric catalogue and tables: every column's unit, type, physical range and meaning, and every table's version.

Facts only. A table's version grows when its columns change; additions are nullable, so older files stay readable.
Missing is never zero: a value that was not measured is null.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")
_STRING, _TEXT_BY_NAME = pa.string(), pa.map_(pa.string(), pa.string())
MAX_MESSAGE_BYTES = 1 << 20
"""Longer messages are rejected undecoded: Kafka's own default limit."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: what it means, in which unit, and between which values it is physically possible."""

    name: str
    type: pa.DataType
    unit: str
    meaning: str
    low: float = -inf
    high: float = inf
    required: bool = False
    choices: tuple[str, ...] = ()
    """Words of which a text is one; empty: any text."""


@dataclass(frozen=True)
class Table:
    """One table: rows are unique by `key`; `time` places a row in the lake, and is empty where rows have none."""

    name: str
    version: int
    key: tuple[str, ...]
    time: str
    columns: tuple[Column, ...]
    meaning: str = ""

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the table as it lies in the lake."""
        return pa.schema([pa.field(c.name, c.type, nullable=not c.required) for c in self.columns])

    @cached_property
    def coded(self) -> "Table":
        """The same table with dictionaries in the place of texts, in memory."""
        coded = pa.dictionary(pa.int32(), pa.string())
        columns = tuple(replace(c, type=coded) if c.type == pa.string() else c for c in self.columns)
        return replace(self, columns=columns)

    @cached_property
    def by_name(self) -> dict[str, Column]:
        """Columns by name, in order."""
        return {c.name: c for c in self.columns}

    @property
    def is_landed(self) -> bool:
        """Whether its rows come from streams, and say from where; else they are computed from those of others."""
        return "offset" in self.by_name


def _table(name: str, version: int, key: str, meaning: str, time: str = "ts") -> Callable[..., Table]:
    """A table, to be called with its columns; words of `key` are names of columns."""
    return lambda *columns: Table(name, version, tuple(key.split()), time, columns, meaning)


def _key(name: str, meaning: str, kind: pa.DataType = _STRING) -> Column:
    return Column(name, kind, "", meaning, required=True)


def _text(name: str, meaning: str, choices: tuple[str, ...] = ()) -> Column:
    return Column(name, _STRING, "", meaning, choices=choices)


def _number(name: str, unit: str, meaning: str, low: float = 0.0, high: float = inf) -> Column:
    return Column(name, pa.float64(), unit, meaning, low, high)


def _count(name: str, unit: str, meaning: str, low: float = 0.0, high: float = inf) -> Column:
    return Column(name, pa.int64(), unit, meaning, low, high)


def _amounts(name: str, meaning: str) -> Column:
    return Column(name, _TEXT_BY_NAME, "", f"{meaning}: number by name of the resource")


def _flag(name: str, meaning: str) -> Column:
    return Column(name, pa.bool_(), "", meaning)


def _time(name: str, meaning: str) -> Column:
    return Column(name, TIMESTAMP, "UTC", meaning, required=True)


CLUSTER = _key("cluster", "cluster the node belongs to")
NODE = _key("node", "node the container runs on")
CONTAINER = _key("container", "uid of what the scheduler places: on Kubernetes the pod")
APP = _text("app", "workload the container belongs to")
TEAM = _text("team", "team that owns the app")
QOS_VALUES = ("LS", "BE", "SYSTEM")
QOS = _text("qos", "LS (latency sensitive), BE (best effort) or SYSTEM", QOS_VALUES)
TS = _time("ts", "end of the interval the row describes")
_INTERVAL = Column("interval_s", pa.float64(), "s", "length of the interval", 0.1, 3600, required=True)

LANDING = (
    _key("topic", "topic (or file) the row came from"),
    _key("partition", "partition the row came from", pa.int32()),
    _key("offset", "offset (or line) the row came from", pa.int64()),
    _time("arrived_at", "the broker's timestamp of the message, never the consumer's clock"),
)
"""Added by the runner to every landed row; duplicates resolve to the lowest (topic, partition, offset)."""

JITTERED = 1.5
"""Largest share of a minute that a counter read at uneven times shows of one that is 1; its mean over time is 1."""

SIGNALS = (
    _number("cpu_cores", "cores", "CPU time per second of interval", 0, 4096),
    _number("cpu_throttled_frac", "s/s", "time throttled by the container's own limit", 0, 1),
    _number(
        "run_delay_frac", "s/s", "time runnable but waiting, throttled time subtracted; per task, may exceed 1", 0, 4096
    ),
    _number("cpu_us_per_request", "us", "CPU time per request", 0, 1e12),
    _number("memory_bytes", "bytes", "memory in use", 0, 1e15),
    _number("memory_refault_s", "1/s", "refaults of evicted pages", 0, 1e12),
    _number("memory_bandwidth_bytes_s", "bytes/s", "memory traffic", 0, 1e14),
    _number("llc_occupancy_bytes", "bytes", "last-level cache held", 0, 1e12),
    _number("cpi", "cycles/instruction", "cycles per instruction", 1e-3, 1e3),
    _number("llc_mpki", "1/1000 instructions", "last-level cache misses per thousand instructions", 0, 1e3),
    _number("net_rx_bytes_s", "bytes/s", "network received", 0, 1e13),
    _number("net_tx_bytes_s", "bytes/s", "network sent", 0, 1e13),
    _number("disk_read_bytes_s", "bytes/s", "read from block devices", 0, 1e13),
    _number("disk_write_bytes_s", "bytes/s", "written to block devices", 0, 1e13),
    _number("disk_ios_s", "1/s", "block I/O operations", 0, 1e9),
    _number("disk_await_ms", "ms", "mean time of a block I/O operation", 0, 1e7),
    _number("psi_cpu_some_frac", "s/s", "some task waited for CPU", 0, JITTERED),
    _number("psi_cpu_full_frac", "s/s", "all tasks waited for CPU", 0, JITTERED),
    _number("psi_memory_some_frac", "s/s", "some task waited for memory", 0, JITTERED),
    _number("psi_memory_full_frac", "s/s", "all tasks waited for memory", 0, JITTERED),
    _number("psi_io_some_frac", "s/s", "some task waited for I/O", 0, JITTERED),
    _number("psi_io_full_frac", "s/s", "all tasks waited for I/O", 0, JITTERED),
    _number("gpu_sm_frac", "s/s", "GPU multiprocessors busy", 0, 64),
    _number("gpu_memory_bytes", "bytes", "GPU memory in use", 0, 1e14),
    _number("gpu_dram_frac", "s/s", "GPU memory interface busy", 0, 64),
    _number("pcie_bytes_s", "bytes/s", "PCIe traffic", 0, 1e13),
    _number("rdma_bytes_s", "bytes/s", "RDMA traffic", 0, 1e13),
    _number("rdma_pause_s", "1/s", "RDMA pause frames", 0, 1e9),
    _number("qps", "1/s", "requests served", 0, 1e9),
    _number("rt_mean_ms", "ms", "mean response time", 0, 1e8),
    _number("rt_p95_ms", "ms", "95th percentile of response time", 0, 1e8),
    _number("rt_p99_ms", "ms", "99th percentile of response time", 0, 1e8),
)
"""What is measured of a container in one interval. All nullable."""

USAGE = _table("usage", 1, "cluster container ts", "Use, latency and pressure of each container, by interval.")(
    *(CLUSTER, TS, _INTERVAL, NODE, CONTAINER, APP, TEAM, QOS),
    *SIGNALS,
    _flag("gpu_share_unknown", "true: gpu_sm_frac is an equal share of what several did on a GPU together; else null"),
    *LANDING,
)

UNKNOWN_NODE = "unknown"
"""Node of containers of which it is not known where they run, as in traces; they have no neighbours."""
WHOLE_NODE = "/"
"""Container of samples that describe the node itself: the name of the root cgroup."""

INGREDIENTS = (
    _number("cycles_s", "1/s", "CPU cycles; with instructions_s gives cpi"),
    _number("instructions_s", "1/s", "instructions retired"),
    _number("llc_misses_s", "1/s", "last-level cache misses; with instructions_s gives llc_mpki"),
    _number("run_queue_frac", "s/s", "time runnable but waiting, throttled time still in; gives run_delay_frac"),
    _number("rt_s", "s/s", "response time of all requests together; with timed_s, else qps, gives rt_mean_ms"),
    _number("timed_s", "1/s", "requests whose response time rt_s has, those that failed left out"),
    _number(
        "rt_bucket_s", "1/s", "requests by bounds of their response time, s, in series; gives rt_p95_ms and rt_p99_ms"
    ),
    _number("gpu_util_frac", "s/s", "time in which the pod's own kernels ran; divides what pods share of a GPU", 0, 64),
    _number("disk_io_s", "s/s", "time of all block I/O together; with disk_ios_s gives disk_await_ms"),
)
"""Metrics of `samples` that are no column of `usage`; `ingest.rates` makes columns of them."""

KIND_VALUES = ("gauge", "counter")

SCRAPED = ", scraped"
"""After the name of an exporter whose metrics OpenTelemetry defines: as Prometheus spells them."""
_OPENTELEMETRY = ("http server", "http server by old names", "rpc server", "rpc server by old names", "messaging")
APP_EXPORTERS = (
    *("vllm", "vllm by old names", "triton"),
    *(f"{name}{how}" for name in _OPENTELEMETRY for how in ("", SCRAPED)),
    *("micrometer", f"micrometer{SCRAPED}", "http server of client libraries", "obi"),
    *("grpc server", f"grpc server{SCRAPED}", "grpc server by old names", "grpc server by counters"),
    *("istio", "istio by counters", "linkerd", "linkerd by counters", "envoy", "envoy by old names"),
    *("redis", "postgresql", "mysql", "memcached"),
)
"""Those that report requests of apps, in ingest/decode/metrics/app_metrics.toml; they go on while others are down."""
HAMI = ("hami", "hami by old names")
"""Measures each container's own use of a GPU that several share."""
DCGM = ("dcgm", "dcgm by engine", "dcgm by utilization")
"""Measures whole GPUs, and names the pods that hold them."""
EXPORTER_PREFERENCE = (
    *("kubelet", "cadvisor", "node_exporter", "kubelet resource", "koordlet"),
    *(*HAMI, *DCGM),
    *("kubeletstats", "kubeletstats by old names", "kubeletstats by counters"),
    *("docker_stats", "hostmetrics", "telegraf", "telegraf by counters"),
    *APP_EXPORTERS,
)
"""Exporters and their alternative metrics of one thing: where several report the same of a pod, the first is used."""
NODE_EXPORTERS = ("node_exporter", "hostmetrics")
"""Those that measure nodes and never containers."""

SAMPLES = _table(
    "samples",
    3,
    "cluster node container part instance exporter replica metric series ts",
    "Metrics of exporters as they were sent, one value a row; usage is made of them.",
)(
    *(CLUSTER, TS, NODE),
    _key("container", "uid of the pod; namespace/name where the format does not have the uid; / for the node itself"),
    _text("pod", "namespace/name of the pod, where the format has it"),
    _text("part", "container inside the pod; null: the pod's own cgroup"),
    _text("instance", "runtime id of the container inside the pod, a new one after each restart"),
    _text("exporter", "one of EXPORTER_PREFERENCE; null: any other; of several that report the same one is used"),
    _text("replica", "which of several collectors that report the same sent it; one is used"),
    *(APP, TEAM, QOS),
    _key("metric", "column of usage or one of INGREDIENTS; any other name is kept, and `rates` skips it"),
    _text("series", "what else distinguishes series of the metric, such as a disk; they are added up; null: nothing"),
    _number("value", "", "in the column's unit; of a counter its integral over time; null: not measured", -inf),
    _text("kind", "gauge or counter; a counter's rate per second is the column", KIND_VALUES),
    *LANDING,
)

NODE_EVENTS = ("add", "delete")

NODES = _table("nodes", 5, "cluster node ts", "What nodes have and where they are, whenever that changed.")(
    *(CLUSTER, TS, NODE),
    _text(
        "event",
        "add: the node is there, as described; delete: it is gone from this time on; null: add",
        NODE_EVENTS,
    ),
    _text("platform", "CPU model; slowdown never transfers between platforms unreported"),
    _number("cores", "cores", "hardware threads", 0.1, 4096),
    _number("frequency_ghz", "GHz", "nominal frequency", 0.1, 10),
    _number("memory_bytes", "bytes", "memory", 0, 1e15),
    _number("memory_bandwidth_bytes_s", "bytes/s", "peak memory bandwidth", 0, 1e14),
    _number("llc_bytes", "bytes", "last-level cache", 0, 1e12),
    _number("nic_bytes_s", "bytes/s", "network line rate", 0, 1e13),
    _number("disk_bytes_s", "bytes/s", "disk throughput", 0, 1e13),
    _number("disk_ios_s", "1/s", "disk operations", 0, 1e9),
    _number("gpus", "", "GPUs", 0, 1024),
    _number("pcie_bytes_s", "bytes/s", "PCIe throughput to all devices together", 0, 1e13),
    _number("rdma_bytes_s", "bytes/s", "RDMA line rate", 0, 1e13),
    _number("fpgas", "", "FPGAs (allocation only)", 0, 1024),
    _count("smt", "", "hardware threads per core", 1, 16),
    _count("numa_nodes", "", "NUMA nodes", 1, 1024),
    _text("zone", "failure zone"),
    _text("rack", "rack"),
    _text("pool", "node pool"),
    Column("labels", _TEXT_BY_NAME, "", "labels as the scheduler sees them"),
    Column("taints", pa.list_(_STRING), "", "taints, key=value:effect"),
    _number("allocatable_cores", "cores", "CPU the scheduler may place", 0, 4096),
    _number("allocatable_memory_bytes", "bytes", "memory the scheduler may place", 0, 1e15),
    _number("allocatable_pods", "pods", "pods the scheduler may place", 0, 1e5),
    _amounts("allocatable_extended", "extended resources and huge pages the scheduler may place"),
    _text("sku", "what is bought"),
    _count("cost_micros_per_hour", "10^-6 of the currency", "cost of an hour"),
    *LANDING,
)

NODE_USAGE = _table("node_usage", 1, "cluster node ts", "Use and pressure of whole nodes, by interval.")(
    *(CLUSTER, TS, _INTERVAL, NODE),
    _number("cpu_frac", "share of the node", "CPU in use", 0, 1.5),
    _number("memory_frac", "share of the node", "memory in use", 0, 1.5),
    _number("memory_bandwidth_frac", "share of the node", "memory bandwidth in use", 0, 1.5),
    _number("net_rx_frac", "share of the node", "network line rate received", 0, 1.5),
    _number("net_tx_frac", "share of the node", "network line rate sent", 0, 1.5),
    _number("disk_busy_frac", "s/s", "time the disks were busy", 0, 1),
    *SIGNALS,
    *LANDING,
)
"""What is measured of a whole node in one interval, its system's own use included."""

PLACEMENT_EVENTS = ("add", "change", "delete")

PLACEMENTS = _table(
    "placements",
    7,
    "cluster container ts event",
    "Which container ran where, asked for what and when it ended, as events.",
)(
    *(CLUSTER, TS),
    Column("event", pa.string(), "", "add, change or delete", required=True, choices=PLACEMENT_EVENTS),
    _text("resource_version", "the orchestrator's version of the object"),
    *(NODE, CONTAINER),
    _text("namespace", "namespace of the container"),
    _text("name", "name of the pod: how formats without a uid call it, together with its namespace"),
    _text("owner", "top of the owner chain, kind/name"),
    *(APP, TEAM, QOS),
    _text("image_version", "version of the image; a change is a deploy"),
    _number("cpu_request_cores", "cores", "CPU requested", 0, 4096),
    _number("cpu_limit_cores", "cores", "CPU limit", 0, 4096),
    _flag("cpu_limited", "any of its containers has a CPU limit, so that it may be throttled"),
    _number("memory_request_bytes", "bytes", "memory requested", 0, 1e15),
    _number("memory_limit_bytes", "bytes", "memory limit", 0, 1e15),
    _number("gpu_request", "GPUs", "GPUs requested, in fractions where they are shared", 0, 1024),
    _amounts("extended_requests", "extended resources and huge pages requested"),
    _count("priority", "", "scheduling priority", -(2**31), 2**31),
    _text("cpuset", "cores the container is pinned to, as in 0-3,8; null: the whole node"),
    _count("numa_node", "", "NUMA node the container is bound to"),
    _text("gang", "group that is placed together"),
    _count("gang_minimum", "pods", "pods that the gang needs, where the pod says so", 0, 1e9),
    _text("disruption_budget", "name of the disruption budget"),
    _count("disruptions_allowed", "pods", "disruptions that the budget allows now", 0, 2**31),
    _flag("pinned", "may not be moved"),
    _flag("local_storage", "holds data on the node"),
    Column("tolerations", pa.list_(_STRING), "", "tolerated taints"),
    _text("affinity", "affinity rules as JSON"),
    Column(
        "labels",
        _TEXT_BY_NAME,
        "",
        "labels that affinity rules select by, and annotation cohabit.io/advice",
    ),
    _flag("volume_claims", "mounts persistent volume claims, whose volumes may be bound to a zone"),
    *LANDING,
)

LIVE_SIGNALS = (
    *("cpu_cores", "memory_bytes", "memory_bandwidth_bytes_s", "llc_occupancy_bytes"),
    *("net_rx_bytes_s", "net_tx_bytes_s", "disk_read_bytes_s", "disk_write_bytes_s", "disk_ios_s"),
    *("gpu_sm_frac", "pcie_bytes_s", "rdma_bytes_s"),
)
"""What a refresher must know of each container: its use of what nodes share."""

LIVE_STATE = _table(
    "live_state", 1, "cluster node container ts", "Each container's minute so far, published by the streaming job."
)(
    CLUSTER,
    _time("ts", "end of the one-minute window, which may still grow"),
    _time("heard_at", "when the newest sample behind the row had arrived"),
    *(NODE, CONTAINER, APP, TEAM, QOS),
    Column("samples", pa.int64(), "", "samples in the window so far", 1, 1e9, required=True),
    *(c for c in SIGNALS if c.name in LIVE_SIGNALS),
    *LANDING,
)
"""Means of a container's minute so far, as the streaming job publishes them to refreshers on topic node_state."""

DEAD_LETTERS = _table(
    "dead_letters",
    1,
    "topic partition offset item",
    "Records and values that were rejected, with the reason.",
    time="arrived_at",
)(
    _key("item", "part of the message: '' the whole, '3' its fourth record, '3.cpi' that record's field"),
    _key("reason", "one of ingest.decode.contract.REASONS"),
    _text("detail", "what was found, and what was expected"),
    Column("payload", pa.binary(), "", "the message as it came"),
    *LANDING,
)

LANDED = {t.name: t for t in (USAGE, SAMPLES, NODE_USAGE, NODES, PLACEMENTS, LIVE_STATE)}
"""Tables that messages turn into."""


UNKNOWN_FIELDS = _table(
    "unknown_fields",
    1,
    "topic partition start field",
    "Fields of records that no column takes, by batch; a batch that a crash cut in two may count twice.",
    time="",
)(
    _key("topic", "topic of the records"),
    _key("partition", "partition of the records", pa.int32()),
    _key("start", "first offset of the batch", pa.int64()),
    _key("field", "name outside the catalogue"),
    Column("seen", pa.int64(), "", "how often it was seen in the batch", 0, required=True),
)

GAPS = _table(
    "gaps", 1, "topic partition start", "Offsets that the broker had deleted before they were ingested.", time=""
)(
    _key("topic", "topic of the records"),
    _key("partition", "partition of the records", pa.int32()),
    _key("start", "first offset that is missing", pa.int64()),
    _key("end", "first offset after it that is not", pa.int64()),
)

TOPIC_IDS = _table(
    "topic_ids", 1, "topic number", "Topics that were ingested, so that a recreated one is refused.", time=""
)(
    _key("topic", "name of the topic"),
    Column("number", pa.int64(), "", "1 for the first topic of that name, more where another was accepted", 1),
    _key("id", "id that the broker gave it; empty from brokers that give none"),
)

LAKE_OWN = {t.name: t for t in (UNKNOWN_FIELDS, GAPS, TOPIC_IDS)}
"""What a lake keeps of ingestion besides rows; every lake may have them."""
