"""Records read by Arrow's own JSON reader: messages in which every value is as the catalogue wants it. Kernel.

Most messages are, and a batch of them is read several times quicker so than record by record. Nothing is judged here:
a stretch of messages that holds anything else is left to `json_records`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import json as arrow_json

from ingest.decode.columns import Micros, check_time
from ingest.decode.contract import Context
from ingest.decode.json_records import MAX_RECORDS, Record, load
from ingest.schema.cpuset import is_cpuset
from ingest.schema.tables import MAX_MESSAGE_BYTES, Column

STRETCH_BYTES = 4 << 20
"""So much is read at once: what lies in the processor's caches is read twice as fast."""
PARTS = 16
"""Into so many a stretch is cut that holds anything odd; the parts that do are left to others."""
RECORDS = "records"
MARKS = {b"{": (b'{"records":[', b"]}\n"), b"[": (b'{"records":', b"}\n")}
"""What goes around a message, by how it begins."""
TEXTS = pa.list_(pa.string())
READ_AS = {str: pa.string(), int: pa.float64(), float: pa.float64(), bool: pa.bool_()}
"""What a value of a field outside the catalogue is read as; such fields are only counted."""


class Good(NamedTuple):
    """Records of messages in which all is well.

    Args:
        columns: (records,) values, by name of the column.
        message: (records,) number of each record's message in the batch.
        unknown: how often each field outside the catalogue was seen.
    """

    columns: Mapping[str, pa.Array]
    message: pa.Int32Array
    unknown: Mapping[str, int]


def read_good(messages: pa.BinaryArray, columns: Sequence[Column], context: Context) -> tuple[list[Good], list[int]]:
    """What is well of a batch, and the numbers of the messages that must be read one by one."""
    good: list[Good] = []
    odd: list[int] = []
    whole = max(PARTS, STRETCH_BYTES * len(messages) // max(messages.nbytes, 1))
    stretches = [range(len(messages))[at : at + whole] for at in range(0, len(messages), whole)]
    for numbers in stretches:  # grows on the way
        part = -(-whole // PARTS)
        if (found := _read(messages.slice(numbers.start, len(numbers)), numbers, columns, context)) is not None:
            good.append(found)
        elif len(numbers) > part:
            stretches += [numbers[at : at + part] for at in range(0, len(numbers), part)]
        else:
            odd += numbers
    return good, odd


def _read(messages: pa.BinaryArray, numbers: range, columns: Sequence[Column], context: Context) -> Good | None:
    lines = _lines(messages)
    lists = None if lines is None else _lists(lines, columns)
    if lines is None or lists is None or len(lists) != len(messages) or lists.null_count:
        return None
    counts, records = lists.value_lengths().to_numpy(), lists.flatten()
    if not ((counts > 0) & (counts <= np.where(lines.single, 1, MAX_RECORDS))).all() or records.null_count:
        return None
    message = np.repeat(np.array(numbers, np.int32), counts)
    arrived_us = context.arrived_at.cast(pa.int64()).to_numpy(zero_copy_only=False)[message]
    values = dict(zip([field.name for field in records.type], records.flatten(), strict=True))
    found: dict[str, pa.Array] = {}
    for column in columns:
        read = values.pop(column.name, None)
        one = pa.nulls(len(records), column.type) if read is None else _held(column, read, context.cluster, arrived_us)
        if one is None or (column.required and one.null_count):
            return None
        found[column.name] = one
    if any(one.null_count for one in values.values()):
        return None  # whether it was there as null, or not at all, cannot be seen
    return Good(found, pa.array(message), dict.fromkeys(values, len(records)))


class _Lines(NamedTuple):
    """One object a line, with a list of a message's records each; which messages are no list; the first record."""

    text: bytes
    single: NDArray[np.bool_]
    first: Record


def _lines(messages: pa.BinaryArray) -> _Lines | None:
    """None where any message is not as usual."""
    if messages.null_count or not len(messages):
        return None
    values = messages.to_pylist()
    begins = [value[:1] for value in values]
    if not set(begins) <= MARKS.keys() or max(map(len, values)) > MAX_MESSAGE_BYTES:
        return None
    first = load(values[0])
    record = first[0] if isinstance(first, list) and first else first
    marks = [MARKS[begin] for begin in begins]
    text = b"".join([part for value, (left, right) in zip(values, marks, strict=True) for part in (left, value, right)])
    try:
        text.decode()  # Arrow does not look
    except UnicodeDecodeError:
        return None
    return _Lines(text, np.array([begin == b"{" for begin in begins]), record) if isinstance(record, dict) else None


def _lists(lines: _Lines, columns: Sequence[Column]) -> pa.ListArray | None:
    """The list of records of each line; None where one has a field, or a type, that the first record has not.

    Fields that are not announced end the reading: skipping them would follow any nesting until the stack is full.
    """
    first, known = lines.first, {column.name for column in columns}
    other = {name: READ_AS.get(type(value)) for name, value in first.items() if name not in known}
    fields = [pa.field(c.name, kind) for c in columns if (kind := _read_as(c, first)) is not None]
    if None in other.values():
        return None
    record = pa.struct([*fields, *(pa.field(*one) for one in other.items())])
    try:
        read = arrow_json.read_json(
            pa.BufferReader(lines.text),
            arrow_json.ReadOptions(use_threads=False, block_size=len(lines.text) + 1),
            arrow_json.ParseOptions(pa.schema([(RECORDS, pa.list_(record))]), unexpected_field_behavior="error"),
        )
    except pa.ArrowInvalid:
        return None
    return read[RECORDS].combine_chunks()


def _read_as(column: Column, first: Record) -> pa.DataType | None:
    """As what a column's values are read; None where Arrow's reader has no such type."""
    if pa.types.is_timestamp(column.type):
        return pa.string() if isinstance(first.get(column.name), str) else pa.float64()
    return None if pa.types.is_map(column.type) else column.type


def _held(column: Column, values: pa.Array, cluster: str, arrived_us: Micros) -> pa.Array | None:
    """The values in the column's type; None where any is out of range."""
    if pa.types.is_timestamp(column.type):
        times, faults = check_time(values.to_pylist(), arrived_us)
        return None if faults else times
    if column.type == pa.string():
        named = pc.fill_null(values, cluster) if column.name == "cluster" else values
        return named if _are_words(column, pc.unique(named).to_pylist()) else None
    if column.type == TEXTS:
        return None if values.flatten().null_count else values
    if column.type == pa.float64():
        numbers = values.to_numpy(zero_copy_only=False)
        finite = np.isfinite(numbers)
        outside = (numbers < column.low) | (numbers > column.high)
        return None if outside.any() or len(values) - finite.sum() != values.null_count else values
    if column.type == pa.int64():
        low, high = pc.min_max(values).as_py().values()
        return None if low is not None and (low < column.low or high > column.high) else values
    return values


def _are_words(column: Column, found: Sequence[str | None]) -> bool:
    words = [word for word in found if word is not None]
    if column.required and "" in words:
        return False
    if column.name == "cpuset" and not all(map(is_cpuset, words)):
        return False
    return not column.choices or set(words) <= set(column.choices)
