"""Serve: the two listeners, the process of the table and further workers, until the word to stop. An edge."""

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import structlog
import uvloop
from prometheus_client import CollectorRegistry
from sqlalchemy import Engine

from advisor.api.app import create_app
from advisor.api.http.auth_middleware import Guard
from advisor.api.http.csrf import OwnSite
from advisor.api.scheduler.scheduler_app import create_scheduler_app
from advisor.billing.quotes.dependencies import BillOffice
from advisor.errors import Contained
from advisor.placement.model_state import Serving
from advisor.placement.prioritizer import Prioritizer
from advisor.plans.plan_service import Office
from advisor.ui.app import PageRouter, create_pages
from advisor.ui.site.identity import Entrance
from cohabit.server.admission_webhook import AdmissionListener, Webhook
from cohabit.server.assembly import gang_desk
from cohabit.server.metrics_sum import Together
from cohabit.server.reload import keep_fresh
from cohabit.server.saved_table import restore
from cohabit.server.score_table_process import TableProcess
from cohabit.server.sockets import HOST, App, Certificates, address, free_socket, listen, secured_by
from cohabit.server.workers import Shared, Source, Workers

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Listening:
    """Where the advisor listens."""

    main: str
    scheduler: str
    admission: str = ""


Ready = Callable[[Listening], bool]
"""Called with the addresses once the advisor listens; returns whether to go on."""


@dataclass(frozen=True, slots=True)
class SchedulerListener:
    """Where schedulers are answered, and by how many.

    Args:
        port: 0 takes any.
        tries: 1 where it must not move: schedulers are configured with a fixed address.
        host: loopback unless there are certificates.
        certificates: None speaks plain http.
        workers: processes that answer.
        peers: URLs of the same listener of other servers of the cluster.
        refusing: whether the filter refuses nodes.
        table_file: a copy of the score table, for the plugin of kube-scheduler; None for none.
    """

    port: int
    tries: int = 1
    host: str = HOST
    certificates: Certificates | None = None
    workers: int = 1
    peers: tuple[str, ...] = ()
    refusing: bool = False
    table_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Front:
    """How people and tools come in.

    Args:
        port: the first one that is tried; 0 takes any.
        host: an address of this machine.
        entrance: how browsers are recognised.
        guard: who may do what; None lets everybody do everything.
        office: where they decide on proposals; None where none are kept.
        bills: where bills are kept; None where none are.
        store: where gangs are reserved; None where none are.
    """

    port: int
    entrance: Entrance
    host: str = HOST
    guard: Guard | None = None
    office: Office | None = None
    bills: BillOffice | None = None
    store: Engine | None = None


def run(
    serving: Serving,
    source: Source,
    front: Front,
    schedulers: SchedulerListener,
    admission: AdmissionListener | None = None,
    *,
    ready: Ready,
) -> None:
    """Serve until SIGINT or SIGTERM, then drain. The score table is kept by a process of its own meanwhile.

    Args:
        serving: what this process answers from.
        source: what the others answer from.
        front: how people and tools come in.
        schedulers: how schedulers do.
        admission: how kube-apiserver does; None where created pods get no advice. This process alone answers it, so
            that all members of a group get the same terms.
        ready: called with the addresses.

    Raises:
        CohabitError: one of the listeners finds no port, or the listener for schedulers cannot use its files.
    """
    secured = None if schedulers.certificates is None else secured_by(schedulers.certificates)
    with (
        free_socket(front.port, host=front.host) as main,
        free_socket(schedulers.port, schedulers.tries, schedulers.host) as scheduler,
        tempfile.TemporaryDirectory(prefix="cohabit-serve-") as name,
        closing(_table_process(source, schedulers, Path(name) / "table")) as table,
        Webhook(admission, source.snapshots) as webhook,
    ):
        restore(table.path, source.snapshots, serving.bundle)
        shared = Shared(
            Path(name),
            table.asked,
            schedulers.workers,
            schedulers.peers,
            schedulers.certificates,
            schedulers.refusing,
        )
        listening = Listening(
            address(main), address(scheduler, "http" if secured is None else "https"), webhook.address
        )
        prioritizer, peers = shared.prioritizer(serving, 0)
        metrics = CollectorRegistry()
        metrics.register(Together(serving.metrics, shared.folder))
        office, bills = front.office, front.bills
        pages = create_pages(serving, front.entrance, office, bills)
        gangs = None if front.store is None else gang_desk(front.store, prioritizer, source.snapshots)
        tools = create_app(serving, front.guard, metrics, office, bills=bills, gangs=gangs, problem=prioritizer.problem)
        apps: list[App] = [
            (PageRouter(OwnSite(tools) if front.guard is None else tools, pages), main, None),
            (create_scheduler_app(prioritizer, refusing=shared.refusing), scheduler, secured),
            *webhook.apps(prioritizer),
        ]
        with (
            closing(peers),
            closing(source.reservations_for(prioritizer)),
            closing(Workers(source, shared, scheduler)) as workers,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            each = table.ensure, workers.ensure, webhook.reload, webhook.renew
            runner.run(_run(prioritizer, apps, each, workers.stop, lambda: ready(listening)))


def _table_process(source: Source, schedulers: SchedulerListener, path: Path) -> TableProcess:
    return TableProcess(source.registry, source.snapshots, path, schedulers.workers, schedulers.table_file)


async def _run(
    prioritizer: Prioritizer,
    apps: Sequence[App],
    each: Sequence[Callable[[], None]],
    stop: Callable[[], None],
    ready: Callable[[], bool],
) -> None:
    prioritizer.take(prioritizer.newer())
    fresh = asyncio.create_task(keep_fresh(prioritizer, lambda: each_of(each)))
    await listen(apps, ready, stop)
    fresh.cancel()


def each_of(parts: Sequence[Callable[[], None]]) -> None:
    """Keep up the parts of the server; a failure of one stops no other."""
    for keep_up in parts:
        with Contained(log, "a part of the server could not be kept up; it is tried again"):
            keep_up()
