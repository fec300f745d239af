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

from ingest.decode.contract import Context, Decode, Decoded
from ingest.decode.json_records import MAX_RECORDS, Record, complaint, envelope, load
from ingest.decode.metrics.known_metrics import EXPORTERS
from ingest.decode.metrics.labels import text_of, texts_of
from ingest.decode.metrics.metric_mapping import MetricMap
from ingest.decode.samples import Plan, Point, Rows, Shapes

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
"""Fields that distinguish values of a list, by the first word of the metric's name."""
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
NAMES = ("container_Name", "container_Id", "machine_name")
OBJECTS, TEXTS = {dict}, {str}
Shape = list[str | int]
"""Metric of each value that was found, and after it its own labels, as many as OWN_LABELS says."""


class Branch(NamedTuple):
    """An object within container_stats: the number of the branch it is in, its key, and its fields with their names.

    `kind` says which values it holds: those that are always measured, or those of pressure or of the scheduler.
    """

    parent: int
    key: str
    kind: int
    fields: tuple[tuple[str, str], ...]


Branches = tuple[Branch, ...]
ALWAYS, OF_PRESSURE, OF_SCHEDULER = range(3)


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
    """The mapping's names that are single values of container_stats, by the objects they are in, parents first."""
    paths = [tuple(name.split(".")) for name in mapping.metrics]
    single = [p for p in paths if len(p) > 1 and p[0] in SINGLES and (p[0] != "diskio" or p[1] == PRESSURE)]
    objects = list(dict.fromkeys(path[:depth] for path in single for depth in range(1, len(path))))
    numbers = {path: number for number, path in enumerate([(), *objects])}
    return tuple(
        Branch(numbers[at[:-1]], at[-1], _kind(at), tuple((p[-1], ".".join(p)) for p in single if p[:-1] == at))
        for at in objects
    )


def _kind(path: tuple[str, ...]) -> int:
    return OF_PRESSURE if PRESSURE in path else OF_SCHEDULER if SCHEDULER in path else ALWAYS


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
    rows.micros.append(micros if micros >= 0 else rows.bad_time(raw))
    rows.plans.append(plan)
    rows.messages.append(number)
    rows.indexes.append(0)
    rows.values += picked


def _read(stats: Record, branches: Branches) -> tuple[Shape, list[object]]:
    """Every value, and what it is of; None in place of what was not measured."""
    (shape, values), pressure, scheduler = _read_fields(stats, branches)
    shape += pressure[0]
    values += pressure[1] if any(pressure[1]) else [None] * len(pressure[1])
    shape += scheduler[0]
    values += scheduler[1] if _has_run(stats) else [None] * len(scheduler[1])
    _read_network(_object(stats, "network"), shape, values)
    _read_disks(_object(stats, "diskio"), shape, values)
    _read_events(stats, shape, values)
    _read_resctrl(_object(stats, "resctrl"), shape, values)
    return shape, values


def _has_run(stats: Record) -> bool:
    return bool(_object(_object(stats, "cpu"), SCHEDULER).get("run_time"))


def _read_fields(stats: Record, branches: Branches) -> tuple[tuple[Shape, list[object]], ...]:
    """Names and values of the single values, by the kind of their branch."""
    found = [stats]
    read: tuple[tuple[Shape, list[object]], ...] = ([], []), ([], []), ([], [])
    for parent, key, kind, fields in branches:
        branch = found[parent].get(key)
        if type(branch) is not dict:
            branch = NOTHING
        found.append(branch)
        if fields:
            shape, values = read[kind]
            for field, name in fields:
                value = branch.get(field)
                if value is not None:
                    shape.append(name)
                    values.append(value)
    return read


def _read_network(network: Record, shape: Shape, values: list[object]) -> None:
    """Bytes of each interface; older versions give one interface in place of the list."""
    for interface in _objects(network, "interfaces") or (network,):
        name = interface.get("name")
        name = name if type(name) is str else _word(name)
        received, sent = interface.get("rx_bytes"), interface.get("tx_bytes")
        if received is not None:
            shape += ("network.rx_bytes", name)
            values.append(received)
        if sent is not None:
            shape += ("network.tx_bytes", name)
            values.append(sent)


def _read_disks(disks: Record, shape: Shape, values: list[object]) -> None:
    """Reads and writes of each disk; without values where all are zero, which is how it says that it does not know."""
    for name, reads, writes in DISK_LISTS:
        first, known = len(values), False
        for disk in _objects(disks, name):
            stats, device = disk.get("stats"), disk.get("device")
            if type(stats) is not dict:
                continue
            if type(device) is not str or not device:
                device = _word(device) or f"{text_of(disk.get('major'))}:{text_of(disk.get('minor'))}"
            known = known or any(stats.values())
            read, written = stats.get("Read"), stats.get("Write")
            if read is not None:
                shape += (reads, device)
                values.append(read)
            if written is not None:
                shape += (writes, device)
                values.append(written)
        if not known:
            values[first:] = [None] * (len(values) - first)


def _read_events(stats: Record, shape: Shape, values: list[object]) -> None:
    for event in _objects(stats, "perf_stats"):
        name, cpu = event.get("name"), event.get("cpu")
        shape += (
            "perf_stats",
            name if type(name) is str else _word(name),
            cpu if type(cpu) is int else _word(cpu),
        )
        values.append(event.get("value") if event.get("scaling_ratio") != 0 else None)


def _read_resctrl(resctrl: Record, shape: Shape, values: list[object]) -> None:
    for name, field, metric in RESCTRL_LISTS:
        for place, entry in enumerate(_objects(resctrl, name)):
            value = entry.get(field)
            if value is not None:
                shape += (metric, place)
                values.append(value)


def _word(value: object) -> str | int:
    """A label's value, in a form that differs from every other."""
    return value if type(value) is str or type(value) is int else text_of(value)


def _own_labels(record: Record) -> tuple[object, ...]:
    labels = _object(record, "container_labels")
    values = tuple(labels.values())
    if not set(map(type, values)) <= TEXTS:
        values = tuple(texts_of(labels).values())
    own = tuple(record.get(name) for name in NAMES)
    if not set(map(type, own)) <= TEXTS:
        own = tuple(map(text_of, own))
    return *own, tuple(labels), values


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
    name, container, machine = (text_of(record.get(name)) for name in NAMES)
    own = {"id" if name.startswith("/") else "name": name, "container_id": container, "machine_name": machine}
    return {**texts_of(_object(record, "container_labels")), **own}


def _size(labels: Mapping[str, str]) -> int:
    return sum(len(name) + len(value) for name, value in labels.items())


def _unread(stats: Record, names: Sequence[str]) -> Iterator[str]:
    """Unread fields: parts of container_stats, and of memory."""
    yield from stats.keys() - set(PARTS)
    read = {name.split(".")[1] for name in names if name.startswith("memory.")}
    yield from (f"memory.{name}" for name in _object(stats, "memory").keys() - read)


def _object(parent: Record, name: str) -> Record:
    found = parent.get(name)
    return found if type(found) is dict else NOTHING


def _objects(parent: Record, name: str) -> list[Record]:
    found = parent.get(name)
    if type(found) is not list:
        return []
    return found if set(map(type, found)) <= OBJECTS else [entry for entry in found if type(entry) is dict]


def _complaint(message: bytes | None, parsed: object) -> str:
    if isinstance(parsed, dict):
        return (
            envelope(parsed)
            or "an object without container_stats: cAdvisor's kafka driver writes one for each container"
        )
    return complaint(message, parsed)
