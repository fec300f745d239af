"""cAdvisor's kafka storage driver: one container at one moment a message. Kernel.

A metric's name in the mapping is its path in container_stats joined by "."; of what cAdvisor lists, the name without
its place in the list, and that place as a label: network.rx_bytes (interface), diskio.io_service_bytes.Read (device),
perf_stats (event, cpu), resctrl.llc_occupancy (node_id).

It writes 0 where it did not measure. Taken as missing: pressure when all six totals are 0, scheduler statistics when no
time was run, a list of block I/O of zeros alone, a perf event that never ran (scaling_ratio 0). Other perf events are
already scaled by the share of time in which they were counted.

Source: google/cadvisor cmd/internal/storage/kafka/kafka.go, lib/model/container.go, perf/collector_libpfm.go.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from ingest.decode.labels import text_of, texts_of
from ingest.decode.parse import MAX_RECORDS, Record, complaint, load
from ingest.decode.samples import Plan, Point, Rows, Shapes
from ingest.decode.types import Context, Decode, Decoded
from ingest.exporters import EXPORTERS
from ingest.mapping import MetricMap

PARTS = ("cpu", "memory", "diskio", "network", "perf_stats", "resctrl", "timestamp")
"""Parts of container_stats that are read."""
SINGLES = ("cpu", "memory", "diskio")
"""Parts of container_stats that hold single values."""
OWN_LABELS = {
    "network": ("interface",),
    "diskio": ("device",),
    "perf_stats": ("event", "cpu"),
    "resctrl": ("node_id",),
}
"""What tells values of a list apart, by the first word of the metric's name."""
DISK_LISTS = tuple(
    (name, f"diskio.{name}.Read", f"diskio.{name}.Write") for name in ("io_service_bytes", "io_serviced")
)
RESCTRL_LISTS = (
    ("memory_bandwidth", "mbm_total_bytes", "resctrl.mbm_total_bytes"),
    ("cache", "llc_occupancy", "resctrl.llc_occupancy"),
)
PRESSURE, SCHEDULER = "psi", "schedstat"
"""Branches that are zero where they were not measured."""
NOTHING: Record = {}
Shape = list[str | int]
"""Metric of each value that was found, and after it its own labels, as many as OWN_LABELS says."""


class Branch(NamedTuple):
    """An object within container_stats: the number of the branch it is in, its key, and its fields with their names."""

    parent: int
    key: str
    fields: tuple[tuple[str, str], ...]


class Branches(NamedTuple):
    """Objects that hold single values: those that are always measured, and those of pressure and of the scheduler."""

    always: tuple[Branch, ...]
    pressure: tuple[Branch, ...]
    scheduler: tuple[Branch, ...]


def decoder(mapping: MetricMap = EXPORTERS) -> Decode:
    """The decoder of cAdvisor's JSON, under a mapping."""
    shapes, branches = Shapes(mapping), branches_of(mapping)

    def decode(messages: pa.BinaryArray, context: Context) -> Decoded:
        shapes.begin()
        rows = Rows()
        for number, message in enumerate(messages.to_pylist()):
            parsed = load(message)
            if isinstance(parsed, dict) and type(parsed.get("container_stats")) is dict:
                _add(rows, shapes, branches, number, parsed)
            else:
                rows.undecodable(number, "", _complaint(message, parsed))
        return rows.decoded(shapes, context)

    return decode


def branches_of(mapping: MetricMap) -> Branches:
    """The mapping's names that are single values of container_stats, by the objects they are in."""
    paths = [tuple(name.split(".")) for name in mapping.metrics]
    single = [p for p in paths if len(p) > 1 and p[0] in SINGLES and (p[0] != "diskio" or p[1] == PRESSURE)]
    return Branches(
        _branches([path for path in single if not {PRESSURE, SCHEDULER} & {*path}]),
        _branches([path for path in single if PRESSURE in path]),
        _branches([path for path in single if SCHEDULER in path]),
    )


def _branches(paths: Sequence[tuple[str, ...]]) -> tuple[Branch, ...]:
    """Every object on the way to the fields, parents first."""
    objects = list(dict.fromkeys(path[:depth] for path in paths for depth in range(1, len(path))))
    numbers = {path: number for number, path in enumerate([(), *objects])}
    return tuple(
        Branch(numbers[at[:-1]], at[-1], tuple((p[-1], ".".join(p)) for p in paths if p[:-1] == at)) for at in objects
    )


def _add(rows: Rows, shapes: Shapes, branches: Branches, number: int, record: Record) -> None:
    stats = _object(record, "container_stats")
    shape, values = _read(stats, branches)
    if len(values) > MAX_RECORDS:
        rows.undecodable(number, "", f"{len(values)} values; the limit is {MAX_RECORDS}")
        return
    key = (*_own_labels(record), tuple(shape), tuple(stats), tuple(_object(stats, "memory")))
    plan = shapes.plans.get(key) or _remember(shapes, key, shape, stats, record)
    if not (plan.picks or plan.unknown or plan.faults):
        rows.count("container_stats without values")
    raw = stats.get("timestamp", record.get("timestamp"))
    micros = shapes.clock.micros(raw)
    picked = values if len(plan.picks) == len(values) else [values[pick] for pick in plan.picks]
    rows.add(plan, (number, 0), micros if micros >= 0 else rows.bad_time(raw), picked)


def _read(stats: Record, branches: Branches) -> tuple[Shape, list[object]]:
    """Every value, and what it is of; None in place of what was not measured."""
    shape: Shape = []
    values: list[object] = []
    _read_fields(stats, branches.always, shape, values)
    first = len(values)
    _read_fields(stats, branches.pressure, shape, values)
    if not any(values[first:]):
        values[first:] = [None] * (len(values) - first)
    first = len(values)
    _read_fields(stats, branches.scheduler, shape, values)
    if not _object(_object(stats, "cpu"), SCHEDULER).get("run_time"):
        values[first:] = [None] * (len(values) - first)
    _read_network(_object(stats, "network"), shape, values)
    _read_disks(_object(stats, "diskio"), shape, values)
    _read_events(stats, shape, values)
    _read_resctrl(_object(stats, "resctrl"), shape, values)
    return shape, values


def _read_fields(stats: Record, branches: Sequence[Branch], shape: Shape, values: list[object]) -> None:
    found = [stats]
    for parent, key, fields in branches:
        branch = found[parent].get(key)
        if type(branch) is not dict:
            branch = NOTHING
        found.append(branch)
        for field, name in fields:
            value = branch.get(field)
            if value is not None:
                shape.append(name)
                values.append(value)


def _read_network(network: Record, shape: Shape, values: list[object]) -> None:
    """Bytes of each interface; older versions give one interface in place of the list."""
    for interface in _objects(network, "interfaces") or [network]:
        name = _word(interface.get("name"))
        for field, metric in (("rx_bytes", "network.rx_bytes"), ("tx_bytes", "network.tx_bytes")):
            value = interface.get(field)
            if value is not None:
                shape += (metric, name)
                values.append(value)


def _read_disks(disks: Record, shape: Shape, values: list[object]) -> None:
    """Reads and writes of each disk; without values where all are zero, which is how it says that it does not know."""
    for name, reads, writes in DISK_LISTS:
        listed = [(disk, _object(disk, "stats")) for disk in _objects(disks, name)]
        known = any(any(stats.values()) for _, stats in listed)
        for disk, stats in listed:
            device = _word(disk.get("device")) or f"{text_of(disk.get('major'))}:{text_of(disk.get('minor'))}"
            for field, metric in (("Read", reads), ("Write", writes)):
                if field in stats:
                    shape += (metric, device)
                    values.append(stats[field] if known else None)


def _read_events(stats: Record, shape: Shape, values: list[object]) -> None:
    for event in _objects(stats, "perf_stats"):
        shape += ("perf_stats", _word(event.get("name")), _word(event.get("cpu")))
        values.append(event.get("value") if event.get("scaling_ratio") != 0 else None)


def _read_resctrl(resctrl: Record, shape: Shape, values: list[object]) -> None:
    for name, field, metric in RESCTRL_LISTS:
        for place, entry in enumerate(_objects(resctrl, name)):
            if field in entry:
                shape += (metric, place)
                values.append(entry[field])


def _word(value: object) -> str | int:
    """A label's value, in a form that tells it from every other."""
    return value if type(value) is str or type(value) is int else text_of(value)


def _own_labels(record: Record) -> tuple[object, ...]:
    labels = _object(record, "container_labels")
    values = tuple(labels.values())
    if set(map(type, values)) - {str}:
        values = tuple(texts_of(labels).values())
    return text_of(record.get("container_Name")), text_of(record.get("machine_name")), tuple(labels), values


def _remember(shapes: Shapes, key: tuple[object, ...], shape: Shape, stats: Record, record: Record) -> Plan:
    labels = _labels(record)
    found = list(_found(shape))
    points = [Point(name, {**labels, **own} if own else labels) for name, own in found]
    plan = shapes.plan(points)
    unread = tuple(sorted({*_unread(stats, [name for name, _ in found])}))
    return shapes.remember(key, plan._replace(unknown=(*plan.unknown, *unread)), _size(labels) + 40 * len(points))


def _found(shape: Shape) -> Iterator[tuple[str, dict[str, str]]]:
    """Name and own labels of each value."""
    words = iter(shape)
    for name in words:
        part = str(name).partition(".")[0]
        labels = () if ".psi." in str(name) else OWN_LABELS.get(part, ())
        yield str(name), {label: str(next(words)) for label in labels}


def _labels(record: Record) -> dict[str, str]:
    """Labels of a container: its own, and where it runs; its name is the path of its cgroup, or an alias."""
    labels = texts_of(_object(record, "container_labels"))
    name = text_of(record.get("container_Name"))
    return {
        **labels,
        "id" if name.startswith("/") else "name": name,
        "machine_name": text_of(record.get("machine_name")),
    }


def _size(labels: Mapping[str, str]) -> int:
    return sum(len(name) + len(value) for name, value in labels.items())


def _unread(stats: Record, names: Sequence[str]) -> Iterator[str]:
    """Fields that nobody reads: parts of container_stats, and of memory."""
    yield from stats.keys() - set(PARTS)
    read = {name.split(".")[1] for name in names if name.startswith("memory.")}
    yield from (f"memory.{name}" for name in _object(stats, "memory").keys() - read)


def _object(parent: Record, name: str) -> Record:
    found = parent.get(name)
    return found if type(found) is dict else NOTHING


def _objects(parent: Record, name: str) -> list[Record]:
    found = parent.get(name)
    return [entry for entry in found if type(entry) is dict] if type(found) is list else []


def _complaint(message: bytes | None, parsed: object) -> str:
    if isinstance(parsed, dict):
        return "an object without container_stats: cAdvisor's kafka driver writes one for each container"
    return complaint(message, parsed)
