"""Listening: sockets, certificates, and servers that run on one event loop until the word to stop. An edge."""

import asyncio
import contextlib
import errno
import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog
import uvicorn
from starlette.types import ASGIApp

from cohabit.config.errors import CohabitError
from cohabit.server.http_limits import BoundedProtocol

log = structlog.get_logger(__name__)
HOST = "127.0.0.1"
DRAIN_S = 3
"""How long requests in flight may take after the word to stop; a slow client delays no other."""
PORTS_TRIED = 20
LAST_PORT = 65535


class _Server(uvicorn.Server):
    """A server that leaves signals to its parent process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(frozen=True, slots=True)
class Certificates:
    """Of the listener for schedulers: its own, with its key, and whose clients it answers; PEM files."""

    certificate: Path
    key: Path
    client_ca: Path


class ServerTls:
    """TLS 1.2 or later for clients that show no certificate; the files are read again once they change.

    Raises:
        CohabitError: a file cannot be read, or is not what it should be.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files, self.context = (certificate, key), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._stamps = self._stamped()
        self._unusable: list[int] = []
        try:
            self.context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise CohabitError(
                f"COHABIT_ADVISOR__ADMISSION_CERTIFICATE={certificate} or _KEY={key} cannot be used ({error}): give "
                "PEM files, with the key of the certificate; `cohabit admin certificate` makes them"
            ) from error

    def renew(self) -> None:
        """Take up files that changed; new connections see them, or what was shown before where they cannot be used."""
        if (stamps := self._stamped()) == self._stamps:
            return
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._files)  # a failure would spoil our context
            self.context.load_cert_chain(*self._files)
        except (OSError, ssl.SSLError) as error:
            if stamps != self._unusable:
                log.warning("cannot use the renewed certificate; the one before stays", error=str(error))
            self._unusable = stamps
        else:
            self._stamps = stamps

    def _stamped(self) -> list[int]:
        return [path.stat().st_mtime_ns if path.exists() else 0 for path in self._files]


def free_socket(port: int, tries: int = PORTS_TRIED, host: str = HOST) -> socket.socket:
    """A listening socket on the port, or on one of the next ones; 0 takes any.

    It listens at once: sockets that are merely bound do not keep each other from a port.

    Raises:
        CohabitError: none of so many ports is free.
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
    raise CohabitError(
        f"{_unlistened(port, last, reason)}: stop the process that uses it, choose another port with --port, "
        "--scheduler-port, COHABIT_ADVISOR__PORT or COHABIT_ADVISOR__SCHEDULER_PORT, or use 0 for any free port"
    )


App = tuple[ASGIApp, socket.socket, ssl.SSLContext | None]
"""An application, where it listens, and what secures that."""


async def listen(
    apps: Sequence[App],
    ready: Callable[[], bool] = lambda: True,
    stopping: Callable[[], None] = lambda: None,
) -> None:
    """Serve applications until SIGINT or SIGTERM, then drain.

    Args:
        apps: what is served.
        ready: called once all answer; whether to go on.
        stopping: called at the word to stop.
    """
    servers = [_Server(_config(app, secured)) for app, _, secured in apps]

    def stop() -> None:
        stopping()
        for server in servers:
            server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    tasks = [asyncio.create_task(s.serve(sockets=[bound])) for s, (_, bound, _) in zip(servers, apps, strict=True)]
    while not all(server.started for server in servers) and not any(task.done() for task in tasks):
        await asyncio.sleep(0.01)
    if not await asyncio.to_thread(ready):
        stop()
    await asyncio.gather(*tasks)


def secured_by(files: Certificates) -> ssl.SSLContext:
    """TLS 1.2 or later with a client's certificate, or no answer.

    Raises:
        CohabitError: a file cannot be read, or is not what it should be.
    """
    return _with_files(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), files)


def shown_by(files: Certificates) -> ssl.SSLContext:
    """TLS towards another server of ours: it shows a certificate of the same authority, and we show ours.

    Raises:
        CohabitError: a file cannot be read, or is not what it should be.
    """
    return _with_files(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), files)


def _with_files(context: ssl.SSLContext, files: Certificates) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        for path in (files.certificate, files.key, files.client_ca):
            path.open("rb").close()  # an error of this names the file
        context.load_cert_chain(files.certificate, files.key)
        context.load_verify_locations(files.client_ca)
    except (OSError, ssl.SSLError) as error:
        raise CohabitError(
            f"COHABIT_ADVISOR__SCHEDULER_CERTIFICATE, _KEY or _CLIENT_CA cannot be used ({error}): give PEM files, "
            "with the key of the certificate"
        ) from error
    return context


def _config(app: ASGIApp, secured: ssl.SSLContext | None = None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        http=BoundedProtocol,
        timeout_graceful_shutdown=DRAIN_S,
        ssl_context_factory=None if secured is None else lambda *_: secured,
    )


def address(bound: socket.socket, scheme: str = "http") -> str:
    """Of a listening socket, as a URL."""
    host, port = bound.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _unlistened(first: int, last: int, reason: str) -> str:
    """The ports that cannot be opened, and the reason; for a port in use only that."""
    if first != last:
        return f"no port from {first} to {last} can be opened ({reason})"
    in_use = reason == os.strerror(errno.EADDRINUSE)
    return f"port {first} is in use" if in_use else f"port {first} cannot be opened ({reason})"
