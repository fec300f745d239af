"""Minutes as messages: what the streaming job publishes to refreshers of every node, minute by minute. Kernel.

A message is about one node and minute, a list of rows of table `live_state`; a minute that grows is published again.
The key has the minute modulo SLOTS, so that compaction keeps the last minutes of every node.
"""

from collections.abc import Iterator
from itertools import pairwise

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
    numbered = rows.select([name for name in rows.column_names if rows[name].null_count < max(rows.num_rows, 1)])
    for time in NAMES.values():
        at = numbered.schema.get_field_index(time)
        numbered = numbered.set_column(at, time, pa.array(micros(rows[time]) // 1000))
    for start, end in pairwise(starts):
        for part in range(start, end, MAX_CONTAINERS):
            records = numbered.slice(part, min(MAX_CONTAINERS, end - part)).to_pylist()
            slot = records[0]["ts"] * 1000 // WINDOW_US % SLOTS
            key = f"{records[0]['cluster']}/{records[0]['node']}/{slot}/{(part - start) // MAX_CONTAINERS}"
            yield key, orjson.dumps([{k: v for k, v in r.items() if v is not None} for r in records])


def minutes_published(published: pa.Table) -> pa.Table:
    """Table `node_state` of published rows; of a minute published several times the last counts.

    Args:
        published: rows of `live_state` as they came from the topic, any order.

    Returns:
        Rows with what refreshers need; the other columns are null.
    """
    order = [(c, "ascending") for c in (*LIVE_STATE.key, *LANDED_IN)]
    ordered = published.take(pc.sort_indices(published, sort_keys=order)).combine_chunks()
    starts = group_starts(group_codes(ordered, list(LIVE_STATE.key)))
    last = ordered.take(pa.array(np.append(starts[1:], ordered.num_rows) - 1)) if ordered.num_rows else ordered
    published_names = {published: name for name, published in NAMES.items()}
    named = last.drop_columns(["arrived_at"]).rename_columns([published_names.get(c, c) for c in KEPT])
    known, count = set(named.column_names), named.num_rows
    columns = [named[f.name].cast(f.type) if f.name in known else pa.nulls(count, f.type) for f in NODE_STATE.schema]
    return pa.table(columns, schema=NODE_STATE.schema)
