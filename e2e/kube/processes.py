"""Processes: programs that end with the test, however it ends. An edge."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from e2e.kube.errors import Ended
from ingest.devkafka import child_process as supervise

HOST = "127.0.0.1"
READY_S, GRACE_S = 60.0, 2.0


@dataclass(frozen=True)
class Running:
    """A program under guard; killing the guard kills it."""

    name: str
    guard: "subprocess.Popen[bytes]"
    log: Path

    def until(self, holds: Callable[[], bool], limit_s: float = READY_S) -> None:
        """Wait until something holds.

        Raises:
            Ended: the program ended, or it took longer.
        """
        deadline = monotonic() + limit_s
        while not holds():
            if self.guard.poll() is not None or monotonic() > deadline:
                raise Ended(self.name, self.log, limit_s)
            sleep(0.05)

    def kill(self) -> None:
        """SIGKILL, without any warning to the program."""
        self.guard.kill()
        self.guard.wait()


@contextmanager
def running(command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None) -> Iterator[Running]:
    """A program, its output in a file, ended with the block."""
    guard = [sys.executable, "-I", "-S", str(supervise.__file__), str(os.getpid()), str(GRACE_S)]
    with (
        log.open("ab") as out,
        subprocess.Popen([*guard, *map(str, command)], stdout=out, stderr=subprocess.STDOUT, env=env) as process,
    ):
        try:
            yield Running(log.stem, process, log)
        finally:
            process.terminate()


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [int(one.getsockname()[1]) for one in sockets]


def answers(port: int) -> bool:
    """Whether somebody listens."""
    with socket.socket() as one:
        return one.connect_ex((HOST, port)) == 0
