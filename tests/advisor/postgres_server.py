"""A real PostgreSQL for a run of the tests: a free loopback port, a folder of its own, gone with whoever started it."""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Protocol

import psycopg

from ingest.devkafka import child_process as supervise
from ingest.devkafka.broker import free_ports
from tests.fuzzing.target import in_memory

SCRIPT = Path(__file__).parents[2] / "scripts" / "postgres.sh"
START_LIMIT_S = 30.0
STOP_LIMIT_S = 5.0
INSTALL_LIMIT_S = 600
UNPRIVILEGED = ("postgres", "nobody")
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "40",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "min_wal_size": "32MB",
    "max_wal_size": "64MB",
}


class NewDatabase(Protocol):
    """Makes databases."""

    def __call__(self, *, like: str | None = None) -> str:
        """The address of a new one: empty, or a copy of the one at an address."""
        ...


@contextmanager
def running_postgres() -> Iterator[NewDatabase]:
    """A server, stopped on the way out; each call makes a database and returns its address."""
    programs, (port,), password = _programs(), free_ports(1), secrets.token_hex(16)
    folder = Path(tempfile.mkdtemp(prefix="cohabit-postgres-", dir=in_memory()))
    try:
        _prepare(folder, programs, password)
        with _running(folder, programs, port):
            address = f"postgresql://cohabit:{password}@127.0.0.1:{port}"
            _await_answer(f"{address}/postgres", folder)
            numbers = count()

            def new_database(*, like: str | None = None) -> str:
                return _new_database(address, f"test_{next(numbers)}", like or "/template1")

            yield new_database
    finally:
        shutil.rmtree(folder)


def _programs() -> Path:
    ran = subprocess.run([SCRIPT], capture_output=True, text=True, check=False, timeout=INSTALL_LIMIT_S)
    if ran.returncode:
        message = f"no PostgreSQL to test with: {ran.stderr.strip()[-1000:]}"
        raise RuntimeError(message)
    return Path(ran.stdout.strip())


def _prepare(folder: Path, programs: Path, password: str) -> None:
    (folder / "password").write_text(password)
    if os.geteuid() == 0:
        user = _unprivileged()
        for path in (folder, folder / "password"):
            os.chown(path, user.pw_uid, user.pw_gid)
    words = ["--username=cohabit", f"--pwfile={folder / 'password'}", "--auth=scram-sha-256", "--no-sync"]
    command = [
        *_as_nobody(),
        str(programs / "initdb"),
        "-D",
        str(folder / "data"),
        *words,
        "--locale=C",
        "--encoding=UTF8",
    ]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@contextmanager
def _running(folder: Path, programs: Path, port: int) -> Iterator[None]:
    settings = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
    server = [*_as_nobody(), str(programs / "postgres"), "-D", str(folder / "data"), "-p", str(port), *settings]
    guard = [sys.executable, "-I", "-S", str(supervise.__file__), str(os.getpid()), str(STOP_LIMIT_S)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*guard, *server], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield
    finally:
        pid = folder / "data" / "postmaster.pid"
        if pid.exists() and process.poll() is None:
            os.kill(int(pid.read_text().split()[0]), signal.SIGINT)  # "fast": ends what clients left open
        else:
            process.terminate()
        process.wait(2 * STOP_LIMIT_S)


def _as_nobody() -> list[str]:
    """PostgreSQL refuses to run as root; it dies with its guard also after it has become somebody else."""
    if os.geteuid() != 0:
        return []
    user = _unprivileged()
    who = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return ["setpriv", *who, "--pdeathsig=KILL", "--"]


def _unprivileged() -> pwd.struct_passwd:
    there = {user.pw_name: user for user in pwd.getpwall()}
    return next(there[name] for name in UNPRIVILEGED if name in there)


def _await_answer(address: str, folder: Path) -> None:
    deadline = monotonic() + START_LIMIT_S
    while True:
        try:
            psycopg.connect(address, connect_timeout=2).close()
        except psycopg.OperationalError as error:
            if monotonic() > deadline:
                message = f"PostgreSQL did not answer: {error}; {(folder / 'log').read_text()[-1000:]}"
                raise RuntimeError(message) from error
            sleep(0.05)
        else:
            return


def dropped(database: str) -> None:
    """An address that a call gave is one of nothing from here on; each empty database takes 8 MB."""
    address, _, name = database.rpartition("/")
    with closing(psycopg.connect(f"{address}/postgres", autocommit=True)) as connection:
        connection.execute(psycopg.sql.SQL("DROP DATABASE {} WITH (FORCE)").format(psycopg.sql.Identifier(name)))


def _new_database(address: str, name: str, like: str) -> str:
    names = (psycopg.sql.Identifier(one) for one in (name, like.rpartition("/")[2]))
    with closing(psycopg.connect(f"{address}/postgres", autocommit=True)) as connection:
        files = " STRATEGY FILE_COPY" * (connection.info.server_version >= 150_000)  # older ones know no other way
        connection.execute(psycopg.sql.SQL("CREATE DATABASE {} TEMPLATE {}" + files).format(*names))
    return f"{address}/{name}"
