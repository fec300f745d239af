"""Reloading: taking up what the refresher, the trainer and the process of the table publish, once a second. An edge."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import structlog

from advisor.placement.prioritizer import Prioritizer
from cohabit.config.malloc_trim import GivingBack

log = structlog.get_logger(__name__)

RELOAD_EVERY_S, LOOK_S = 1.0, 0.1


async def keep_fresh(prioritizer: Prioritizer, each_time: Callable[[], None], every_s: float = RELOAD_EVERY_S) -> None:
    """Take up what is newer, again and again; a failure leaves what was loaded.

    One thread does it all, since each that ever opens a bundle holds some tenths of a megabyte for good; it also gives
    back what is free, in between.

    Args:
        prioritizer: answers from what is taken up.
        each_time: called before, in that thread.
        every_s: seconds in between.
    """
    thread, giving_back = ThreadPoolExecutor(1, "reload"), GivingBack()
    in_thread = partial(asyncio.get_running_loop().run_in_executor, thread)

    async def reload() -> None:
        await in_thread(prioritizer.serving.reload)
        newer, arrived = await in_thread(lambda: (prioritizer.newer(), prioritizer.arrived()))
        prioritizer.take(newer, arrived)

    try:
        while True:
            # apart: where no process can be started, or nothing be written, what can be read is still taken up
            for step in (partial(in_thread, each_time), reload, partial(in_thread, giving_back)):
                [failed] = await asyncio.gather(step(), return_exceptions=True)
                if failed is not None:
                    log.error("reload failed; what was loaded stays", error=repr(failed))
            await _until_due(prioritizer, every_s)
    finally:
        thread.shutdown(wait=False, cancel_futures=True)


async def _until_due(prioritizer: Prioritizer, every_s: float) -> None:
    """Wait until the next reload: less long where a newer table is known to be there."""
    left_s = every_s
    while left_s > 0:
        await asyncio.sleep(min(left_s, LOOK_S))
        left_s -= LOOK_S
        if prioritizer.is_behind():
            return
