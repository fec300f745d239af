"""What every command needs: the lake that is meant, topics, and an event that signals set."""

import signal
from threading import Event

from cohabit.settings import Settings
from features.tables import TABLES
from ingest.lake import Lake
from ingest.topics import NODES, PLACEMENTS, USAGE

TOPICS = (NODES.name, PLACEMENTS.name, USAGE.name)
"""What is landed, in this order where it matters."""


def open_lake(settings: Settings, lake: str | None) -> Lake:
    """The lake an option or the settings name."""
    return Lake.open(lake or settings.lake, TABLES)


def stop_on_signals() -> Event:
    """An event that SIGINT and SIGTERM set."""
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop
