"""Telegraf's JSON serializer: one metric a message, or {"metrics": [...]}; its fields become samples. Kernel.

A metric's name in the mapping is measurement.field. Times are numbers of any unit (json_timestamp_units) or RFC 3339.

Source: influxdata/telegraf plugins/serializers/json/README.md.
"""

from collections.abc import Callable, Sequence

import orjson

from ingest.decode.json_records import MAX_RECORDS, Record, complaint, load
from ingest.decode.metrics.labels import values_of
from ingest.decode.samples import Plan, Point, Rows, Shapes
from ingest.schema.tables import MAX_MESSAGE_BYTES

TIME, NAME, FIELDS = b',"timestamp":', b'},"name":"', b'{"fields":{'
"""Telegraf sorts its keys, hence begins every message with fields and ends it with the time and a line feed."""
LONGEST = 1 << 16
"""Longer messages are always parsed whole."""
WANTED = "fields or a list of metrics: Telegraf's JSON has name, tags, fields, timestamp"


def read(rows: Rows, shapes: Shapes, messages: Sequence[bytes | None]) -> None:
    """Read messages of Telegraf's JSON into rows."""
    add_known = _adder_of_known(rows, shapes)
    for number, message in enumerate(messages):
        if message is not None and len(message) <= MAX_MESSAGE_BYTES and add_known(number, message.rstrip()):
            continue
        parsed = load(message)
        if isinstance(parsed, dict) and "fields" in parsed:
            plan = _add(rows, shapes, (number, 0), parsed)
            _remember_tail(shapes, (message or b"").rstrip(), parsed, plan)
        elif isinstance(parsed, dict) and isinstance(parsed.get("metrics"), list) and parsed["metrics"]:
            _add_list(rows, shapes, number, parsed["metrics"])
        else:
            rows.undecodable(number, "", complaint(message, parsed, WANTED))


def _adder_of_known(rows: Rows, shapes: Shapes) -> Callable[[int, bytes], bool]:
    """Adds a message whose name and tags were met before, byte by byte, and says False of one that must be parsed.

    Its fields are parsed as an object of their own. What stands between them and the time is whole, and the time was
    met before, so that the parts make up the message.
    """
    times, plans, after = shapes.clock.read, shapes.plans, len(TIME)
    begins = len(FIELDS) - 1

    def add(number: int, message: bytes) -> bool:
        middle, cut = message.find(NAME), message.rfind(TIME)
        micros = times.get(message[cut + after : -1])
        if micros is None or middle < 0 or message[-1:] != b"}" or message[: begins + 1] != FIELDS:
            return False
        try:
            fields = orjson.loads(message[begins : middle + 1])
        except orjson.JSONDecodeError:
            return False
        plan = plans.get((message[middle + 1 : cut], *fields))
        if plan is None:
            return False
        rows.plans.append(plan)
        rows.messages.append(number)
        rows.indexes.append(0)
        rows.micros.append(micros)
        values = list(fields.values())
        rows.values.extend([values[pick] for pick in plan.picks])
        return True

    return add


def _remember_tail(shapes: Shapes, message: bytes, parsed: Record, plan: Plan | None) -> None:
    """Keep what stands between fields and time, if that is name and tags, and the time with it, if it was good."""
    middle, cut, raw = message.find(NAME), message.rfind(TIME), parsed.get("timestamp")
    tail, fields = message[middle + 1 : cut], parsed["fields"]
    if plan is None or not 0 < middle < cut < LONGEST or type(raw) is not int or not isinstance(fields, dict):
        return
    point = {"fields": {}, "name": parsed.get("name"), "tags": parsed.get("tags")}
    timely = raw in shapes.clock.read and message[cut + len(TIME) :] == b"%d}" % raw
    if timely and load(FIELDS + b"}" + tail + b"}") == point:
        shapes.clock.read[b"%d" % raw] = shapes.clock.read[raw]
        shapes.remember((tail, *fields), plan, cut)


def _add_list(rows: Rows, shapes: Shapes, number: int, metrics: list[object]) -> None:
    if len(metrics) > MAX_RECORDS:
        rows.undecodable(number, str(MAX_RECORDS), f"{len(metrics)} metrics; the rest is not read")
    for index, metric in enumerate(metrics[:MAX_RECORDS]):
        if isinstance(metric, dict):
            _add(rows, shapes, (number, index), metric)
        else:
            rows.undecodable(number, str(index), "it is no object")


def _add(rows: Rows, shapes: Shapes, at: tuple[int, int], metric: Record) -> Plan | None:
    """Add one metric; its tags and the names of its fields are its shape."""
    name, fields, tags = metric.get("name"), metric.get("fields"), metric.get("tags")
    if type(fields) is not dict or type(tags) is not dict or type(name) is not str or not fields:
        rows.undecodable(at[0], str(at[1]), "name is no text, or fields or tags no object, or there are no fields")
        return None
    values = values_of(tags.values())
    key = (name, tuple(tags), values, tuple(fields))
    plan = shapes.plans.get(key)
    if plan is None:
        texts = dict(zip(tags, values, strict=True))
        plan = shapes.learn(key, [Point(f"{name}.{field}", texts) for field in fields])
    rows.add(plan, at, rows.time(shapes.clock, metric.get("timestamp")), list(fields.values()))
    return plan
