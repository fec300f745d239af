"""Mapping: which metric of which exporter becomes which column, and which labels say whose it is. Facts and a loader.

The tables themselves are in `ingest.decode.metrics.known_metrics`; a TOML file adds to them:

    [[metric]]
    name = "my_cpu_millicores"      # as the format spells it; of Telegraf measurement.field
    target = "cpu_cores"            # a column of usage, or an ingredient
    kind = "gauge"                  # or "counter": the value is the integral of the column over time
    scale = 0.001                   # value times scale is in the column's unit
    where = { state = "used" }      # labels it must have; text or a list, * as in file names
    unless = { cpu = ["cpu-total"] }  # labels it must not have
    series = ["disk"]               # labels that distinguish series, which are added up
    unknown = [-1]                  # values by which the exporter says that it does not know
    of = "container"                # or "pod": whichever container it was read in; or "node": the node itself

    [labels]
    node = ["my_node"]              # looked at before those that are known
    replica = ["my_ha_label"]       # distinguishes collectors of the same metrics; one is used

A name in the file replaces every entry of that name in the tables.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from ingest.schema.errors import IngestError
from ingest.schema.tables import INGREDIENTS, KIND_VALUES, SIGNALS, Column
from ingest.schema.workload_identity import APP_LABELS, QOS_LABELS, TEAM_LABELS

Words = tuple[str, ...]
Conditions = Mapping[str, Words]
GAUGE, COUNTER = KIND_VALUES
CONTAINER_LEVEL, POD_LEVEL, NODE_LEVEL = LEVELS = ("container", "pod", "node")
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
        unless: labels and patterns that none may match.
        series: labels that distinguish series of one container.
        part_of: what distinguishes this metric from others of the same target that it is added to, as reads and writes.
        unknown: values, before scaling, by which the exporter says that it does not know.
        of: one of LEVELS: whom the value describes.
        exporter: one of schema.tables.EXPORTER_PREFERENCE, or empty, which comes first: of several that report one
            target of a pod, one is used.
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

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels are those it asks for."""
        wanted = all(_matches(labels.get(name, ""), patterns) for name, patterns in self.where.items())
        return wanted and not any(_matches(labels.get(name, ""), patterns) for name, patterns in self.unless.items())

    def series_of(self, labels: Mapping[str, str]) -> str | None:
        """What else distinguishes a series, joined by '/'; None when nothing does. `total` is all of them."""
        words = [self.part_of, *(labels.get(name, "") for name in self.series)]
        return "/".join(word for word in words if word and word != "total") or None


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
    come first.
    """

    cluster: Words = ("cluster", "k8s.cluster.name", "k8s_cluster_name", "cluster_name")
    node: Words = (
        *("engine_host", "node", "k8s.node.name", "k8s_node_name", "node_name", "kubernetes_node", "Hostname"),
        *("hostname", "machine_name", "host.name", "host_name", "host", "nodename", "instance"),
    )
    namespace: Words = (
        *("exported_namespace", "namespace", "k8s.namespace.name", "k8s_namespace_name", "pod_namespace"),
        *("io.kubernetes.pod.namespace", "container_label_io_kubernetes_pod_namespace"),
    )
    pod: Words = (
        *("exported_pod", "pod", "k8s.pod.name", "k8s_pod_name", "pod_name", "io.kubernetes.pod.name"),
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

    def find(self, name: str, labels: Mapping[str, str]) -> ForeignMetric | None:
        """The first metric of that name that the labels fit."""
        return next((metric for metric in self.metrics.get(name, ()) if metric.fits(labels)), None)


def read_mapping(path: Path, known: MetricMap) -> MetricMap:
    """The known map with a TOML file's entries in place of those of the same name.

    Raises:
        IngestError: the file is not TOML, or an entry cannot be used; it says which, and where.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits, 1,000 lists in each other
        raise _bad_mapping(path, "it is not TOML", str(error)) from error
    if strange := sorted(document.keys() - {"metric", "labels"}):
        raise _bad_mapping(path, f"{strange[0]!r} is unknown", "there are [[metric]] and [labels]")
    entries = document.get("metric", [])
    if not isinstance(entries, list):
        raise _bad_mapping(path, "'metric' is no list", "write each metric under [[metric]]")
    added = MetricMap.of(_metric(path, text, number, entry) for number, entry in enumerate(entries))
    return MetricMap({**known.metrics, **added.metrics}, _labels(path, document.get("labels", {}), known.labels))


def _metric(path: Path, text: str, number: int, entry: object) -> ForeignMetric:
    starts = [row for row, line in enumerate(text.splitlines(), 1) if line.split("#")[0].strip() == "[[metric]]"]
    where = f"metric {number + 1}" + (f", line {starts[number]}" if number < len(starts) else "")
    if not isinstance(entry, dict):
        raise _bad_mapping(path, f"{where} is no table", "write each metric under [[metric]]")
    if isinstance(entry.get("name"), str):
        where += f", {entry['name']!r}"
    given = {}
    for name, value in entry.items():
        if name not in _FIELDS:
            raise _bad_mapping(path, f"{where}: {name!r} is unknown", f"there are {', '.join(_FIELDS)}")
        kind, wanted = _FIELDS[name]
        given[name] = _read(kind, value, path, f"{where}: {name} = {value!r}", f"it must be {wanted}")
    for name in ("name", "target"):
        if name not in given:
            raise _bad_mapping(path, f"{where}: {name} is missing", "name and target are needed")
    return ForeignMetric(**given)


def _read(kind: Any, value: object, path: Path, what: str, wanted: str) -> Any:
    """A value of the file, as pydantic reads one of that type."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        raise _bad_mapping(path, what, wanted) from error


_TEXT = Annotated[str, Field(strict=True, min_length=1)]
_NUMBER = Annotated[float, Field(strict=True, allow_inf_nan=False)]
_WORDS = Annotated[
    tuple[Annotated[str, Field(strict=True)], ...],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
]
_CONDITIONS = (dict[str, _WORDS], "a table of label = pattern, or label = [patterns]")
_FIELDS: Mapping[str, tuple[Any, str]] = {
    "name": (_TEXT, "text"),
    "target": (Literal[tuple(TARGETS)], f"one of {', '.join(TARGETS)}"),
    "kind": (Literal[KIND_VALUES], f"one of {', '.join(KIND_VALUES)}"),
    "scale": (Annotated[_NUMBER, Field(lt=0)] | Annotated[_NUMBER, Field(gt=0)], "a number other than 0"),
    "where": _CONDITIONS,
    "unless": _CONDITIONS,
    "series": (_WORDS, "a list of labels"),
    "part_of": (_TEXT, "text"),
    "unknown": (tuple[_NUMBER, ...], "a list of numbers"),
    "of": (Literal[LEVELS], f"one of {', '.join(LEVELS)}"),
    "exporter": (_TEXT, "text"),
}
"""What each field of ForeignMetric must be in a file: its type, and that in words."""


def _labels(path: Path, given: object, known: Labels) -> Labels:
    """Labels with the file's candidates before the known ones."""
    names = [f.name for f in fields(Labels)]
    if not isinstance(given, dict):
        raise _bad_mapping(path, "'labels' is no table", f"write it under [labels], with {', '.join(names)}")
    added: dict[str, Words] = {}
    for name, value in given.items():
        what, wanted = f"labels: {name} = {value!r}", f"give lists of labels for {', '.join(names)}"
        if name not in names:
            raise _bad_mapping(path, what, wanted)
        added[name] = (*_read(_WORDS, value, path, what, wanted), *getattr(known, name))
    return replace(known, **added)


def _bad_mapping(path: Path, what: str, wanted: str) -> IngestError:
    return IngestError(f"mapping {path} cannot be used: {what}; {wanted}")
