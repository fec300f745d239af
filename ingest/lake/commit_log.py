"""Chains: one unbroken row of links per partition of a topic, for readers of landed rows. An edge.

Links never change, so what was read is remembered; reading again follows the chain from where it ended before, and for
the first time from where a checkpoint ends.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ingest.lake.checkpoints import ChainState
from ingest.lake.commits import link_facts, newest_end, newest_start
from ingest.lake.layout import DataFile, Layout, LinkFacts
from ingest.schema.errors import DamagedLake
from ingest.schema.provenance import Link
from ingest.schema.unknown_fields import bounded_counts


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
    """

    layout: Layout
    base: Mapping[tuple[str, int], ChainState] = field(default_factory=dict)
    _known: dict[tuple[str, int], _Known] = field(default_factory=dict)

    def partitions(self) -> list[tuple[str, int]]:
        """Every (topic, partition) that has a chain."""
        return self.layout.partitions()

    def links(self, topic: str, partition: int) -> Iterator[tuple[Link, LinkFacts]]:
        """Every link of a partition in order, read anew.

        Raises:
            DamagedLake: a link is missing or cannot be read.
        """
        newest = newest_start(self.layout, topic, partition)
        end = 0
        while (facts := link_facts(self.layout, topic, partition, end)) and facts.end > end:
            yield Link(topic, partition, end, facts.end), facts
            end = facts.end
        self._refuse_hole(topic, partition, end, newest)

    def state(self, topic: str, partition: int) -> ChainState:
        """What all links of a partition come to.

        Raises:
            DamagedLake: a link is missing or cannot be read.
        """
        base = self.base.get((topic, partition))
        newest = newest_end(self.layout, topic, partition, base.end if base else 0) or 0
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
        newest = newest_start(self.layout, topic, partition)
        self._extend(topic, partition, known)
        self._refuse_hole(topic, partition, known.end, newest)

    def _extend(self, topic: str, partition: int, known: _Known) -> None:
        while (facts := link_facts(self.layout, topic, partition, known.end)) and facts.end > known.end:
            known.add(facts.end, facts.files, facts.unknown_fields)

    def _refuse_hole(self, topic: str, partition: int, end: int, newest: int | None) -> None:
        """Refuse a chain that ends before its newest link starts."""
        if newest is not None and end <= newest:
            raise DamagedLake(self.layout.link(topic, partition, end), "this link of the chain is missing")
