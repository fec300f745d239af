"""Rejects: what was rejected, of which message, which part of it, and why. Facts."""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from ingest.decode.contract import REJECTS


class Reject(NamedTuple):
    """One row of the rejects table."""

    message: int
    item: str
    reason: str
    detail: str


def rejects_table(rejects: Sequence[Reject]) -> pa.Table:
    """Rejects as `REJECTS`, in the order given."""
    columns = zip(*rejects, strict=True) if rejects else [[] for _ in REJECTS.names]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, REJECTS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=REJECTS)
