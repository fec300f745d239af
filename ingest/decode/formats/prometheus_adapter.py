"""prometheus-kafka-adapter's JSON: one sample a message, its value a text. Kernel.

`{"timestamp": RFC 3339, "value": "1.5", "name": "...", "labels": {"__name__": "...", ...}}`; a value may be "NaN",
which is what Prometheus writes once a series has ended, or "+Inf".

Source: Telefonica/prometheus-kafka-adapter README.md and serializers.go.
"""

from collections.abc import Callable, Sequence

from ingest.decode.json_records import Record, complaint, load
from ingest.decode.metrics.labels import values_of
from ingest.decode.numbers import number_of_bytes, number_of_text
from ingest.decode.samples import Plan, Point, Rows, Shapes

TIME, VALUE, END = b',"timestamp":"', b'","value":"', b'"}'
"""The adapter sorts its keys, hence ends every message so."""
LONGEST = 1 << 16
"""Longer beginnings are not remembered."""
WANTED = "labels or value: prometheus-kafka-adapter's has name, labels, timestamp, value"


def read(rows: Rows, shapes: Shapes, messages: Sequence[bytes | None]) -> None:
    """Read messages of the adapter's JSON into rows."""
    add_known = _adder_of_known(rows, shapes)
    for number, message in enumerate(messages):
        if message is not None and add_known(number, message):
            continue
        parsed = load(message)
        if type(parsed) is dict and type(parsed.get("labels")) is dict and "value" in parsed:
            plan = _add(rows, shapes, number, parsed)
            _remember_head(shapes, message or b"", parsed, plan)
        else:
            rows.undecodable(number, "", complaint(message, parsed, WANTED))


def _adder_of_known(rows: Rows, shapes: Shapes) -> Callable[[int, bytes], bool]:
    """Adds a message whose bytes before its time were met before, and says False of one that must be parsed.

    What stands there is whole, so all that may differ is what the time's and the value's quotes hold; both are taken
    only if nothing in them could end a text.
    """
    times, plans, after = shapes.clock.read, shapes.plans, len(TIME)
    add_plan, add_message, add_time = (one.append for one in (rows.plans, rows.messages, rows.micros))
    add_index, add_value = rows.indexes.append, rows.values.append

    def add(number: int, message: bytes) -> bool:
        cut = message.rfind(TIME)
        plan = plans.get(message[:cut])
        if plan is None:
            return False
        stamp, _, rest = message[cut + after :].partition(VALUE)
        micros, value = times.get(stamp), number_of_bytes(rest[:-2])
        if micros is None or value is None or rest[-2:] != END:
            return False
        add_plan(plan.number)
        add_message(number)
        add_index(0)
        add_time(micros)
        for _ in plan.picks:
            add_value(value)
        return True

    return add


def _remember_head(shapes: Shapes, message: bytes, parsed: Record, plan: Plan | None) -> None:
    """Keep what stands before the time, if that is name and labels, and the time with it, if it was good."""
    cut = message.rfind(TIME)
    head, raw = message[:cut], parsed.get("timestamp")
    if plan is None or not 0 < cut < LONGEST or type(raw) is not str or raw not in shapes.clock.read:
        return
    series = {"labels": parsed["labels"], "name": parsed.get("name")}
    if load(head + b"}") == series and message[cut + len(TIME) :].startswith(raw.encode() + VALUE):
        shapes.clock.read[raw.encode()] = shapes.clock.read[raw]
        shapes.remember(head, plan, cut)


def _add(rows: Rows, shapes: Shapes, number: int, sample: Record) -> Plan | None:
    labels, name, raw, value = sample["labels"], sample.get("name"), sample.get("timestamp"), sample["value"]
    if not isinstance(labels, dict) or not isinstance(name, str | None):
        rows.undecodable(number, "", "name is no text")
        return None
    values = values_of(labels.values())
    key = (name, tuple(labels), values)
    plan = shapes.plans.get(key)
    if plan is None:
        texts = dict(zip(labels, values, strict=True))
        plan = shapes.learn(key, [Point(name or texts.get("__name__", ""), texts)])
    rows.add(plan, (number, 0), rows.time(shapes.clock, raw), [number_of_text(value)])
    return plan
