"""Cells of a trace's columns as values of our records. Kernel.

What a cell says becomes a value in our unit; what says nothing becomes None, and its field is left out of the record;
what is no number stays text, so that ingest rejects it with its reason instead of our dropping it here.
"""

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Values = Sequence[object]
Record = dict[str, object]


def numbers(cells: pa.StringArray, factor: float = 1.0, *, unknown: Collection[float] = ()) -> Values:
    """Numbers in another unit.

    Args:
        cells: (n,) text.
        factor: what a number is multiplied by.
        unknown: numbers, before that, with which the trace says that it does not know.

    Returns:
        (n,) float; None where the cell is empty, NaN or `unknown`; the text itself where it is no number.
    """
    filled = pc.if_else(pc.equal(cells, ""), None, cells)
    try:
        found = filled.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return [_number(cell, factor, unknown) for cell in cells.to_pylist()]
    said = ~(np.isnan(found) | np.isin(found, list(unknown)))
    return [value if there else None for value, there in zip((found * factor).tolist(), said.tolist(), strict=True)]


def times(cells: pa.StringArray, epoch_s: float) -> Values:
    """Seconds since 1970 of seconds since `epoch_s`; None and text as in `numbers`."""
    return [value + epoch_s if isinstance(value, float) else value for value in numbers(cells)]


def texts(cells: pa.StringArray) -> Values:
    """(n,) text; None where the cell is empty."""
    return [cell or None for cell in cells.to_pylist()]


def records(columns: dict[str, Values]) -> list[Record]:
    """One record a row, without the fields that are None."""
    names = tuple(columns)
    rows = zip(*columns.values(), strict=True)
    return [{name: value for name, value in zip(names, row, strict=True) if value is not None} for row in rows]


def _number(cell: str, factor: float, unknown: Collection[float]) -> object:
    if cell == "":
        return None
    try:
        value = float(cell)
    except ValueError:
        return cell
    return None if np.isnan(value) or value in unknown else value * factor
