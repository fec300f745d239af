"""Windows: which samples count, and which window each lies in. Kernel, shared by batch, stream and live."""

import numpy as np
import pyarrow as pa

from features.columnar.arrow_columns import Ints, micros
from features.columnar.composite_keys import joint, ranks, rising

SECOND_US = 1_000_000
WINDOW_US = 60 * SECOND_US
LABEL_US = 300 * SECOND_US
LATENESS_US = 90 * SECOND_US
"""A sample that arrived later than this after its time is dropped and counted, in batch, stream and live alike."""
STALE_US = 180 * SECOND_US
"""A neighbour's own signals older than this are not used; its app's profile is."""


def window_end(ts_us: Ints, length_us: int) -> Ints:
    """End of the window that holds ts - 1 ms, so that an interval ending on a boundary lies in the window it covers.

    Args:
        ts_us: (n,) interval ends, microseconds since 1970.
        length_us: length of a window.

    Returns:
        (n,) window ends, microseconds since 1970.

    Source: ours; half-open windows, their end inside, docs/architecture.md.
    """
    return ((ts_us - 1000) // length_us + 1) * length_us


def in_time(samples: pa.Table, lateness_us: int = LATENESS_US) -> pa.Table:
    """The samples that arrived no later than the limit after their time."""
    late = micros(samples["arrived_at"]) - micros(samples["ts"]) > lateness_us
    return samples.filter(pa.array(~late)) if late.any() else samples


def once(samples: pa.Table) -> pa.Table:
    """Each (cluster, node, container, ts) once: of duplicates the one with the lowest topic, partition and offset.

    The node is in the key, since every runner sees the samples of one node together and no others.
    """
    key = joint([ranks(samples[name]) for name in ("cluster", "node", "container")])
    order = order_once(samples, key, micros(samples["ts"]))
    return samples if len(order) == samples.num_rows else samples.take(pa.array(np.sort(order)))


def order_once(samples: pa.Table, key: Ints, ts: Ints) -> Ints:
    """Rows in the order of key, then time, each of these once: that with the lowest topic, partition and offset."""
    order = rising(key, ts)
    repeated = (np.diff(key[order]) == 0) & (np.diff(ts[order]) == 0)
    if not repeated.any():
        return order
    origin = (ranks(samples[name]) for name in ("topic", "partition", "offset"))
    kept: Ints = rising(key, ts, *origin)[np.append([True], ~repeated)]
    return kept
