"""Matrix: all numbers of records that have the same fields, taken at once instead of column by column. Kernel.

Usual records of one topic have the same fields and nothing but numbers where numbers belong. Where any record does not,
the columns are read one by one, with the same outcome.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, compress, starmap
from operator import itemgetter
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from ingest.decode.columns import Checked, check_floats
from ingest.decode.json_records import Record, Records
from ingest.schema.tables import MAX_MESSAGE_BYTES, Column

STRETCH = 256
"""Messages that are parsed and read before the next ones are."""


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


class Alike(NamedTuple):
    """Messages of one record each, all of the same fields: where each came from, the values, the fields' counts.

    Of the records themselves nothing is left but empty objects, as many as there were.
    """

    records: Records
    matrix: Matrix
    names: Mapping[str, int]


def read_alike(messages: pa.BinaryArray, columns: Sequence[Column]) -> tuple[Alike | None, list[int]]:
    """A batch as a matrix, read stretch by stretch, since objects that are still in the cache are read twice as fast.

    Returns:
        What is alike, None if nothing is; and the numbers of the messages that must be read one by one, since they
        stand in a stretch where not all is of the same fields as before, with numbers where numbers belong.
    """
    parts: list[Alike] = []
    odd: list[int] = []
    for start in range(0, len(messages), STRETCH):
        found = _objects(messages.slice(start, STRETCH).to_pylist())
        matrix = None if found is None else read_matrix(found, columns)
        if found is None or matrix is None or (parts and parts[0].names.keys() != found[0].keys()):
            odd += range(start, min(start + STRETCH, len(messages)))
            continue
        bare = Records([{}] * len(found), list(range(start, start + len(found))), [0] * len(found))
        parts.append(Alike(bare, matrix, dict.fromkeys(found[0], 0)))
    return (_joined(parts) if parts else None), odd


def _objects(messages: Sequence[bytes]) -> list[Record] | None:
    """The objects that messages are; None if any is none."""
    if None in messages or max(map(len, messages)) > MAX_MESSAGE_BYTES:
        return None
    try:
        values = list(map(orjson.loads, messages))
    except orjson.JSONDecodeError:
        return None
    return values if set(map(type, values)) == {dict} else None


def _joined(parts: Sequence[Alike]) -> Alike:
    records, matrices = [part.records for part in parts], [part.matrix for part in parts]
    first = matrices[0]
    numbers = np.concatenate([m.numbers[:, [m.places[name] for name in first.places]] for m in matrices])
    others = {name: list(chain.from_iterable(m.others[name] for m in matrices)) for name in first.others}
    together = Records(
        list(chain.from_iterable(r.values for r in records)),
        list(chain.from_iterable(r.message for r in records)),
        list(chain.from_iterable(r.index for r in records)),
    )
    names = dict.fromkeys(parts[0].names, len(together.values))
    return Alike(together, Matrix(numbers, first.places, others), names)


def _taken(names: Sequence[str], records: Sequence[Record]) -> list[tuple[object, ...]] | None:
    try:
        return list(map(itemgetter(*names), records))
    except KeyError:
        return None


def _numbers(names: Sequence[str], records: Sequence[Record]) -> NDArray[np.float64] | None:
    pack = Struct(f"{len(names)}d").pack  # of all ways the quickest, and it refuses whatever is no number
    try:
        packed = b"".join(starmap(pack, map(itemgetter(*names), records)))
    except (KeyError, StructError):
        return None
    return np.frombuffer(packed, dtype=np.float64).reshape(len(records), len(names))


def _holds_flags(numbers: NDArray[np.float64], names: Sequence[str], records: Sequence[Record]) -> bool:
    """Whether any 0 or 1 is a false or true, which Python takes for numbers and the catalogue does not."""
    rows, places = np.nonzero((numbers == 0) | (numbers == 1))
    found = zip(rows.tolist(), places.tolist(), strict=True)
    return any(type(records[row][names[place]]) is bool for row, place in found)
