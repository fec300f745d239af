"""The fence: of writers that look at the same position one commits, and its rows count once."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction

from ingest.lake.data_files import DataFile
from ingest.lake.fence import CHECKPOINT_EVERY, Fence, Taken
from ingest.lake.landing import Positions, RangeRows
from ingest.lake.row_filter import EPOCH, FOREVER, microseconds
from ingest.lake.tables import EXPIRED, REWRITE, Lake
from ingest.lake.upkeep import expire
from ingest.schema.errors import IngestError
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import USAGE
from tests.s3_server import S3Server

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
TABLES = {USAGE.name: USAGE}


def usage(partition: int, start: int, end: int) -> pa.Table:
    """One row for each offset of [start, end)."""
    return pa.Table.from_pylist(
        [
            {
                "cluster": "c",
                "node": "n",
                "container": f"u{partition}-{offset}",
                "interval_s": 30.0,
                "ts": T0 + timedelta(seconds=offset),
                "topic": "usage",
                "partition": partition,
                "offset": offset,
                "arrived_at": T0,
            }
            for offset in range(start, end)
        ],
        schema=USAGE.schema,
    )


def brings(partition: int, start: int, end: int) -> RangeRows:
    return RangeRows(OffsetRange("usage", partition, start, end), usage(partition, start, end))


def landed(uri: str) -> list[tuple[int, int]]:
    """(partition, offset) of all rows that count, duplicates included."""
    rows = Lake.open(uri, TABLES).rows("usage", columns=["partition", "offset"])
    return sorted(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))


def every(partition: int, end: int) -> list[tuple[int, int]]:
    """What must have landed of a partition up to an offset."""
    return [(partition, offset) for offset in range(end)]


class Writer:
    """One process: it holds the table as it last looked at it.

    Args:
        uri: the lake's address.
    """

    def __init__(self, uri: str) -> None:
        self.lake = Lake.open(uri, TABLES)
        self.fence: Fence = self.lake.fence("usage")

    def commits(self, start: int, end: int, partition: int = 0) -> None:
        """Commit rows of [start, end) without looking at the table again."""
        files = self.lake.files_of("usage", usage(partition, start, end))
        self.fence.commit({f"p{partition}": (start or None, end)}, files)


def test_a_transaction_that_does_not_follow_the_last_one_is_refused_and_adds_no_rows(uri: str) -> None:
    Writer(uri).commits(0, 5)

    for start, end in [(0, 5), (0, 9), (3, 9), (6, 9), (5, 4), (5, 5)]:
        writer = Writer(uri)
        files = writer.lake.files_of("usage", usage(0, 0, 3))
        with pytest.raises(Taken):
            writer.fence.commit({"p0": (start or None, end)}, files)

    assert (landed(uri), Writer(uri).fence.at("p0")) == (every(0, 5), 5)


def test_a_writer_that_looked_before_another_committed_is_refused(uri: str) -> None:
    Writer(uri).commits(0, 5)
    stale, other = Writer(uri), Writer(uri)
    other.commits(5, 7)

    for end in (6, 7, 8):
        assert stale.fence.at("p0") == 5
        with pytest.raises(Taken):
            stale.commits(5, end)

    assert (landed(uri), Writer(uri).fence.at("p0")) == (every(0, 7), 7)


def test_a_writer_that_is_more_commits_behind_than_lie_between_checkpoints_is_refused(uri: str) -> None:
    stale, other = Writer(uri), Writer(uri)
    other.commits(0, 1)
    for number in range(CHECKPOINT_EVERY + 2):
        other.fence.commit({"p1": (number or None, number + 1)})

    with pytest.raises(Taken):
        stale.commits(0, 1)

    assert landed(uri) == every(0, 1)


def test_what_another_application_committed_meanwhile_refuses_no_one(uri: str) -> None:
    Writer(uri).commits(0, 1)
    stale, other = Writer(uri), Writer(uri)
    other.commits(0, 3, partition=1)

    stale.commits(1, 2)

    assert landed(uri) == every(0, 2) + every(1, 3)


def test_partitions_of_one_commit_land_all_or_none(uri: str) -> None:
    first, second = Writer(uri), Writer(uri)
    first.commits(0, 2, partition=1)
    files = second.lake.files_of("usage", pa.concat_tables([usage(partition, 0, 2) for partition in range(3)]))

    with pytest.raises(Taken):
        second.fence.commit({f"p{partition}": (None, 2) for partition in range(3)}, files)
    assert landed(uri) == every(1, 2)
    assert [Writer(uri).fence.at(f"p{partition}") for partition in range(3)] == [None, 2, None]

    left = Positions(second.lake).land("usage", [brings(partition, 0, 2) for partition in (3, 4, 5)])
    assert left == []
    assert landed(uri) == [row for partition in (1, 3, 4, 5) for row in every(partition, 2)]


def test_of_several_partitions_those_that_others_landed_are_left_out(uri: str) -> None:
    first, second = (Positions(Lake.open(uri, TABLES)) for _ in range(2))
    assert first.land("usage", [brings(1, 0, 2)]) == []

    left = second.land("usage", [brings(partition, 0, 2) for partition in range(3)])

    assert left == [OffsetRange("usage", 1, 0, 2)]
    assert landed(uri) == every(0, 2) + every(1, 2) + every(2, 2)


def test_gaps_move_positions_once(uri: str) -> None:
    gap = OffsetRange("usage", 0, 0, 5)
    stretch = RangeRows(OffsetRange("usage", 0, 0, 7), usage(0, 5, 7), gaps=(gap,))

    refused = [Positions(Lake.open(uri, TABLES)).land("usage", [stretch]) for _ in range(2)]

    lake = Lake.open(uri, TABLES)
    assert refused == [[], [stretch.range]]
    assert lake.rows("gaps").to_pylist() == [{"topic": "usage", "partition": 0, "start": 0, "end": 5}]
    assert (Positions(lake).position("usage", 0), landed(uri)) == (7, [(0, 5), (0, 6)])


def test_two_rewriters_of_a_file_never_both_succeed(uri: str) -> None:
    Writer(uri).commits(0, 3)
    first, second = Writer(uri), Writer(uri)

    rewrite(first, REWRITE)
    with pytest.raises(Taken):
        rewrite(second, REWRITE)

    assert landed(uri) == every(0, 3)


def test_without_the_transaction_that_rewriters_share_both_would_succeed(uri: str) -> None:
    Writer(uri).commits(0, 3)
    first, second = Writer(uri), Writer(uri)

    rewrite(first, "one")
    rewrite(second, "another")

    assert landed(uri) == sorted(every(0, 3) * 2)


def test_who_rewrites_what_another_rewrote_meanwhile_looks_again(uri: str) -> None:
    Writer(uri).commits(0, 3)
    first, second = Lake.open(uri, TABLES), Lake.open(uri, TABLES)
    chosen: list[list[DataFile]] = []

    def choose() -> tuple[list[DataFile], list[DataFile]]:
        files = list(second.fence("usage").files())
        if not chosen:
            compact_one(first)
        chosen.append(files)
        return files, second.rewritten("usage", files[0], EPOCH, FOREVER)

    second.rewrite("usage", choose, data_change=False)

    assert landed(uri) == every(0, 3)
    assert [len(files) for files in chosen] == [1, 1]
    assert chosen[0] != chosen[1]


def compact_one(lake: Lake) -> None:
    [file] = lake.fence("usage").files()
    lake.rewrite("usage", lambda: ([file], lake.rewritten("usage", file, EPOCH, FOREVER)), data_change=False)


def rewrite(writer: Writer, application: str) -> None:
    """Put a new file in the place of the one that counts."""
    [file] = writer.fence.files()
    new = writer.lake.rewritten("usage", file, EPOCH, FOREVER)
    writer.fence.commit({application: (None, 1)}, new, [file], data_change=False)


def test_of_two_that_let_rows_expire_at_once_the_second_finds_nothing_to_do(uri: str) -> None:
    Writer(uri).commits(0, 4)
    first, second = Lake.open(uri, TABLES), Lake.open(uri, TABLES)
    before, tries = T0 + timedelta(seconds=2), list[int]()

    def meanwhile() -> tuple[list[DataFile], list[DataFile]]:
        tries.append(second.version("usage"))
        expire(first, "usage", before)
        return [], []

    second.rewrite("usage", meanwhile, moves={EXPIRED: microseconds(before)})

    assert landed(uri) == [(0, 2), (0, 3)]
    assert (tries, first.version("usage"), second.horizon_us("usage")) == ([1, 2], 2, microseconds(before))


def test_by_its_path_a_table_takes_a_transaction_twice_which_is_why_there_is_a_fence(uri: str) -> None:
    Writer(uri).commits(0, 2)
    again = Writer(uri)
    [written] = again.lake.files_of("usage", usage(0, 0, 2))

    with pytest.raises(Taken):
        again.fence.commit({"p0": (None, 2)}, [written])
    assert landed(uri) == every(0, 2)
    commit_by_path(again.lake.store.address("usage"), written, Transaction("p0", 2))

    assert landed(uri) == sorted(every(0, 2) * 2)


def commit_by_path(address: str, file: DataFile, transaction: Transaction) -> None:
    """Commit as every writer of Delta Lake that knows its transaction would."""
    table = DeltaTable(address)
    added = AddAction(file.path, file.size_bytes, dict(file.partition), file.written_ms, True, file.stats)
    about = CommitProperties(app_transactions=[transaction])
    table.create_write_transaction([added], "append", table.schema(), ["date", "hour"], commit_properties=about)


def test_four_at_once_land_every_offset_of_shared_partitions_once(uri: str) -> None:
    end, at_once = 12, Barrier(4)

    def lands_all(number: int) -> None:
        positions = Positions(Lake.open(uri, TABLES))
        starts = {0: 0, 1: 0}
        at_once.wait()
        while starts:
            positions.land("usage", [brings(p, start, min(start + 2 + number, end)) for p, start in starts.items()])
            starts = {p: at for p in starts if (at := positions.position("usage", p) or 0) < end}

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lands_all, range(4)))

    assert landed(uri) == every(0, end) + every(1, end)


def test_who_lands_alone_does_not_look_for_its_positions_in_the_log(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    positions, looked = Positions(Lake.open(uri, TABLES)), list[str]()
    for at in range(3):
        positions.land("usage", [brings(p, at, at + 1) for p in range(4)])
    find = DeltaTable.transaction_version

    def counted(table: DeltaTable, name: str) -> int | None:
        looked.append(name)
        return find(table, name)

    monkeypatch.setattr(DeltaTable, "transaction_version", counted)

    assert positions.land("usage", [brings(p, 3, 4) for p in range(4)]) == []
    assert [name for name in looked if name.startswith("usage/")] == []

    assert Positions(Lake.open(uri, TABLES)).land("usage", [brings(0, 4, 5)]) == []
    assert positions.land("usage", [brings(0, 4, 5)]) == [OffsetRange("usage", 0, 4, 5)]
    assert positions.position("usage", 1) == 4


def test_a_commit_whose_answer_was_lost_counts_once(s3: S3Server) -> None:
    address = "s3://bucket/lake"
    assert Positions(Lake.open(address, TABLES)).land("usage", [brings(0, 0, 2)]) == []
    s3.unanswered.add("bucket/lake/usage/_delta_log/00000000000000000002.json")

    with suppress(IngestError):
        Positions(Lake.open(address, TABLES)).land("usage", [brings(0, 2, 4)])
    after = Positions(Lake.open(address, TABLES))

    assert s3.unanswered == set()
    assert after.position("usage", 0) == 4
    assert after.land("usage", [brings(0, 2, 4)]) == [OffsetRange("usage", 0, 2, 4)]
    assert landed(address) == every(0, 4)


def test_of_four_that_create_a_table_at_once_one_does(uri: str) -> None:
    at_once = Barrier(4)

    def creates(_number: int) -> None:
        fence = Lake.open(uri, TABLES).fence("usage")
        at_once.wait()
        fence.create()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(creates, range(4)))

    assert Lake.open(uri, TABLES).version("usage") == 0


def test_a_table_gets_columns_that_it_has_since_once_whoever_comes_first(uri: str) -> None:
    """Before anything lands: a stream that reads it ends where columns come later."""
    older = replace(USAGE, columns=tuple(one for one in USAGE.columns if one.name != "gpu_share_unknown"))
    Fence(Lake.open(uri, TABLES).store, older).create()
    writers = [Lake.open(uri, TABLES).fence("usage") for _ in range(4)]
    together = Barrier(len(writers))

    def complete(fence: Fence) -> None:
        together.wait()
        fence.create()

    with ThreadPoolExecutor(len(writers)) as pool:
        list(pool.map(complete, writers))

    assert all("gpu_share_unknown" in fence.columns for fence in writers)
    assert Lake.open(uri, TABLES).version("usage") == 1
    Writer(uri).commits(0, 2)
    assert landed(uri) == every(0, 2)


def test_a_table_is_created_once_though_the_answer_was_lost(s3: S3Server) -> None:
    s3.unanswered.add("bucket/lake/usage/_delta_log/00000000000000000000.json")
    lake = Lake.open("s3://bucket/lake", TABLES)

    lake.fence("usage").create()

    assert (s3.unanswered, lake.version("usage")) == (set(), 0)


def test_the_first_id_of_a_topic_counts_for_all_who_see_another_at_once(uri: str) -> None:
    at_once = Barrier(4)

    def passes(found: str) -> bool:
        topic_ids = Positions(Lake.open(uri, TABLES)).topic_ids
        at_once.wait()
        try:
            topic_ids.check("usage", found)
        except IngestError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        passed = list(pool.map(passes, ["id-0", "id-1", "id-2", "id-3"]))

    recorded = Positions(Lake.open(uri, TABLES)).topic_ids.recorded("usage")
    assert [found for found, ok in zip(["id-0", "id-1", "id-2", "id-3"], passed, strict=True) if ok] == [recorded]


def test_a_new_id_of_a_known_topic_is_refused_and_lands_nothing(uri: str) -> None:
    known, recreated = (Positions(Lake.open(uri, TABLES)) for _ in range(2))
    known.topic_ids.check("usage", "id-1")
    assert known.land("usage", [brings(0, 0, 3)]) == []

    with pytest.raises(IngestError, match="was recreated: its id is id-2"):
        recreated.topic_ids.check("usage", "id-2")

    assert recreated.position("usage", 0) == 3
    assert recreated.land("usage", [brings(0, 0, 3)]) == [OffsetRange("usage", 0, 0, 3)]
    assert landed(uri) == every(0, 3)
    assert known.lake.fence("usage").at("usage/id-2/0") is None


def test_a_topic_goes_on_from_its_position_when_its_id_is_first_seen(uri: str) -> None:
    positions = Positions(Lake.open(uri, TABLES))
    assert positions.land("usage", [brings(0, 0, 3)]) == []

    positions.topic_ids.check("usage", "id-1")

    assert positions.position("usage", 0) == 3
    assert positions.land("usage", [brings(0, 0, 3)]) == [OffsetRange("usage", 0, 0, 3)]
    assert positions.land("usage", [brings(0, 3, 5)]) == []
    assert landed(uri) == every(0, 5)
