"""Small columns and gangs whose numbers can be checked by hand, and every way to place a gang."""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from advisor.cluster.pending_pod import PodClass
from advisor.gangs.gang_capacity import holds
from advisor.gangs.gang_columns import GangColumns
from advisor.gangs.gang_request import GangRequest, Level, MemberClass, Mode

TRAIN = PodClass("train", False)


def workers(count: int, cores: float = 1.0, devices: int = 0, share: int = 0, name: str = "worker") -> MemberClass:
    """Members of one class."""
    return MemberClass(name, TRAIN, count, cores, 0.0, devices, share)


def gang(
    *members: MemberClass, name: str = "g", min_count: int = 0, level: Level = "rack", mode: Mode = "required"
) -> GangRequest:
    """All members are needed unless a min_count is given."""
    count = min_count or sum(one.count for one in members)
    return GangRequest("default", name, members, count, level=level, mode=mode)


def columns(
    racks: Sequence[Sequence[float]],
    first: Sequence[Sequence[float]] | None = None,
    step: float | Sequence[Sequence[float]] = 0.0,
    *,
    rooms: Sequence[Sequence[int]] = (),
) -> GangColumns:
    """Nodes by rack, each with its free cores; costs by class and node, all 0 by default; one step for all nodes."""
    cores = [value for rack in racks for value in rack]
    costs = np.zeros((1, len(cores))) if first is None else np.array(first, float)
    steps = np.full((len(costs), len(costs)), step, float) if isinstance(step, float) else np.array(step, float)
    return GangColumns(
        names=tuple(f"n{at}" for at in range(len(cores))),
        domain=np.repeat(np.arange(len(racks)), [len(rack) for rack in racks]),
        domains=tuple(f"r{at}" for at in range(len(racks))),
        level="rack",
        free=np.column_stack([cores, np.full(len(cores), 1e12), np.full(len(cores), 100.0)]),
        room=np.array([[*room, *[0] * (8 - len(room))] for room in rooms or [()] * len(cores)], np.int64).reshape(
            -1, 8
        ),
        first=costs,
        step=np.repeat(steps[:, :, None], len(cores), axis=2),
    )


def every_placement(request: GangRequest, nodes: GangColumns, domain: int) -> Iterator[np.ndarray]:
    """(c, n) members of each class on the nodes of a domain, all members in all ways that fit."""
    rows = np.flatnonzero(nodes.domain == domain).tolist()
    ways = [_ways(one.count, len(rows)) for one in request.members]
    for way in product(*ways):
        counts = np.zeros((len(request.members), len(nodes.names)), np.int64)
        counts[:, rows] = way
        classes = [
            [one for one, n in zip(request.members, counts[:, row], strict=True) for _ in range(n)] for row in rows
        ]
        if all(holds(nodes, row, there) for row, there in zip(rows, classes, strict=True)):
            yield counts


def _ways(count: int, nodes: int) -> list[tuple[int, ...]]:
    return [way for way in product(range(count + 1), repeat=nodes) if sum(way) == count]


def naive_cost(nodes: GangColumns, counts: np.ndarray) -> float:
    """Members one after the other, each with the residents and the members that are there."""
    total, there = 0.0, np.zeros(counts.shape)
    for at, row in np.argwhere(counts > 0).tolist():
        for _ in range(counts[at, row]):
            total += nodes.first[at, row] + nodes.step[at, :, row] @ there[:, row]
            there[at, row] += 1
    return total
