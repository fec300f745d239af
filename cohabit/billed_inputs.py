"""Billed inputs: what a file of lines was made of, kept beside it under its own SHA-256. An edge."""

import hashlib
import io
import os
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cohabit.errors import LostInputs
from features.tables import METERED, POOL_HOURS

SUFFIX = ".inputs"
LENGTH = 8
"""Bytes that tell how long the first of the two tables is."""


def write_inputs(metered: pa.Table, pools: pa.Table, folder: Path) -> str:
    """Keep rows of `metered` and `pool_hours`; the same rows give the same file, whatever order they come in.

    Returns:
        SHA-256 of the file, hex: its name.
    """
    parts = [_bytes(metered, METERED.key), _bytes(pools, POOL_HOURS.key)]
    content = len(parts[0]).to_bytes(LENGTH, "big") + b"".join(parts)
    digest = hashlib.sha256(content).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f".{uuid.uuid4().hex}{SUFFIX}"
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(folder / f"{digest}{SUFFIX}")
    return digest


def read_inputs(folder: Path, digest: str) -> tuple[pa.Table, pa.Table]:
    """Rows of `metered` and `pool_hours` as they were kept.

    Raises:
        LostInputs: the file is not there, or not what its name says.
    """
    path = folder / f"{digest}{SUFFIX}"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise LostInputs(path, error.strerror or str(error)) from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise LostInputs(path, "its bytes are not what its name says")
    cut = LENGTH + int.from_bytes(content[:LENGTH], "big")
    return pq.read_table(io.BytesIO(content[LENGTH:cut])), pq.read_table(io.BytesIO(content[cut:]))


def _bytes(rows: pa.Table, key: tuple[str, ...]) -> bytes:
    kept = io.BytesIO()
    ordered = rows.sort_by([(name, "ascending") for name in key]).combine_chunks()
    pq.write_table(ordered, kept, compression="zstd", compression_level=3, version="2.6")
    return kept.getvalue()
