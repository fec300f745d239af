"""Workers: further processes that answer schedulers, on the same socket. An edge.

All read the same table, exchange assumed pods in journals, and leave their counts in files,
which the first process adds to its own.
"""

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from time import time_ns

import structlog
import uvloop
from numpy.random import default_rng
from prometheus_client import CollectorRegistry

from advisor.api.scheduler.scheduler_app import create_scheduler_app
from advisor.cluster.worker_bus import Journal
from advisor.placement.decision_log import Shares, explorer_in
from advisor.placement.feature_log import ServedLog
from advisor.placement.model_state import Serving
from advisor.placement.prioritizer import Prioritizer
from cohabit.config.logs import set_up_logs
from cohabit.config.malloc_trim import hold_few_heaps
from cohabit.server.metrics_sum import Leaving
from cohabit.server.peer_discovery import Peers
from cohabit.server.reload import keep_fresh
from cohabit.server.reservation_poller import ReservationPoller
from cohabit.server.score_table_process import CONTEXT, Asking
from cohabit.server.sockets import DRAIN_S, Certificates, listen, secured_by, shown_by
from models.registry.registry import Registry

log = structlog.get_logger(__name__)

SERVED = "served"
"""Folder of the feature log, next to the snapshots."""
ADVISED = "advised"
"""Folder of the decision log, next to the snapshots."""


@dataclass(frozen=True, slots=True)
class Source:
    """What is answered from.

    Args:
        registry: of bundles.
        snapshots: folder of snapshots.
        max_age_s: snapshots older than this are not believed.
        feature_log_share: of requests of which one feature vector is kept.
        shares: of explored decisions, of the holdout, and of other logged decisions.
        store: address of the database with reservations; empty for none.
    """

    registry: Registry
    snapshots: Path
    max_age_s: float
    feature_log_share: float
    shares: Shares = field(default_factory=Shares)
    store: str = ""

    def opened(self, now_us: Callable[[], int]) -> Serving:
        """Loaded once."""
        served = ServedLog(self.snapshots / SERVED, self.feature_log_share, default_rng())
        metrics = CollectorRegistry()
        explorer = explorer_in(self.snapshots / ADVISED, self.shares, default_rng(), metrics)
        serving = Serving(self.snapshots, self.registry, self.max_age_s, now_us, metrics, served, explorer)
        serving.reload()
        return serving

    def reservations_for(self, prioritizer: Prioritizer) -> ReservationPoller:
        """Read reservations for a prioritizer from now on."""
        serving = prioritizer.serving
        take, slots = prioritizer.reservations.take, prioritizer.slots.take
        return ReservationPoller(self.store, lambda: serving.cluster, serving.now_us, take, serving.metrics, slots)


@dataclass(frozen=True, slots=True)
class Shared:
    """What all workers of a server share.

    Args:
        folder: of the server's own, with the table and the journals.
        asked: where the process of the table hears what is asked for.
        workers: how many answer, the first process among them.
        peers: URLs of other servers' listeners for schedulers.
        certificates: of the listener; None speaks plain http.
        refusing: whether the filter refuses nodes.
    """

    folder: Path
    asked: Connection
    workers: int = 1
    peers: Sequence[str] = ()
    certificates: Certificates | None = None
    refusing: bool = False

    @property
    def table(self) -> Path:
        """The table's file."""
        return self.folder / "table"

    def prioritizer(self, serving: Serving, number: int) -> tuple[Prioritizer, Peers]:
        """One that shares assumed pods with the other workers, and its peers."""
        secured = None if self.certificates is None else shown_by(self.certificates)
        peers = Peers(self.peers, serving.now_us, serving.metrics, secured)
        journal = Journal(self.folder, number, self.workers + 1)  # the last one is of the table's process
        return Prioritizer(serving, self.table, Asking(self.asked), journal, peers), peers


@dataclass
class Workers:
    """All but the first.

    Args:
        source: what they answer from.
        shared: what they share.
        bound: the listening socket.
    """

    source: Source
    shared: Shared
    bound: socket.socket

    def __post_init__(self) -> None:
        self._processes: dict[int, SpawnProcess] = {}
        self._stopping = False

    def ensure(self) -> None:
        """Start them, or start again those that have ended."""
        for number in range(1, self.shared.workers):
            process = self._processes.get(number)
            if self._stopping or (process is not None and process.is_alive()):
                continue
            if process is not None:
                log.error("a worker ended; started again", worker=number, exitcode=process.exitcode)
            arguments = (self.source, self.shared, number, self.bound, os.getpid())
            process = CONTEXT.Process(target=work, args=arguments, name=f"cohabit-worker-{number}")
            process.start()
            self._processes[number] = process

    def stop(self) -> None:
        """Let them answer what they have begun, and no more."""
        self._stopping = True
        for process in list(self._processes.values()):  # another thread may be starting one, which `close` ends
            process.terminate()

    def close(self) -> None:
        """End them."""
        self.stop()
        for process in self._processes.values():
            process.join(DRAIN_S + 1)
            process.kill()
            process.join()


def work(source: Source, shared: Shared, number: int, bound: socket.socket, parent: int) -> None:
    """Answer schedulers until SIGTERM, or until the parent is gone."""
    set_up_logs("WARNING")
    hold_few_heaps()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serving = source.opened(lambda: time_ns() // 1000)
    prioritizer, peers = shared.prioritizer(serving, number)
    counts = Leaving(shared.folder, number, serving.metrics)
    secured = None if shared.certificates is None else secured_by(shared.certificates)

    def each_time() -> None:
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)
        counts.leave()

    async def answer() -> None:
        gc.collect()
        gc.freeze()  # what is loaded stays: searching it for garbage would stop all answers for a tenth of a second
        prioritizer.take(prioritizer.newer())
        fresh = asyncio.create_task(keep_fresh(prioritizer, each_time))
        await listen([(create_scheduler_app(prioritizer, refusing=shared.refusing), bound, secured)])
        fresh.cancel()

    with closing(source.reservations_for(prioritizer)), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(answer())
    counts.leave()
    peers.close()
