"""Links as they lie in a lake: each says which stretch of a partition was landed, and is never changed. An edge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ingest.lake.checkpoints import Found, is_newest, newest_checkpoint
from ingest.lake.layout import DataFile, Layout, LinkFacts
from ingest.schema.atomic_file import create_exclusively
from ingest.schema.errors import DamagedLake, IngestError, LinkTaken
from ingest.schema.provenance import Link


def link_facts(layout: Layout, topic: str, partition: int, start: int) -> LinkFacts | None:
    """What the link of a start says; None where there is none.

    Raises:
        DamagedLake: it cannot be read.
    """
    path = layout.link(topic, partition, start)
    try:
        return LinkFacts.parse(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DamagedLake(path, repr(error)) from error


def newest_start(layout: Layout, topic: str, partition: int) -> int | None:
    """Where the newest link of a chain starts, by the names of all; None where there is none."""
    return max(layout.starts(topic, partition), default=None)


def newest_end(layout: Layout, topic: str, partition: int, checkpointed: int) -> int | None:
    """Where the newest link of a chain ends; None where there is none.

    Args:
        layout: where things lie.
        topic: whose chain.
        partition: whose chain.
        checkpointed: where it ends by a checkpoint; 0 where none knows of it.

    Raises:
        DamagedLake: it ends before a checkpoint does: links that were there are gone.
    """
    newest = newest_start(layout, topic, partition)
    facts = None if newest is None else link_facts(layout, topic, partition, newest)
    end = facts.end if facts else None
    if (end or 0) < checkpointed:
        path = layout.link(topic, partition, end or 0)
        raise DamagedLake(path, f"it is missing, and a checkpoint knows of links up to {checkpointed}")
    return end


@dataclass(slots=True)
class Ends:
    """Where the chains of one lake end.

    Args:
        layout: where things lie.
    """

    layout: Layout
    _known: dict[tuple[str, int], int] = field(default_factory=dict)
    _found: Found | None = None
    _checkpointed: dict[tuple[str, int], int] = field(default_factory=dict)

    def end(self, topic: str, partition: int) -> int | None:
        """Where a chain ends; None where there is none. Reads no more than the newest links.

        Raises:
            DamagedLake: a link cannot be read, or it ends before a checkpoint does.
        """
        end = self._known.get((topic, partition))
        if end is None and (end := self._newest(topic, partition)) is None:
            return None
        while (facts := link_facts(self.layout, topic, partition, end)) and facts.end > end:
            end = facts.end
        self._known[topic, partition] = end
        return end

    def commit(
        self,
        link: Link,
        files: Sequence[DataFile],
        *,
        kind: Literal["batch", "gap"],
        unknown_fields: Mapping[str, int],
    ) -> None:
        """Add a link at the end of its chain.

        Raises:
            LinkTaken: another writer landed this start.
            IngestError: the chain does not end at this start.
        """
        end = self.end(link.topic, link.partition) or 0
        if end > link.start:
            raise LinkTaken(link.topic, link.partition, link.start)
        if end < link.start:
            raise IngestError(
                f"{link.topic}[{link.partition}]: a batch from {link.start} cannot follow a chain that ends at {end}; "
                "seek to the chain's end, or land a gap when the broker no longer holds those records"
            )
        facts = LinkFacts(link.end, kind, tuple(files), dict(unknown_fields))
        if not create_exclusively(self.layout.link(link.topic, link.partition, link.start), facts.written()):
            raise LinkTaken(link.topic, link.partition, link.start)

    def _newest(self, topic: str, partition: int) -> int | None:
        if self._found is None or not is_newest(self.layout, self._found):
            found = newest_checkpoint(self.layout)
            chains = found.content.chains if found.content else ()
            self._checkpointed = {(one.topic, one.partition): one.end for one in chains}
            self._found = replace(found, content=None)  # last: another thread that sees it takes those as its ends
        return newest_end(self.layout, topic, partition, self._checkpointed.get((topic, partition), 0))
