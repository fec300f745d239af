"""Hashing: keyed hashes of windows, the same wherever and in whatever company a row is met. Kernel."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.columnar.arrow_columns import micros
from features.columnar.windows import LABEL_US, window_end
from ingest.schema.tables import TIMESTAMP

Hashes = NDArray[np.uint64]
WINDOW = ["cluster", "node", "window_end", "container"]
"""The key of a window."""
ODD, FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def row_hashes(rows: pa.Table, seed: int) -> Hashes:
    """(n,) hashes of the keys of windows, uniform over 64 bits and as good as independent of all else.

    Args:
        rows: cluster, node, window_end, container.
        seed: key of the hash; another one gives other hashes.

    Source: BLAKE2b (RFC 7693) of each text, mixed by the finalizer of SplitMix64, Steele et al., OOPSLA 2014.
    """
    key = seed.to_bytes(8, "little", signed=True)
    found = micros(rows["window_end"]).astype(np.uint64)
    for name in ("cluster", "node", "container"):
        found = _mixed(found * ODD + _text_hashes(rows[name], key))
    return found


def _text_hashes(column: pa.ChunkedArray, key: bytes) -> Hashes:
    encoded = column.combine_chunks().dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    hashed = [int.from_bytes(blake2b(text.encode(), digest_size=8, key=key).digest(), "little") for text in texts]
    return np.asarray(np.array(hashed, np.uint64)[encoded.indices.to_numpy()], np.uint64)


def _mixed(values: Hashes) -> Hashes:
    values = (values ^ (values >> np.uint64(30))) * FIRST
    values = (values ^ (values >> np.uint64(27))) * SECOND
    return values ^ (values >> np.uint64(31))


def label_window_hashes(rows: pa.Table) -> Hashes:
    """(n,) hashes of the five-minute windows that rows with WINDOW lie in, whatever the length of their own."""
    ends = pa.array(window_end(micros(rows["window_end"]), LABEL_US), TIMESTAMP)
    return row_hashes(rows.select(WINDOW).set_column(WINDOW.index("window_end"), "window_end", ends), seed=0)


def of_windows(pieces: Iterable[pa.Table], wanted: Hashes) -> Iterator[pa.Table]:
    """Those rows of each piece that lie in wanted five-minute windows, given by their hashes.

    One row in 2**64 / len(wanted) too many is let through: where the result must be exact, compare keys again.
    """
    for piece in pieces:
        yield piece.filter(pa.array(np.isin(label_window_hashes(piece), wanted)))
