"""Telegraf's JSON serializer: one metric a message, or {"metrics": [...]}; its fields become samples. Kernel.

A metric's name in the mapping is measurement.field. Times are numbers of any unit (json_timestamp_units) or RFC 3339.

Source: influxdata/telegraf plugins/serializers/json/README.md.
"""

from collections.abc import Callable, Sequence

import orjson

from ingest.decode.json_records import MAX_RECORDS, Record, complaint, load
from ingest.decode.metrics.labels import texts_of
from ingest.decode.samples import Plan, Point, Rows, Shapes
from ingest.decode.timestamps import BAD
from ingest.schema.tables import MAX_MESSAGE_BYTES

HEAD, TAGS, TIME = b'{"fields":', b'},"name":"', b'},"timestamp":'
"""Telegraf sorts its keys, hence every message begins so, and has name and tags between these."""
LONGEST_END = 64
"""Bytes from the time on, at most."""
MEMBERS = 4
"""Of a metric: fields, name, tags, timestamp."""
LONGEST = 1 << 16
"""Longer names and tags are not remembered."""
WANTED = "fields or a list of metrics: Telegraf's JSON has name, tags, fields, timestamp"


def read(rows: Rows, shapes: Shapes, messages: Sequence[bytes | None]) -> None:
    """Read messages of Telegraf's JSON into rows."""
    add_known = _adder_of_known(rows, shapes)
    for number, message in enumerate(messages):
        if message is not None and add_known(number, message):
            continue
        parsed = load(message)
        if type(parsed) is dict and "fields" in parsed:
            plan = _add(rows, shapes, (number, 0), parsed)
            _remember_tail(shapes, message or b"", parsed, plan)
        elif type(parsed) is dict and isinstance(parsed.get("metrics"), list) and parsed["metrics"]:
            _add_list(rows, shapes, number, parsed["metrics"])
        else:
            rows.undecodable(number, "", complaint(message, parsed, WANTED))


def _adder_of_known(rows: Rows, shapes: Shapes) -> Callable[[int, bytes], bool]:
    """Adds a message whose name and tags were met before, as bytes; says False of one that must be parsed whole.

    Fields are parsed, and so is the time. What stands before them and between them is known to be whole.
    """
    plans, before, after = shapes.plans, len(HEAD), len(TIME)
    times: dict[bytes, int] = {}
    add_plan, add_message, add_index, add_time = (
        one.append for one in (rows.plans, rows.messages, rows.indexes, rows.micros)
    )
    add_values, parsed = rows.values.extend, orjson.loads

    def add(number: int, message: bytes) -> bool:
        cut, end = message.find(TAGS), message.rfind(TIME, -LONGEST_END)
        rest = message[end + after :] if end > 0 else b""
        micros = times.get(rest)
        if micros is None:
            micros = times[rest] = _time(shapes, message, end)
        if micros < 0 or cut < 0 or len(message) > MAX_MESSAGE_BYTES or not message.startswith(HEAD):
            return False
        try:
            fields = parsed(message[before : cut + 1])
        except orjson.JSONDecodeError:
            return False
        plan = plans.get((message[cut:end], *fields))
        if plan is None:
            return False
        add_plan(plan.number)
        add_message(number)
        add_index(0)
        add_time(micros)
        add_values(fields.values() if plan.straight else plan.take([*fields.values()]))
        return True

    return add


def _time(shapes: Shapes, message: bytes, end: int) -> int:
    """The time at a message's end, microseconds since 1970; below 0 where it must be looked at closely."""
    rest = message[end + len(TIME) :]
    digits = rest[:-2] if rest.endswith(b"}\n") else rest[:-1]
    if end < 0 or rest[len(digits) : len(digits) + 1] != b"}" or not digits.isdigit() or digits[:1] == b"0":
        return BAD
    return shapes.clock.micros(int(digits))


def _remember_tail(shapes: Shapes, message: bytes, parsed: Record, plan: Plan | None) -> None:
    """Keep what stands between fields and time, if that is name and tags."""
    cut, end, fields = message.find(TAGS), message.rfind(TIME), parsed["fields"]
    if plan is None or not 0 < cut < end or end - cut > LONGEST or type(fields) is not dict:
        return
    key = (message[cut:end], *fields)
    if key in shapes.plans or len(parsed) != MEMBERS or _time(shapes, message, end) < 0:
        return
    if load(HEAD + b"{" + message[cut:]) == {**parsed, "fields": {}}:
        shapes.remember(key, plan, end - cut)


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
    try:
        plan = shapes.plans.get((name, *tags, None, *tags.values(), None, *fields))
    except TypeError:  # something nested, which is no key
        plan = None
    if plan is None:
        plan = _learn(shapes, name, fields, tags)
    stamp = metric.get("timestamp")
    micros = shapes.clock.read.get(stamp) if type(stamp) is int else None
    rows.add(plan, at, rows.time(shapes.clock, stamp) if micros is None else micros, [*fields.values()])
    return plan


def _learn(shapes: Shapes, name: str, fields: Record, tags: Record) -> Plan:
    """What such metrics become; known by tags as they are where these are texts, and else by what they become."""
    texts = texts_of(tags)
    key = (name, *tags, None, *texts.values(), None, *fields)
    return shapes.plans.get(key) or shapes.learn(key, [Point(f"{name}.{field}", texts) for field in fields])
