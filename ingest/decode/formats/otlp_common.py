"""OTLP: the points of one resource, however they were written -> rows. Kernel, shared by both encodings.

A histogram or summary becomes two points, <name>_sum and <name>_count, as in Prometheus. A sum of temporality delta
becomes a rate, since its own start and end are known; a cumulative one stays the counter it is.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from ingest.decode.json_records import MAX_RECORDS
from ingest.decode.metrics.owner_labels import node_in
from ingest.decode.samples import Plan, Point, Rows, Shapes

Attributes = tuple[tuple[str, str], ...]
NO_START = "a delta without its start"
NO_POINTS = "no data points"
"""Under this name messages are counted that hold no point."""
NANOS = 1e9


OnePoint = tuple[str, Attributes, object, object]
"""Name, attributes, time and value of one point."""


@dataclass(slots=True)
class Found:
    """Points of one resource, at most `room` of them.

    `deltas` are the numbers of those that were made rates; `refused` counts those beyond the room.
    """

    room: int
    points: list[OnePoint] = field(default_factory=list)
    deltas: list[int] = field(default_factory=list)
    refused: int = 0

    def has_room(self, count: int) -> bool:
        """Whether so many more points may be read; if not, they are refused."""
        if len(self.points) + count <= self.room:
            return True
        self.refused += count
        return False

    def add_delta(self, name: str, attributes: Attributes, span_ns: tuple[int, int], value: object) -> None:
        """One point that was counted from the first of two times to the second."""
        self.deltas.append(len(self.points))
        start, end = span_ns
        known = 0 < start < end and isinstance(value, int | float)
        rate = value / ((end - start) / NANOS) if known and isinstance(value, int | float) else NO_START
        self.points.append((name, attributes, end, None if value is None else rate))


def node_of_request(shapes: Shapes, resources: Iterable[Attributes]) -> Attributes:
    """The node's attribute, if one node alone is named in a request: kubeletstats names it on the node's resource only.

    Source: opentelemetry-collector-contrib receiver/kubeletstatsreceiver/internal/kubelet/accumulator.go.
    """
    names = shapes.mapping.labels
    nodes = {node for attributes in resources if (node := node_in(dict(attributes), names))}
    return ((names.node[0], nodes.pop()),) if len(nodes) == 1 else ()


def with_node(shapes: Shapes, resource: Attributes, node: Attributes) -> Attributes:
    """The attributes, with the request's node where they name none."""
    return resource if not node or node_in(dict(resource), shapes.mapping.labels) else (*resource, *node)


def add_resource(rows: Rows, shapes: Shapes, at: tuple[int, int], resource: Attributes, found: Found) -> None:
    """Add the points of a resource, which usually have one time."""
    if found.refused:
        rows.undecodable(at[0], f"{at[1]}.{found.room}", f"{found.refused} points beyond {MAX_RECORDS} are not read")
    if not found.points:
        return
    names, attributes, times, values = zip(*found.points, strict=True)
    key = (resource, names, attributes, tuple(found.deltas))
    plan = shapes.plans.get(key) or _remember(shapes, key, resource, found)
    if times.count(times[0]) == len(times):
        rows.add(plan, at, rows.time(shapes.clock, times[0] or None), values)
        return
    rows.add(Plan((), (), (), plan.missing, plan.unknown), at, 0, [])
    for pick, template, item in zip(plan.picks, plan.templates, plan.items, strict=True):
        micros = rows.time(shapes.clock, times[pick] or None)
        rows.add(Plan((template,), (0,), ("",), "", ()), (at[0], f"{at[1]}.{item}"), micros, [values[pick]])


def _remember(shapes: Shapes, key: Hashable, resource: Attributes, found: Found) -> Plan:
    deltas = set(found.deltas)
    shared = dict(resource)
    points = [
        Point(name, {**shared, **dict(attributes)} if attributes else shared, number in deltas)
        for number, (name, attributes, _, _) in enumerate(found.points)
    ]
    return shapes.learn(key, points)
