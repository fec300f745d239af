"""Telegraf's JSON serializer: one metric a message, or {"metrics": [...]}; its fields become samples. Kernel.

A metric's name in the mapping is measurement.field. Times are numbers of any unit (json_timestamp_units) or RFC 3339.

Source: influxdata/telegraf plugins/serializers/json/README.md.
"""

from collections.abc import Sequence

from ingest.decode.json_records import MAX_RECORDS, Record, complaint, load
from ingest.decode.metrics.labels import values_of
from ingest.decode.samples import Point, Rows, Shapes

WANTED = "fields or a list of metrics: Telegraf's JSON has name, tags, fields, timestamp"


def read(rows: Rows, shapes: Shapes, messages: Sequence[bytes | None]) -> None:
    """Read messages of Telegraf's JSON into rows."""
    for number, message in enumerate(messages):
        parsed = load(message)
        if isinstance(parsed, dict) and "fields" in parsed:
            _add(rows, shapes, (number, 0), parsed)
        elif isinstance(parsed, dict) and isinstance(parsed.get("metrics"), list) and parsed["metrics"]:
            _add_list(rows, shapes, number, parsed["metrics"])
        else:
            rows.undecodable(number, "", complaint(message, parsed, WANTED))


def _add_list(rows: Rows, shapes: Shapes, number: int, metrics: list[object]) -> None:
    if len(metrics) > MAX_RECORDS:
        rows.undecodable(number, str(MAX_RECORDS), f"{len(metrics)} metrics; the rest is not read")
    for index, metric in enumerate(metrics[:MAX_RECORDS]):
        if isinstance(metric, dict):
            _add(rows, shapes, (number, index), metric)
        else:
            rows.undecodable(number, str(index), "it is no object")


def _add(rows: Rows, shapes: Shapes, at: tuple[int, int], metric: Record) -> None:
    """Add one metric; its tags and the names of its fields are its shape."""
    name, fields, tags = metric.get("name"), metric.get("fields"), metric.get("tags")
    if type(fields) is not dict or type(tags) is not dict or type(name) is not str or not fields:
        rows.undecodable(at[0], str(at[1]), "name is no text, or fields or tags no object, or there are no fields")
        return
    values = values_of(tags.values())
    key = (name, tuple(tags), values, tuple(fields))
    plan = shapes.plans.get(key)
    if plan is None:
        texts = dict(zip(tags, values, strict=True))
        plan = shapes.learn(key, [Point(f"{name}.{field}", texts) for field in fields])
    rows.add(plan, at, rows.time(shapes.clock, metric.get("timestamp")), list(fields.values()))
