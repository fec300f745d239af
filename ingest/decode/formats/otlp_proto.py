"""OTLP as protobuf: ExportMetricsServiceRequest, or MetricsData, whose bytes are the same. Kernel.

Source: opentelemetry-proto 1.x, metrics/v1/metrics.proto.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from ingest.decode.formats.otlp_common import NO_POINTS, Attributes, Found, add_resource, node_of_request, with_node
from ingest.decode.json_records import MAX_RECORDS, complaint, wrapping
from ingest.decode.metrics.labels import text_of
from ingest.decode.otlp_wire import layout_of, stretches, varint
from ingest.decode.samples import KnownLayout, Plan, Rows, Shapes
from ingest.schema.tables import MAX_MESSAGE_BYTES

DELTA = 1
NO_VALUE = 1
"""Flag of a point whose value was not recorded."""
BEGINNING = 600
"""Most bytes of a resource that distinguish it from others; most resources' attributes fit."""
MAX_TRIES = 3
"""Layouts that are tried for what begins alike and is as long; what keeps changing is not tried again."""
Message = Any
"""Generated classes have no types; nothing of them leaves this module."""


def read(rows: Rows, shapes: Shapes, messages: Sequence[bytes | None]) -> None:
    """Read messages of OTLP's protobuf into rows."""
    for number, message in enumerate(messages):
        if message and len(message) <= MAX_MESSAGE_BYTES and _add_known(rows, shapes, number, message):
            continue
        request = parse_request(message)
        if request is None:
            rows.undecodable(number, "", _complaint(message))
        else:
            _add(rows, shapes, number, message or b"", request)


def _add_known(rows: Rows, shapes: Shapes, number: int, message: bytes) -> bool:
    """Add a message whose every resource was met before, with other times and values; False if one was not."""
    if not shapes.layouts:
        return False
    parts = stretches(message)
    if not parts:
        return False
    data, found = np.frombuffer(message, np.uint8), []
    for start, end in parts:
        stretch = data[start:end]
        known = shapes.layouts.get(layout_key(message, start, end))
        if known is None or known.layout is None or not known.layout.fits(stretch):
            return False
        times, values = known.layout.read(stretch)
        if not times[0] or (times != times[0]).any():
            return False
        found.append((known.plan, int(times[0]), values))
    if sum(len(values) for _, _, values in found) > MAX_RECORDS:
        return False
    for index, (plan, time, values) in enumerate(found):
        rows.add(plan, (number, index), rows.time(shapes.clock, time), values.tolist())
    return True


def _remember(shapes: Shapes, message: bytes, part: tuple[int, int], plan: Plan, found: Found) -> None:
    """Keep the layout of a resource, so that its next points need no parsing."""
    key = layout_key(message, *part)
    known = shapes.layouts.get(key)
    if known is not None and known.tries >= MAX_TRIES:
        return
    layout = layout_of(message[slice(*part)])
    if layout is not None:
        times, values = layout.read(np.frombuffer(message, np.uint8)[slice(*part)])
        read = list(zip(times.tolist(), values.tolist(), strict=True))
        agrees = read == [(time, value) for _, _, time, value in found.points]
        layout = layout if agrees else None
    tries = MAX_TRIES if layout is None else 1 + (known.tries if known else 0)
    shapes.remember_layout(key, KnownLayout(layout, plan, tries))


def layout_key(message: bytes, start: int, end: int) -> tuple[int, bytes]:
    """Length of a stretch, and its first field: the resource it is of, without the times behind it, which change."""
    length, at = varint(message, start + 1)
    return end - start, message[start : min(end, start + BEGINNING, at + length)]


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


def _add(rows: Rows, shapes: Shapes, number: int, message: bytes, request: Message) -> None:
    """Add a request point by point; a resource that is met again has its layout kept."""
    before, room = rows.size, MAX_RECORDS
    parts = stretches(message) or []
    described = [_attributes(resource.resource.attributes) for resource in request.resource_metrics]
    node = node_of_request(shapes, described)
    for index, resource in enumerate(request.resource_metrics):
        found, seen = Found(room), len(shapes.plans)
        for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
            _read_metric(found, metric)
        shared = with_node(shapes, described[index], node)
        plan = add_resource(rows, shapes, (number, index), shared, found)
        room -= len(found.points)
        own = shared is described[index]  # else what it becomes depends on the request
        if own and plan is not None and len(shapes.plans) == seen and len(parts) == len(request.resource_metrics):
            _remember(shapes, message, parts[index], plan, found)
    if rows.size == before:
        rows.count(NO_POINTS)


def _read_metric(found: Found, metric: Message) -> None:
    name, kind = metric.name, metric.WhichOneof("data")
    if kind not in {"gauge", "sum"}:
        _read_distribution(found, name, metric, kind)
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


def _read_distribution(found: Found, name: str, metric: Message, kind: str | None) -> None:
    """Sum and count of a histogram or summary."""
    if kind is None:
        return
    data = getattr(metric, kind)
    delta = kind != "summary" and data.aggregation_temporality == DELTA
    for point in data.data_points if found.has_room(2 * len(data.data_points)) else ():
        own, span = _attributes(point.attributes), (point.start_time_unix_nano, point.time_unix_nano)
        has_sum = kind == "summary" or point.HasField("sum")
        missing = point.flags & NO_VALUE
        values = {"sum": point.sum if has_sum and not missing else None, "count": None if missing else point.count}
        for field, value in values.items():
            if delta:
                found.add_delta(f"{name}_{field}", own, span, value)
            else:
                found.points.append((f"{name}_{field}", own, span[1], value))


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
