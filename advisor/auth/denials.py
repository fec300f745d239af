"""Refusals: every one is counted, and written down unless a minute has had its rows. An edge."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from anyio import to_thread
from prometheus_client import CollectorRegistry, Counter
from sqlalchemy import Engine

from advisor.auth.audit_log import Entry, add
from advisor.auth.authenticator import Refusal
from advisor.database.engine import writing
from advisor.errors import StoreUnavailable

log = structlog.get_logger(__name__)

WRITTEN_A_MINUTE = 20
"""Of known callers, and as many again of unknown ones, so that strangers cannot crowd out the others."""
COUNTED = (429, 503)
"""Statuses without rows: the store may be unavailable, and frequent requests would fill it."""
MINUTE_US = 60 * 10**6
OURSELVES = "cohabit serve"


@dataclass
class Refusals:
    """Of one listener; used on its event loop alone.

    Args:
        store: where the audit is.
        now_us: the clock.
        metrics: where all are counted.
        new_id: names a refusal, in the reply and in the audit alike.
    """

    store: Engine
    now_us: Callable[[], int]
    metrics: CollectorRegistry
    new_id: Callable[[], str]
    _written_us: dict[bool, deque[int]] = field(default_factory=lambda: {True: deque(), False: deque()}, init=False)
    _left_out: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.counted = Counter(
            "cohabit_requests_rejected", "Requests without access, by HTTP status.", ["status"], registry=self.metrics
        )

    async def record(self, refusal: Refusal, *, subject: str, address: str) -> str:
        """Count one and write it down, if there is room.

        Args:
            refusal: why.
            subject: what was asked for, in words of ours.
            address: from where.

        Returns:
            Its id.
        """
        self.counted.labels(str(refusal.status)).inc()
        request_id, now_us = self.new_id(), self.now_us()
        if refusal.status in COUNTED or not self._room(refusal.caller is not None, now_us):
            self._left_out += 1
            return request_id
        caller = refusal.caller
        who, role = (f"from {address}", "") if caller is None else (caller.name, ",".join(sorted(caller.roles)))
        outcome = f"{refusal.status} {refusal.why}"
        await self._write(Entry(now_us, who, role, "request", subject, outcome, request_id))
        return request_id

    def _room(self, known: bool, now_us: int) -> bool:  # noqa: FBT001  (a key)
        written = self._written_us[known]
        while written and not 0 <= now_us - written[0] < MINUTE_US:
            written.popleft()
        if len(written) >= WRITTEN_A_MINUTE:
            return False
        written.append(now_us)
        return True

    async def _write(self, entry: Entry) -> None:
        """Write a row, and before it how many have none."""
        left_out, self._left_out = self._left_out, 0
        outcome = f"{left_out} earlier refusals have no row of their own"
        before = [Entry(entry.at_us, OURSELVES, "", "request", "", outcome, "")] if left_out else []
        try:
            await to_thread.run_sync(_add_all, self.store, [*before, entry])
        except StoreUnavailable as error:
            self._left_out += left_out + 1
            log.warning("cannot write a refusal to the audit log", error=str(error), request_id=entry.request_id)


def _add_all(store: Engine, rows: list[Entry]) -> None:
    with writing(store) as connection:
        for row in rows:
            add(connection, row)
