"""cAdvisor's kafka storage driver: one container at one moment a message. Kernel.

A metric's name in the mapping is its path in container_stats joined by "."; of what cAdvisor lists, the name without
its place in the list, and that place as a label: network.rx_bytes (interface), diskio.io_service_bytes.Read (device),
perf_stats (event, cpu), resctrl.llc_occupancy (node_id).

It writes 0 where it did not measure. Taken as missing: pressure when all six totals are 0, scheduler statistics when no
time was run, a list of block I/O of zeros alone, a perf event that never ran (scaling_ratio 0). Other perf events are
already scaled by the share of time in which they were counted.

Source: google/cadvisor cmd/internal/storage/kafka/kafka.go, lib/model/container.go, perf/collector_libpfm.go.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa

from ingest.decode.labels import text_of, texts_of
from ingest.decode.parse import MAX_RECORDS, Record, complaint, load
from ingest.decode.samples import Plan, Point, Rows, Shapes
from ingest.decode.types import Context, Decode, Decoded
from ingest.exporters import EXPORTERS
from ingest.mapping import MetricMap

LISTS = ("network", "diskio", "perf_stats", "resctrl")
"""Parts of container_stats that hold lists."""
SINGLES = ("cpu", "memory", "diskio")
"""Parts of container_stats that hold single values."""
DISK_LISTS = ("io_service_bytes", "io_serviced")
NOTHING: Record = {}
Tree = Mapping[str, object]
"""Names of fields as they are nested; a full name at the end of each path."""


class Listed(NamedTuple):
    """One value out of a list: the metric, the labels that say which, and the value."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: object


def decoder(mapping: MetricMap = EXPORTERS) -> Decode:
    """The decoder of cAdvisor's JSON, under a mapping."""
    shapes, tree = Shapes(mapping), tree_of(mapping)

    def decode(messages: pa.BinaryArray, context: Context) -> Decoded:
        shapes.begin()
        rows = Rows()
        for number, message in enumerate(messages.to_pylist()):
            parsed = load(message)
            if isinstance(parsed, dict) and type(parsed.get("container_stats")) is dict:
                _add(rows, shapes, tree, number, parsed)
            else:
                rows.undecodable(number, "", _complaint(message, parsed))
        return rows.decoded(shapes, context)

    return decode


def tree_of(mapping: MetricMap) -> Tree:
    """The mapping's names that are single values of container_stats, as they are nested there."""
    tree: dict[str, object] = {}
    for name in mapping.metrics:
        *parents, last = name.split(".")
        if parents and parents[0] in SINGLES and not (parents[0] == "diskio" and parents[1:2] != ["psi"]):
            branch = tree
            for parent in parents:
                below = branch.setdefault(parent, {})
                branch = below if isinstance(below, dict) else {}
            branch[last] = name
    return tree


def _add(rows: Rows, shapes: Shapes, tree: Tree, number: int, record: Record) -> None:
    stats = _object(record, "container_stats")
    names: list[str] = []
    values: list[object] = []
    _read(stats, tree, names, values)
    listed = list(_listed(stats))
    if len(listed) > MAX_RECORDS:
        rows.undecodable(number, str(MAX_RECORDS), f"{len(listed)} listed values; the rest is not read")
        listed = listed[:MAX_RECORDS]
    values = [*_without_unmeasured(names, values, stats), *(value for _, _, value in listed)]
    shape = tuple(names), tuple([entry[:2] for entry in listed]), tuple(stats), tuple(_object(stats, "memory"))
    key = (*_own_labels(record), *shape)
    plan = shapes.plans.get(key) or _remember(shapes, key, names, listed, stats, record)
    if not (plan.picks or plan.unknown or plan.faults):
        rows.count("container_stats without values")
    raw = stats.get("timestamp", record.get("timestamp"))
    micros = shapes.clock.micros(raw)
    picked = values if len(plan.picks) == len(values) else [values[pick] for pick in plan.picks]
    rows.add(plan, (number, 0), micros if micros >= 0 else rows.bad_time(raw), picked)


def _own_labels(record: Record) -> tuple[object, ...]:
    labels = _object(record, "container_labels")
    values = tuple(labels.values())
    if set(map(type, values)) - {str}:
        values = tuple(texts_of(labels).values())
    return text_of(record.get("container_Name")), text_of(record.get("machine_name")), tuple(labels), values


def _remember(shapes: Shapes, key: tuple[object, ...], names: list[str], listed: list[Listed], *parts: Record) -> Plan:
    stats, record = parts
    labels = _labels(record)
    points = [Point(name, labels) for name in names]
    points += [Point(name, {**labels, **dict(own)}) for name, own, _ in listed]
    plan = shapes.plan(points)
    unread = tuple(sorted({*_unread(stats, names)}))
    return shapes.remember(key, plan._replace(unknown=(*plan.unknown, *unread)), _size(labels) + 40 * len(points))


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


def _unread(stats: Record, names: list[str]) -> Iterator[str]:
    """Fields that nobody reads: parts of container_stats, and of memory."""
    read = {name.split(".")[0] for name in names} | {*LISTS, "timestamp"}
    yield from stats.keys() - read
    memory = {name.split(".")[1] for name in names if name.startswith("memory.")}
    yield from (f"memory.{name}" for name in _object(stats, "memory").keys() - memory)


def _read(branch: Record, tree: Tree, names: list[str], values: list[object]) -> None:
    """Append the names and values of a tree's fields that are there."""
    for name, below in tree.items():
        value = branch.get(name)
        if type(below) is str and value is not None:
            names.append(below)
            values.append(value)
        elif type(value) is dict and isinstance(below, dict):
            _read(value, below, names, values)


def _without_unmeasured(names: list[str], values: list[object], stats: Record) -> list[object]:
    """Values with None in place of pressure and scheduler statistics that were not measured."""
    pressed = any(value for name, value in zip(names, values, strict=True) if ".psi." in name)
    ran = _object(_object(stats, "cpu"), "schedstat").get("run_time")
    if pressed and ran:
        return values
    unmeasured = (".psi.",) * (not pressed) + (".schedstat.",) * (not ran)
    return [
        None if any(word in name for word in unmeasured) else value for name, value in zip(names, values, strict=True)
    ]


def _listed(stats: Record) -> Iterator[Listed]:
    yield from _network(_object(stats, "network"))
    disks = _object(stats, "diskio")
    for name in DISK_LISTS:
        yield from _disks(name, _objects(disks, name))
    for event in _objects(stats, "perf_stats"):
        value = event.get("value") if event.get("scaling_ratio") != 0 else None
        yield Listed("perf_stats", (("event", text_of(event.get("name"))), ("cpu", text_of(event.get("cpu")))), value)
    resctrl = _object(stats, "resctrl")
    for name, field in (("memory_bandwidth", "mbm_total_bytes"), ("cache", "llc_occupancy")):
        for place, entry in enumerate(_objects(resctrl, name)):
            if field in entry:
                yield Listed(f"resctrl.{field}", (("node_id", str(place)),), entry[field])


def _network(network: Record) -> Iterator[Listed]:
    """Bytes of each interface; older versions give one interface in place of the list."""
    for interface in _objects(network, "interfaces") or ([network] if "rx_bytes" in network else []):
        label = (("interface", text_of(interface.get("name"))),)
        for field in ("rx_bytes", "tx_bytes"):
            if field in interface:
                yield Listed(f"network.{field}", label, interface[field])


def _disks(name: str, disks: list[Record]) -> Iterator[Listed]:
    """Reads and writes of each disk; without values where all are zero, which is how it says that it does not know."""
    stats = [_object(disk, "stats") for disk in disks]
    known = any(value for one in stats for value in one.values())
    for disk, one in zip(disks, stats, strict=True):
        device = text_of(disk.get("device")) or f"{text_of(disk.get('major'))}:{text_of(disk.get('minor'))}"
        for field in ("Read", "Write"):
            if field in one:
                yield Listed(f"diskio.{name}.{field}", (("device", device),), one[field] if known else None)


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
