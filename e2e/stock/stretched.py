"""Stretched time: what was recorded in minutes as if it had taken hours, so that windows of five minutes fit. Kernel.

Times lie `factor` times as far before the end, and what is counted up is multiplied by it: rates, means and gauges stay
what they were.
"""

from dataclasses import dataclass
from typing import Any

import orjson
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from ingest.kafka_io.stream_files import Message
from ingest.schema.topics import NODE_USAGE, NODES, PLACEMENTS

RECORDS = (PLACEMENTS.name, NODES.name, NODE_USAGE.name)
"""Topics of JSON with a time in milliseconds."""
APP = "http.server."
"""How names of what servers say of themselves begin."""


@dataclass(frozen=True)
class Stretch:
    """How time is stretched.

    Args:
        end_ms: what stays where it is, milliseconds since 1970.
        factor: how much longer everything takes.
    """

    end_ms: int
    factor: int

    def at_ms(self, recorded_ms: float) -> int:
        """When it is said to have been."""
        return round(self.end_ms - self.factor * (self.end_ms - recorded_ms))

    def at_ns(self, recorded_ns: int) -> int:
        """The same in nanoseconds; 0, which stands for none, stays."""
        end_ns = self.end_ms * 1_000_000
        return recorded_ns and end_ns - self.factor * (end_ns - recorded_ns)

    def message(self, topic: str, message: Message, *, without: tuple[str, ...] = ()) -> Message:
        """A message of any topic; metrics whose names begin as one of `without` are left out."""
        return Message(self.at_ms(message.arrived_ms), message.key, self._value(topic, message.value or b"", without))

    def _value(self, topic: str, value: bytes, without: tuple[str, ...]) -> bytes:
        if topic in RECORDS:
            found = orjson.loads(value)
            for one in found if isinstance(found, list) else [found]:
                one["ts"] = self.at_ms(one["ts"])
            return orjson.dumps(found)
        request = ExportMetricsServiceRequest.FromString(value)
        for scope in (scope for resource in request.resource_metrics for scope in resource.scope_metrics):
            kept = [metric for metric in scope.metrics if not metric.name.startswith(without or ("\0",))]
            del scope.metrics[:]
            scope.metrics.extend(kept)
            for metric in scope.metrics:
                self._stretch(metric)
        return bytes(request.SerializeToString())

    def _stretch(self, metric: Any) -> None:
        kind = metric.WhichOneof("data")
        counted = metric.name.endswith("_total") or (kind == "sum" and metric.sum.is_monotonic)
        for point in getattr(metric, kind).data_points if kind else ():
            point.start_time_unix_nano = self.at_ns(point.start_time_unix_nano)
            point.time_unix_nano = self.at_ns(point.time_unix_nano)
            if kind in {"histogram", "summary"}:
                point.count *= self.factor
                point.sum *= self.factor
            if kind == "histogram":
                point.bucket_counts[:] = [count * self.factor for count in point.bucket_counts]
                del point.exemplars[:]
            elif counted and point.WhichOneof("value") == "as_int":
                point.as_int *= self.factor
            elif counted and kind in {"gauge", "sum"}:
                point.as_double *= self.factor
