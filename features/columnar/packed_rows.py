"""Packed rows: many rows of a table as one value, which Spark carries and keeps without looking inside. Kernel."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from features.columnar.arrow_columns import Ints
from features.columnar.group_means import group_starts
from features.schema.errors import FeaturesError

MARK, SIZE = 8, 4
"""Bytes before the rows: in which schema they are, and how many bytes they take."""
LZ4 = pa.Codec("lz4_raw")
"""Most columns of most rows are empty, and Spark copies a value a dozen times."""


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
        plain = batch.slice(start, end - start).serialize()
        yield int(order[start]), mark + plain.size.to_bytes(SIZE) + LZ4.compress(plain, asbytes=True)


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
        size = int.from_bytes(value[MARK : MARK + SIZE])
        plain = LZ4.decompress(pa.py_buffer(value)[MARK + SIZE :], size)
        batches.append(pa.ipc.read_record_batch(plain, schema))
    return pa.Table.from_batches(batches, schema)


def _mark(schema: pa.Schema) -> bytes:
    return blake2b(f"lz4 {schema.remove_metadata()}".encode(), digest_size=MARK).digest()
