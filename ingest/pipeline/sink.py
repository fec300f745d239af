"""Where landed batches go, and the only place that knows how far a stream was read."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

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

    def check_topic(self, topic: str, found: str) -> None:
        """Compare a topic's id with the one whose records were written; raises IngestError when it is another."""

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
        return self.lake.position(self.lake.topic_ids.origin(topic), partition)

    def check_topic(self, topic: str, found: str) -> None:
        """Compare a topic's id with the lake's."""
        self.lake.topic_ids.check(topic, found)

    def write(self, landing: Landing) -> None:
        """Write rows and dead letters, then the link; without the link they are orphans that no reader sees."""
        link, rows, letters = self._committed(landing.link), landing.rows, landing.dead_letters
        if link != landing.link:
            rows, letters = _of(link, rows), _of(link, letters)
        files = self.lake.append(landing.table, rows, link)
        files += self.lake.append(DEAD_LETTERS.name, letters, link)
        self.lake.commit(link, files, unknown_fields=landing.unknown_fields)

    def write_gap(self, link: Link) -> None:
        """Write the link of a lost stretch; it names no files."""
        self.lake.commit(self._committed(link), (), kind="gap")

    def _committed(self, link: Link) -> Link:
        """The stretch under the name that its topic has in the lake."""
        return replace(link, topic=self.lake.topic_ids.origin(link.topic))


def _of(link: Link, rows: pa.Table) -> pa.Table:
    """Rows that carry the topic's name in the lake."""
    topic = pa.array([link.topic] * rows.num_rows, pa.string())
    return rows.set_column(rows.schema.get_field_index("topic"), rows.schema.field("topic"), topic)
