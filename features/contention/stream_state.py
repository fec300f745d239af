"""Minutes as messages: what the streaming job publishes to refreshers of every node, minute by minute. Kernel.

A message is about one node and minute, a list of rows of table `live_state`; a minute that grows is published again.
The key has the minute modulo SLOTS, so that compaction keeps the last minutes of every node.
"""

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from features.columnar.arrow_columns import micros
from features.columnar.group_means import group_codes, group_starts
from features.columnar.windows import WINDOW_US
from features.contention.node_state import LANDED_IN
from features.schema.tables import NODE_STATE
from ingest.schema.tables import LANDING, LIVE_STATE

SLOTS = 8
"""Minutes that survive compaction: those a refresher may still use, with room for late ones."""
MAX_CONTAINERS = 500
"""In one message; more are published in several, each with its own key."""
PUBLISHED = [c.name for c in LIVE_STATE.columns if c not in LANDING]
NAMES = {"window_end": "ts", "arrived_at": "heard_at"}
"""Columns of node state that are renamed when published; the message's own arrival is another matter."""
KEPT = [c for c in LIVE_STATE.schema.names if c != "arrived_at"]
MESSAGE = pa.schema([("key", pa.string()), ("value", pa.binary())])


def messages(state: pa.Table) -> pa.Table:
    """What to send about minutes.

    Args:
        state: rows of `node_state`, each node's minute whole.

    Returns:
        Columns key and value, as MESSAGE.
    """
    rows = state.rename_columns([NAMES.get(c, c) for c in state.column_names]).select(PUBLISHED)
    rows = rows.sort_by([(c, "ascending") for c in ("cluster", "node", "ts", "container")]).combine_chunks()
    parts = list(_parts(rows))
    return pa.table([[key for key, _ in parts], [value for _, value in parts]], schema=MESSAGE)


def _parts(rows: pa.Table) -> Iterator[tuple[str, bytes]]:
    starts = np.append(group_starts(group_codes(rows, ["cluster", "node", "ts"])), rows.num_rows)
    measured = [name for name in rows.column_names if rows[name].null_count < rows.num_rows]
    values = zip(*(_plain(name, rows[name]) for name in measured), strict=True)
    for start, end in pairwise(starts):
        for part in range(start, end, MAX_CONTAINERS):
            count = min(MAX_CONTAINERS, end - part)
            records = [dict(zip(measured, row, strict=True)) for row in islice(values, count)]
            slot = records[0]["ts"] * 1000 // WINDOW_US % SLOTS
            key = f"{records[0]['cluster']}/{records[0]['node']}/{slot}/{(part - start) // MAX_CONTAINERS}"
            yield key, orjson.dumps(records)


def _plain(name: str, values: pa.ChunkedArray) -> list[Any]:
    """Values as JSON has them; times in milliseconds since 1970. What is NaN becomes null there."""
    if name in NAMES.values():
        return list((micros(values) // 1000).tolist())
    if pa.types.is_float64(values.type):
        return list(values.to_numpy().tolist())
    return list(values.to_pylist())


def minutes_published(published: pa.Table) -> pa.Table:
    """Table `node_state` of published rows; of a minute published several times the last counts.

    Args:
        published: rows of `live_state` as they came from the topic, any order.

    Returns:
        Rows with what refreshers need; the other columns are null.
    """
    order = [(c, "ascending") for c in (*LIVE_STATE.key, *LANDED_IN)]
    rows = np.asarray(pc.sort_indices(published.select([name for name, _ in order]), sort_keys=order)).astype(np.int64)
    starts = group_starts(group_codes(published, list(LIVE_STATE.key))[rows])
    last = published.take(pa.array(rows[np.append(starts[1:], len(rows))[: len(starts)] - 1]))
    published_names = {published: name for name, published in NAMES.items()}
    named = last.drop_columns(["arrived_at"]).rename_columns([published_names.get(c, c) for c in KEPT])
    known, count = set(named.column_names), named.num_rows
    columns = [named[f.name].cast(f.type) if f.name in known else pa.nulls(count, f.type) for f in NODE_STATE.schema]
    return pa.table(columns, schema=NODE_STATE.schema)
