"""Matrix: all numbers of records that have the same fields, taken at once instead of column by column. Kernel.

Usual records of one topic have the same fields and nothing but numbers where numbers belong. Where any record does not,
the columns are read one by one, with the same outcome.
"""

from array import array
from collections.abc import Mapping, Sequence
from itertools import chain, compress
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingest.decode.columns import Checked, check_floats
from ingest.decode.parse import Record
from ingest.schema import Column


class Matrix(NamedTuple):
    """Records with the same fields, column by column.

    Args:
        numbers: (records, columns) of type double.
        places: the place of each of these columns, by name.
        others: (records,) values of every other field, by name.
    """

    numbers: NDArray[np.float64]
    places: Mapping[str, int]
    others: Mapping[str, Sequence[object]]

    def checked(self, column: Column) -> Checked | None:
        """The column's values within its range; None for a column that is not of type double, or not here."""
        place = self.places.get(column.name)
        return None if place is None else check_floats(column, np.ascontiguousarray(self.numbers[:, place]))

    def where(self, keep: Sequence[bool]) -> "Matrix":
        """Of the records that are to be kept."""
        if all(keep):
            return self
        others = {name: list(compress(values, keep)) for name, values in self.others.items()}
        return Matrix(self.numbers[np.array(keep)], self.places, others)


def read_matrix(records: Sequence[Record], columns: Sequence[Column]) -> Matrix | None:
    """Records as a matrix.

    Args:
        records: (n,) objects of all messages.
        columns: the table's own.

    Returns:
        None if the records differ in their fields, or any value that should be a number is none.
    """
    names = tuple(records[0]) if records else ()
    doubles = [c.name for c in columns if c.name in names and pa.types.is_float64(c.type)]
    others = [name for name in names if name not in doubles]
    if min(len(doubles), len(others)) < 2 or set(map(len, records)) != {len(names)}:  # itemgetter of one is no tuple
        return None
    texts = _taken(others, records)
    numbers = None if texts is None else _numbers(doubles, records)
    if texts is None or numbers is None or _holds_flags(numbers, doubles, records):
        return None
    places = {name: place for place, name in enumerate(doubles)}
    return Matrix(numbers, places, dict(zip(others, zip(*texts, strict=True), strict=True)))


def _taken(names: Sequence[str], records: Sequence[Record]) -> list[tuple[object, ...]] | None:
    try:
        return list(map(itemgetter(*names), records))
    except KeyError:
        return None


def _numbers(names: Sequence[str], records: Sequence[Record]) -> NDArray[np.float64] | None:
    try:
        flat = array("d", chain.from_iterable(map(itemgetter(*names), records)))
    except (KeyError, TypeError):
        return None
    return np.frombuffer(flat, dtype=np.float64).reshape(len(records), len(names))


def _holds_flags(numbers: NDArray[np.float64], names: Sequence[str], records: Sequence[Record]) -> bool:
    """Whether any 0 or 1 is a false or true, which Python takes for numbers and the catalogue does not."""
    rows, places = np.nonzero((numbers == 0) | (numbers == 1))
    found = zip(rows.tolist(), places.tolist(), strict=True)
    return any(type(records[row][names[place]]) is bool for row, place in found)
