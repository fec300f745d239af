"""Reloading: what fails beside it keeps nothing from being taken up, and one thread does all of it."""

import asyncio
from pathlib import Path
from threading import get_ident
from time import sleep
from typing import ClassVar

from prometheus_client import CollectorRegistry

from advisor.placement.model_state import Serving
from advisor.placement.prioritizer import Prioritizer
from cohabit.server.reload import keep_fresh
from models.registry.registry import Registry
from tests.advisor.collecting import full_collections
from tests.advisor.running import fill


def test_a_snapshot_is_taken_up_where_counts_cannot_be_written(tmp_path: Path) -> None:
    serving = Serving(tmp_path / "snapshots", Registry(tmp_path / "registry"), 1e9, lambda: 0, CollectorRegistry())
    fill(tmp_path)

    def full() -> None:
        raise OSError("no space left on device")

    async def run() -> None:
        fresh = asyncio.create_task(keep_fresh(Prioritizer(serving), full))
        async with asyncio.timeout(30):
            while serving.scorer is None:
                await asyncio.sleep(0.01)
        fresh.cancel()

    asyncio.run(run())


class Watched(Registry):
    """Notes which thread asks it."""

    asked_by: ClassVar[list[int]] = []

    def current(self) -> Path | None:
        self.asked_by.append(get_ident())
        return super().current()


def test_one_thread_takes_up_everything_and_gives_back_what_is_free_in_between(tmp_path: Path) -> None:
    """Each thread that opens a bundle holds some memory for good: with several, a server grows until all have."""
    fill(tmp_path)
    registry = Watched(tmp_path / "registry")
    serving = Serving(tmp_path / "snapshots", registry, 1e9, lambda: 0, CollectorRegistry())
    prepared_by: list[int] = []

    async def run() -> None:
        fresh = asyncio.create_task(keep_fresh(Prioritizer(serving), lambda: prepared_by.append(get_ident()), 0.0))
        async with asyncio.timeout(30):
            while len(prepared_by) < 50:
                await asyncio.gather(*(asyncio.to_thread(sleep, 0.001) for _ in range(4)))
        fresh.cancel()

    with full_collections() as collected_by:
        asyncio.run(run())
    assert len(collected_by) == 1, "what is free is given back once, in so short a time"
    assert len({*prepared_by, *registry.asked_by, *collected_by}) == 1
    assert get_ident() not in registry.asked_by
