"""cAdvisor's kafka storage driver: one container at one moment a message. Kernel.

A metric's name in the mapping is its path in container_stats joined by "."; of what cAdvisor lists, the name without
its place in the list, and that place as a label: network.rx_bytes (interface), diskio.io_service_bytes.Read (device),
perf_stats (event, cpu), resctrl.llc_occupancy (node_id).

It writes 0 where it did not measure. Taken as missing: pressure when all six totals are 0, scheduler statistics when no
time was run, a list of block I/O of zeros alone, a perf event that never ran (scaling_ratio 0). Other perf events are
already scaled by the share of time in which they were counted.

Source: google/cadvisor cmd/internal/storage/kafka/kafka.go, lib/model/container.go, perf/collector_libpfm.go.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ingest.decode.contract import Decode
from ingest.decode.json_records import MAX_RECORDS, Record, complaint, load, objects_of
from ingest.decode.metrics.labels import text_of, texts_of, values_of
from ingest.decode.metrics.metric_mapping import MetricMap
from ingest.decode.samples import Plan, Point, Rows, Shapes, decoder_of

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
WANTED = "container_stats: cAdvisor's kafka driver writes one for each container"
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


def decoder(mapping: MetricMap) -> Decode:
    """The decoder of cAdvisor's JSON, under a mapping."""
    branches = branches_of(mapping)

    def read(rows: Rows, shapes: Shapes, messages: Sequence[bytes | None]) -> None:
        for number, message in enumerate(messages):
            parsed = load(message)
            if isinstance(parsed, dict) and type(parsed.get("container_stats")) is dict:
                _add(rows, shapes, branches, number, parsed)
            else:
                rows.undecodable(number, "", complaint(message, parsed, WANTED))

    return decoder_of(read, mapping)


def branches_of(mapping: MetricMap) -> Branches:
    """The mapping's names that are single values of container_stats, by the objects they are in, parents first."""
    paths = [tuple(name.split(".")) for name in mapping.metrics]
    single = [p for p in paths if len(p) > 1 and p[0] in SINGLES and (p[0] != "diskio" or p[1] == PRESSURE)]
    objects = list(dict.fromkeys(path[:depth] for path in single for depth in range(1, len(path))))
    numbers = {path: number for number, path in enumerate([(), *objects])}
    kinds = [OF_PRESSURE if PRESSURE in at else OF_SCHEDULER if SCHEDULER in at else ALWAYS for at in objects]
    return tuple(
        Branch(numbers[at[:-1]], at[-1], kind, tuple((p[-1], ".".join(p)) for p in single if p[:-1] == at))
        for at, kind in zip(objects, kinds, strict=True)
    )


def _add(rows: Rows, shapes: Shapes, branches: Branches, number: int, record: Record) -> None:
    stats = _object(record, "container_stats")
    shape, values = _read(stats, branches)
    if len(values) > MAX_RECORDS:
        rows.undecodable(number, "", f"{len(values)} values; the limit is {MAX_RECORDS}")
        return
    key = (_own_labels(record), *shape, None, *stats, None, *_object(stats, "memory"))
    plan = shapes.plans.get(key) or _remember(shapes, key, shape, stats, record)
    if not (plan.picks or plan.unknown or plan.missing):
        rows.count("container_stats without values")
    micros = rows.time(shapes.clock, stats.get("timestamp", record.get("timestamp")))
    rows.add(plan, (number, 0), micros, values)


def _read(stats: Record, branches: Branches) -> tuple[Shape, list[object]]:
    """Every value, and what it is of; None in place of what was not measured."""
    (shape, values), pressure, scheduler = _read_fields(stats, branches)
    shape += pressure[0]
    values += pressure[1] if any(pressure[1]) else [None] * len(pressure[1])
    shape += scheduler[0]
    has_run = _object(_object(stats, "cpu"), SCHEDULER).get("run_time")
    values += scheduler[1] if has_run else [None] * len(scheduler[1])
    _read_network(_object(stats, "network"), shape, values)
    _read_disks(_object(stats, "diskio"), shape, values)
    _read_events(stats, shape, values)
    _read_resctrl(_object(stats, "resctrl"), shape, values)
    return shape, values


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
    for interface in objects_of(network, "interfaces") or (network,):
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
        for disk in objects_of(disks, name):
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
    for event in objects_of(stats, "perf_stats"):
        name, cpu = event.get("name"), event.get("cpu")
        shape += (
            "perf_stats",
            name if type(name) is str else _word(name),
            cpu if type(cpu) is int else _word(cpu),
        )
        values.append(event.get("value") if event.get("scaling_ratio") != 0 else None)


def _read_resctrl(resctrl: Record, shape: Shape, values: list[object]) -> None:
    for name, field, metric in RESCTRL_LISTS:
        for place, entry in enumerate(objects_of(resctrl, name)):
            value = entry.get(field)
            if value is not None:
                shape += (metric, place)
                values.append(value)


def _word(value: object) -> str | int:
    """A label's value, in a form that differs from every other."""
    return value if type(value) is str or type(value) is int else text_of(value)


def _own_labels(record: Record) -> tuple[object, ...]:
    labels = _object(record, "container_labels")
    return tuple(labels), values_of([*map(record.get, NAMES), *labels.values()])


def _remember(shapes: Shapes, key: tuple[object, ...], shape: Shape, stats: Record, record: Record) -> Plan:
    labels = _labels(record)
    found = list(_found(shape))
    points = [Point(name, {**labels, **own} if own else labels) for name, own in found]
    return shapes.learn(key, points, sorted({*_unread(stats, [name for name, _ in found])}))


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


def _unread(stats: Record, names: Sequence[str]) -> Iterator[str]:
    """Unread fields: parts of container_stats, and of memory."""
    yield from stats.keys() - set(PARTS)
    read = {name.split(".")[1] for name in names if name.startswith("memory.")}
    yield from (f"memory.{name}" for name in _object(stats, "memory").keys() - read)


def _object(parent: Record, name: str) -> Record:
    found = parent.get(name)
    return found if type(found) is dict else NOTHING
