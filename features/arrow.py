"""Arrow columns to NumPy and back, with one missing-value rule: null there, NaN here. Kernel."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def floats(column: pa.ChunkedArray | pa.Array) -> Floats:
    """(n,) float64; null becomes NaN."""
    return np.asarray(pc.fill_null(column.cast(pa.float64()), np.nan).to_numpy(), np.float64)


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
        return pa.array(values, kind, from_pandas=True)
    return pa.array(values, kind)
