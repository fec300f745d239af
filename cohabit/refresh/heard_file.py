"""What was heard last of each container and node, kept for a refresher that starts again. An edge.

It reads the last minutes of its topics only. Without this, what fell silent long before would be there again: never
measured, as far as it has read.
"""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import structlog

from features.contention.lifetimes import HEARD
from ingest.schema.atomic_file import replace_atomically

log = structlog.get_logger(__name__)
NAME = "heard.parquet"
EVERY_S = 60.0
"""How often it is written."""
KIND = pa.field("kind", pa.string(), nullable=False)


def write_heard(folder: Path, heard: Mapping[str, pa.Table]) -> None:
    """Replace the file in a folder of snapshots; where that fails the one of before stays, which is said."""
    parts = [rows.append_column(KIND, pa.array([kind] * rows.num_rows, pa.string())) for kind, rows in heard.items()]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.concat_tables(parts), sink, compression="zstd")
    try:
        replace_atomically(folder / NAME, sink.getvalue().to_pybytes())
    except OSError as error:
        log.warning("cannot keep what was heard; a refresher that starts again will not know it", error=str(error))


def read_heard(folder: Path) -> dict[str, pa.Table]:
    """Tables HEARD by kind; none without a file, or with one that cannot be read, which is said."""
    path = folder / NAME
    if not path.exists():
        return {}
    try:
        rows = pq.read_table(path).cast(pa.schema([*HEARD, KIND]))
    except (OSError, ValueError, pa.ArrowException) as error:
        log.warning("cannot read what was heard before the start; silent containers may seem there", error=str(error))
        return {}
    kinds = pc.unique(rows["kind"]).to_pylist()
    return {kind: rows.filter(pc.equal(rows["kind"], kind)).select(HEARD.names) for kind in kinds}
