"""Packed rows: many rows of a table as one value, which Spark carries and keeps without looking inside. Kernel."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from features.columnar.arrow_columns import Ints
from features.columnar.group_means import group_starts
from features.schema.errors import FeaturesError

MARK = 8
"""Bytes before the rows that say in which schema they are."""


def packed(rows: pa.Table, code: Ints) -> Iterator[tuple[int, bytes]]:
    """Each group of rows as one value, with the number of its first row.

    Args:
        rows: any order, at least one.
        code: (n,) code of each row's group.
    """
    order = np.argsort(code, kind="stable")
    [batch] = rows.take(pa.array(order)).combine_chunks().to_batches()
    starts, mark = group_starts(code[order]), _mark(rows.schema)
    for start, end in zip(starts, np.append(starts[1:], len(order)), strict=True):
        yield int(order[start]), mark + batch.slice(start, end - start).serialize().to_pybytes()


def unpacked(values: Iterable[bytes], schema: pa.Schema) -> pa.Table:
    """The rows of all values.

    Raises:
        FeaturesError: a value has rows of another schema.
    """
    mark, batches = _mark(schema), []
    for value in values:
        if value[:MARK] != mark:
            raise FeaturesError(
                "Spark's checkpoint holds rows of another version: delete its folder below checkpoints/ in the lake, "
                "start again, and run `cohabit features` once"
            )
        batches.append(pa.ipc.read_record_batch(pa.py_buffer(value)[MARK:], schema))
    return pa.Table.from_batches(batches, schema)


def _mark(schema: pa.Schema) -> bytes:
    return blake2b(str(schema.remove_metadata()).encode(), digest_size=MARK).digest()
