"""As-of join: for each row on the left, the newest row on the right of the same key that was known by then. Kernel."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.columnar.composite_keys import dense, encoded, joint, ranks
from features.schema.errors import refuse_other_lengths

Ints = NDArray[np.int64]
NEVER = np.iinfo(np.int64).max


def newest_known(left_key: Ints, left_time: Ints, right_key: Ints, right_time: Ints) -> Ints:
    """Index of the newest right row with the same key and a time not after the left row's.

    Args:
        left_key: (n,) key codes, -1 for a key the right side does not have.
        left_time: (n,) times in microseconds.
        right_key: (m,) key codes >= 0.
        right_time: (m,) times in microseconds. Of equal times the last row wins.

    Returns:
        (n,) index into the right rows, -1 where there is none.

    Raises:
        FeaturesError: a key and its time differ in length.

    Source: ours; a binary search over right rows sorted by key, then time.
    """
    refuse_other_lengths(left=left_key, left_time=left_time)
    refuse_other_lengths(right=right_key, right_time=right_time)
    if not len(right_key):
        return np.full(len(left_key), -1, np.int64)
    order = np.lexsort((right_time, right_key))
    times = np.unique(np.concatenate([left_time, right_time]))
    stride = len(times) + 1
    right = right_key[order] * stride + np.searchsorted(times, right_time[order])
    left = left_key * stride + np.searchsorted(times, left_time)
    slot = np.searchsorted(right, left, side="right") - 1
    found = order[np.maximum(slot, 0)]
    return np.where((slot >= 0) & (right_key[found] == left_key), found, -1)


def stands_until(key: Ints, known: Ints) -> Ints:
    """Until when each event was the newest one known of its key.

    Args:
        key: (n,) key codes, rows of a key together and in the order in which the events happened.
        known: (n,) when each event was known, in microseconds; an event may be known after a later one.

    Returns:
        (n,) when the first later event of the key was known, exclusive; NEVER where none was. An event that was known
        no sooner than a later one never stood: its end is not after its beginning.

    Raises:
        FeaturesError: keys and times differ in length.

    Source: ours; the smallest of all later times, from the last row to the first.
    """
    refuse_other_lengths(key=key, known=known)
    if not len(key):
        return known
    times, rank = np.unique(known, return_inverse=True)
    group = np.cumsum(np.diff(key, prepend=key[0]) != 0)
    placed = group * len(times) + rank
    earliest = np.minimum.accumulate(placed[::-1])[::-1]
    followed = np.append(group[1:] == group[:-1], [False])
    return np.where(followed, times[np.append(earliest[1:], 0) % len(times)], NEVER)


def key_codes(left: pa.Table, right: pa.Table, columns: list[str]) -> tuple[Ints, Ints]:
    """Codes of a composite key, shared by two tables: equal rows have equal codes, null equals null.

    Returns:
        (n,) codes of the left rows and (m,) codes of the right rows.
    """
    codes = dense(joint([_ranks_of_both(left[column], right[column]) for column in columns]))
    return codes[: left.num_rows], codes[left.num_rows :]


def _ranks_of_both(left: pa.ChunkedArray, right: pa.ChunkedArray) -> Ints:
    """(n + m,) codes of the left rows, then of the right ones, that order all as their values do."""
    (own, at), (other, at_other) = encoded(left), encoded(right)
    values = [pa.table({"value": pa.concat_arrays([some, pa.nulls(1, some.type)])}) for some in (own, other)]
    code = ranks(pa.concat_tables(values, promote_options="default")["value"])
    return np.concatenate([code[: len(own) + 1][at], code[len(own) + 1 :][at_other]])


def row_of(left: Ints, right: Ints) -> Ints:
    """(n,) row of `right` with the same code, -1 where there is none; codes on the right are unique."""
    rows = np.full(max(left.max(initial=-1), right.max(initial=-1)) + 1, -1, np.int64)
    rows[right] = np.arange(len(right))
    return rows[left]
