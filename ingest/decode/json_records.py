"""JSON messages -> records: each with its message and its place in it; whatever is no record becomes a reject.

A message is one object, or a list of objects. Kernel.
"""

import codecs
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from reprlib import repr as short

import orjson
import pyarrow as pa

from ingest.decode.contract import UNDECODABLE, Reject
from ingest.schema.tables import MAX_MESSAGE_BYTES

Record = dict[str, object]
FRAME_BYTES = 5
BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "UTF-8", codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16"}
MAX_RECORDS = 40_000
"""Of a message with more records only the first are read; the required fields alone fill a megabyte before that."""


@dataclass(frozen=True, slots=True)
class Records:
    """Records of a batch, and of each the index of its message in the batch and its own index in the message."""

    values: list[Record]
    message: list[int]
    index: list[int]

    def where(self, keep: Sequence[bool]) -> "Records":
        """The records that are to be kept."""
        if all(keep):
            return self
        message, index = list(compress(self.message, keep)), list(compress(self.index, keep))
        return Records(list(compress(self.values, keep)), message, index)


class NotFinite:
    """Stands for NaN, Infinity or a number too large for one: a value, but never of the right type."""

    def __init__(self, token: str) -> None:
        self.token = token

    def __repr__(self) -> str:
        return self.token[:40]


def parse(messages: pa.BinaryArray) -> tuple[Records, list[Reject]]:
    """Records of all messages, and a reject for each message, or part of one, that is no record."""
    records, rejects = Records([], [], []), []
    add_value, add_message, add_index = records.values.append, records.message.append, records.index.append
    for number, message in enumerate(messages.to_pylist()):
        parsed = load(message)
        if type(parsed) is dict:
            add_value(parsed)
            add_message(number)
            add_index(0)
        elif isinstance(parsed, list) and parsed:
            rejects += _add_list(records, parsed, number)
        else:
            rejects.append(Reject(number, "", UNDECODABLE, complaint(message, parsed)))
    return records, rejects


def _add_list(records: Records, parsed: list[object], message: int) -> list[Reject]:
    rejects = []
    if len(parsed) > MAX_RECORDS:
        rejects.append(Reject(message, str(MAX_RECORDS), UNDECODABLE, f"{len(parsed)} records; the rest is not read"))
    for index, value in enumerate(parsed[:MAX_RECORDS]):
        if isinstance(value, dict):
            records.values.append(value)
            records.message.append(message)
            records.index.append(index)
        else:
            rejects.append(Reject(message, str(index), UNDECODABLE, f"{short(value)} is no object"))
    return rejects


def load(message: bytes | None) -> object:
    """The message's JSON value; None where it holds none."""
    if message is None or len(message) > MAX_MESSAGE_BYTES:
        return None
    try:
        return orjson.loads(message)
    except orjson.JSONDecodeError:
        return _load_leniently(message)


def _load_leniently(message: bytes) -> object:
    """What Python's own parser takes and orjson refuses: numbers that are not finite, to reject only those."""
    try:
        parsed = json.loads(message.decode(), parse_constant=NotFinite, parse_float=_float, parse_int=_integer)
        json.dumps(parsed, ensure_ascii=False, default=repr).encode()  # half a surrogate pair cannot be stored
    except (ValueError, RecursionError):
        return None
    return parsed


def _float(token: str) -> float | NotFinite:
    number = float(token)
    return number if math.isfinite(number) else NotFinite(token)


def _integer(token: str) -> int | float | NotFinite:
    return int(token) if len(token) < 19 else _float(token)


def objects_of(parent: Record, name: str) -> list[Record]:
    """The objects of a list; nothing where there is none, and without what is no object."""
    found = parent.get(name)
    if type(found) is not list:
        return []
    return found if {dict}.issuperset(map(type, found)) else [entry for entry in found if type(entry) is dict]


def complaint(message: bytes | None, parsed: object, wanted: str = "") -> str:
    """Why a message holds no record, or, where it is an object, not the `wanted` one."""
    if wanted and isinstance(parsed, dict):
        return envelope(parsed) or f"an object without {wanted}"
    if message is None:
        return "the message has no value"
    if len(message) > MAX_MESSAGE_BYTES:
        return f"{len(message)} bytes; the limit is {MAX_MESSAGE_BYTES}"
    if parsed is None:
        return wrapping(message) or "not JSON in UTF-8"
    return "an empty list" if parsed == [] else f"{short(parsed)} is neither an object nor a list of objects"


def wrapping(message: bytes) -> str:
    """What a producer put around or before the record, and how to turn it off; empty where nothing is recognised.

    Source: Confluent's wire format (a zero byte, then the schema's id in four); Unicode's byte-order marks.
    """
    if message[:1] == b"\0" and len(message) > FRAME_BYTES:
        number = int.from_bytes(message[1:FRAME_BYTES])
        return (
            f"framed for a schema registry (a zero byte, then schema id {number}): have the producer or connector "
            "write without Schema Registry, such as with JsonConverter and schemas.enable=false"
        )
    mark = next((name for mark, name in BYTE_ORDER_MARKS.items() if message.startswith(mark)), "")
    return f"a byte-order mark of {mark} comes first: have the producer write UTF-8 without one" if mark else ""


def envelope(record: Mapping[str, object]) -> str:
    """Which envelope a record is in, and how to turn it off; empty where none is recognised.

    Source: Kafka Connect's JsonConverter with schemas.enable=true.
    """
    if {"schema", "payload"} <= record.keys():
        return "in Kafka Connect's envelope of schema and payload: set value.converter.schemas.enable=false"
    return ""
