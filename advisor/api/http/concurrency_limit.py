"""Concurrency limit: few costly requests run at a time; one that would wait too long is rejected at once."""

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from prometheus_client import Counter
from starlette.requests import Request

from advisor.errors import TooBusy, Unavailable

T = TypeVar("T")


class ConcurrencyLimit:
    """For one kind of work, on one event loop.

    Args:
        at_once: how many work at a time, each in a thread.
        waiting: how many more wait for their turn.
        turned_away: counts those beyond.
    """

    def __init__(self, at_once: int, waiting: int, turned_away: Counter) -> None:
        self.waiting, self.turned_away = waiting, turned_away
        self._turns, self._threads = CapacityLimiter(at_once), CapacityLimiter(at_once)

    async def run(self, request: Request, work: Callable[[], T]) -> T:
        """Do the work when its turn comes.

        Raises:
            TooBusy: too many wait already.
            Unavailable: the client has disconnected meanwhile.
        """
        if self._turns.available_tokens <= 0 and self._turns.statistics().tasks_waiting >= self.waiting:
            self.turned_away.inc()
            raise TooBusy
        async with self._turns:
            if await request.is_disconnected():
                raise Unavailable("the client has disconnected")
            return await to_thread.run_sync(work, limiter=self._threads)
