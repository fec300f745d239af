"""Billed inputs: what a file of lines was made of, kept next to it under its own SHA-256. An edge."""

import hashlib
import io
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from advisor.billing.interference.billed_hours import Known
from cohabit.config.errors import CohabitError
from features.schema.tables import IDLE, METERED, POOL_HOURS, SCARCITY, SLOWED

SUFFIX = ".inputs"
LENGTH = 8
"""Bytes before each table that hold its length."""


def write_inputs(known: Known, spent: pa.Table, folder: Path) -> str:
    """Keep what lines are made of; the same rows give the same file, whatever order they come in.

    Args:
        known: what is known of a pool.
        spent: rows of advisor.billing.interference.adjustment.SPENT.
        folder: gets the file.

    Returns:
        SHA-256 of the file, hex: its name.
    """
    parts = [
        _bytes(known.metered, METERED.key),
        _bytes(known.pools, POOL_HOURS.key),
        _bytes(known.slowed, SLOWED.key),
        _bytes(known.scarcity, SCARCITY.key),
        _bytes(known.idle, IDLE.key),
        _bytes(spent, ("hour", "team")),
    ]
    content = b"".join(len(part).to_bytes(LENGTH, "big") + part for part in parts)
    digest = hashlib.sha256(content).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f".{uuid.uuid4().hex}{SUFFIX}"
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(folder / f"{digest}{SUFFIX}")
    return digest


def read_inputs(folder: Path, digest: str) -> tuple[Known, pa.Table]:
    """What lines were made of as it was kept, and rows of advisor.billing.interference.adjustment.SPENT.

    Raises:
        CohabitError: the file is not there, or not what its name says.
    """
    path = folder / f"{digest}{SUFFIX}"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _lost_inputs(path, error.strerror or str(error)) from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise _lost_inputs(path, "its bytes are not what its name says")
    *known, spent = (pq.read_table(io.BytesIO(part)) for part in _parts(content))
    return Known(*known), spent


def _parts(content: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(content):
        end = at + LENGTH + int.from_bytes(content[at : at + LENGTH], "big")
        yield content[at + LENGTH : end]
        at = end


def _bytes(rows: pa.Table, key: tuple[str, ...]) -> bytes:
    kept = io.BytesIO()
    ordered = rows.sort_by([(name, "ascending") for name in key]).combine_chunks()
    pq.write_table(ordered, kept, compression="zstd", compression_level=3, version="2.6")
    return kept.getvalue()


def _lost_inputs(path: Path, reason: str) -> CohabitError:
    return CohabitError(f"billing input {path} is damaged: {reason}; restore it from a backup")
