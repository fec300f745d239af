"""Merge: what several decoders made of different messages of one batch, as one result. Kernel."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ingest.decode.contract import REJECTS, Context, Decode, Decoded, rows_schema
from ingest.schema.tables import LANDED
from ingest.schema.unknown_fields import total_counts


def decode_some(decode: Decode, messages: pa.BinaryArray, context: Context, numbers: Sequence[int]) -> Decoded:
    """What a decoder makes of some messages, with their numbers in the whole batch."""
    places = pa.array(numbers, pa.int32())
    part = decode(messages.take(places), Context(context.arrived_at.take(places), context.cluster))
    return Decoded(part.table, _renumbered(part.rows, places), _renumbered(part.rejects, places), part.unknown_fields)


def merged(table: str, parts: Sequence[Decoded]) -> Decoded:
    """Results for different messages of one batch as one, in the order of the messages."""
    if len(parts) == 1:
        return parts[0]
    rows = pa.concat_tables([rows_schema(LANDED[table]).empty_table(), *(part.rows for part in parts)])
    rejects = pa.concat_tables([REJECTS.empty_table(), *(part.rejects for part in parts)])
    return Decoded(table, _in_order(rows), _in_order(rejects), total_counts(part.unknown_fields for part in parts))


def _renumbered(table: pa.Table, places: pa.Int32Array) -> pa.Table:
    at = table.schema.get_field_index("message")
    return table.set_column(at, table.schema.field(at), places.take(table["message"].combine_chunks()))


def _in_order(table: pa.Table) -> pa.Table:
    """By message; what came of one message stays in its order."""
    return table.take(pa.array(np.argsort(table["message"].to_numpy(), kind="stable")))
