"""Where landed batches go, and the only place that knows how far a stream was read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol

import pyarrow as pa

from ingest.lake.landing import Positions, RangeRows
from ingest.lake.tables import Lake
from ingest.pipeline.transform import Landing
from ingest.schema.provenance import OffsetRange
from ingest.schema.unknown_fields import total_counts

Position = Callable[[str, int], int | None]
"""How far (topic, partition) was landed, hence the next offset to read; None where nothing ever was."""
COMMIT_EVERY_S = 10.0
"""How long batches wait for company before they are committed to a lake, seconds."""


class Sink(Protocol):
    """Takes the offsets of each partition once and in order; two consumers cannot both land the same ones."""

    @property
    def every_s(self) -> float:
        """How long batches may wait for company before they are written; 0: not at all."""

    def position(self, topic: str, partition: int) -> int | None:
        """The next offset to read; None where nothing was ever landed."""

    def check_topic(self, topic: str, found: str) -> None:
        """Compare a topic's id with the one whose records were written; raises IngestError when it is another."""

    def write_all(self, landings: Sequence[Landing]) -> Sequence[OffsetRange]:
        """Land batches, those of a partition in order; the ranges that another writer had landed, and that were not."""


@dataclass(frozen=True, slots=True)
class LakeSink:
    """Lands in a lake, one commit for each table.

    Args:
        lake: where.
        every_s: how long batches wait for company.
    """

    lake: Lake
    every_s: float = COMMIT_EVERY_S

    def position(self, topic: str, partition: int) -> int | None:
        """How far the lake has the partition."""
        positions = Positions(self.lake)
        return positions.position(positions.topic_ids.origin(topic), partition)

    def check_topic(self, topic: str, found: str) -> None:
        """Compare a topic's id with the lake's."""
        Positions(self.lake).topic_ids.check(topic, found)

    def write_all(self, landings: Sequence[Landing]) -> Sequence[OffsetRange]:
        """Write rows, dead letters, gaps and unknown fields, table by table; see Sink."""
        positions, taken = Positions(self.lake), []
        ordered = sorted(landings, key=lambda one: (one.table, *_place(one), one.range.start, one.range.end))
        for table, some in groupby(ordered, key=lambda one: one.table):
            parts = [list(part) for _, part in groupby(some, key=_place)]
            topics = {part[0].range.topic for part in parts}
            origins = {topic: positions.topic_ids.origin(topic) for topic in topics}
            stretches = [_stretch(part, origins[part[0].range.topic]) for part in parts]
            refused = positions.land(table, stretches)
            taken += [
                one.range
                for part, stretch in zip(parts, stretches, strict=True)
                if stretch.range in refused
                for one in part
            ]
        return taken


def _place(one: Landing) -> tuple[str, int]:
    return one.range.topic, one.range.partition


def _stretch(part: Sequence[Landing], origin: str) -> RangeRows:
    """Batches of one partition as one, under the name that the topic has in the lake."""
    whole = replace(part[0].range, topic=origin, end=part[-1].range.end)
    rows, letters = (pa.concat_tables(tables) for tables in ([o.rows for o in part], [o.dead_letters for o in part]))
    return RangeRows(
        whole,
        _named(origin, rows),
        _named(origin, letters),
        total_counts(one.unknown_fields for one in part),
        tuple(replace(one.range, topic=origin) for one in part if one.is_gap),
    )


def _named(topic: str, rows: pa.Table) -> pa.Table:
    """Rows that carry the topic's name in the lake."""
    names = pa.repeat(topic, rows.num_rows)
    return rows.set_column(rows.schema.get_field_index("topic"), rows.schema.field("topic"), names)
