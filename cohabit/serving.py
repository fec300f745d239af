"""Serve: the two listeners in one process, reloading what the refresher and the trainer publish. An edge."""

import asyncio
import contextlib
import signal
import socket
import ssl
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import structlog
import uvicorn
import uvloop
from fastapi import FastAPI

from advisor.api.app import create_app, create_scheduler_app
from advisor.api.gate import Guard
from advisor.prioritizing import Prioritizer
from advisor.serving import Serving
from cohabit.errors import NoFreePort, UnusableCertificates
from cohabit.tabling import TableProcess

log = structlog.get_logger(__name__)

HOST = "127.0.0.1"
RELOAD_EVERY_S = 1.0
DRAIN_S = 3
"""How long requests in flight may take after the word to stop; a slow client holds nobody up."""
PORTS_TRIED = 20
LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Listening:
    """Where the advisor listens."""

    main: str
    scheduler: str


Ready = Callable[[Listening], bool]
"""Told where the advisor listens, once it does; whether it shall go on."""


class _Server(uvicorn.Server):
    """A server that leaves signals to whoever runs several."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(frozen=True, slots=True)
class Certificates:
    """Of the listener for schedulers: its own, with its key, and whose clients it answers; PEM files."""

    certificate: Path
    key: Path
    client_ca: Path


@dataclass(frozen=True, slots=True)
class SchedulerListener:
    """Where schedulers are answered.

    Args:
        port: 0 takes any.
        tries: 1 where it must not move: schedulers are configured with a fixed address.
        host: loopback unless there are certificates.
        certificates: None speaks plain http.
    """

    port: int
    tries: int = 1
    host: str = HOST
    certificates: Certificates | None = None


def free_socket(port: int, tries: int = PORTS_TRIED, host: str = HOST) -> socket.socket:
    """A listening socket on the port, or on one of the next ones; 0 takes any.

    It listens at once: sockets that are merely bound do not keep each other from a port.

    Raises:
        NoFreePort: none of so many ports is free.
    """
    last = min(port + tries - 1, LAST_PORT) if port else 0
    reason = ""
    for candidate in range(port, last + 1):
        bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, candidate))
            bound.listen()
        except OSError as error:
            bound.close()
            reason = error.strerror or str(error)
        else:
            return bound
    raise NoFreePort(port, last, reason)


@dataclass(frozen=True, slots=True)
class Front:
    """How people and tools come in.

    Args:
        port: the first one that is tried; 0 takes any.
        host: an address of this machine.
        guard: who may do what; None lets everybody do everything.
    """

    port: int
    host: str = HOST
    guard: Guard | None = None


def run(serving: Serving, front: Front, schedulers: SchedulerListener, *, ready: Ready) -> None:
    """Serve until SIGINT or SIGTERM, then drain. The score table is kept by a process of its own meanwhile.

    Raises:
        NoFreePort: one of the listeners finds no port.
        UnusableCertificates: the listener for schedulers cannot use its files.
    """
    secured = None if schedulers.certificates is None else secured_by(schedulers.certificates)
    with (
        free_socket(front.port, host=front.host) as main,
        free_socket(schedulers.port, schedulers.tries, schedulers.host) as scheduler,
        tempfile.TemporaryDirectory(prefix="cohabit-serve-") as folder,
        closing(TableProcess(serving.registry.root, serving.snapshots, Path(folder) / "table")) as table,
    ):
        listening = Listening(_address(main), _address(scheduler, "http" if secured is None else "https"))
        prioritizer = Prioritizer(serving, table.path, table)
        people, scored = create_app(serving, front.guard), create_scheduler_app(prioritizer)
        apps = [(_config(people), main), (_config(scored, secured), scheduler)]
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(keep_fresh(prioritizer, table), apps, lambda: ready(listening)))


async def _run(
    fresh: Coroutine[None, None, None], apps: list[tuple[uvicorn.Config, socket.socket]], ready: Callable[[], bool]
) -> None:
    servers = [_Server(config) for config, _ in apps]
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _stop, servers)
    tasks = [asyncio.create_task(s.serve(sockets=[bound])) for s, (_, bound) in zip(servers, apps, strict=True)]
    reload = asyncio.create_task(fresh)
    while not all(server.started for server in servers) and not any(task.done() for task in tasks):
        await asyncio.sleep(0.01)
    if not await asyncio.to_thread(ready):
        _stop(servers)
    await asyncio.gather(*tasks)
    reload.cancel()


def secured_by(files: Certificates) -> ssl.SSLContext:
    """TLS 1.2 or later with a client's certificate, or no answer.

    Raises:
        UnusableCertificates: a file cannot be read, or is not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        for path in (files.certificate, files.key, files.client_ca):
            path.open("rb").close()  # an error of this names the file
        context.load_cert_chain(files.certificate, files.key)
        context.load_verify_locations(files.client_ca)
    except (OSError, ssl.SSLError) as error:
        raise UnusableCertificates(str(error)) from error
    return context


def _config(app: FastAPI, secured: ssl.SSLContext | None = None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        http="httptools",
        timeout_graceful_shutdown=DRAIN_S,
        ssl_context_factory=None if secured is None else lambda *_: secured,
    )


async def keep_fresh(prioritizer: Prioritizer, table: TableProcess) -> None:
    """Take up what is newer, again and again; a failure leaves what was loaded."""
    while True:
        [failed] = await asyncio.gather(_reload(prioritizer, table), return_exceptions=True)
        if failed is not None:
            log.error("reload failed; what was loaded stays", error=repr(failed))
        await asyncio.sleep(RELOAD_EVERY_S)


async def _reload(prioritizer: Prioritizer, table: TableProcess) -> None:
    table.ensure()
    await asyncio.to_thread(prioritizer.serving.reload)
    newer, arrived = await asyncio.to_thread(lambda: (prioritizer.newer(), prioritizer.arrived()))
    prioritizer.take(newer, arrived)


def _stop(servers: list[_Server]) -> None:
    for server in servers:
        server.should_exit = True


def _address(bound: socket.socket, scheme: str = "http") -> str:
    host, port = bound.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
