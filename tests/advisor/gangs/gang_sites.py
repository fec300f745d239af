"""A small site: nodes of equal size in racks, the pods that run there, and desks of several servers over one store."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from sqlalchemy import Engine

from advisor.admission.node_room import NodeRoom, Rooms
from advisor.cluster.pending_pod import PodClass
from advisor.cluster.snapshot import Snapshot
from advisor.gangs.gang_columns import ClassCosts
from advisor.gangs.gang_desk import GangDesk
from advisor.gangs.gang_lifecycle import held
from advisor.gangs.gang_store import read_grants
from tests.advisor.clusters import NOW_US, snapshot

SECOND_US = 1_000_000


@dataclass
class Site:
    """What is true of a cluster: `cores` on each node, of which each running pod takes one."""

    engine: Engine
    nodes: int = 4
    per_rack: int = 2
    cores: int = 3
    now_us: int = NOW_US
    running: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Node of each pod, and since when."""

    def __post_init__(self) -> None:
        plain = snapshot(1, nodes=self.nodes, residents=(0, 0))
        racks = tuple(f"r{at // self.per_rack}" for at in range(self.nodes))
        self.view: Snapshot = replace(plain, racks=racks, node_known=np.ones(self.nodes, np.bool_))

    def desk(self, *, ahead_us: int = 0, lag_us: int = 0) -> GangDesk:
        """A server with a clock that is ahead, and room that lags behind."""
        return GangDesk(
            self.engine, lambda: self.view, lambda: self.rooms(lag_us), self.costs, lambda: self.now_us + ahead_us
        )

    def rooms(self, lag_us: int = 0) -> Rooms:
        """What messages up to a time show."""
        as_of_us = self.now_us - lag_us
        shown = Counter(node for node, since_us in self.running.values() if since_us <= as_of_us)
        nodes = tuple(
            NodeRoom(name, cores=float(self.cores - shown[name]), memory_bytes=1e12) for name in self.view.nodes
        )
        return Rooms(self.view.cluster, as_of_us, nodes)

    def costs(self, classes: Sequence[PodClass], held: object) -> ClassCosts:
        """No harm anywhere."""
        n, c = len(self.view.nodes), len(classes)
        return ClassCosts(self.view.nodes, np.zeros((c, n)), np.zeros((c, c, n)))

    def taken(self) -> Counter[str]:
        """Pods that run on each node, and slots that are held there for others."""
        gangs = read_grants(self.engine, self.view.cluster, self.now_us).gangs
        slots = Counter(node for one in gangs for _, node in held(one, self.now_us, self.now_us + 3600 * SECOND_US))
        return slots + Counter(node for node, _ in self.running.values())
