"""Landing: what offset ranges of topics bring, exactly once. An edge.

A partition's position is the last transaction of application `<topic>/<topic id>/<partition>` of the table that its
rows go to, in the commit of these rows. Dead letters, gaps and unknown fields are committed first, each by a
transaction of its own table; what a redo brings again of them is left out by that. Rows come last.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ingest.lake.fence import TRIES, Fence, Taken
from ingest.lake.tables import Lake
from ingest.lake.topic_ids import TopicIds
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import DEAD_LETTERS, GAPS, UNKNOWN_FIELDS


@dataclass(frozen=True, slots=True)
class RangeRows:
    """What an offset range brings.

    Args:
        range: from the position read from to the position read to.
        rows: in the schema of their table.
        dead_letters: in the schema of theirs.
        unknown_fields: how often each field outside the catalogue was seen.
        gaps: parts of the range that the broker had dropped unread.
    """

    range: OffsetRange
    rows: pa.Table
    dead_letters: pa.Table = field(default_factory=DEAD_LETTERS.schema.empty_table)
    unknown_fields: Mapping[str, int] = field(default_factory=dict)
    gaps: tuple[OffsetRange, ...] = ()


@dataclass(frozen=True, slots=True)
class Positions:
    """How far partitions were landed in one lake.

    Args:
        lake: where.
    """

    lake: Lake

    @property
    def topic_ids(self) -> TopicIds:
        """Which topic of each name is ingested."""
        return TopicIds(self.lake)

    def position(self, topic: str, partition: int) -> int | None:
        """The next offset to read of a partition; None where nothing was ever landed.

        Args:
            topic: as rows name it: `usage@2` where a recreated topic was accepted.
            partition: of that.
        """
        applications = {_application(topic, one, partition) for one in (self.topic_ids.id_of(topic), None)}
        landed = (name for name, kind in self.lake.tables.items() if kind.is_landed and name != DEAD_LETTERS.name)
        fences = [self.lake.fence(name) for name in landed]
        found = [at for fence in fences for one in applications if (at := fence.at(one)) is not None]
        return max(found, default=None)

    def land(self, table: str, stretches: Sequence[RangeRows]) -> list[OffsetRange]:
        """Land what brings rows to one table, of all partitions together.

        Args:
            table: name of the table.
            stretches: at most one of each partition.

        Returns:
            Ranges that do not begin at their partition's position, mostly as others landed first; nothing of these is
            added.
        """
        left, applications = list(stretches), self._applications([one.range for one in stretches])
        fence = self.lake.last_seen(table)
        for tries in reversed(range(TRIES)):
            left = [one for one in left if self._is_next(fence, one.range, applications)]
            if not left:
                break
            try:
                for name, rows in self._apart(left):
                    self._land_apart(name, rows, applications)
                self._land_rows(fence, left, applications)
            except Taken:
                if not tries:
                    raise
                fence.refresh()
            else:
                break
        return [one.range for one in stretches if one not in left]

    def _applications(self, ranges: Sequence[OffsetRange]) -> Mapping[OffsetRange, str]:
        """Whose transactions the positions of ranges are; each topic is looked up once, in requests to a bucket."""
        ids = {topic: self.topic_ids.id_of(topic) for topic in {one.topic for one in ranges}}
        return {one: _application(one.topic, ids[one.topic], one.partition) for one in ranges}

    def _is_next(self, fence: Fence, range_: OffsetRange, applications: Mapping[OffsetRange, str]) -> bool:
        """Whether a range begins where its partition was landed up to."""
        at = fence.at(applications[range_])
        if at != range_.start:  # rows of the topic may have gone to another table before
            at = self.position(range_.topic, range_.partition) or 0
        return at == range_.start

    def _apart(self, stretches: Sequence[RangeRows]) -> Iterator[tuple[str, list[tuple[OffsetRange, pa.Table]]]]:
        """What goes to other tables than the rows, of each range that brings any."""
        yield DEAD_LETTERS.name, [(one.range, one.dead_letters) for one in stretches if one.dead_letters.num_rows]
        yield UNKNOWN_FIELDS.name, [(one.range, _unknown(one)) for one in stretches if one.unknown_fields]
        yield GAPS.name, [(one.range, _gaps(one.gaps)) for one in stretches if one.gaps]

    def _land_apart(
        self, table: str, brought: Sequence[tuple[OffsetRange, pa.Table]], applications: Mapping[OffsetRange, str]
    ) -> None:
        """Commit what is not there yet; a try before this one may have brought it, or a part of it."""
        if not brought:
            return
        fence, moves, rows = self.lake.fence(table), {}, []
        for range_, some in brought:
            application = applications[range_]
            at = fence.at(application)
            if at is None or at < range_.end:
                moves[application] = at, range_.end
                rows.append(_from(table, some, at or 0))
        if moves:
            self._commit(fence, moves, pa.concat_tables(rows))

    def _land_rows(self, fence: Fence, stretches: Sequence[RangeRows], applications: Mapping[OffsetRange, str]) -> None:
        moves = {}
        for one in stretches:
            application = applications[one.range]
            at = fence.at(application)
            if at is not None and at > one.range.start:
                raise Taken(fence.kind.name)
            moves[application] = at, one.range.end
        self._commit(fence, moves, pa.concat_tables([one.rows for one in stretches]))

    def _commit(self, fence: Fence, moves: Mapping[str, tuple[int | None, int]], rows: pa.Table) -> None:
        schema = fence.kind.schema
        files = self.lake.files_of(fence.kind.name, rows.select(schema.names).cast(schema)) if rows.num_rows else []
        fence.commit(moves, files)


def _application(topic: str, topic_id: str | None, partition: int) -> str:
    """Whose transactions are a partition's positions; what landed before the topic's id was seen has none."""
    return f"{topic}/{topic_id or '-'}/{partition}"


def _from(table: str, rows: pa.Table, start: int) -> pa.Table:
    """Rows of offsets from `start` on; counts of unknown fields are of whole ranges, and may be counted twice."""
    if table == GAPS.name:
        begin = pc.max_element_wise(rows["start"], pa.scalar(start, pa.int64()))
        later = rows.set_column(rows.schema.get_field_index("start"), rows.schema.field("start"), begin)
        return later.filter(pc.field("start") < pc.field("end"))
    return rows.filter(pc.field("offset") >= start) if table == DEAD_LETTERS.name else rows


def _unknown(one: RangeRows) -> pa.Table:
    origin = {"topic": one.range.topic, "partition": one.range.partition}
    said = [{**origin, "start": one.range.start, "field": n, "seen": s} for n, s in one.unknown_fields.items()]
    return pa.Table.from_pylist(said, schema=UNKNOWN_FIELDS.schema)


def _gaps(ranges: Sequence[OffsetRange]) -> pa.Table:
    said = [{"topic": r.topic, "partition": r.partition, "start": r.start, "end": r.end} for r in ranges]
    return pa.Table.from_pylist(said, schema=GAPS.schema)
