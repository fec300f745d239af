"""From messages to what is landed: rows of a table, and dead letters. Kernel: no clock, no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from ingest.decode.contract import Context, Decode, rejects_table
from ingest.decode.formats.native import decoder
from ingest.pipeline.dead_letters import dead_letters, origin_columns
from ingest.pipeline.plausibility import Capacities, without_impossible
from ingest.schema.batch import MessageBatch
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import LANDED, NODES, USAGE

DEFAULT_CLUSTER = "default"
_decode_nodes = decoder(NODES)


@dataclass(frozen=True, slots=True)
class Landing:
    """All that one offset range brings.

    Args:
        range: where it came from.
        table: name of the table.
        rows: in the table's full schema, landing columns included; often none.
        dead_letters: in the dead-letter table's schema.
        unknown_fields: name of each field outside the catalogue, and how often it was seen.
        is_gap: whether the broker had dropped all of it unread.
    """

    range: OffsetRange
    table: str
    rows: pa.Table
    dead_letters: pa.Table
    unknown_fields: Mapping[str, int]
    is_gap: bool = False


def land(batch: MessageBatch, decode: Decode, capacities: Capacities, *, cluster: str = DEFAULT_CLUSTER) -> Landing:
    """Decode a batch, take out what the nodes cannot have done, and say of every row where it came from.

    Args:
        batch: messages of one topic.
        decode: that topic's format.
        capacities: what the nodes can do, as far as it is known.
        cluster: the cluster of records that do not name one.
    """
    decoded = decode(batch.values, Context(batch.arrived_at, cluster))
    rows, rejects = decoded.rows, decoded.rejects
    if decoded.table == USAGE.name:
        rows, impossible = without_impossible(rows, capacities)
        rejects = pa.concat_tables([rejects, rejects_table(impossible)])
    letters = dead_letters(batch, rejects)
    return Landing(
        batch.range, decoded.table, _with_origin(rows, batch, decoded.table), letters, decoded.unknown_fields
    )


def with_nodes(known: Capacities, batch: MessageBatch, cluster: str = DEFAULT_CLUSTER) -> Capacities:
    """Capacities with a batch of topic `nodes` added."""
    rows = _decode_nodes(batch.values, Context(batch.arrived_at, cluster)).rows
    return known.updated(rows) if rows.num_rows else known


def _with_origin(rows: pa.Table, batch: MessageBatch, table: str) -> pa.Table:
    origin = origin_columns(batch, rows["message"].combine_chunks())
    schema = LANDED[table].schema
    arrays = [origin[name] if name in origin else rows[name] for name in schema.names]
    return pa.Table.from_arrays(arrays, schema=schema)
