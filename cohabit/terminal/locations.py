"""What every command needs: the lake that is meant, topics, and an event that signals set."""

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Thread

from cohabit.config.errors import CohabitError, NoLake
from cohabit.config.settings import Settings
from cohabit.terminal.console import console
from features.schema.tables import TABLES
from ingest.kafka_io.stream_files import topics_in
from ingest.lake.stores import is_bucket, store_of
from ingest.lake.tables import Lake
from ingest.schema.topics import NODE_USAGE, NODES, PLACEMENTS, SAMPLES, USAGE
from models.bundle.signing import signer_of, trust_of
from models.registry.registry import Registry

TOPICS = (NODES.name, PLACEMENTS.name, USAGE.name, SAMPLES.name, NODE_USAGE.name)
"""What is landed, in this order where it matters."""


def open_lake(settings: Settings, lake: str | None) -> Lake:
    """The lake an option or the settings name."""
    return Lake.open(settings.lake if lake is None else lake, TABLES)


def existing_lake(settings: Settings, lake: str | None, *, reads: bool = False) -> Lake:
    """As open_lake, but of a lake that is there; who only `reads` need not be allowed to write there.

    Raises:
        NoLake: it is not.
    """
    named = lake if lake is not None else settings.lake
    if not named or not store_of(named).is_there():
        raise NoLake(named)
    return Lake.to_read(named, TABLES) if reads else open_lake(settings, named)


def lake_to_read(settings: Settings, lake: str | None) -> Lake:
    """As open_lake, for a job that only reads: its credentials need not allow it to write to a bucket."""
    named = settings.lake if lake is None else lake
    return Lake.to_read(named, TABLES) if is_bucket(store_of(named).uri) else open_lake(settings, lake)


def stream_in(folder: Path, topics: tuple[str, ...] = TOPICS) -> Path:
    """The folder, which holds at least one of the topics.

    Raises:
        CohabitError: it does not.
    """
    if not set(topics) & set(topics_in(folder)):
        names = ", ".join(f"{topic}.log" for topic in topics)
        raise CohabitError(
            f"{folder} contains none of {names}: create a stream with `cohabit dev simulate {folder}`, or write a "
            "topic to such a file with kafka-console-consumer"
        )
    if others := sorted(set(topics_in(folder)) - set(topics)):
        console.print(
            f"left out, not topics of Cohabit: {', '.join(others)} (there are {', '.join(topics)}; name others' with "
            "--topic NAME=FORMAT)"
        )
    return folder


def registry_of(settings: Settings, folder: Path | None = None) -> Registry:
    """The registry that an option or the settings name, with whose bundles are believed.

    Raises:
        ModelsError: a file of COHABIT_SIGNING__TRUSTED_KEYS holds no key.
    """
    return Registry(folder or settings.registry, trust_of(settings.signing.trusted_keys))


def signer_in(settings: Settings) -> Callable[[bytes], bytes] | None:
    """Signs bundles; None where the settings name no key.

    Raises:
        ModelsError: the file holds no key.
    """
    return None if settings.signing.key is None else signer_of(settings.signing.key)


def stop_on_signals() -> Event:
    """An event that SIGINT and SIGTERM set: in a thread, as the one that the signal breaks into may hold its lock."""
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: Thread(target=stop.set).start())
    return stop


def stream_exists(folder: Path, topics: Sequence[str]) -> CohabitError:
    """The output folder of a stream already contains one."""
    return CohabitError(
        f"{folder} already contains {', '.join(f'{topic}.log' for topic in topics)}: name another folder, or remove "
        "those files; runs are never appended"
    )
