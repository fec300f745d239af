"""Mapping: which metric of which exporter becomes which columns, and which labels say whose it is. Facts.

The tables themselves are in `ingest.decode.metrics.known_metrics`; `mapping_file` reads others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from hashlib import sha256

from ingest.schema.tables import INGREDIENTS, KIND_VALUES, SIGNALS, Column
from ingest.schema.workload_identity import APP_LABELS, QOS_LABELS, TEAM_LABELS

Words = tuple[str, ...]
Conditions = Mapping[str, Words]
GAUGE, COUNTER = KIND_VALUES
LEVELS = ("container", "pod", "node", "app", "service")
CONTAINER_LEVEL, POD_LEVEL, NODE_LEVEL, APP_LEVEL, SERVICE_LEVEL = LEVELS
"""An app reports of its pod, and need not know the node; what is of a service, as controllers report, is of no pod."""
POD = "pod"
EVERY = "*"
"""In place of names of series: every label but those that say whose a value is."""
MAX_SERIES = 500
"""Characters of what distinguishes a series: labels may be as long as a message."""
UNIT, BOUND = "metric.unit", "le"
"""Labels of histograms: the unit that OTLP gives one, and a bucket's bounds, as `low:high` or as `high` alone
where it has all requests up to there."""
TARGETS: Mapping[str, Column] = {column.name: column for column in (*SIGNALS, *INGREDIENTS)}


@dataclass(frozen=True, slots=True)
class ForeignMetric:
    """One metric of an exporter, and what it becomes.

    Args:
        name: as the format spells it; Telegraf's is measurement.field.
        target: one of TARGETS.
        kind: gauge, or counter: the value is the integral of the column over time.
        scale: value times scale is in the target's unit.
        where: labels and the patterns one of which each must match; a label that is absent is empty text.
        unless: labels and patterns that none may match; POD stands for the name of the pod that labels name.
        series: labels that distinguish series of one container; may have BOUND first and EVERY.
        part_of: what distinguishes this metric from others of the same target that it is added to, as reads and writes.
        unknown: values, before scaling, by which the exporter says that it does not know.
        of: one of LEVELS: whom the value describes.
        exporter: one of schema.tables.EXPORTER_PREFERENCE, or empty, which comes first: of several that report one
            target of a pod, one is used.
        bound_scale: a bucket's bounds times that are seconds.
    """

    name: str
    target: str
    kind: str = GAUGE
    scale: float = 1.0
    where: Conditions = field(default_factory=dict)
    unless: Conditions = field(default_factory=dict)
    series: Words = ()
    part_of: str = ""
    unknown: tuple[float, ...] = ()
    of: str = CONTAINER_LEVEL
    exporter: str = ""
    bound_scale: float = 1.0

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels are those it asks for."""
        wanted = all(_matches(labels.get(name, ""), patterns) for name, patterns in self.where.items())
        others = ((name, patterns) for name, patterns in self.unless.items() if name != POD)
        return wanted and not any(_matches(labels.get(name, ""), patterns) for name, patterns in others)

    def is_own(self, pod: str | None) -> bool:
        """Whether a pod, as namespace/name, is the exporter's own, which the value says nothing of."""
        return _matches((pod or "").rpartition("/")[2], self.unless.get(POD, ()))

    def series_of(self, labels: Mapping[str, str]) -> str | None:
        """What else distinguishes a series, joined by '/'; None when nothing does. `total` is all of them."""
        words = [self.part_of]
        for name in self.series:
            if name == EVERY:
                others = (label for label in sorted(labels) if labels[label] and self._is_of_series(label, labels))
                words += [f"{label}={labels[label]}" for label in others]
            elif name == BOUND:
                words.append(_in_seconds(labels.get(name, ""), self.bound_scale))
            else:
                words.append(labels.get(name, ""))
        return _short("/".join(word for word in words if word and word != "total")) or None

    def _is_of_series(self, label: str, labels: Mapping[str, str]) -> bool:
        """Whether a label says neither whose a value is nor who scraped it, nor what else runs there."""
        if label in _OF_TARGETS:
            return not _is_targets(label, labels)
        if label in _OF_PROCESSES and self.exporter.startswith(_ONE_A_POD):
            return False
        return label not in _SAYS_WHOSE and not label.startswith(_DESCRIBES)


def _is_targets(label: str, labels: Mapping[str, str]) -> bool:
    """Whether `endpoint` or `service` is prometheus-operator's: an application's own of that name is renamed then.

    A ServiceMonitor gives both; a PodMonitor the first, and a job with its namespace. Its endpoint is a port's name.
    """
    given = all(labels.get(name) for name in ("endpoint", "job", "container"))
    if label == "service" and "/" in labels.get("job", ""):
        return False
    return given and "/" not in labels[label] and "/" not in labels["endpoint"]


def _short(series: str) -> str:
    """The text, with a hash in the place of what is beyond MAX_SERIES."""
    if len(series) <= MAX_SERIES:
        return series
    return f"{series[:MAX_SERIES]}#{sha256(series.encode(errors='replace')).hexdigest()[:16]}"


def _in_seconds(bounds: str, scale: float) -> str:
    """Bounds of a bucket in seconds; as they are where they are no numbers."""
    try:
        return ":".join(f"{float(bound) * scale:.6g}" for bound in bounds.split(":"))
    except ValueError:
        return bounds


def _matches(text: str, patterns: Words) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def _spelled(names: Words) -> Words:
    """Names of pod labels as they are, as Prometheus spells them, and as OpenTelemetry's agent does."""
    plain = {name: name.replace(".", "_").replace("/", "_") for name in names}
    alike = [(name, plain[name], f"label_{plain[name]}", f"k8s.pod.label.{name}") for name in names]
    return tuple(dict.fromkeys(word for words in alike for word in words))


_WORKLOADS = ("deployment", "statefulset", "daemonset", "cronjob", "job")
_APP, _TEAM, _QOS = _spelled(APP_LABELS), _spelled(TEAM_LABELS), _spelled(QOS_LABELS)


@dataclass(frozen=True, slots=True)
class Labels:
    """Which labels say whose a value is, for each the first that is there; labels, tags and attributes are one.

    Prometheus renames a label of the metric to exported_ where the scraped pod's own has the same name, hence those
    come first. OpenTelemetry's come before `pod`, which is then the collector's.
    """

    cluster: Words = ("cluster", "k8s.cluster.name", "k8s_cluster_name", "cluster_name")
    node: Words = (
        *("engine_host", "node", "k8s.node.name", "k8s_node_name", "node_name", "kubernetes_node", "Hostname"),
        *("hostname", "machine_name", "host.name", "host_name", "host", "nodename", "instance"),
    )
    namespace: Words = (
        *(
            "exported_namespace",
            "podnamespace",
            "k8s.namespace.name",
            "k8s_namespace_name",
            "namespace",
            "pod_namespace",
        ),
        *("io.kubernetes.pod.namespace", "container_label_io_kubernetes_pod_namespace"),
    )
    pod: Words = (
        *("exported_pod", "podname", "k8s.pod.name", "k8s_pod_name", "pod", "pod_name", "io.kubernetes.pod.name"),
        "container_label_io_kubernetes_pod_name",
    )
    uid: Words = (
        *("pod_uid", "k8s.pod.uid", "k8s_pod_uid", "io.kubernetes.pod.uid"),
        "container_label_io_kubernetes_pod_uid",
    )
    part: Words = (
        *("exported_container", "container", "k8s.container.name", "k8s_container_name"),
        *("io.kubernetes.container.name", "container_label_io_kubernetes_container_name", "container_name"),
        "container.name",
    )
    instance: Words = ("container.id", "container_id", "name")
    """Runtime id of the container where the cgroup does not say it: a new one after each restart."""
    replica: Words = (
        *("prometheus_replica", "__replica__", "replica", "receive_replica", "prometheus", "otelcol_replica"),
    )
    """Which of several collectors that report the same sent it: external labels of Prometheus, Thanos and Mimir."""
    alone: Words = ("container_name", "container.name", "name")
    """Name of a container that is in no pod."""
    cgroup: Words = ("id",)
    app: Words = (*_APP, *(f"k8s.{kind}.name" for kind in _WORKLOADS))
    team: Words = _TEAM
    qos: Words = _QOS


@dataclass(frozen=True, slots=True)
class MetricMap:
    """All metrics that are known, by name, and the labels."""

    metrics: Mapping[str, tuple[ForeignMetric, ...]]
    labels: Labels = field(default_factory=Labels)

    @classmethod
    def of(cls, metrics: Iterable[ForeignMetric]) -> "MetricMap":
        """A map of the given metrics; several may have one name and different conditions."""
        by_name: dict[str, list[ForeignMetric]] = {}
        for metric in metrics:
            by_name.setdefault(metric.name, []).append(metric)
        return cls({name: tuple(same) for name, same in by_name.items()})

    def fitting(self, name: str, labels: Mapping[str, str]) -> tuple[ForeignMetric, ...]:
        """Of the metrics of that name that the labels fit the first for each target."""
        by_target: dict[str, ForeignMetric] = {}
        for metric in self.metrics.get(name, ()):
            if metric.target not in by_target and metric.fits(labels):
                by_target[metric.target] = metric
        return tuple(by_target.values())


_KEPT = ("instance", "name", *Labels().part)
"""Of what says whose a value is: several processes and containers of a pod may report the same, and are added up."""
_OF_SCRAPES = ("__name__", "job", "metrics_path", UNIT, BOUND)
_OF_TARGETS = ("endpoint", "service")
_OF_PROCESSES = ("instance", "service.instance.id", "service_instance_id")
_ONE_A_POD = ("istio", "linkerd", "envoy")
"""Proxies, whose figures may be scraped at two ports of theirs."""
_DESCRIBES = (
    *("k8s.", "k8s_", "telemetry.", "telemetry_", "os.", "host.", "cloud.", "container.label", "process.command"),
    *("process_command", "process.executable", "process_executable", "process.runtime", "process_runtime"),
    *("label_", "app_kubernetes_io_", "apps_kubernetes_io_", "topology_kubernetes_io_", "statefulset_kubernetes_io_"),
    *("helm_sh_", "pod_template_hash", "controller_revision_hash"),
)
"""Labels of pods and nodes are given by one job of Prometheus and not by another that scrapes the same."""
_SAYS_WHOSE = frozenset(
    {*_OF_SCRAPES, *(name for one in fields(Labels) for name in getattr(Labels(), one.name))}
    - {*_KEPT, "host", "hostname", "host_name", "id"}
)
