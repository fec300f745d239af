"""Prometheus text: `name{label="value"} value [milliseconds]`, a line a sample. Kernel.

A line without a time is as old as its message. Comments are skipped, TYPE included, since the mapping says what is
a counter; so are exemplars (` # {...}`), which OpenMetrics puts behind a value. Names outside the old alphabet are
quoted, the metric's among the labels: `{"my.metric", "k8s.pod.uid"="..."} value`.

Source: Prometheus, "Exposition formats", text-based format 0.0.4 and 1.0.0 (quoted names, since Prometheus 3);
OpenMetrics 1.0 for exemplars.
"""

import re
from collections.abc import Sequence
from reprlib import repr as short

import pyarrow as pa

from ingest.decode.json_records import MAX_RECORDS, complaint, wrapping
from ingest.decode.numbers import number_of_text
from ingest.decode.samples import Point, Rows, Shapes
from ingest.schema.tables import MAX_MESSAGE_BYTES

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_LABEL = re.compile(rf"\s*(?:([a-zA-Z_][a-zA-Z0-9_]*)|{_QUOTED})\s*=\s*{_QUOTED}\s*")
_QUOTED_METRIC = re.compile(rf"\{{\s*{_QUOTED}\s*(?=[,}}])")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", '"': '"', "\\": "\\"}
_EXEMPLAR = re.compile(r"\s#\s.*$")
MAX_WORDS = 2
"""A value, and perhaps a time."""
NO_SAMPLE = "comments only"
"""Under this name messages are counted that hold no sample."""


def read(rows: Rows, shapes: Shapes, messages: Sequence[bytes | None]) -> None:
    """Read messages of Prometheus text into rows."""
    arrived = rows.context.arrived_at.cast(pa.int64()).to_pylist()
    for number, message in enumerate(messages):
        text = _text(message)
        if text is None or not text.strip():
            rows.undecodable(number, "", _complaint(message))
        else:
            _add_lines(rows, shapes, (number, arrived[number]), text)


def _add_lines(rows: Rows, shapes: Shapes, at: tuple[int, int], text: str) -> None:
    """Add each line's sample; what stands before the value was usually met before, and is parsed once."""
    message, arrived = at
    plans, times, before = shapes.plans, shapes.clock.read, rows.size
    add_plan, add_index, add_micros = rows.plans.append, rows.indexes.append, rows.micros.append
    add_values = rows.values.extend
    lines = text.split("\n")
    if len(lines) > MAX_RECORDS:
        rows.undecodable(message, str(MAX_RECORDS), f"{len(lines)} lines; the rest is not read")
        del lines[MAX_RECORDS:]
    for number, line in enumerate(lines):
        series, _, tail = line.rpartition("}")
        plan, words = plans.get(series), tail.split()
        if plan is None or not 0 < len(words) <= MAX_WORDS:
            rows.messages.extend([message] * (len(rows.plans) - len(rows.messages)))
            _add_new(rows, shapes, (message, number, arrived), line)
            continue
        micros = arrived if len(words) == 1 else times.get(words[1])
        add_micros(rows.time(shapes.clock, words[1]) if micros is None else micros)
        add_plan(plan)
        add_index(number)
        if plan.picks:
            value = number_of_text(words[0])
            add_values((value,) if len(plan.picks) == 1 else [value] * len(plan.picks))
    rows.messages.extend([message] * (len(rows.plans) - len(rows.messages)))
    if rows.size == before:
        rows.count(NO_SAMPLE)


def _add_new(rows: Rows, shapes: Shapes, at: tuple[int, int, int], line: str) -> None:
    """Add the sample of a line whose beginning is new, or that is out of the ordinary."""
    message, number, arrived = at
    text = line.strip()
    if not text or text.startswith("#"):
        return
    parsed = _parse(text)
    if parsed is None:
        rows.undecodable(message, str(number), f"{short(text)} does not read as name{{labels}} value milliseconds")
        return
    point, end, words = parsed
    plan = shapes.plans.get(text[:end]) or shapes.learn(text[:end], [point])
    micros = arrived if len(words) == 1 else rows.time(shapes.clock, words[1])
    rows.add(plan, (message, number), micros, [number_of_text(words[0])])


def _parse(text: str) -> tuple[Point, int, list[str]] | None:
    """A line's name and labels, where they end, and its one or two words behind them; None if it is no sample."""
    quoted = _QUOTED_METRIC.match(text)
    name = quoted or _NAME.match(text)
    if name is None:
        return None
    labels = _labels(text, name.end()) if quoted is None else _listed(text, name.end() + (text[name.end()] == ","))
    if labels is None:
        return None
    found, end = labels
    words = _EXEMPLAR.sub("", text[end + 1 :] if found is not None else text[end:]).split()
    if not 0 < len(words) <= MAX_WORDS:
        return None
    return Point(name[0] if quoted is None else _plain(quoted[1]), found or {}), end, words


def _labels(text: str, start: int) -> tuple[dict[str, str] | None, int] | None:
    """Labels from `{` on, and where `}` is; None in their place where no `{` is; None alone if they do not read so."""
    if not text[start:].lstrip().startswith("{"):
        return None, start
    return _listed(text, text.index("{", start) + 1)


def _listed(text: str, at: int) -> tuple[dict[str, str], int] | None:
    """Labels up to `}`, and where that is; None if they do not read so."""
    labels = {}
    while label := _LABEL.match(text, at):
        labels[label[1] or _plain(label[2])] = _plain(label[3])
        at = label.end()
        if text[at : at + 1] != ",":
            break
        at += 1
    at += len(text[at:]) - len(text[at:].lstrip())
    return (labels, at) if text[at : at + 1] == "}" else None


def _plain(quoted: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[0]), quoted)


def _text(message: bytes | None) -> str | None:
    if message is None or len(message) > MAX_MESSAGE_BYTES:
        return None
    try:
        return message.decode()
    except UnicodeDecodeError:
        return None


def _complaint(message: bytes | None) -> str:
    if message is None or len(message) > MAX_MESSAGE_BYTES:
        return complaint(message, None)
    return wrapping(message) or "no text in UTF-8" if message.strip() else "nothing but white space"
