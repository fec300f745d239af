"""Telegraf's JSON serializer: one metric a message, or {"metrics": [...]}; its fields become samples. Kernel.

A metric's name in the mapping is measurement.field. Times are numbers of any unit (json_timestamp_units) or RFC 3339.

Source: influxdata/telegraf plugins/serializers/json/README.md.
"""

from collections.abc import Sequence

from ingest.decode.json_records import MAX_RECORDS, Record, complaint, load
from ingest.decode.metrics.labels import texts_of
from ingest.decode.samples import Plan, Point, Rows, Shapes

WANTED = "fields or a list of metrics: Telegraf's JSON has name, tags, fields, timestamp"


def read(rows: Rows, shapes: Shapes, messages: Sequence[bytes | None]) -> None:
    """Read messages of Telegraf's JSON into rows."""
    for number, message in enumerate(messages):
        parsed = load(message)
        if type(parsed) is dict and "fields" in parsed:
            _add(rows, shapes, (number, 0), parsed)
        elif type(parsed) is dict and isinstance(parsed.get("metrics"), list) and parsed["metrics"]:
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
    try:
        plan = shapes.plans.get((name, *tags, None, *tags.values(), None, *fields))
    except TypeError:  # something nested, which is no key
        plan = None
    if plan is None:
        plan = _learn(shapes, name, fields, tags)
    stamp = metric.get("timestamp")
    micros = shapes.clock.read.get(stamp) if type(stamp) is int else None
    rows.add(plan, at, rows.time(shapes.clock, stamp) if micros is None else micros, [*fields.values()])


def _learn(shapes: Shapes, name: str, fields: Record, tags: Record) -> Plan:
    """What such metrics become; known by tags as they are where these are texts, and else by what they become."""
    texts = texts_of(tags)
    key = (name, *tags, None, *texts.values(), None, *fields)
    return shapes.plans.get(key) or shapes.learn(key, [Point(f"{name}.{field}", texts) for field in fields])
