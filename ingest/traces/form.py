"""What a trace's importer says of its files. Facts and the kernel's signature."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from ingest.schema.topics import Topic
from ingest.traces.cells import Record


@dataclass(frozen=True, slots=True)
class Origin:
    """What records must say that the trace does not.

    Args:
        cluster: cluster of every record.
        epoch_s: what the trace's time 0 is, seconds since 1970.
    """

    cluster: str
    epoch_s: float


Kernel = Callable[[pa.Table, Origin], list[Record]]
"""Rows of a file, all columns text, -> records of its topic."""


@dataclass(frozen=True, slots=True)
class TraceFile:
    """How one file of a trace is read.

    Args:
        topic: where its records go.
        columns: names of its columns.
        header: whether its first line names them, in any order; it may name others too.
        kernel: rows -> records.
    """

    topic: Topic
    columns: tuple[str, ...]
    header: bool
    kernel: Kernel


@dataclass(frozen=True, slots=True)
class Form:
    """One trace: which of its files can be imported, by the name before .csv; None where it cannot be."""

    name: str
    files: Callable[[str], TraceFile | None]
    expected: str
