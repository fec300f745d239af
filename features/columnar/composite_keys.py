"""Order: rows of composite keys as integers, so that nothing compares texts row by row. Kernel."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]
MOST = 2**62


def encoded(column: pa.ChunkedArray | pa.Array) -> tuple[pa.Array, Ints]:
    """Distinct values of a column, maybe with others, and (n,) the place of each row's value there; null is behind."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    coded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    places = coded.indices.fill_null(len(coded.dictionary)) if coded.null_count else coded.indices
    return coded.dictionary, places.to_numpy(zero_copy_only=False).astype(np.int64)


def places(values: pa.Array) -> Ints:
    """(n + 1,) place of each distinct value in rising order, and of null, which comes last."""
    place = np.full(len(values) + 1, len(values), np.int64)
    place[np.asarray(pc.sort_indices(values))] = np.arange(len(values))
    return place


def ranks(column: pa.ChunkedArray | pa.Array) -> Ints:
    """(n,) codes >= 0 that order rows as the column's values do; null comes last."""
    values, at = encoded(column)
    return places(values)[at]


def dense(codes: Ints) -> Ints:
    """(n,) codes 0..g-1 in the same order as the given ones."""
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def joint(parts: Sequence[Ints]) -> Ints:
    """(n,) codes of composite keys that order rows by the first part, then the second, and so on.

    Args:
        parts: (n,) codes >= 0 each, at least one.

    Source: mixed radix; parts are made dense where their product would not fit.
    """
    codes, span = parts[0], int(parts[0].max(initial=0)) + 1
    for part in parts[1:]:
        size = int(part.max(initial=0)) + 1
        if span * size > MOST:
            codes = dense(codes)
            span = int(codes.max(initial=0)) + 1
        codes, span = codes * size + part, span * size
    return codes


def rising(codes: Ints, *then: Ints) -> Ints:
    """(n,) rows in the order of codes, ties by `then`; rows equal in all keep their order."""
    order: Ints = np.arange(len(codes))
    for key in (*reversed(then), codes):
        if len(key) and (np.diff(key[order]) < 0).any():
            order = order[np.argsort(key[order], kind="stable")]
    return order
