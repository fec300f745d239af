"""Line file: lines as a Parquet file that is written once, under the name of its SHA-256. An edge."""

import hashlib
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from advisor.billing.lines.money import exact_total
from advisor.billing.lines.schema import ORDER, SCHEMA, SHARED
from advisor.errors import Unavailable
from features.columnar.composite_keys import joint, ranks

ROWS = 1 << 17
"""Of a row group; like the other options of the writer part of the format, since the same lines make the same bytes."""
TEXTS = ["hour", "kind", "account", "container", "node", "resource", "unit_price_micros", "evidence"]
"""Columns that repeat themselves."""
PIECE = 1 << 20
BEFORE_ALL = -(2**63)
NAMED = 12
"""Hex digits of a file's name in a line's."""


@dataclass(frozen=True, slots=True)
class LineFile:
    """A file of lines.

    Args:
        sha256: of its bytes, hexadecimal.
        rows: how many lines.
        amount_micros: sum of their amounts.
        path: where it lies.
    """

    sha256: str
    rows: int
    amount_micros: int
    path: Path


def write_lines(table: pa.Table, shared: Mapping[str, str], folder: Path) -> LineFile:
    """Write lines; the same lines and facts give the same file, whatever order and pieces they come in.

    Args:
        table: rows of line_table.SCHEMA.
        shared: what all of them share, the keys of line_table.SHARED.
        folder: gets the file, whole or not at all; a file that is there already stays.

    Raises:
        Unavailable: `shared` has other keys.
    """
    if set(shared) != set(SHARED):
        raise _bad_line_file(
            str(folder), f"its charge records share {', '.join(sorted(shared))}, not {', '.join(SHARED)}"
        )
    facts = {f"cohabit.{key}": shared[key] for key in SHARED}
    rows = in_line_order(table.select(SCHEMA.names).cast(SCHEMA)).replace_schema_metadata(facts)
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f".{uuid.uuid4().hex}.parquet"
    options = {"compression": "zstd", "compression_level": 1, "use_dictionary": TEXTS, "version": "2.6"}
    pq.write_table(rows, unfinished, row_group_size=ROWS, **options)
    digest = _synced_digest(unfinished)
    path = folder / f"{digest}.parquet"
    unfinished.replace(path)
    return LineFile(digest, rows.num_rows, exact_total(rows["amount_micros"].to_numpy()), path)


def read_lines(path: Path) -> tuple[pa.Table, dict[str, str]]:
    """The lines of a file, exactly as they were written, and what they share.

    Raises:
        Unavailable: it is not there, or not what its name says.
    """
    _refuse_changed(path)
    table = pq.read_table(path, partitioning=None)
    facts = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    return table.replace_schema_metadata(None), {key: facts[f"cohabit.{key}"] for key in SHARED}


def pieces(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
    """Some columns of a file, a bounded number of lines at a time, each time with the place of the first one.

    Raises:
        Unavailable: it is not there, or not what its name says; before any line is given.
    """
    _refuse_changed(path)
    with pq.ParquetFile(path) as file:
        first = 0
        for number in range(file.num_row_groups):
            table = file.read_row_group(number, list(columns), use_threads=False)
            yield first, table
            first += table.num_rows


def reference(sha256: str, row: int) -> str:
    """What a line is called: its file and its place in it."""
    return f"{sha256[:NAMED]}-{row}"


def references(sha256: str, rows: pa.Array) -> pa.Array:
    """The same for many lines of a file."""
    return pc.binary_join_element_wise(pa.scalar(sha256[:NAMED]), rows.cast(pa.string()), "-")


def in_line_order(table: pa.Table) -> pa.Table:
    """The rows in the order of lines, nulls first; those that stand in it already are not moved."""
    if not table.num_rows or _stand_in_order(table):
        return table.combine_chunks()
    places = [np.where(table[name].is_null(), 0, 1 + ranks(table[name])) for name in ORDER]
    return table.take(pa.array(np.argsort(joint(places), kind="stable"))).combine_chunks()


def _stand_in_order(table: pa.Table) -> bool:
    """Whether no row is to stand before the one above it."""
    count = table.num_rows
    equal = np.ones(count - 1, np.bool_)
    for name in ORDER:
        column = table[name].cast(pa.int64()) if name == "hour" else table[name]
        filled = column.combine_chunks().fill_null(BEFORE_ALL if name == "hour" else "")
        above, below = filled.slice(0, count - 1), filled.slice(1)
        if (equal & np.asarray(pc.greater(above, below))).any():
            return False
        equal &= np.asarray(pc.equal(above, below))
    return True


def _refuse_changed(path: Path) -> None:
    try:
        digest = _digest(path)
    except FileNotFoundError as error:
        raise _bad_line_file(str(path), "it does not exist") from error
    except OSError as error:
        raise _bad_line_file(str(path), f"it cannot be read ({error.strerror})") from error
    if digest != path.stem:
        raise _bad_line_file(str(path), f"its SHA-256 is {digest}")


def _synced_digest(path: Path) -> str:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    return _digest(path)


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            found.update(piece)
    return found.hexdigest()


def _bad_line_file(path: str, reason: str) -> Unavailable:
    name = path.rpartition("/")[2]  # HTTP clients must not see local folder names
    return Unavailable(f"charge file {name} is damaged ({reason}): restore it from a backup, or draft the month again")
