"""Chains: one unbroken row of links per partition of a topic, each created by exactly one writer. An edge.

Links never change, so what was read is remembered; reading again follows the chain from where it ended before.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ingest.atomic import create_exclusively
from ingest.errors import BrokenChain, DamagedLake, LinkTaken
from ingest.lake_layout import DataFile, Layout, LinkFacts
from ingest.origin import Link

Chain = Sequence[tuple[Link, LinkFacts]]


@dataclass(slots=True)
class _Known:
    """What was read of one chain."""

    end: int = 0
    links: list[tuple[Link, LinkFacts]] = field(default_factory=list)
    files: dict[str, list[DataFile]] = field(default_factory=lambda: defaultdict(list))

    def add(self, link: Link, facts: LinkFacts) -> None:
        self.end = link.end
        self.links.append((link, facts))
        for file in facts.files:
            self.files[file.table].append(file)


@dataclass(slots=True)
class Chains:
    """All chains of one lake."""

    layout: Layout
    _known: dict[tuple[str, int], _Known] = field(default_factory=dict)
    _ends: dict[tuple[str, int], int] = field(default_factory=dict)

    def partitions(self) -> list[tuple[str, int]]:
        """Every (topic, partition) that has a chain."""
        return sorted((p.parent.name, int(p.name)) for p in self.layout.links().glob("*/*") if p.is_dir())

    def links(self, topic: str, partition: int) -> Chain:
        """Every link of a partition in order.

        Raises:
            DamagedLake: a link is missing or cannot be read.
        """
        return self._follow(topic, partition).links

    def files(self, table: str) -> list[DataFile]:
        """Every file of a table that a link names, whatever became of it since."""
        return [file for place in self.partitions() for file in self._follow(*place).files.get(table, ())]

    def end(self, topic: str, partition: int) -> int | None:
        """Where a chain ends; None where there is none. Reads no more than the newest links."""
        end = self._ends.get((topic, partition))
        if end is None and (end := self._newest_start(topic, partition)) is None:
            return None
        while (facts := self._facts(topic, partition, end)) and facts.end > end:
            end = facts.end
        self._ends[topic, partition] = end
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

    def starts(self, topic: str, partition: int) -> list[int]:
        """Where links start, by the names of their files alone."""
        return sorted(int(path.stem) for path in self.layout.chain(topic, partition).glob("[0-9]*.json"))

    def _follow(self, topic: str, partition: int) -> _Known:
        known = self._known.setdefault((topic, partition), _Known())
        if not known.links and (newest := self._newest_start(topic, partition)) is not None:
            self._extend(topic, partition, known)
            if known.end <= newest:
                raise DamagedLake(self.layout.link(topic, partition, known.end), "this link of the chain is missing")
        self._extend(topic, partition, known)
        return known

    def _extend(self, topic: str, partition: int, known: _Known) -> None:
        while (facts := self._facts(topic, partition, known.end)) and facts.end > known.end:
            known.add(Link(topic, partition, known.end, facts.end), facts)

    def _newest_start(self, topic: str, partition: int) -> int | None:
        return max(self.starts(topic, partition), default=None)

    def _facts(self, topic: str, partition: int, start: int) -> LinkFacts | None:
        path = self.layout.link(topic, partition, start)
        try:
            return LinkFacts.parse(path.read_bytes())
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedLake(path, repr(error)) from error
