"""Gang columns: what candidate nodes have free for a gang, and what members cost there. Kernel."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.admission.node_room import NodeRoom, Rooms
from advisor.cluster.pending_pod import PodClass
from advisor.cluster.snapshot import Snapshot
from advisor.gangs.gang_request import WHOLE_SET, GangRequest, Level, MemberClass
from advisor.purchase.instance import DEVICE
from advisor.scoring.score_table import ScoreTable

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
CPU, MEMORY, PODS = range(3)
MAX_DEVICES = 64
"""Devices of one node that are counted."""


@dataclass(frozen=True, slots=True)
class GangColumns:
    """Candidate nodes of a gang of c classes.

    Args:
        names: (n) nodes.
        domain: (n,) code of each node's domain, -1 where it declares none.
        domains: names of the domains.
        level: of the domains.
        free: (n, 3) cores, bytes of memory and pods that may still be requested.
        room: (n, d) thousandths that each device has left; 0 beyond the devices of a node.
        first: (c, n) cost of one member with the residents and assumed pods of a node.
        step: (c, c, n) cost that a member of the second class adds to one of the first there, symmetric, at least 0.
    """

    names: tuple[str, ...]
    domain: Ints
    domains: tuple[str, ...]
    level: Level
    free: Floats
    room: Ints
    first: Floats
    step: Floats

    def only(self, rows: Ints) -> "GangColumns":
        """Some of the nodes."""
        return replace(
            self,
            names=tuple(self.names[row] for row in rows.tolist()),
            domain=self.domain[rows],
            free=self.free[rows],
            room=self.room[rows],
            first=self.first[:, rows],
            step=self.step[:, :, rows],
        )

    def without(self, seats: Iterable[tuple[MemberClass, str]]) -> "GangColumns":
        """The nodes after further pods took their requests; devices of a share are the fullest that hold it."""
        return self._changed(seats, -1)

    def with_freed(self, seats: Iterable[tuple[MemberClass, str]]) -> "GangColumns":
        """The nodes after pods gave their requests back; freed devices count as empty ones."""
        return self._changed(seats, 1)

    def _changed(self, seats: Iterable[tuple[MemberClass, str]], sign: int) -> "GangColumns":
        at = {name: row for row, name in enumerate(self.names)}
        free, rooms = self.free.copy(), dict[int, list[int]]()
        for (one, node), count in Counter(seats).items():
            if (row := at.get(node)) is None:
                continue
            free[row] += sign * count * np.array([one.cores, one.memory_bytes, 1.0])
            if (room := rooms.get(row)) is None:
                room = rooms[row] = self.room[row].tolist()
            sizes = count * ([DEVICE] * one.devices + [one.share] * (one.share > 0))
            if sign > 0:
                room.extend(sizes)
            else:
                _take(room, sizes)
        width = max([self.room.shape[1], *map(len, rooms.values())])
        changed = np.pad(self.room, ((0, 0), (0, width - self.room.shape[1])))
        for row, room in rooms.items():
            changed[row, : len(room)] = room
        return replace(self, free=free, room=changed)


def _take(room: list[int], sizes: Iterable[int]) -> None:
    """Take sizes off the fullest devices that hold them; off the emptiest where none does."""
    for size in sizes:
        if size == DEVICE and DEVICE in room:
            room[room.index(DEVICE)] = 0
        elif room:
            at = min(range(len(room)), key=lambda at: (room[at] < size, room[at] if room[at] >= size else -room[at]))
            room[at] = max(room[at] - size, 0)


@dataclass(frozen=True, slots=True)
class ClassCosts:
    """Costs of c classes on n named nodes, see GangColumns."""

    nodes: tuple[str, ...]
    first: Floats
    step: Floats


def class_costs(
    table: ScoreTable, classes: Sequence[PodClass], cost: Floats, held: Iterable[tuple[PodClass, str]] = ()
) -> ClassCosts:
    """Costs of classes from a score table.

    Args:
        table: with steps.
        classes: (c,) classes; one that the table lacks costs what unknown apps do.
        cost: (c, n) cost of each on the table's nodes.
        held: class and node of members of other gangs, which count like residents.

    Returns:
        Costs of a first member, and steps of the table made symmetric: the cost of a placement does not depend on the
        order of its members.

    Raises:
        KeyError: the table has neither a class nor that of unknown apps.

    Source: ours, docs/decisions/0077-gangs.md; steps as in `ScoreTable.steps_added_by`.
    """
    row_of = {of: row for row, of in enumerate(table.classes)}
    rows, at = [row_of[known_class(of, row_of)] for of in classes], {name: row for row, name in enumerate(table.nodes)}
    platforms = table.steps.shape[2]
    added = np.zeros((len(rows), len(rows), platforms + 1))  # the last column is of unknown platforms
    for platform in range(platforms):
        for column, row in enumerate(rows):
            added[:, column, platform] = table.steps_added_by(row, platform)[rows]
    step, first = (added + added.transpose(1, 0, 2)) / 2, cost.copy()
    steps = dict[tuple[PodClass, int], Floats]()
    for (of, node), count in Counter(held).items():
        if (column := at.get(node, -1)) >= 0:
            key = of, int(table.platform[column])
            if key not in steps:
                steps[key] = table.steps_added_by(row_of[known_class(of, row_of)], key[1])[rows]
            first[:, column] += count * steps[key]
    return ClassCosts(table.nodes, first, step[:, :, table.platform])


def known_class(of: PodClass, known: Container[PodClass]) -> PodClass:
    """The class, or that of unknown apps where it is not among the known ones."""
    return of if of in known else PodClass("", of.best_effort)


def gang_columns(snapshot: Snapshot, rooms: Rooms, request: GangRequest, costs: ClassCosts, device: str) -> GangColumns:
    """What a gang's candidate nodes have, by domain of the requested level.

    Args:
        snapshot: of the cluster; nodes of which no residents are known are no candidates.
        rooms: what its nodes have left by requests; a node without a number for CPU or memory is no candidate.
        request: the gang.
        costs: of its classes; a node that they lack costs the mean of the others.
        device: name of the extended resource that devices are counted by.

    Returns:
        Columns over the candidates. Without any declared domain of the level all nodes are one domain, of level `set`.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0077-gangs.md.
    """
    by_name = {one.node: one for one in rooms.nodes}
    wanted = None if request.nodes is None else frozenset(request.nodes)
    found = [by_name.get(name) if wanted is None or name in wanted else None for name in snapshot.nodes]
    known = [one is not None and one.cores is not None and one.memory_bytes is not None for one in found]
    rows = np.flatnonzero(np.asarray(known, np.bool_) & snapshot.node_known)
    there = [one for row in rows.tolist() if (one := found[row]) is not None]
    declared = [_domain_of(one, snapshot, request.level) for one in there]
    level: Level = request.level if any(declared) and request.level != "set" else "set"
    labels = declared if level != "set" else [WHOLE_SET] * len(there)
    domains = tuple(dict.fromkeys(name for name in labels if name is not None))
    devices = np.clip([int(one.extended.get(device, 0)) for one in there], 0, MAX_DEVICES).astype(np.int64)
    at = {name: row for row, name in enumerate(costs.nodes)}
    priced = np.array([at.get(one.node, -1) for one in there], np.int64)
    first = np.concatenate([costs.first, np.full((len(costs.first), 1), np.nan)], axis=1)[:, priced]
    n = np.isfinite(first).any()
    code: Mapping[str | None, int] = {name: at for at, name in enumerate(domains)}
    return GangColumns(
        names=tuple(one.node for one in there),
        domain=np.array([code.get(name, -1) for name in labels], np.int64),
        domains=domains,
        level=level,
        free=np.array([(one.cores, one.memory_bytes, np.inf if one.pods is None else one.pods) for one in there], float)
        .reshape(-1, 3)
        .copy(),
        room=np.where(np.arange(int(devices.max(initial=0))) < devices[:, None], DEVICE, 0),
        first=np.where(np.isnan(first), np.nanmean(first, axis=1, keepdims=True) if n else 0.0, first),
        step=np.concatenate([costs.step, np.zeros((*costs.step.shape[:2], 1))], axis=2)[:, :, priced],
    )


def _domain_of(node: NodeRoom, snapshot: Snapshot, level: Level) -> str | None:
    if level == "rack":
        return snapshot.rack_of.get(node.node)
    return node.zone if level == "zone" else node.node if level == "node" else None
