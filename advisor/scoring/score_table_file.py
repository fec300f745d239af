"""Table file: a score table as one file that any number of processes map into memory. An edge.

The file is replaced as a whole: a process that has mapped the old file keeps it until its next check.
"""

import mmap
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from advisor.cluster.pending_pod import PodClass
from advisor.errors import NoTable
from advisor.scoring.score_table import ScoreTable
from ingest.schema.atomic_file import replace_atomically

MAGIC = b"cohabit-table-1\n"
LENGTH_BYTES = 8
ALIGNED = 64
UNREADABLE = (ValueError, TypeError, RecursionError, msgspec.DecodeError)
"""What broken content raises."""


class _Header(msgspec.Struct):
    """Everything of a table that is not an array."""

    version: int
    as_of_us: int
    bundle: str
    nodes: tuple[str, ...]
    classes: tuple[PodClass, ...]
    platforms: int


_decode = msgspec.json.Decoder(_Header).decode


def write_table(path: Path, table: ScoreTable) -> None:
    """Replace the file."""
    head = msgspec.json.encode(
        _Header(table.version, table.as_of_us, table.bundle, table.nodes, table.classes, table.steps.shape[2])
    )
    begin = MAGIC + len(head).to_bytes(LENGTH_BYTES, "little") + head
    begin += b"\0" * (-len(begin) % ALIGNED)
    floats = (array.astype("<f4").tobytes() for array in (table.cost, table.steps))
    small = (table.platform.astype("<i2"), table.points.astype("u1"), table.known.astype("u1"))
    replace_atomically(path, b"".join([begin, *floats, *(array.tobytes() for array in small)]))


def read_table(path: Path) -> ScoreTable:
    """Map the file.

    Raises:
        NoTable: there is none, or it is not a whole one.
    """
    try:
        with path.open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return _parsed(content)
    except (OSError, *UNREADABLE) as error:
        raise NoTable(path, str(error)) from error


def table_in(content: bytes) -> ScoreTable:
    """The table in the bytes of a file.

    Raises:
        NoTable: they are not a whole one.
    """
    try:
        return _parsed(content)
    except UNREADABLE as error:
        raise NoTable(Path("score-table"), str(error)) from error


def _parsed(content: bytes | mmap.mmap) -> ScoreTable:
    begin = len(MAGIC) + LENGTH_BYTES
    if content[: len(MAGIC)] != MAGIC:
        raise ValueError("it does not begin as a table does")
    length = int.from_bytes(content[len(MAGIC) : begin], "little")
    if length > len(content) - begin:
        raise ValueError("it ends within its header")
    head = _decode(content[begin : begin + length])
    at = begin + length + (-(begin + length) % ALIGNED)
    classes, nodes = len(head.classes), len(head.nodes)
    shapes = {
        "cost": ("<f4", (classes, nodes)),
        "steps": ("<f4", (3, classes, head.platforms)),
        "platform": ("<i2", (nodes,)),
        "points": ("u1", (classes, nodes)),
        "known": ("u1", (nodes,)),
    }
    arrays: dict[str, Any] = {}
    for name, (kind, shape) in shapes.items():
        arrays[name] = np.ndarray(shape, kind, content, at)  # refuses what lies beyond the end
        at += arrays[name].nbytes
    if at != len(content):
        raise ValueError("it goes on after its end")
    return ScoreTable(
        version=head.version,
        as_of_us=head.as_of_us,
        bundle=head.bundle,
        nodes=head.nodes,
        classes=head.classes,
        **arrays | {"known": arrays["known"].astype(np.bool_)},
    )
