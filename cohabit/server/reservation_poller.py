"""Reservation poller: reads reservations from the database once a second, in a thread. An edge.

A thread of its own: a database that hangs holds up neither answers nor reloading. While it does not answer, the
reservations read last hold until they expire.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from advisor.cluster.gang_slots import GangSlot
from advisor.errors import BadStoreUrl, StoreAhead, StoreOutdated, StoreUnavailable
from advisor.placement.reservation_match import Reservation

if TYPE_CHECKING:
    from sqlalchemy import Engine

log = structlog.get_logger(__name__)

EVERY_S, STOP_S = 1.0, 1.0


def _not_taken(_slots: Sequence[GangSlot], /) -> None:
    """No one reads slots of gangs."""


@dataclass
class ReservationPoller:
    """Reads the open reservations of a cluster again and again, until it is closed.

    Args:
        address: of the store, as `advisor.database.engine.open_store` takes it; empty for none.
        cluster: whose; empty while that is not known.
        now_us: the clock.
        take: called with all open reservations when they have changed.
        metrics: where is counted how that goes.
        take_slots: called with all slots that wait for members of gangs when they have changed.
    """

    address: str
    cluster: Callable[[], str]
    now_us: Callable[[], int]
    take: Callable[[Sequence[Reservation]], None]
    metrics: CollectorRegistry
    take_slots: Callable[[Sequence[GangSlot]], None] = _not_taken
    _ended: Event = field(default_factory=Event, init=False)
    _known: list[Reservation] = field(default_factory=list, init=False)
    _slots: list[GangSlot] = field(default_factory=list, init=False)
    _checked: bool = field(default=False, init=False)
    """Whether the store was found to be of our version since it last was not."""
    _problem: str = field(default="", init=False)
    _read_us: int = field(init=False)

    def __post_init__(self) -> None:
        name, what = "cohabit_reservation_reads_failed", "Reads of reservations that the database did not answer."
        self._failures = Counter(name, what, registry=self.metrics)
        self._read_us = self.now_us()
        age = Gauge("cohabit_reservations_age_seconds", "Seconds since reservations were read.", registry=self.metrics)
        age.set_function(lambda: (self.now_us() - self._read_us) / 1e6)
        self._thread = Thread(target=self._run, name="cohabit-reservations", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Read no more."""
        self._ended.set()
        self._thread.join(STOP_S)

    def _run(self) -> None:
        while not self._is_there():
            self._read_us = self.now_us()
            if self._ended.wait(EVERY_S):
                return
        from advisor.database.engine import open_store  # many never have a store: a process without is smaller

        try:
            with open_store(self.address) as engine:
                while not self._ended.is_set():
                    self._read(engine)
                    self._ended.wait(EVERY_S)
        except BadStoreUrl as error:
            self._fail(str(error))

    def _is_there(self) -> bool:
        return "://" in self.address or (bool(self.address) and Path(self.address).is_file())

    def _read(self, engine: "Engine") -> None:
        """Once; what fails leaves the reservations that were read last."""
        from sqlalchemy.exc import SQLAlchemyError

        try:
            reservations, slots = self._open_ones(engine)
        except StoreOutdated:
            reservations, slots, self._checked = [], [], False
        except (StoreAhead, StoreUnavailable, SQLAlchemyError) as error:
            self._fail(str(error))
            return
        self._problem, self._read_us = "", self.now_us()
        if reservations != self._known:
            self._known = reservations
            self.take(reservations)
        if slots != self._slots:
            self._slots = slots
            self.take_slots(slots)

    def _open_ones(self, engine: "Engine") -> tuple[list[Reservation], list[GangSlot]]:
        from advisor.database.engine import check
        from advisor.gangs.gang_store import open_slots
        from advisor.placement.reservation_store import open_reservations

        if not self._checked:
            check(engine)
            self._checked = True
        cluster = self.cluster()
        if not cluster:
            return [], []
        return open_reservations(engine, cluster, self.now_us()), open_slots(engine, cluster, self.now_us())

    def _fail(self, problem: str) -> None:
        self._failures.inc()
        self._checked = False
        if problem != self._problem:
            log.warning("reservations cannot be read; those known hold until they expire", problem=problem)
        self._problem = problem
