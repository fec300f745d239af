"""OTLP as protobuf: ExportMetricsServiceRequest, or MetricsData, whose bytes are the same. Kernel.

Attributes, and bounds and counts of buckets, stay bytes at first: what they hold is read once for each that differs.

Source: opentelemetry-proto 1.x, metrics/v1/metrics.proto.
"""

from array import array
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.metrics.v1 import metrics_pb2
from opentelemetry.proto.resource.v1 import resource_pb2

from ingest.decode.formats.otlp_common import (
    NO_POINTS,
    Attributes,
    Bars,
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
MOST_ATTRIBUTES, MOST_BYTES = 5_000, 2_000
"""Of sets of attributes so many are kept, and none is longer."""
NUMBER_BYTES, NO_COUNT = 8, bytes(8)
"""Of a bound or count."""
AS_BYTES = ("attributes", "bucket_counts", "explicit_bounds")
"""Fields of points and resources that stay bytes; those of exponential histograms are numbers with a varying length."""
Message = Any
"""Generated classes have no types; nothing of them leaves this module."""


def read(rows: Rows, shapes: Shapes, messages: Sequence[bytes | None]) -> None:
    """Read messages of OTLP's protobuf into rows."""
    for number, message in enumerate(messages):
        try:
            _add(rows, shapes, number, message)
        except DecodeError:
            rows.undecodable(number, "", _complaint(message))


@cache
def _request() -> Any:
    """The class of requests whose attributes, bounds and counts stay bytes."""
    pool = DescriptorPool()
    for module in (common_pb2, resource_pb2, metrics_pb2, metrics_service_pb2):
        file = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        kinds = [kind for kind in file.message_type if kind.name.endswith("DataPoint") or kind.name == "Resource"]
        for field in (field for kind in kinds for field in kind.field if field.name in AS_BYTES):
            field.type = FieldDescriptorProto.TYPE_BYTES
            field.ClearField("type_name")
        pool.Add(file)
    name = metrics_service_pb2.ExportMetricsServiceRequest.DESCRIPTOR.full_name
    return GetMessageClass(pool.FindMessageTypeByName(name))


def _add(rows: Rows, shapes: Shapes, number: int, message: bytes | None) -> None:
    """Add the request that a message holds, once all of it is read.

    Raises:
        DecodeError: it holds none, or is empty.
    """
    if not message or len(message) > MAX_MESSAGE_BYTES:
        raise DecodeError
    request = _request().FromString(message)
    before, room = rows.size, MAX_RECORDS
    described = [_attributes(resource.resource.attributes) for resource in request.resource_metrics]
    node = node_of_request(shapes, described)
    read = []
    for resource, shared in zip(request.resource_metrics, described, strict=True):
        found = Found(room, shapes, with_node(shapes, shared, node))
        for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
            _read_metric(found, metric)
        read.append(found)
        room -= found.size
    for index, found in enumerate(read):
        add_resource(rows, shapes, (number, index), found)
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
    named, delta = (metric.name, metric.unit), kind != "summary" and data.aggregation_temporality == DELTA
    plain = kind == "histogram" and not delta and found.wants_buckets(metric.name)
    for point in data.data_points if found.has_room(2 * len(data.data_points)) else ():
        span = point.start_time_unix_nano, point.time_unix_nano
        if plain and not point.flags & NO_VALUE:
            _read_bars(found, named, span, point)
            continue
        one = Distribution(None, None) if point.flags & NO_VALUE else _distribution(point, kind)
        found.add_distribution(named, _attributes(point.attributes), span, one, delta=delta)


def _read_bars(found: Found, named: tuple[str, str], span: tuple[int, int], point: Message) -> None:
    """A point of a cumulative histogram; one like those before it is known by its bytes, if no bucket is empty."""
    bounds, counts = _packed(point)
    totals = point.sum if point.HasField("sum") else None, point.count
    key, size = (found.resource, named, bounds, *point.attributes), len(counts) // NUMBER_BYTES
    filled = NO_COUNT not in counts or 0 not in array("Q", counts)
    usual = filled and found.size + size <= found.room and not found.is_young(*span)
    plan = found.shapes.plans.get(key) if usual else None
    if plan is None:
        limits = array("d", bounds)
        bars = Bars(*named, _attributes(point.attributes), explicit_buckets(limits, [*limits, 0.0])[0])
        if not usual:
            found.add_bars(bars, span, totals, counts)
            return
    found.size += size
    found.bars.append((plan or (key, bars), span[1], totals, counts))


def _distribution(point: Message, kind: str) -> Distribution:
    if kind == "summary":
        return Distribution(point.sum, point.count)
    added = point.sum if point.HasField("sum") else None
    if kind == "histogram":
        bounds, counts = _packed(point)
        return Distribution(added, point.count, explicit_buckets(array("d", bounds), array("Q", counts)))
    above, zero = point.positive, (point.zero_threshold, point.zero_count)
    return Distribution(added, point.count, exponential_buckets(point.scale, zero, above.offset, above.bucket_counts))


def _packed(point: Message) -> tuple[bytes, bytes]:
    """Bounds and counts, which every sender packs; a point in which they are not is read anew, as what it is."""
    counts, bounds = point.bucket_counts, point.explicit_bounds
    if len(counts) == len(bounds) == 1 and not len(UnknownFieldSet(point)):
        packed, limits = counts[0], bounds[0]
        if len(packed) == len(limits) + NUMBER_BYTES and not len(packed) % NUMBER_BYTES:
            return limits, packed
    plain = metrics_pb2.HistogramDataPoint.FromString(point.SerializeToString())
    bounds, counts = plain.explicit_bounds, plain.bucket_counts
    if not bounds or len(counts) != len(bounds) + 1:
        return b"", b""
    return array("d", bounds).tobytes(), array("Q", counts).tobytes()


def _attributes(encoded: Sequence[bytes]) -> Attributes:
    """Attributes as texts.

    Raises:
        DecodeError: one cannot be read.
    """
    kept = tuple(encoded)
    return (_read if sum(map(len, kept)) < MOST_BYTES else _read.__wrapped__)(kept)


@lru_cache(MOST_ATTRIBUTES)
def _read(encoded: tuple[bytes, ...]) -> Attributes:
    read = map(common_pb2.KeyValue.FromString, encoded)
    return tuple([(a.key, a.value.string_value or _any(a.value)) for a in read])


def _any(value: Message) -> str:
    """The text of a value that is no text; arrays, lists and bytes give empty text."""
    kind = value.WhichOneof("value")
    return text_of(getattr(value, kind)) if kind in {"int_value", "double_value", "bool_value"} else ""


def _complaint(message: bytes | None) -> str:
    if message is None or len(message) > MAX_MESSAGE_BYTES:
        return complaint(message, None)
    return wrapping(message) or "not the protobuf of a request for metrics" if message else "the message is empty"
