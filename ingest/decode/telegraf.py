"""Telegraf's JSON serializer: one metric a message, or {"metrics": [...]}; its fields become samples. Kernel.

A metric's name in the mapping is measurement.field. Times are numbers of any unit (json_timestamp_units) or RFC 3339.

Source: influxdata/telegraf plugins/serializers/json/README.md.
"""

from collections.abc import Sequence

import pyarrow as pa

from ingest.decode.labels import texts_of
from ingest.decode.parse import MAX_RECORDS, complaint, load
from ingest.decode.samples import Plan, Point, Rows, Shapes
from ingest.decode.types import Context, Decode, Decoded
from ingest.exporters import EXPORTERS
from ingest.mapping import MetricMap


def decoder(mapping: MetricMap = EXPORTERS) -> Decode:
    """The decoder of Telegraf's JSON, under a mapping."""
    shapes = Shapes(mapping)

    def decode(messages: pa.BinaryArray, context: Context) -> Decoded:
        shapes.begin()
        rows = Rows()
        for number, message in enumerate(messages.to_pylist()):
            parsed = load(message)
            if isinstance(parsed, dict) and "fields" in parsed:
                _add(rows, shapes, (number, 0), parsed)
            elif isinstance(parsed, dict) and isinstance(parsed.get("metrics"), list) and parsed["metrics"]:
                _add_list(rows, shapes, number, parsed["metrics"])
            else:
                rows.undecodable(number, "", _complaint(message, parsed))
        return rows.decoded(shapes, context)

    return decode


def _add_list(rows: Rows, shapes: Shapes, number: int, metrics: list[object]) -> None:
    if len(metrics) > MAX_RECORDS:
        rows.undecodable(number, str(MAX_RECORDS), f"{len(metrics)} metrics; the rest is not read")
    for index, metric in enumerate(metrics[:MAX_RECORDS]):
        if isinstance(metric, dict):
            _add(rows, shapes, (number, index), metric)
        else:
            rows.undecodable(number, str(index), "it is no object")


def _add(rows: Rows, shapes: Shapes, at: tuple[int, int], metric: dict[str, object]) -> None:
    """Add one metric; its tags and the names of its fields are its shape."""
    name, fields, tags = metric.get("name"), metric.get("fields"), metric.get("tags")
    if type(fields) is not dict or type(tags) is not dict or type(name) is not str or not fields:
        rows.undecodable(at[0], str(at[1]), "name is no text, or fields or tags no object, or there are no fields")
        return
    values = tuple(tags.values())
    if set(map(type, values)) - {str}:
        values = tuple(texts_of(tags).values())
    key = (name, tuple(tags), values, tuple(fields))
    plan = shapes.plans.get(key) or _remember(shapes, key, name, dict(zip(tags, values, strict=True)), list(fields))
    raw = metric.get("timestamp")
    micros = shapes.clock.micros(raw)
    if micros < 0:
        micros = rows.bad_time(raw)
    rows.plans.append(plan)
    rows.messages.append(at[0])
    rows.indexes.append(at[1])
    rows.micros.append(micros)
    read = list(fields.values())
    rows.values.extend([read[pick] for pick in plan.picks])


def _remember(shapes: Shapes, key: tuple[object, ...], name: str, tags: dict[str, str], fields: Sequence[str]) -> Plan:
    plan = shapes.plan([Point(f"{name}.{field}", tags) for field in fields])
    size = sum(len(word) for word in (name, *tags, *tags.values(), *fields))
    return shapes.remember(key, plan, size)


def _complaint(message: bytes | None, parsed: object) -> str:
    if isinstance(parsed, dict):
        return "an object with neither fields nor a list of metrics: Telegraf's JSON has name, tags, fields, timestamp"
    return complaint(message, parsed)
