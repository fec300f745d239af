"""Files as a source: every topic of a folder, read line by line from the sink's position. An edge."""

from collections.abc import Sequence
from pathlib import Path

import structlog

from ingest.kafka_io.stream_files import TopicReader
from ingest.pipeline.plausibility import Capacities
from ingest.pipeline.sink import Position
from ingest.pipeline.transform import DEFAULT_CLUSTER, with_nodes
from ingest.schema.batch import Backlog, Gap, MessageBatch
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import NODES

MAX_RECORDS = 20_000
MAX_BYTES = 32 << 20

log = structlog.get_logger(__name__)


class FileSource:
    """Reads `<topic>.log` files of one folder. Close it when done."""

    pause_s = 0.5

    def __init__(self, folder: Path, topics: Sequence[str], position: Position) -> None:
        self._position = position
        self._readers = {topic: TopicReader(folder, topic) for topic in topics}
        self._stops = False
        self._idle = False
        for topic in topics:
            self.rewind(topic, 0)

    def stop_at_end(self) -> None:
        """Finish once a look at every file brought nothing new."""
        self._stops = True

    def poll(self) -> Sequence[MessageBatch | Gap]:
        """The next lines of each file."""
        read = [reader.read(MAX_RECORDS, MAX_BYTES) for reader in self._readers.values()]
        batches = [batch for batch in read if batch is not None]
        self._idle = not batches
        return batches

    def rewind(self, topic: str, partition: int) -> None:
        """Count lines up to the sink's position."""
        self._idle = False
        self._readers[topic].seek(self._position(topic, partition) or 0)

    def landed(self, _range: OffsetRange, /) -> None:
        """Files have no broker to notify."""

    def backlog(self) -> Sequence[Backlog]:
        """What is left of a file is not counted."""
        return ()

    def finished(self) -> bool:
        """Whether the files are read, if that is when to stop."""
        return self._stops and self._idle

    def close(self) -> None:
        """Close the files, and say which ends in the middle of a line."""
        for topic, reader in self._readers.items():
            if reader.unfinished():
                log.warning("the last line has no end yet and was not read", topic=topic, line=reader.line + 1)
            reader.close()


class FileCapacities:
    """Reads a folder's `nodes.log`, and whatever is added to it; ask it before every batch. Close it when done."""

    def __init__(self, folder: Path, topic: str = NODES.name, *, cluster: str = DEFAULT_CLUSTER) -> None:
        self._cluster = cluster
        self._known = Capacities()
        self._reader = TopicReader(folder, topic)

    def __call__(self) -> Capacities:
        """What is known by now."""
        while batch := self._reader.read(MAX_RECORDS, MAX_BYTES):
            self._known = with_nodes(self._known, batch, self._cluster)
        return self._known

    def close(self) -> None:
        """Close the file."""
        self._reader.close()
