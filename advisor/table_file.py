"""Table file: a score table as one file that any number of processes map into memory. An edge.

The file is replaced as a whole: whoever has mapped the old one keeps it until it looks again.
"""

import mmap
from pathlib import Path

import msgspec
import numpy as np

from advisor.errors import NoTable
from advisor.table import NewcomerClass, ScoreTable
from ingest.atomic import replace_atomically

MAGIC = b"cohabit-table-1\n"
LENGTH_BYTES = 8
ALIGNED = 64


class _Header(msgspec.Struct):
    """Everything of a table that is not an array."""

    version: int
    as_of_us: int
    bundle: str
    nodes: tuple[str, ...]
    classes: tuple[NewcomerClass, ...]


_decode = msgspec.json.Decoder(_Header).decode


def write_table(path: Path, table: ScoreTable) -> None:
    """Replace the file."""
    head = msgspec.json.encode(_Header(table.version, table.as_of_us, table.bundle, table.nodes, table.classes))
    begin = MAGIC + len(head).to_bytes(LENGTH_BYTES, "little") + head
    begin += b"\0" * (-len(begin) % ALIGNED)
    arrays = (table.cost.astype("<f4"), table.points, table.known.astype(np.uint8))
    replace_atomically(path, begin + b"".join(array.tobytes() for array in arrays))


def read_table(path: Path) -> ScoreTable:
    """Map the file.

    Raises:
        NoTable: there is none, or it is not a whole one.
    """
    try:
        with path.open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return _parsed(content)
    except (OSError, ValueError, msgspec.DecodeError) as error:
        raise NoTable(path, str(error)) from error


def _parsed(content: mmap.mmap) -> ScoreTable:
    begin = len(MAGIC) + LENGTH_BYTES
    if content[: len(MAGIC)] != MAGIC:
        raise ValueError("it does not begin as a table does")
    length = int.from_bytes(content[len(MAGIC) : begin], "little")
    if length > len(content) - begin:
        raise ValueError("it ends within its header")
    head = _decode(content[begin : begin + length])
    at = begin + length + (-(begin + length) % ALIGNED)
    classes, nodes = len(head.classes), len(head.nodes)
    if len(content) != at + classes * nodes * 5 + nodes:
        raise ValueError("its length is not that of its classes and nodes")
    cost = np.frombuffer(content, "<f4", classes * nodes, at)
    points = np.frombuffer(content, np.uint8, classes * nodes, at + cost.nbytes)
    known = np.frombuffer(content, np.uint8, nodes, at + cost.nbytes + points.nbytes)
    return ScoreTable(
        version=head.version,
        as_of_us=head.as_of_us,
        bundle=head.bundle,
        nodes=head.nodes,
        known=known.astype(np.bool_),
        classes=head.classes,
        points=points.reshape(classes, nodes),
        cost=cost.reshape(classes, nodes),
    )
