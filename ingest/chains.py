"""Chains: one unbroken row of links per partition of a topic, each created by exactly one writer. An edge.

Links never change, so what was read is remembered; reading again follows the chain from where it ended before, and for
the first time from where a checkpoint ends.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ingest.atomic import create_exclusively
from ingest.checkpoints import ChainState
from ingest.decode.unknown import bounded_counts
from ingest.errors import BrokenChain, DamagedLake, LinkTaken
from ingest.lake_layout import DataFile, Layout, LinkFacts
from ingest.origin import Link


@dataclass(slots=True)
class _Known:
    """What was read of one chain."""

    end: int = 0
    files: dict[str, list[DataFile]] = field(default_factory=lambda: defaultdict(list))
    unknown_fields: Counter[str] = field(default_factory=Counter)

    def add(self, end: int, files: Sequence[DataFile], unknown_fields: Mapping[str, int]) -> None:
        self.end = end
        self.unknown_fields.update(unknown_fields)
        for file in files:
            self.files[file.table].append(file)


@dataclass(slots=True)
class Chains:
    """All chains of one lake.

    Args:
        layout: where things lie.
        base: what a checkpoint says of them, by topic and partition.
        ends: where they are known to end.
    """

    layout: Layout
    base: Mapping[tuple[str, int], ChainState] = field(default_factory=dict)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    _known: dict[tuple[str, int], _Known] = field(default_factory=dict)

    def partitions(self) -> list[tuple[str, int]]:
        """Every (topic, partition) that has a chain."""
        return self.layout.partitions()

    def links(self, topic: str, partition: int) -> Iterator[tuple[Link, LinkFacts]]:
        """Every link of a partition in order, read anew.

        Raises:
            DamagedLake: a link is missing or cannot be read.
        """
        newest = self._newest_start(topic, partition)
        end = 0
        while (facts := self._facts(topic, partition, end)) and facts.end > end:
            yield Link(topic, partition, end, facts.end), facts
            end = facts.end
        self._refuse_hole(topic, partition, end, newest)

    def state(self, topic: str, partition: int) -> ChainState:
        """What all links of a partition come to.

        Raises:
            DamagedLake: a link is missing or cannot be read.
        """
        newest = self._newest_end(topic, partition) or 0
        known = self._follow(topic, partition)
        self._refuse_hole(topic, partition, known.end, newest - 1)
        files = tuple(file for table in sorted(known.files) for file in known.files[table])
        return ChainState(topic, partition, known.end, files, bounded_counts(known.unknown_fields))

    def unknown_fields(self) -> Counter[str]:
        """How often each field outside the catalogue was seen, in all chains."""
        seen: Counter[str] = Counter()
        for place in self.partitions():
            seen.update(bounded_counts(self._follow(*place).unknown_fields))
        return seen

    def files(self, table: str) -> list[DataFile]:
        """Every file of a table that a link names, whatever became of it since."""
        return [file for place in self.partitions() for file in self._follow(*place).files.get(table, ())]

    def end(self, topic: str, partition: int) -> int | None:
        """Where a chain ends; None where there is none. Reads no more than the newest links."""
        end = self.ends.get((topic, partition))
        if end is None and (end := self._newest_end(topic, partition)) is None:
            return None
        while (facts := self._facts(topic, partition, end)) and facts.end > end:
            end = facts.end
        self.ends[topic, partition] = end
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
            LinkTaken: somebody landed this start.
            BrokenChain: the chain does not end at this start.
        """
        end = self.end(link.topic, link.partition) or 0
        if end > link.start:
            raise LinkTaken(link.topic, link.partition, link.start)
        if end < link.start:
            raise BrokenChain(link.topic, link.partition, link.start, end)
        facts = LinkFacts(link.end, kind, tuple(files), dict(unknown_fields))
        if not create_exclusively(self.layout.link(link.topic, link.partition, link.start), facts.written()):
            raise LinkTaken(link.topic, link.partition, link.start)

    def _follow(self, topic: str, partition: int) -> _Known:
        known = self._known.setdefault((topic, partition), _Known())
        if known.end == 0:
            self._begin(topic, partition, known)
        self._extend(topic, partition, known)
        return known

    def _begin(self, topic: str, partition: int, known: _Known) -> None:
        """Start where the checkpoint ends; without one, see that nothing is missing between here and the newest."""
        if base := self.base.get((topic, partition)):
            known.add(base.end, base.files, base.unknown_fields)
            return
        newest = self._newest_start(topic, partition)
        self._extend(topic, partition, known)
        self._refuse_hole(topic, partition, known.end, newest)

    def _extend(self, topic: str, partition: int, known: _Known) -> None:
        while (facts := self._facts(topic, partition, known.end)) and facts.end > known.end:
            known.add(facts.end, facts.files, facts.unknown_fields)

    def _refuse_hole(self, topic: str, partition: int, end: int, newest: int | None) -> None:
        """Refuse a chain that ends before its newest link starts."""
        if newest is not None and end <= newest:
            raise DamagedLake(self.layout.link(topic, partition, end), "this link of the chain is missing")

    def _newest_end(self, topic: str, partition: int) -> int | None:
        """Where the newest link ends, by the names of all; None where there is none.

        Raises:
            DamagedLake: it ends before a checkpoint does: links that were there are gone.
        """
        newest, base = self._newest_start(topic, partition), self.base.get((topic, partition))
        facts = None if newest is None else self._facts(topic, partition, newest)
        end = facts.end if facts else None
        if base and (end is None or end < base.end):
            path = self.layout.link(topic, partition, end or 0)
            raise DamagedLake(path, f"it is missing, and a checkpoint knows of links up to {base.end}")
        return end

    def _newest_start(self, topic: str, partition: int) -> int | None:
        return max(self.layout.starts(topic, partition), default=None)

    def _facts(self, topic: str, partition: int, start: int) -> LinkFacts | None:
        path = self.layout.link(topic, partition, start)
        try:
            return LinkFacts.parse(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise DamagedLake(path, repr(error)) from error
