"""Where messages go: to Kafka, or into stream files. An edge."""

from collections import defaultdict
from pathlib import Path
from typing import Protocol

from ingest.kafka_io.stream_files import Message, TopicWriter

HELD = 1000
"""Messages of a topic that are written to its file at once."""


class Outlet(Protocol):
    """Takes messages; `ingest.kafka_io.replay.Sender` is one."""

    def send(self, topic: str, message: Message) -> None:
        """Queue a message."""

    def flush(self) -> None:
        """Wait until every message is safe."""


class FileOutlet:
    """Writes messages to `<topic>.log` files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: defaultdict[str, list[Message]] = defaultdict(list)

    def send(self, topic: str, message: Message) -> None:
        """Hold a message until there are enough to write."""
        self._held[topic].append(message)
        if len(self._held[topic]) >= HELD:
            self._write(topic)

    def flush(self) -> None:
        """Write what is held."""
        for topic in list(self._held):
            self._write(topic)

    def _write(self, topic: str) -> None:
        TopicWriter(self._folder, topic).write(self._held.pop(topic))
