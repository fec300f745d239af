"""The application of schedulers, which workers serve; it loads nothing of what people and tools ask for."""

from functools import partial

from fastapi import FastAPI

from advisor.api.http.application import assembled
from advisor.api.scheduler.extender import Prioritize, extender_routes
from advisor.api.scheduler.extender_filter import filter_routes
from advisor.api.scheduler.load_watcher import watcher_routes
from advisor.api.scheduler.peers import booking_routes
from advisor.api.scheduler.raw_http import Direct
from advisor.api.scheduler.volcano import volcano_routes
from advisor.placement.prioritizer import Prioritizer

MAX_SCHEDULER_BODY_BYTES = 64 << 20
"""Whole Node objects of 5,000 nodes, as sent with nodeCacheCapable: false, take about 58 MB."""


def create_scheduler_app(prioritizer: Prioritizer, *, refusing: bool = False) -> FastAPI:
    """The extender API of schedulers; `refusing` sets whether its filter rejects nodes."""
    routers = [
        extender_routes(prioritizer),
        volcano_routes(prioritizer),
        watcher_routes(prioritizer.serving),
        booking_routes(prioritizer),
        filter_routes(prioritizer, refusing=refusing),
    ]
    direct = partial(Direct, routes={"/extender/prioritize": Prioritize(prioritizer)})
    return assembled("Cohabit for schedulers", routers, max_body_bytes=MAX_SCHEDULER_BODY_BYTES, inside=(direct,))
