"""OTLP as protobuf: ExportMetricsServiceRequest, or MetricsData, whose bytes are the same. Kernel.

Source: opentelemetry-proto 1.x, metrics/v1/metrics.proto.
"""

from collections.abc import Sequence
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

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
from ingest.decode.json_records import MAX_RECORDS, complaint, wrapping
from ingest.decode.metrics.labels import text_of
from ingest.decode.samples import Rows, Shapes
from ingest.schema.tables import MAX_MESSAGE_BYTES

DELTA = 1
NO_VALUE = 1
"""Flag of a point whose value was not recorded."""
Message = Any
"""Generated classes have no types; nothing of them leaves this module."""


def read(rows: Rows, shapes: Shapes, messages: Sequence[bytes | None]) -> None:
    """Read messages of OTLP's protobuf into rows."""
    for number, message in enumerate(messages):
        request = parse_request(message)
        if request is None:
            rows.undecodable(number, "", _complaint(message))
        else:
            _add(rows, shapes, number, request)


def parse_request(message: bytes | None) -> Message | None:
    """The request a message holds; None where it holds none, an empty message included."""
    if not message or len(message) > MAX_MESSAGE_BYTES:
        return None
    request = ExportMetricsServiceRequest()
    try:
        request.ParseFromString(message)
    except DecodeError:
        return None
    return request


def _add(rows: Rows, shapes: Shapes, number: int, request: Message) -> None:
    """Add a request point by point."""
    before, room = rows.size, MAX_RECORDS
    described = [_attributes(resource.resource.attributes) for resource in request.resource_metrics]
    node = node_of_request(shapes, described)
    for index, (resource, shared) in enumerate(zip(request.resource_metrics, described, strict=True)):
        found = Found(room, shapes.mapping.metrics)
        for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
            _read_metric(found, metric)
        add_resource(rows, shapes, (number, index), with_node(shapes, shared, node), found)
        room -= found.size
    if rows.size == before:
        rows.count(NO_POINTS)


def _read_metric(found: Found, metric: Message) -> None:
    name, kind = metric.name, metric.WhichOneof("data")
    if kind not in {"gauge", "sum"}:
        _read_distribution(found, metric, kind)
        return
    data = getattr(metric, kind)
    delta = kind == "sum" and data.aggregation_temporality == DELTA
    for point in data.data_points if found.has_room(len(data.data_points)) else ():
        value = None if point.flags & NO_VALUE else point.as_double or _value(point)
        attributes = point.attributes
        own = _attributes(attributes) if attributes else ()
        if delta:
            found.add_delta(name, own, (point.start_time_unix_nano, point.time_unix_nano), value)
        else:
            found.points.append((name, own, point.time_unix_nano, value))


def _value(point: Message) -> float | int | None:
    """The value of a point whose double is 0 or not set."""
    kind = point.WhichOneof("value")
    return None if kind is None else getattr(point, kind)


def _read_distribution(found: Found, metric: Message, kind: str | None) -> None:
    """Sum, count and buckets of a histogram or summary."""
    if kind is None:
        return
    data = getattr(metric, kind)
    delta = kind != "summary" and data.aggregation_temporality == DELTA
    for point in data.data_points if found.has_room(2 * len(data.data_points)) else ():
        own, span = _attributes(point.attributes), (point.start_time_unix_nano, point.time_unix_nano)
        one = Distribution(None, None) if point.flags & NO_VALUE else _distribution(point, kind)
        found.add_distribution((metric.name, metric.unit), own, span, one, delta=delta)


def _distribution(point: Message, kind: str) -> Distribution:
    if kind == "summary":
        return Distribution(point.sum, point.count)
    added = point.sum if point.HasField("sum") else None
    if kind == "histogram":
        return Distribution(added, point.count, explicit_buckets(point.explicit_bounds, point.bucket_counts))
    above, zero = point.positive, (point.zero_threshold, point.zero_count)
    return Distribution(added, point.count, exponential_buckets(point.scale, zero, above.offset, above.bucket_counts))


def _attributes(attributes: Message) -> Attributes:
    return tuple((a.key, a.value.string_value or _any(a.value)) for a in attributes)


def _any(value: Message) -> str:
    """The text of a value that is no text; arrays, lists and bytes give empty text."""
    kind = value.WhichOneof("value")
    return text_of(getattr(value, kind)) if kind in {"int_value", "double_value", "bool_value"} else ""


def _complaint(message: bytes | None) -> str:
    if message is None or len(message) > MAX_MESSAGE_BYTES:
        return complaint(message, None)
    return wrapping(message) or "not the protobuf of a request for metrics" if message else "the message is empty"
