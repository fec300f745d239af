"""Emitters other than web servers: Redis with its exporter, node_exporter; and what burdens the node. An edge."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from time import monotonic

from e2e.kube.errors import BuildFailed, E2eError
from e2e.kube.processes import HOST, answers, free_ports, running
from e2e.stock.cgroups import Group

DEBIAN = {"redis-server": "redis-server", "prometheus-redis-exporter": "prometheus-redis-exporter"}
"""Package of each program."""
GET = b"*2\r\n$3\r\nGET\r\n$5\r\nprice\r\n"
MISSING = b"$-1\r\n"
POLICY = Path("/usr/sbin/policy-rc.d")
"""Says whether packages may start what they install."""
BUSY = "while True: pass"
STREAM = "import numpy as np\na, b = np.zeros(1 << 24), np.ones(1 << 24)\nwhile True: np.add(a, b, out=a)"
"""Through 384 MiB again and again: memory's bandwidth, on one core."""


def debian_programs() -> dict[str, str]:
    """Paths of programs that Debian packages; root installs what is missing, without starting it.

    Raises:
        BuildFailed: they cannot be installed.
    """
    if missing := [package for name, package in DEBIAN.items() if shutil.which(name) is None]:
        apt = "apt-get -q -o Acquire::Retries=3"
        script = f"{apt} update && {apt} install -y --no-install-recommends {' '.join(missing)}"
        with _nothing_started():
            done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildFailed(f"installing {' '.join(missing)} by apt-get", done.stderr[-2000:])
    return {name: str(shutil.which(name)) for name in DEBIAN}


@contextmanager
def _nothing_started() -> Iterator[None]:
    """Packages do not start what they install."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


@contextmanager
def redis(programs: dict[str, str], own: Group, folder: Path) -> Iterator[tuple[int, int]]:
    """Redis in a group, and its exporter next to it; their ports."""
    port, page = free_ports(2)
    server = own.around([programs["redis-server"], "--port", str(port), "--bind", HOST, "--save", ""])
    options = [f"--redis.addr=redis://{HOST}:{port}", f"--web.listen-address={HOST}:{page}"]
    with ExitStack() as stack:
        process = stack.enter_context(running(server, folder / "redis.log"))
        process.until(lambda: answers(port))
        exporter = [programs["prometheus-redis-exporter"], *options]
        stack.enter_context(running(exporter, folder / "redis-exporter.log")).until(lambda: answers(page))
        yield port, page


@contextmanager
def node_exporter(program: Path, own: Group, folder: Path) -> Iterator[int]:
    """The released node_exporter in a group; its port."""
    (port,) = free_ports(1)
    options = (f"--web.listen-address={HOST}:{port}", "--collector.pressure")
    with running(own.around([str(program), *options]), folder / "node-exporter.log") as process:
        process.until(lambda: answers(port))
        yield port


@contextmanager
def asking(port: int, per_s: float) -> Iterator[list[int]]:
    """Ask Redis at a fixed rate from a thread; how many answers there were, in a list of one.

    Raises:
        E2eError: an answer was another than that there is no such key.
    """
    stop, count = Event(), [0]
    wrong: list[bytes] = []

    def ask() -> None:
        with socket.create_connection((HOST, port)) as connection:
            began = monotonic()
            while not stop.wait(max(0.0, began + count[0] / per_s - monotonic())):
                connection.sendall(GET)
                if (answer := connection.recv(64)) != MISSING:
                    wrong.append(answer)
                count[0] += 1

    thread = Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield count
    finally:
        stop.set()
        thread.join()
    if wrong:
        raise E2eError(f"Redis answered {wrong[0]!r}")


@contextmanager
def burden(own: Group, python: str, core: int, program: str, log: Path) -> Iterator[None]:
    """A process that burdens a core, in a group."""
    command = ["taskset", "-c", str(core), python, "-c", program]
    single = {**os.environ, "OMP_NUM_THREADS": "1"}
    with running(own.around(command), log, single):
        yield
