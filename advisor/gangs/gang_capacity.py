"""Gang capacity: how many members of a class nodes and domains hold, with devices as bins. Kernel."""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.gangs.gang_columns import CPU, MEMORY, PODS, GangColumns
from advisor.gangs.gang_request import MAX_MEMBERS, MemberClass
from advisor.purchase.devices import placed_in_room
from advisor.purchase.instance import DEVICE

Ints = NDArray[np.int64]
RESOURCES = ("gpu", "cpu", "memory", "pods")
"""What can run short, in the order in which it is named."""
CERTAIN = 1 + 1e-9
"""Of free amounts; sums of the same requests in another order differ by less."""


def capacity(columns: GangColumns, one: MemberClass, by: Collection[str] = RESOURCES) -> Ints:
    """Members of a class alone that each node holds.

    Args:
        columns: n nodes.
        one: the class.
        by: resources that are looked at.

    Returns:
        (n,) 0 to MAX_MEMBERS.

    Raises:
        Nothing.

    Source: a device serves one member with whole devices, or as many as have their share on it.
    """
    wanted = {"cpu": (CPU, one.cores), "memory": (MEMORY, one.memory_bytes), "pods": (PODS, 1.0)}
    most = np.full(len(columns.names), float(MAX_MEMBERS))
    for name, (column, amount) in wanted.items():
        if name in by and amount > 0:
            most = np.minimum(most, np.floor(np.maximum(columns.free[:, column], 0.0) * CERTAIN / amount))
    if "gpu" in by and one.devices:
        most = np.minimum(most, (columns.room >= DEVICE).sum(axis=1) // one.devices)
    if "gpu" in by and one.share:
        most = np.minimum(most, (columns.room // one.share).sum(axis=1))
    return most.astype(np.int64)


def in_domains(columns: GangColumns, values: NDArray[np.float64] | Ints) -> NDArray[np.float64]:
    """(d,) sums of nodes' values by domain; nodes without a domain are left out."""
    declared = columns.domain >= 0
    return np.bincount(columns.domain[declared], values[declared], len(columns.domains)).astype(np.float64)


def shortage(columns: GangColumns, one: MemberClass) -> str:
    """The resource that by itself has room for the fewest members of a class."""
    return min(RESOURCES, key=lambda name: int(capacity(columns, one, (name,)).sum()))


def holds(columns: GangColumns, row: int, members: Sequence[MemberClass]) -> bool:
    """Whether a node holds members of several classes together: exact for devices."""
    cores, memory, pods = (columns.free[row] * CERTAIN).tolist()
    if len(members) > pods or sum(one.cores for one in members) > cores:
        return False
    if sum(one.memory_bytes for one in members) > memory:
        return False
    whole, shares = sum(one.devices for one in members), [one.share for one in members if one.share]
    room = sorted(columns.room[row].tolist())
    if whole > room.count(DEVICE):
        return False
    return not shares or placed_in_room(shares, room[: len(room) - whole]) is not None
