"""Small tables for feature tests, a few columns at a time."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from ingest.schema.tables import NODES, PLACEMENTS, USAGE, Table

T0 = datetime(2026, 3, 1, tzinfo=UTC)


def at(second: float) -> datetime:
    """A time, in seconds after T0."""
    return T0 + timedelta(seconds=second)


def rows_of(table: Table, *rows: dict[str, object]) -> pa.Table:
    """Rows of a table; what is not given is null, `ts` is in seconds after T0, the origin counts up."""
    filled = []
    for number, row in enumerate(rows):
        second = float(str(row.get("ts", 0)))
        landing = {"topic": table.name, "partition": 0, "offset": number, "arrived_at": at(second + 1)}
        filled.append({"cluster": "c", "node": "n", **landing, **row, "ts": at(second)})
    return pa.Table.from_pylist(filled, schema=table.schema)


def usage(*rows: dict[str, object]) -> pa.Table:
    """Rows of usage, 30 s each."""
    return rows_of(USAGE, *({"interval_s": 30.0, "app": "web", "qos": "LS", **row} for row in rows))


def nodes(*rows: dict[str, object]) -> pa.Table:
    """Rows of nodes: 8 cores and 8 GB unless said otherwise, known from the start."""
    known = {"ts": -3600, "platform": "p", "cores": 8.0, "memory_bytes": 8e9}
    return rows_of(NODES, *({**known, **row} for row in rows))


def placements(*rows: dict[str, object]) -> pa.Table:
    """Rows of placements: additions from the start unless said otherwise."""
    return rows_of(PLACEMENTS, *({"ts": -60, "event": "add", **row} for row in rows))
