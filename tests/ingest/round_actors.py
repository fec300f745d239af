"""Actors of crash rounds: processes and brokers that die, freeze and come back."""

import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic
from types import FrameType
from typing import NoReturn, Protocol

from ingest.devkafka.broker import Broker

END_LIMIT_S = 60.0
"""Longest wait for a process to end by itself."""


class Actor(Protocol):
    """Something that can die and come back."""

    @property
    def name(self) -> str:
        """What it is called in a round's story."""

    def start(self) -> None:
        """Begin."""

    def kill(self) -> None:
        """End as a power cut would."""

    def restart(self) -> None:
        """Begin again after a kill, on what it left behind."""


@dataclass(slots=True)
class Process:
    """A program as an actor: can be killed, frozen, thawed and drained."""

    name: str
    command: Sequence[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    said_before: int = 0

    def start(self, *more: str) -> None:
        with self.log.open("ab") as log, self.said.open("ab") as said:
            self.said_before = said.tell()
            self.process = subprocess.Popen([*self.command, *more], stdout=said, stderr=log)

    @property
    def said(self) -> Path:
        """What it printed."""
        return self.log.with_suffix(".out")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def restart(self) -> None:
        self.start()

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        if self.alive() and self.process is not None:
            self.process.send_signal(number)

    def drained(self) -> int:
        """Tell it to end, thawing it should it freeze itself on the way; its exit code."""
        assert self.process is not None
        self.process.terminate()
        deadline_s = monotonic() + END_LIMIT_S
        while self.alive() and monotonic() < deadline_s:
            self.send(signal.SIGCONT)
            let_run(0.05)
        return self.process.wait(0.1)

    def await_work(self, limit_s: float) -> None:
        """Wait until it has printed something since it was started, has ended, or the limit is reached."""
        deadline_s = monotonic() + limit_s
        while self.alive() and self.said.stat().st_size == self.said_before and monotonic() < deadline_s:
            let_run(0.02)

    def last_words(self) -> str:
        """Of its errors, the last line."""
        return (self.log.read_text(errors="replace").strip().splitlines() or [""])[-1]

    def await_stop(self, limit_s: float) -> None:
        """Wait until it is frozen or has ended, or the limit is reached."""
        assert self.process is not None
        deadline_s, seen = monotonic() + limit_s, None
        while seen is None and monotonic() < deadline_s:
            let_run(0.02)
            seen = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT)


@dataclass(slots=True)
class BrokerActor:
    """The broker as an actor: same folder, same ports, same records."""

    broker: Broker
    name: str = "broker"

    def start(self) -> None:
        self.broker.start()

    def kill(self) -> None:
        self.broker.kill()

    def restart(self) -> None:
        self.broker.start()


def leave_on_signals() -> None:
    """End by an exception where this process is told to end, so that it stops all that it started."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def let_run(seconds: float) -> None:
    """Wait while others work."""
    Event().wait(seconds)
