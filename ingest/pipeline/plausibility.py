"""Capacity: reject what a node cannot possibly have done. Kernel; checked after rates, before landing."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ingest.decode.contract import OVER_CAPACITY, Reject

LIMIT_RATIO = 1.5
"""Above this multiple of the node's capacity a value is an error of measurement, not a burst."""

CAPACITY_OF = {
    "cpu_cores": "cores",
    "memory_bytes": "memory_bytes",
    "memory_bandwidth_bytes_s": "memory_bandwidth_bytes_s",
    "llc_occupancy_bytes": "llc_bytes",
    "net_rx_bytes_s": "nic_bytes_s",
    "net_tx_bytes_s": "nic_bytes_s",
    "disk_read_bytes_s": "disk_bytes_s",
    "disk_write_bytes_s": "disk_bytes_s",
    "disk_ios_s": "disk_ios_s",
    "gpu_sm_frac": "gpus",
    "pcie_bytes_s": "pcie_bytes_s",
    "rdma_bytes_s": "rdma_bytes_s",
}
"""Usage column -> the node's column that bounds it, in the same unit."""
BOUNDS = tuple(dict.fromkeys(CAPACITY_OF.values()))

UNKNOWN = (float("nan"),) * len(BOUNDS)

NodeKey = tuple[str, str]
"""(cluster, node)."""


@dataclass(frozen=True, slots=True)
class Capacities:
    """What each node could do since when, in the order of BOUNDS; NaN where not known.

    A node's name may be used again by other hardware, so each row is held against what was said by its time, or first.
    """

    bounds: Mapping[NodeKey, tuple[tuple[int, tuple[float, ...]], ...]] = field(default_factory=dict)

    def updated(self, nodes: pa.Table) -> "Capacities":
        """With rows of table `nodes` added; deletions say nothing of what a node can do."""
        nodes = nodes.filter(pc.fill_null(pc.not_equal(nodes["event"], "delete"), fill_value=True))
        bounds = dict(self.bounds)
        times = nodes["ts"].cast(pa.int64()).to_pylist()
        columns = [_known(nodes[name]) for name in BOUNDS]
        keys = zip(nodes["cluster"].to_pylist(), nodes["node"].to_pylist(), strict=True)
        for key, ts, values in zip(keys, times, zip(*columns, strict=True), strict=True):
            known = bounds.get(key, ())
            place = bisect_right(known, ts, key=itemgetter(0))
            if not place or str(known[place - 1][1]) != str(values):  # texts, since NaN is not itself
                bounds[key] = (*known[:place], (ts, values), *known[place:])
        return Capacities(bounds)

    def at(self, node: NodeKey, ts_us: int) -> tuple[float, ...]:
        """What a node could do at a time."""
        known = self.bounds.get(node)
        return known[max(bisect_right(known, ts_us, key=itemgetter(0)) - 1, 0)][1] if known else UNKNOWN


def without_impossible(usage: pa.Table, capacities: Capacities) -> tuple[pa.Table, list[Reject]]:
    """Put null in the place of every value above 1.5 times its node's capacity.

    Args:
        usage: (n,) decoded rows, with `message`. Null stays null.
        capacities: what the nodes can do; a node or bound that is not known checks nothing.

    Returns:
        The same rows and columns, and one reject for each value taken out; its item is `<container>@<ts>.<column>`,
        since a row no longer knows its place in the message.

    Source: ours; the limit is `LIMIT_RATIO`.
    """
    limits = LIMIT_RATIO * _bounds_by_row(usage, capacities)
    rejects: list[Reject] = []
    for name, bound in CAPACITY_OF.items():
        limit = limits[:, BOUNDS.index(bound)]
        values = usage[name].to_numpy()
        over = values > limit
        if over.any():
            rejects += [_reject(usage, int(row), name, limit[row]) for row in np.flatnonzero(over)]
            kept = pc.if_else(pa.array(over), pa.scalar(None, pa.float64()), usage[name])
            usage = usage.set_column(usage.schema.get_field_index(name), usage.schema.field(name), kept)
    return usage, rejects


def _known(values: pa.ChunkedArray) -> list[float]:
    """Zero is how an exporter says that it does not know."""
    return [value if value else float("nan") for value in values.to_pylist()]


def _bounds_by_row(usage: pa.Table, capacities: Capacities) -> NDArray[np.float64]:
    clusters, nodes = (usage[name].combine_chunks().dictionary_encode() for name in ("cluster", "node"))
    code = clusters.indices.to_numpy().astype(np.int64) * len(nodes.dictionary) + nodes.indices.to_numpy()
    found, at = np.unique(code, return_inverse=True)
    names = [array.dictionary.to_pylist() for array in (clusters, nodes)]
    keys = [(names[0][one // len(names[1])], names[1][one % len(names[1])]) for one in found.tolist()]
    known = [capacities.bounds.get(key, ()) for key in keys]
    bounds = np.array([one[0][1] if one else UNKNOWN for one in known], np.float64).reshape(-1, len(BOUNDS))[at]
    changed = np.flatnonzero(np.array([len(one) > 1 for one in known], np.bool_)[at])
    times = usage["ts"].cast(pa.int64()).to_numpy()
    for row in changed.tolist():
        bounds[row] = capacities.at(keys[at[row]], int(times[row]))
    return bounds


def _reject(usage: pa.Table, row: int, name: str, limit: float) -> Reject:
    at = {column: usage[column][row].as_py() for column in ("message", "container", "ts", "node", name)}
    detail = f"{at[name]:g} on node {at['node']}, which allows {limit:g} (1.5 times its {CAPACITY_OF[name]})"
    return Reject(at["message"], f"{at['container']}@{at['ts']:%Y-%m-%dT%H:%M:%S.%fZ}.{name}", OVER_CAPACITY, detail)
