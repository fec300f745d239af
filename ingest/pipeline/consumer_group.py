"""Several consumers of one group, each a process of its own, watched over. An edge.

A member that dies is started again, later each time it dies young. On a stop, every member lands the batch at hand and
leaves the group; should this process die, they notice and do the same.
"""

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from threading import Event, Thread
from time import monotonic

import structlog

from ingest.pipeline.runner import Until

CHECK_EVERY_S = 0.2
DRAIN_S = 60.0
"""Longest a member may take to land the batch at hand."""
END_CODES = (0, -signal.SIGTERM, -signal.SIGINT)
"""Exit codes of members that were stopped: the signal may come before they are ready to take it."""

log = structlog.get_logger(__name__)
Member = Callable[[int], None]
"""What member number i does, in a process of its own; must be importable there."""


@dataclass(frozen=True, slots=True)
class Restarts:
    """When a member that died is started again.

    Args:
        first_s: pause after a death.
        max_s: longest pause; each death in a row doubles it.
        healthy_s: who lived so long starts a new row.
        tries: deaths in a row after which a member is given up while landing `until` the end.
    """

    first_s: float = 0.5
    max_s: float = 30.0
    healthy_s: float = 60.0
    tries: int = 5

    def pause_s(self, deaths: int) -> float:
        """How long to wait after so many deaths in a row."""
        return min(self.first_s * 2.0 ** (deaths - 1), self.max_s)


USUAL = Restarts()


def run_members(member: Member, count: int, stop: Event, until: Until, restarts: Restarts = USUAL) -> bool:
    """Keep `count` members going until `stop` is set, or until each has reached the end.

    Args:
        member: what each does.
        count: how many.
        stop: set it to drain them.
        until: `end` lets members that are done go; `stopped` starts them again whatever they ended with.
        restarts: when they are started again.

    Returns:
        Whether all ended well.
    """
    places = [_Place(member, number, until, restarts) for number in range(count)]
    while not stop.is_set() and not all(place.over for place in places):
        for place in places:
            place.look()
        wait([place.process.sentinel for place in places if place.process], CHECK_EVERY_S)
    return _drained(places)


class _Place:
    """One member's place: the process that fills it, and what became of those before."""

    def __init__(self, member: Member, number: int, until: Until, restarts: Restarts) -> None:
        self.process: SpawnProcess | None = None
        self.over = self.well = False
        self._member, self._number, self._until, self._restarts = member, number, until, restarts
        self._deaths, self._since_s = 0, monotonic()

    def look(self) -> None:
        """Start a process where none is and one is due; note how the present one ended."""
        if self.over:
            return
        if self.process is None and monotonic() >= self._since_s:
            self._start()
        elif self.process is not None and self.process.exitcode is not None:
            self._note_end(self.process.exitcode)

    def _start(self) -> None:
        self.process = get_context("spawn").Process(target=_run, args=(self._member, self._number))
        self.process.start()
        self._since_s = monotonic()

    def _note_end(self, code: int) -> None:
        self.process = None
        self.well = code == 0
        if code == 0 and self._until == "end":
            self.over = True
            return
        lived_s = monotonic() - self._since_s
        self._deaths = 1 if lived_s >= self._restarts.healthy_s else self._deaths + 1
        pause_s = self._restarts.pause_s(self._deaths)
        self._since_s = monotonic() + pause_s
        self.over = self._until == "end" and self._deaths >= self._restarts.tries
        log.warning("a member died", member=self._number, code=code, again_in_s=None if self.over else pause_s)


def _drained(places: Sequence[_Place]) -> bool:
    """Terminate all and wait for their end; whether all ended well."""
    left = [place.process for place in places if place.process]
    for process in left:
        process.terminate()
    deadline_s = monotonic() + DRAIN_S
    for process in left:
        process.join(max(deadline_s - monotonic(), 0))
        if process.exitcode is None:
            log.error("a member did not end in time, killed", pid=process.pid)
            process.kill()
            process.join()
    return all(p.exitcode in END_CODES for p in left) and all(place.well for place in places if place.over)


def _run(member: Member, number: int) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    member(number)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)  # to the process: raise_signal would stay in this thread
