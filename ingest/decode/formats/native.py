"""Cohabit's own JSON: field names are the table's columns; a message is one object or a list of objects. Kernel.

`decoder(USAGE)`, `decoder(NODES)` and `decoder(PLACEMENTS)` are the formats of the topics of those names.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ingest.decode.arrow_json import read_good
from ingest.decode.columns import Checked, check_column, check_time
from ingest.decode.contract import (
    MISSING_KEY,
    REJECTS,
    Context,
    Decode,
    Decoded,
    Reject,
    rejects_table,
    rows_schema,
)
from ingest.decode.json_records import Records, envelope, parse
from ingest.decode.merge import decode_some, merged
from ingest.schema.tables import LANDING, Column, Table
from ingest.schema.unknown_fields import bounded_counts


def decoder(table: Table) -> Decode:
    """The decoder of messages whose records are rows of `table`."""
    schema = rows_schema(table)
    known = set(schema.names[:-1])
    landing = {c.name for c in LANDING}
    columns = [c for c in table.columns if c.name not in landing]
    required = [c for c in columns if c.required]
    optional = [c for c in columns if not c.required]

    def decode_each(messages: pa.BinaryArray, context: Context) -> Decoded:
        records, undecodable = parse(messages)
        names = Counter(chain.from_iterable(records.values))
        keys = _check_required(required, records, context)
        records = records.where(keys.keep)
        found, faulty = _check_optional(optional, records, names)
        by_name = {**keys.columns, **found, "message": pa.array(records.message, pa.int32())}
        rejects = rejects_table([*undecodable, *keys.rejects, *faulty])
        unknown = bounded_counts({name: count for name, count in names.items() if name not in known})
        return Decoded(table.name, pa.table([by_name[name] for name in schema.names], schema=schema), rejects, unknown)

    def decode(messages: pa.BinaryArray, context: Context) -> Decoded:
        good, odd = read_good(messages, columns, context)
        parts = [
            Decoded(
                table.name,
                pa.table([*found.values(), message], schema=schema),
                REJECTS.empty_table(),
                bounded_counts(unknown),
            )
            for found, message, unknown in good
        ]
        rest = [decode_some(decode_each, messages, context, odd)] if odd else []
        return merged(table.name, [*parts, *rest])

    return decode


class _Keys(NamedTuple):
    """Required columns of the records that have all of them, which records those are, and rejects of the others."""

    columns: dict[str, pa.Array]
    keep: list[bool]
    rejects: list[Reject]


def _check_required(columns: Sequence[Column], records: Records, context: Context) -> _Keys:
    checked = {column.name: _check_key(column, records, context) for column in columns}
    first: dict[int, tuple[str, str]] = {}
    for name, (values, faults) in checked.items():
        for row, reason, detail in faults:
            first.setdefault(row, (reason, f"{name}: {detail}"))
        missing = values.is_null().to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(missing).tolist():
            first.setdefault(row, (MISSING_KEY, envelope(records.values[row]) or f"{name} is missing"))
    keep = [row not in first for row in range(len(records.values))]
    mask = pa.array(keep, pa.bool_())
    rejects = [Reject(records.message[row], str(records.index[row]), *why) for row, why in first.items()]
    return _Keys({name: result.values.filter(mask) for name, result in checked.items()}, keep, rejects)


def _check_key(column: Column, records: Records, context: Context) -> Checked:
    values = _values(column, records)
    if pa.types.is_timestamp(column.type):
        arrived = context.arrived_at.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return check_time(values, arrived[np.array(records.message, dtype=np.int64)])
    if column.name == "cluster":
        values = [context.cluster if v is None else v for v in values] if None in values else values
    if pa.types.is_string(column.type):
        values = [None if v == "" else v for v in values] if "" in values else values
    return check_column(column, values)


def _values(column: Column, records: Records) -> Sequence[object]:
    return [record.get(column.name) for record in records.values]


def _check_optional(
    columns: Sequence[Column], records: Records, names: Mapping[str, int]
) -> tuple[dict[str, pa.Array], list[Reject]]:
    found: dict[str, pa.Array] = {}
    rejects: list[Reject] = []
    for column in columns:
        if column.name not in names:
            found[column.name] = pa.nulls(len(records.values), column.type)
            continue
        found[column.name], faults = check_column(column, _values(column, records))
        rejects += [
            Reject(records.message[row], f"{records.index[row]}.{column.name}", reason, detail)
            for row, reason, detail in faults
        ]
    return found, rejects
