"""OTLP: the points of one resource, however they were written -> rows. Kernel, shared by both encodings.

A histogram or summary becomes two points, <name>_sum and <name>_count, as in Prometheus, and one for each bucket where
the mapping wants these. A sum of temporality delta becomes a rate, since its own start and end are known; a cumulative
one stays the counter it is.
"""

from array import array
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import compress, pairwise
from math import inf
from typing import Any, NamedTuple

from ingest.decode.json_records import MAX_RECORDS
from ingest.decode.metrics.metric_mapping import BOUND, UNIT
from ingest.decode.metrics.owner_labels import node_in
from ingest.decode.samples import Plan, Point, Rows, Shapes

Attributes = tuple[tuple[str, str], ...]
NO_START = "a delta without its start"
NO_POINTS = "no data points"
"""Under this name messages are counted that hold no point."""
NANOS = 1e9


FINEST = 2
"""Buckets of exponential histograms are merged up to this scale, at which bounds are 1.19 apart."""
YOUNG_S, MAX_NANOS = 80, 20
"""So long after a process started its counters are read as begun at 0, less than what is late, and digits of a time."""
SDK = "telemetry.sdk.language"
"""Attribute of what a library sent itself: others take the time when they first saw a counter for its start."""
SCALES = range(-10, 21)
"""Of exponential histograms, as OpenTelemetry's specification has them."""

Buckets = tuple[tuple[str, ...], Sequence[float]]
"""Bounds of buckets, as `low:high` each, and their counts."""
NO_BUCKETS: Buckets = ((), ())
MOST_BOUNDS, MOST_KEPT = 200, 500
"""Of a histogram whose bounds are kept as text, and how many of these."""


class Distribution(NamedTuple):
    """One point of a histogram or summary; None is what it does not say."""

    added_up: object
    counted: object
    buckets: Buckets = NO_BUCKETS


OnePoint = tuple[str, Attributes, object, object]
"""Name, attributes, time and value of one point."""


class Bars(NamedTuple):
    """What identifies a histogram whose buckets are wanted, in its resource.

    Args:
        name: of the metric.
        unit: of the metric.
        attributes: of the point.
        bounds: of its buckets.
        counted: of each bucket, whether it is not 0; empty where none is 0.
    """

    name: str
    unit: str
    attributes: Attributes
    bounds: tuple[str, ...]
    counted: tuple[bool, ...] = ()

    def points(self, resource: Mapping[str, str]) -> Iterator[Point]:
        """Sum, count, and the buckets that are not 0."""
        labels = {**resource, **dict(self.attributes), UNIT: self.unit}
        yield from (Point(f"{self.name}_{part}", labels) for part in ("sum", "count"))
        for bounds in compress(self.bounds, self.counted) if self.counted else self.bounds:
            yield Point(f"{self.name}_bucket", {**labels, BOUND: bounds})


OneHistogram = tuple[Plan | tuple[Hashable, Bars], object, tuple[object, object], Sequence[float] | bytes]
"""Plan, or its key and what it is of, time, sum and count, and buckets of one histogram."""


@dataclass(slots=True)
class Found:
    """Points of one resource, at most `room` of them.

    `deltas` are the numbers of those that were made rates; `bars` are histograms; `refused` counts points beyond
    the room.
    """

    room: int
    shapes: Shapes
    resource: Attributes
    points: list[OnePoint] = field(default_factory=list)
    deltas: list[int] = field(default_factory=list)
    bars: list[OneHistogram] = field(default_factory=list)
    size: int = 0
    refused: int = 0

    def has_room(self, count: int) -> bool:
        """Whether so many more points may be read; if not, they are refused."""
        if self.size + count <= self.room:
            self.size += count
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

    def add_distribution(
        self,
        metric: tuple[str, str],
        attributes: Attributes,
        span_ns: tuple[Any, Any],
        one: Distribution,
        *,
        delta: bool,
    ) -> None:
        """One point of a histogram or summary, of a metric's name and unit.

        A bucket that never counted anything is left out where counts are cumulative: it begins at 0 when it does. So
        does everything when its process starts; where that is known and was a short time ago, that is a point too.
        """
        name, unit = metric
        wanted = self.wants_buckets(name)
        if not delta and wanted:
            bounds, counts = one.buckets
            self.add_bars(Bars(name, unit, attributes, bounds), span_ns, (one.added_up, one.counted), counts)
            return
        attributes = (*attributes, (UNIT, unit)) if wanted else attributes
        parts: list[tuple[str, Attributes, object]] = [
            (f"{name}_sum", attributes, one.added_up),
            (f"{name}_count", attributes, one.counted),
        ]
        if wanted and self.has_room(len(one.buckets[0])):
            named = zip(*one.buckets, strict=True)
            parts += [(f"{name}_bucket", (*attributes, (BOUND, bounds)), count) for bounds, count in named]
        for part, own, value in parts:
            if delta:
                self.add_delta(part, own, span_ns, value)
            else:
                self.points.append((part, own, span_ns[1], value))

    def is_young(self, start: object, end: object) -> bool:
        """Whether a process that says so itself had started a short time before."""
        began, ended = start if type(start) is int else _nanos(start), end if type(end) is int else _nanos(end)
        is_near = 0 < began < ended <= began + YOUNG_S * NANOS
        return is_near and any(key == SDK for key, _ in self.resource)

    def wants_buckets(self, name: str) -> bool:
        """Whether the mapping knows buckets of a metric."""
        return f"{name}_bucket" in self.shapes.mapping.metrics

    def add_bars(
        self, bars: Bars, span_ns: tuple[Any, Any], totals: tuple[object, object], counts: Sequence[float] | bytes
    ) -> None:
        """One point of a cumulative histogram whose buckets are wanted, with sum and count; bytes have 64 bits each."""
        if isinstance(counts, bytes):
            counts = array("Q", counts)
        if not all(counts):
            bars = bars._replace(counted=tuple([count != 0 for count in counts]))
            counts = [count for count in counts if count]
        if not self.has_room(len(counts)):
            bars, counts = bars._replace(bounds=(), counted=()), ()
        known = (self.resource, bars), bars
        if self.is_young(*span_ns):
            self.bars.append((known, span_ns[0], (0.0, 0.0), [0.0] * len(counts)))
        self.bars.append((known, span_ns[1], totals, counts))


def _nanos(time: object) -> int:
    """A time of JSON, digits in text; 0 where it is none."""
    return int(time) if isinstance(time, str) and time.isdecimal() and len(time) <= MAX_NANOS else 0


def explicit_buckets(bounds: Sequence[float], counts: Sequence[float]) -> Buckets:
    """Buckets of a histogram with explicit bounds; none where it has none, or they do not fit together."""
    if not bounds or len(counts) != len(bounds) + 1:
        return NO_BUCKETS
    texts = _between(tuple(bounds)) if len(bounds) <= MOST_BOUNDS else _between.__wrapped__(tuple(bounds))
    return texts, counts


@lru_cache(MOST_KEPT)
def _between(bounds: tuple[float, ...]) -> tuple[str, ...]:
    """What lies below, between and above the bounds."""
    return tuple(f"{low:.6g}:{high:.6g}" for low, high in pairwise((0.0, *bounds, inf)))


def exponential_buckets(scale: int, zero: tuple[float, float], offset: int, counts: Sequence[float]) -> Buckets:
    """Buckets of an exponential histogram, merged to FINEST; none where its scale is out of range.

    Args:
        scale: its scale.
        zero: bound and count of the bucket of values near 0.
        offset: index of the first bucket above.
        counts: of these buckets.

    Source: OpenTelemetry, metrics data model: bucket i has values above base ** i up to base ** (i + 1), where base is
    2 ** (2 ** -scale).
    """
    if scale not in SCALES:
        return NO_BUCKETS
    kept, merged = min(scale, FINEST), dict[int, float]()
    for index, count in enumerate(counts, offset):
        place = index >> (scale - kept)
        merged[place] = merged.get(place, 0) + count
    texts = (f"{_power(place, kept):.6g}:{_power(place + 1, kept):.6g}" for place in merged)
    return (f"0:{zero[0]:.6g}", *texts), (zero[1], *merged.values())


def _power(index: int, scale: int) -> float:
    """2 ** (index / 2 ** scale), which may be infinite."""
    exponent = index / 2**scale
    return 0.0 if exponent < -1000 else inf if exponent > 1000 else 2.0**exponent


def node_of_request(shapes: Shapes, resources: Sequence[Attributes]) -> Attributes:
    """The node's attribute, if one node alone is named in a request: kubeletstats names it on the node's resource only.

    Source: opentelemetry-collector-contrib receiver/kubeletstatsreceiver/internal/kubelet/accumulator.go.
    """
    names = shapes.mapping.labels
    if len(resources) == 1:
        return ()  # it names its own, or there is none
    nodes = {node for attributes in resources if (node := node_in(dict(attributes), names))}
    return ((names.node[0], nodes.pop()),) if len(nodes) == 1 else ()


def with_node(shapes: Shapes, resource: Attributes, node: Attributes) -> Attributes:
    """The attributes, with the request's node where they name none."""
    return resource if not node or node_in(dict(resource), shapes.mapping.labels) else (*resource, *node)


def add_resource(rows: Rows, shapes: Shapes, at: tuple[int, int], found: Found) -> None:
    """Add the points of a resource, which usually have one time, and its histograms one by one."""
    if found.refused:
        rows.undecodable(at[0], f"{at[1]}.{found.room}", f"{found.refused} points beyond {MAX_RECORDS} are not read")
    resource, times = found.resource, shapes.clock.read
    _add_points(rows, shapes, at, resource, found)
    for number, (known, time, totals, counts) in enumerate(found.bars):
        if isinstance(known, Plan):
            plan = known
        else:
            plan = shapes.plans.get(known[0]) or shapes.learn(known[0], list(known[1].points(dict(resource))))
        micros = times.get(time)
        if micros is None:
            micros = rows.time(shapes.clock, time or None)
        if isinstance(counts, bytes):
            rows.add_counts(plan, (at[0], f"{at[1]}.{number}"), micros, totals, counts)
        else:
            rows.add(plan, (at[0], f"{at[1]}.{number}"), micros, (*totals, *counts))


def _add_points(rows: Rows, shapes: Shapes, at: tuple[int, int], resource: Attributes, found: Found) -> None:
    if not found.points:
        return
    names, attributes, times, values = zip(*found.points, strict=True)
    key = (resource, names, attributes, tuple(found.deltas))
    plan = shapes.plans.get(key) or _remember(shapes, key, resource, found)
    if times.count(times[0]) == len(times):
        rows.add(plan, at, rows.time(shapes.clock, times[0] or None), values)
        return
    rest = Plan((), (), (), plan.missing, plan.unknown)
    rows.add(shapes.plans.get(rest) or shapes.remember(rest, rest, 0), at, 0, [])
    for pick, template, item in zip(plan.picks, plan.templates, plan.items, strict=True):
        micros = rows.time(shapes.clock, times[pick] or None)
        alone = shapes.plans.get(template) or shapes.remember(template, Plan((template,), (0,), ("",), "", ()), 0)
        rows.add(alone, (at[0], f"{at[1]}.{item}"), micros, [values[pick]])


def _remember(shapes: Shapes, key: Hashable, resource: Attributes, found: Found) -> Plan:
    deltas = set(found.deltas)
    shared = dict(resource)
    points = [
        Point(name, {**shared, **dict(attributes)} if attributes else shared, number in deltas)
        for number, (name, attributes, _, _) in enumerate(found.points)
    ]
    return shapes.learn(key, points)
