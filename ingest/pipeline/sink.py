"""Where landed batches go, and the only place that knows how far a stream was read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ingest.lake.tables import Lake
from ingest.pipeline.transform import Landing
from ingest.schema.provenance import Link
from ingest.schema.tables import DEAD_LETTERS

Position = Callable[[str, int], int | None]
"""Where the chain of (topic, partition) ends, hence the next offset to read; None where nothing was ever landed."""


class Sink(Protocol):
    """Keeps batches in one unbroken chain per partition; two consumers cannot both land the same stretch."""

    def position(self, topic: str, partition: int) -> int | None:
        """The next offset to read; None where nothing was ever landed."""

    def write(self, landing: Landing) -> None:
        """Land a batch, all of it or nothing; raises LinkTaken when another writer was quicker."""

    def write_gap(self, link: Link) -> None:
        """Record that the stretch is lost; raises LinkTaken when another writer was quicker."""


@dataclass(frozen=True, slots=True)
class LakeSink:
    """Lands in a lake: table files first, the link that makes them count last."""

    lake: Lake

    def position(self, topic: str, partition: int) -> int | None:
        """The end of the partition's chain."""
        return self.lake.position(topic, partition)

    def write(self, landing: Landing) -> None:
        """Write rows and dead letters, then the link; without the link they are orphans that no reader sees."""
        rows = self.lake.append(landing.table, landing.rows, landing.link)
        letters = self.lake.append(DEAD_LETTERS.name, landing.dead_letters, landing.link)
        self.lake.commit(landing.link, (*rows, *letters), unknown_fields=landing.unknown_fields)

    def write_gap(self, link: Link) -> None:
        """Write the link of a lost stretch; it names no files."""
        self.lake.commit(link, (), kind="gap")
