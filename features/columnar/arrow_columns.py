"""Arrow columns to NumPy and back, with one missing-value rule: null there, NaN here. Kernel."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def floats(column: pa.ChunkedArray | pa.Array) -> Floats:
    """(n,) float64; null becomes NaN."""
    numbers = column.cast(pa.float64())
    filled = pc.fill_null(numbers, np.nan) if numbers.null_count else numbers
    return np.asarray(filled.to_numpy(), np.float64)


def side_by_side(columns: Sequence[Floats]) -> Floats:
    """(n, k) of k columns (n,), each in one piece of memory, since kernels work column by column."""
    return np.stack(columns).T


def micros(column: pa.ChunkedArray | pa.Array) -> Ints:
    """(n,) int64 microseconds since 1970 of a timestamp column without nulls."""
    return np.asarray(column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy(), np.int64)


def table(columns: Mapping[str, object], schema: pa.Schema) -> pa.Table:
    """A table in the schema's order; NaN becomes null, int64 becomes a timestamp where the schema says so."""
    return pa.table([_column(columns[field.name], field.type) for field in schema], schema=schema)


def _column(values: object, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.cast(kind).combine_chunks()
    if isinstance(values, pa.Array):
        return values.cast(kind)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return numbers(values).cast(kind)
    return pa.array(values, kind)


def numbers(values: Floats) -> pa.Array:
    """(n,) float64 array; NaN becomes null."""
    missing = np.isnan(values)
    return pa.array(np.ascontiguousarray(values), mask=missing if missing.any() else None)
