"""prometheus-kafka-adapter's JSON: one sample a message, its value a text. Kernel.

`{"timestamp": RFC 3339, "value": "1.5", "name": "...", "labels": {"__name__": "...", ...}}`; a value may be "NaN",
which is what Prometheus writes once a series has ended, or "+Inf".

Source: Telefonica/prometheus-kafka-adapter README.md and serializers.go.
"""

import pyarrow as pa

from ingest.decode.labels import texts_of
from ingest.decode.numbers import number_of_text
from ingest.decode.parse import complaint, load
from ingest.decode.samples import Plan, Point, Rows, Shapes
from ingest.decode.types import Context, Decode, Decoded
from ingest.exporters import EXPORTERS
from ingest.mapping import MetricMap


def decoder(mapping: MetricMap = EXPORTERS) -> Decode:
    """The decoder of the adapter's JSON, under a mapping."""
    shapes = Shapes(mapping)

    def decode(messages: pa.BinaryArray, context: Context) -> Decoded:
        shapes.begin()
        rows = Rows()
        for number, message in enumerate(messages.to_pylist()):
            parsed = load(message)
            if type(parsed) is dict and type(parsed.get("labels")) is dict and "value" in parsed:
                _add(rows, shapes, number, parsed)
            else:
                rows.undecodable(number, "", _complaint(message, parsed))
        return rows.decoded(shapes, context)

    return decode


def _add(rows: Rows, shapes: Shapes, number: int, sample: dict[str, object]) -> None:
    labels, name, raw, value = sample["labels"], sample.get("name"), sample.get("timestamp"), sample["value"]
    if not isinstance(labels, dict) or not isinstance(name, str | None):
        rows.undecodable(number, "", "name is no text")
        return
    values = tuple(labels.values())
    if set(map(type, values)) - {str}:
        values = tuple(texts_of(labels).values())
    key = (name, tuple(labels), values)
    plan = shapes.plans.get(key) or _remember(shapes, key, name, dict(zip(labels, values, strict=True)))
    micros = shapes.clock.micros(raw)
    rows.messages.append(number)
    rows.indexes.append(0)
    rows.micros.append(micros if micros >= 0 else rows.bad_time(raw))
    rows.plans.append(plan)
    if plan.picks:
        rows.values.append(number_of_text(value))


def _remember(shapes: Shapes, key: tuple[object, ...], name: str | None, labels: dict[str, str]) -> Plan:
    plan = shapes.plan([Point(name or labels.get("__name__", ""), labels)])
    return shapes.remember(key, plan, sum(len(word) for word in (name or "", *labels, *labels.values())))


def _complaint(message: bytes | None, parsed: object) -> str:
    if isinstance(parsed, dict):
        return "an object without labels or value: prometheus-kafka-adapter's has name, labels, timestamp, value"
    return complaint(message, parsed)
