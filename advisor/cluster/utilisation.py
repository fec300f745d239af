"""Utilisation: how much of a node its residents use. Kernel."""

import numpy as np
from numpy.typing import NDArray

from advisor.cluster.snapshot import Snapshot
from features.schema.catalog import NAMES

Floats = NDArray[np.float64]


def utilisation_percent(snapshot: Snapshot, resource: str) -> Floats:
    """Use of all residents of each node over what the node has.

    Args:
        snapshot: the cluster.
        resource: one of features.schema.catalog.NAMES.

    Returns:
        (n,) percent, 0 for a node that is known to be empty; NaN where it is not known who lives there, what the node
        has, or what one of its residents uses: a sum without one of them would make the node look emptier than it is.

    Source: ours; use is a container's newest minute, else its app's profile, docs/scheduler.md.
    """
    column = NAMES.index(resource)
    node = np.repeat(np.arange(len(snapshot.nodes)), np.diff(snapshot.first))
    used = np.bincount(node, snapshot.resident_use[:, column], minlength=len(snapshot.nodes))
    capacity = snapshot.node_capacity[:, column]
    usable = snapshot.node_known & np.isfinite(capacity) & (capacity > 0)
    percent: Floats = np.divide(100.0 * used, capacity, out=np.full(len(used), np.nan), where=usable)
    return percent
