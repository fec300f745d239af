"""Reloading: what fails beside it keeps nothing from being taken up."""

import asyncio
from pathlib import Path

from prometheus_client import CollectorRegistry
from running import fill

from advisor.prioritizing import Prioritizer
from advisor.serving import Serving
from cohabit.reloading import keep_fresh
from models.registry import Registry


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
