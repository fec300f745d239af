"""Prometheus text: `name{label="value"} value [milliseconds]`, a line a sample. Kernel.

A line without a time is as old as its message. Comments are skipped, TYPE included, since the mapping says what is
a counter; so are exemplars (` # {...}`), which OpenMetrics puts behind a value. Names outside the old alphabet are
quoted, the metric's among the labels: `{"my.metric", "k8s.pod.uid"="..."} value`.

Source: Prometheus, "Exposition formats", text-based format 0.0.4 and 1.0.0 (quoted names, since Prometheus 3);
OpenMetrics 1.0 for exemplars.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from reprlib import repr as short
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.json_records import MAX_RECORDS, complaint, wrapping
from ingest.decode.numbers import number_of_text, numbers_of_texts
from ingest.decode.samples import Floats, Integers, Point, RecordColumns, Rows, Shapes
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
STRETCH_BYTES = 4 << 20
"""So much is read at once: what lies in the processor's caches is read twice as fast."""
FEW_BYTES = 200_000
"""Lines of less than this are read one by one."""
NO_SAMPLE = "comments only"
"""Under this name messages are counted that hold no sample."""


def read(rows: Rows, shapes: Shapes, messages: Sequence[bytes | None]) -> None:
    """Read messages of Prometheus text into rows."""
    good: dict[int, bytes] = {}
    size = 0
    for number, message in enumerate(messages):
        text = _text(message)
        if message is None or not text or text.isspace():
            rows.undecodable(number, "", _complaint(message))
            continue
        good[number] = message
        size += len(message)
        if size > STRETCH_BYTES:
            _add_messages(rows, shapes, good, size)
            good, size = {}, 0
    _add_messages(rows, shapes, good, size)


def _add_messages(rows: Rows, shapes: Shapes, messages: Mapping[int, bytes], size: int) -> None:
    """Add the lines of messages by their numbers, and count messages without any."""
    arrived = rows.context.arrived_at.cast(pa.int64()).to_numpy(zero_copy_only=False)
    rows.close_part()
    first, rejects = len(rows.parts), len(rows.rejects)
    if size < FEW_BYTES:
        for number, message in messages.items():
            lines = enumerate(message.decode().split("\n"))
            _add_each(rows, shapes, arrived, ((number, *line) for line in lines))
    else:
        _add_lines(rows, shapes, arrived, messages)
    rows.close_part()
    found = {reject.message for reject in rows.rejects[rejects:]}
    found.update(*(np.unique(part.messages).tolist() for part in rows.parts[first:]))
    for _ in messages.keys() - found:
        rows.count(NO_SAMPLE)


def _add_lines(rows: Rows, shapes: Shapes, arrived: Integers, messages: Mapping[int, bytes]) -> None:
    """Add many lines column by column, but for those that are out of the ordinary."""
    text = b"\n".join([*messages.values(), b""])
    lines = _lines(text, messages)
    for message, count in zip(messages, lines.counts.tolist(), strict=True):
        if count > MAX_RECORDS:
            rows.undecodable(message, str(MAX_RECORDS), f"{count} lines; the rest is not read")
    if not len(lines.start):
        return
    plans, micros, values = _known(shapes, text, lines, arrived[lines.message])
    start = 0
    for end in [*np.flatnonzero((plans < 0) | (micros < 0)).tolist(), len(plans)]:
        rows.close_part()
        rows.parts.append(RecordColumns(plans[start:end], lines.message[start:end], micros[start:end]))
        rows.indexes += lines.number[start:end].tolist()
        rows.add_numbers(np.repeat(values[start:end], shapes.sizes(plans[start:end])).tobytes())
        if end < len(plans):
            line = text[lines.start[end] : lines.end[end]].decode()
            _add_each(rows, shapes, arrived, [(int(lines.message[end]), int(lines.number[end]), line)])
        start = end + 1


class _Lines(NamedTuple):
    """Lines that are neither empty nor comments: (lines,) number of the message, and in it, and where each is.

    `counts` has (messages,) how many lines each message has, of any kind.
    """

    counts: Integers
    message: Integers
    number: Integers
    start: Integers
    end: Integers


def _lines(text: bytes, messages: Mapping[int, bytes]) -> _Lines:
    """Lines of the messages that a text consists of, each with a line's end behind it."""
    letters = np.frombuffer(text, np.uint8)
    end = np.flatnonzero(letters == ord("\n"))
    start = np.append(0, end[:-1] + 1)
    first = np.cumsum([0, *(len(message) + 1 for message in messages.values())])[:-1]
    counts = np.diff(np.searchsorted(start, first), append=len(start))
    of = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(start)) - (np.cumsum(counts) - counts)[of]
    kept = np.flatnonzero((letters[start] != ord("#")) & (start < end) & (number < MAX_RECORDS))
    return _Lines(counts, np.array([*messages], np.int64)[of[kept]], number[kept], start[kept], end[kept])


def _known(shapes: Shapes, text: bytes, lines: _Lines, arrived: Integers) -> tuple[Integers, Integers, Floats]:
    """(lines,) number of the plan, time and value of each; a number below 0 where it needs a closer look."""
    heads, texts, times = _cut(text, lines)
    series, stamps = heads.dictionary_encode(), times.dictionary_encode()
    numbers = [plan.number if (plan := shapes.plans.get(head)) else -1 for head in series.dictionary.to_pylist()]
    micros = np.array([*map(shapes.clock.micros, stamps.dictionary.to_pylist())])[stamps.indices.to_numpy()]
    values, odd = numbers_of_texts(texts)
    plans = np.where(odd, -1, np.array(numbers)[series.indices.to_numpy()])
    return plans, np.where(pc.equal(times, "").to_numpy(zero_copy_only=False), arrived, micros), values


def _cut(text: bytes, lines: _Lines) -> list[pa.StringArray]:
    """What stands in each line before its last brace, behind it, and behind the space that follows."""
    letters, (*_, start, end) = np.frombuffer(text, np.uint8), lines
    braces = np.append(-1, np.flatnonzero(letters == ord("}")))
    spaces = np.append(np.flatnonzero(letters == ord(" ")), len(text))
    brace = np.maximum(braces[np.searchsorted(braces, end) - 1], start)
    value = np.minimum(brace + 1 + (letters[brace + 1] == ord(" ")), end)
    space = np.minimum(spaces[np.searchsorted(spaces, value)], end)
    time = np.minimum(space + 1, end)
    places = np.stack((start, brace, value, space, time, end), axis=1).astype(np.int32)
    pieces = pa.StringArray.from_buffers(places.size - 1, pa.py_buffer(places), pa.py_buffer(text))
    return [pieces.take(pa.array(np.arange(first, places.size, 6))) for first in (0, 2, 4)]


def _add_each(rows: Rows, shapes: Shapes, arrived: Integers, lines: Iterable[tuple[int, int, str]]) -> None:
    """Add line by line, each with the numbers of its message and of its own."""
    plans, times, values = shapes.plans, shapes.clock.read, rows.values
    add_plan, add_message, add_index = rows.plans.append, rows.messages.append, rows.indexes.append
    for message, number, line in lines:
        head, _, tail = line.rpartition("}")
        plan, words = plans.get(head), tail.split()
        micros = times.get(words[1]) if len(words) == MAX_WORDS else int(arrived[message])
        value = number_of_text(words[0]) if plan and 0 < len(words) <= MAX_WORDS else None
        if plan is None or micros is None or type(value) is not float:
            _add_new(rows, shapes, (message, number, int(arrived[message])), line)
            continue
        add_plan(plan.number)
        add_message(message)
        add_index(number)
        rows.micros.append(micros)
        if plan.picks:
            values += [value] * len(plan.picks)


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
