"""OTLP as JSON: ExportMetricsServiceRequest, or MetricsData, as the Collector's kafka exporter writes it. Kernel.

Parsed by hand, since google.protobuf.json_format takes twenty times as long, and reads hexadecimal ids as base64.
int64 are texts; a double may be "NaN", "Infinity" or "-Infinity".

Source: opentelemetry-proto 1.x, metrics/v1/metrics.proto, and its docs/specification.md on JSON.
"""

from collections.abc import Sequence
from math import isfinite

from ingest.decode.formats.otlp_common import (
    NO_POINTS,
    Attributes,
    Distribution,
    Found,
    add_resource,
    explicit_buckets,
    exponential_buckets,
    node_of_request,
    with_node,
)
from ingest.decode.json_records import MAX_RECORDS, Record, complaint, load, objects_of
from ingest.decode.metrics.labels import text_of
from ingest.decode.numbers import number_of_text
from ingest.decode.samples import Rows, Shapes

WANTED = "a list of resourceMetrics: OTLP's request for metrics has one"
DELTAS = (1, "AGGREGATION_TEMPORALITY_DELTA")
KINDS = ("histogram", "exponentialHistogram", "summary")
NO_VALUE = 1
"""Flag of a point whose value was not recorded."""


def read(rows: Rows, shapes: Shapes, messages: Sequence[bytes | None]) -> None:
    """Read messages of OTLP's JSON into rows."""
    for number, message in enumerate(messages):
        parsed = load(message)
        if isinstance(parsed, dict) and isinstance(parsed.get("resourceMetrics"), list):
            _add(rows, shapes, number, parsed["resourceMetrics"])
        else:
            rows.undecodable(number, "", complaint(message, parsed, WANTED))


def _add(rows: Rows, shapes: Shapes, number: int, resources: list[object]) -> None:
    before, room = rows.size, MAX_RECORDS
    described = [*map(_shared, resources)]
    node = node_of_request(shapes, described)
    for index, (resource, shared) in enumerate(zip(resources, described, strict=True)):
        if not isinstance(resource, dict):
            rows.undecodable(number, str(index), "resourceMetrics holds something that is no object")
            continue
        found = Found(room, shapes, with_node(shapes, shared, node))
        for scope in objects_of(resource, "scopeMetrics"):
            _read_metrics(found, objects_of(scope, "metrics"))
        add_resource(rows, shapes, (number, index), found)
        room -= found.size
    if rows.size == before:
        rows.count(NO_POINTS)


def _shared(resource: object) -> Attributes:
    """Attributes of a resource; none where it has none."""
    described = resource.get("resource") if isinstance(resource, dict) else None
    return _attributes(described.get("attributes")) if isinstance(described, dict) else ()


def _read_metrics(found: Found, metrics: Sequence[Record]) -> None:
    add = found.points.append
    for metric in metrics:
        name, data = metric.get("name"), metric.get("gauge") or metric.get("sum")
        if type(data) is not dict or type(name) is not str:
            _read_distribution(found, name, metric)
            continue
        points = data.get("dataPoints")
        if type(points) is not list or not found.has_room(len(points)):
            continue
        if "aggregationTemporality" in data and data["aggregationTemporality"] in DELTAS:
            for point in objects_of(data, "dataPoints"):
                found.add_delta(name, _attributes(point.get("attributes")), _span(point), _value(point))
            continue
        for point in points:
            if type(point) is dict:
                value = point.get("asDouble")
                if type(value) is not float or "flags" in point:
                    value = _value(point)
                own = _attributes(point["attributes"]) if "attributes" in point else ()
                add((name, own, point.get("timeUnixNano"), value))


def _read_distribution(found: Found, name: object, metric: Record) -> None:
    """Sum, count and buckets of a histogram or summary; nothing of what has no name."""
    unit = metric.get("unit")
    kind, data = next(((kind, d) for kind in KINDS if isinstance(d := metric.get(kind), dict)), ("", {}))
    points = objects_of(data, "dataPoints") if type(name) is str else []
    delta = data.get("aggregationTemporality") in DELTAS
    for point in points if found.has_room(2 * len(points)) else ():
        span = _span(point) if delta else (point.get("startTimeUnixNano"), point.get("timeUnixNano"))
        one = Distribution(None, None) if _flagged(point) else _distribution(point, kind)
        named = (str(name), unit if isinstance(unit, str) else "")
        found.add_distribution(named, _attributes(point.get("attributes")), span, one, delta=delta)


def _distribution(point: Record, kind: str) -> Distribution:
    total, count = number_of_text(point.get("sum")), number_of_text(point.get("count", 0))
    if kind == "histogram":
        bounds, counts = _numbers(point.get("explicitBounds")), _numbers(point.get("bucketCounts"))
        return Distribution(total, count, explicit_buckets(bounds, counts))
    above = point.get("positive")
    above = above if isinstance(above, dict) else {}
    given = [point.get("scale", 0), above.get("offset", 0), point.get("zeroThreshold", 0), point.get("zeroCount", 0)]
    numbers = _numbers(given)
    if kind == "summary" or not numbers:
        return Distribution(total, count)
    scale, offset, *zero = numbers
    counts = _numbers(above.get("bucketCounts"))
    return Distribution(total, count, exponential_buckets(int(scale), (zero[0], zero[1]), int(offset), counts))


def _numbers(values: object) -> list[float]:
    """Finite numbers, or texts of such; none where one is neither."""
    found = [number_of_text(one) for one in values] if isinstance(values, list) else []
    good = [float(one) for one in found if isinstance(one, int | float) and isfinite(one)]
    return good if len(good) == len(found) else []


def _value(point: Record) -> object:
    if _flagged(point):
        return None
    double = point.get("asDouble")
    return number_of_text(point.get("asInt") if double is None else double)


def _flagged(point: Record) -> bool:
    flags = point.get("flags", 0)
    return isinstance(flags, int) and bool(flags & NO_VALUE)


def _span(point: Record) -> tuple[int, int]:
    return _nanos(point.get("startTimeUnixNano")), _nanos(point.get("timeUnixNano"))


def _nanos(value: object) -> int:
    """Nanoseconds; 0 where there is no such number."""
    if isinstance(value, str) and value.isdecimal() and len(value) <= 20:
        return int(value)
    return value if type(value) is int else 0


def _attributes(attributes: object) -> Attributes:
    """Attributes as pairs of texts; what is not in that form is left out."""
    if not isinstance(attributes, list):
        return ()
    return tuple(
        [(a["key"], _any(a.get("value"))) for a in attributes if type(a) is dict and type(a.get("key")) is str]
    )


def _any(value: object) -> str:
    """The text of an AnyValue, which is an object with one field; arrays, lists and bytes give empty text."""
    if type(value) is not dict:
        return ""
    text = value.get("stringValue")
    if type(text) is str:
        return text
    return next((text_of(value[kind]) for kind in ("intValue", "doubleValue", "boolValue") if kind in value), "")
