"""Pressure of all resources at once: the members of node-times in, what presses on each out. Kernel.

Node state, training rows and the live scorer all describe who is on a node as `Members` and call `pressures`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats, Ints, side_by_side
from features.contention.neighbour_sums import core_pressure, neighbour_max, neighbour_sums
from features.schema.catalog import NAMES
from ingest.schema.cpuset import membership

CPU = NAMES.index("cpu")
PRESSURE_COLUMNS = (
    *(f"pressure_{n}" for n in NAMES),
    "pressure_cpu_elsewhere",
    "neighbours",
    "neighbours_be",
    "max_neighbour_cpu",
)


@dataclass(frozen=True, slots=True)
class Members:
    """Containers that are on a node together, for many nodes and times.

    Args:
        group: (n,) code of the node-time, 0..g-1.
        use: (n, resources) use in the catalogue's order and absolute units; NaN where not known.
        capacity: (n, resources) what the member's node has; NaN where not known.
        best_effort: (n,) whether the member is BE.
        cpuset: (n,) pinned cores, None for the whole node.
    """

    group: Ints
    use: Floats
    capacity: Floats
    best_effort: NDArray[np.bool_]
    cpuset: Sequence[str | None]


def pressures(members: Members) -> Floats:
    """How hard the others of its group press on each member.

    Args:
        members: see Members; callers sort them, so that every runner adds in the same order.

    Returns:
        (n, len(PRESSURE_COLUMNS)) shares of the node and counts of neighbours, in the order of PRESSURE_COLUMNS. NaN
        where a capacity is not known, or no neighbour's use is.

    Source: ours, docs/decisions/0005-missing-neighbours.md.
    """
    group = members.group
    by_resource = neighbour_sums(members.use.T, group) / members.capacity.T
    counts = neighbour_sums(np.stack([np.ones(len(group)), members.best_effort.astype(np.float64)]), group)
    busiest = neighbour_max(members.use[:, CPU], group) / members.capacity[:, CPU]
    columns = side_by_side([*by_resource, np.zeros(len(group)), *counts, busiest])
    _pin(columns, members)
    return columns


def _pin(columns: Floats, members: Members) -> None:
    """Set the CPU columns of the groups in which some member is pinned."""
    is_pinned = np.array([cpuset is not None for cpuset in members.cpuset], np.bool_)
    if not is_pinned.any():
        return
    order = np.argsort(members.group, kind="stable")
    starts = np.searchsorted(members.group[order], np.unique(members.group[is_pinned]), side="left")
    ends = np.searchsorted(members.group[order], np.unique(members.group[is_pinned]), side="right")
    for start, end in zip(starts, ends, strict=True):
        rows = order[start:end]
        cores = members.capacity[rows[0], CPU]
        if np.isfinite(cores):
            allowed = membership([members.cpuset[row] for row in rows], max(1, int(cores)))
            columns[rows, CPU], columns[rows, len(NAMES)] = core_pressure(members.use[rows, CPU], allowed)
