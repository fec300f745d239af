"""Compaction, expiry and check: whatever is done to the files, the rows stay what they were."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.lake.check import check
from ingest.lake.checkpoint_writer import checkpoint
from ingest.lake.compaction import When, compact, worth_merging
from ingest.lake.layout import DataFile
from ingest.lake.retention import dead, expire, expiring, sweep
from ingest.lake.row_filter import EPOCH, microseconds
from ingest.lake.tables import Lake
from ingest.schema.errors import DamagedLake, IngestError
from ingest.schema.provenance import BatchId, Link
from ingest.schema.tables import LANDED, TIMESTAMP, USAGE, Column, Table

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
LATER = datetime(2100, 1, 1, tzinfo=UTC)
"""Long after every file of these tests was written."""
STATE = Table(
    "state",
    1,
    ("node", "ts"),
    "ts",
    (
        Column("node", pa.string(), "", "node", required=True),
        Column("ts", TIMESTAMP, "UTC", "time", required=True),
        Column("cpu_cores", pa.float64(), "cores", "value"),
    ),
)
TABLES = {**LANDED, STATE.name: STATE}


class Row(NamedTuple):
    """One row of usage: hour and container make its key."""

    hour: int
    container: int
    partition: int
    offset: int


def usage(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "cluster": "c",
                "node": "n",
                "container": f"u{row.container}",
                "interval_s": 30.0,
                "ts": T0 + row.hour * HOUR,
                "cpu_cores": float(row.offset),
                "topic": "usage",
                "partition": row.partition,
                "offset": row.offset,
                "arrived_at": T0 + row.hour * HOUR + timedelta(seconds=100 - row.offset % 50),
            }
            for row in rows
        ],
        schema=USAGE.schema,
    )


def states(*rows: tuple[str, int, float]) -> pa.Table:
    """(node, hour, cpu_cores)."""
    records = [{"node": node, "ts": T0 + hour * HOUR, "cpu_cores": cpu} for node, hour, cpu in rows]
    return pa.Table.from_pylist(records, schema=STATE.schema)


def land(lake: Lake, partition: int, keys: list[tuple[int, int]]) -> list[Row]:
    """Land (hour, container) pairs at the end of a partition's chain."""
    start = lake.position("usage", partition) or 0
    rows = [Row(hour, container, partition, start + i) for i, (hour, container) in enumerate(keys)]
    link = Link("usage", partition, start, start + len(rows))
    lake.commit(link, lake.append("usage", usage(rows), link))
    return rows


def silent(_done: int, _total: int) -> None:
    """Tell nobody."""


class Crash(Exception):
    """The process ends here."""


def dies_after(files: int) -> Callable[[int, int], None]:
    def progress(done: int, _total: int) -> None:
        if done > files:
            raise Crash

    return progress


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(tmp_path / "lake", TABLES)


def many(lake: Lake, links: int = 12) -> list[Row]:
    return [row for i in range(links) for row in land(lake, i % 2, [(0, i), (1, i)])]


def offsets(lake: Lake) -> list[tuple[int, int]]:
    rows = lake.read("usage", columns=["partition", "offset"])
    return sorted(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))


def test_compaction_makes_few_files_of_many_and_keeps_every_bit(lake: Lake) -> None:
    many(lake)
    before, position = lake.read("usage"), lake.position("usage", 0)

    done = compact(lake, "usage", When(LATER), silent)

    assert (done.files, done.into, done.rows, done.won) == (24, 2, 24, True)
    assert len(lake.files("usage")) == 2
    for reader in (lake, Lake.open(lake.root, TABLES)):
        assert reader.read("usage").equals(before)
        assert (reader.position("usage", 0), reader.landed_rows("usage")) == (position, 24)


def test_what_was_compacted_keeps_what_a_reader_as_of_then_must_see(lake: Lake) -> None:
    land(lake, 0, [(0, 1)] * 9)
    land(lake, 0, [(0, 1)] * 9)
    seen = [lake.read("usage", as_of=T0 + timedelta(seconds=s)) for s in range(80, 101)]

    compact(lake, "usage", When(LATER), silent)

    assert [lake.read("usage", as_of=T0 + timedelta(seconds=s)) for s in range(80, 101)] == seen


def test_compacted_files_lie_below_no_folder_that_a_stream_follows(lake: Lake) -> None:
    many(lake)
    followed = set(lake.landed_folder("usage").rglob("*"))

    compact(lake, "usage", When(LATER), silent)

    assert set(lake.landed_folder("usage").rglob("*")) == followed


def test_a_reader_that_listed_files_still_finds_them_until_the_grace_period_is_over(lake: Lake) -> None:
    many(lake)
    listed = lake.files("usage")
    compact(lake, "usage", When(LATER), silent)

    assert sweep(lake, "usage", LATER + HOUR / 2, grace=HOUR).files == 0
    assert all(map(os.path.exists, listed))
    assert sweep(lake, "usage", LATER + HOUR, grace=HOUR).files == 24
    assert not any(map(os.path.exists, listed))
    assert check(lake, silent).damage == []
    assert lake.read("usage").num_rows == 24


def test_an_hour_that_is_still_written_is_left_alone(lake: Lake) -> None:
    many(lake)
    for path in lake.files("usage"):
        os.utime(path, (T0.timestamp(), T0.timestamp()))
    newest = next(path for path in lake.files("usage") if "hour=13" in path)
    os.utime(newest, (T0.timestamp() + 3600, T0.timestamp() + 3600))

    done = compact(lake, "usage", When(T0 + 2 * HOUR), silent)

    assert (done.files, done.into) == (12, 1)
    assert sum("hour=13" in path for path in lake.files("usage")) == 12


def test_of_two_compactions_at_once_one_wins_and_nothing_is_doubled(lake: Lake) -> None:
    rows = many(lake)
    other = Lake.open(lake.root, TABLES)

    def overtaken(done: int, total: int) -> None:
        if done == total:
            assert compact(other, "usage", When(LATER), silent).won

    assert not compact(lake, "usage", When(LATER), overtaken).won

    assert offsets(lake) == sorted((row.partition, row.offset) for row in rows)
    assert check(lake, silent).orphans.files == 0
    assert len(lake.files("usage")) == 2


def test_what_a_dead_compaction_left_is_deleted_by_a_later_one(lake: Lake) -> None:
    many(lake)
    with pytest.raises(Crash):
        compact(lake, "usage", When(LATER), dies_after(18))
    assert check(lake, silent).orphans.files == 1
    assert sweep(lake, "usage", LATER, grace=timedelta()).files == 0  # who knows that it is dead?

    compact(lake, "usage", When(LATER), silent)
    sweep(lake, "usage", LATER, grace=HOUR)

    assert list((lake.root / "compacted").rglob(".*")) == []
    assert check(lake, silent).orphans.files == 0


def test_one_late_record_does_not_have_its_hour_written_anew() -> None:
    def file(rows: int) -> DataFile:
        return DataFile("usage", "", rows, 0, 0)

    assert worth_merging([file(1000), file(1)]) == []
    assert worth_merging([file(600), file(600)]) == [(file(600), file(600))]
    assert len(worth_merging([file(1000), *[file(1)] * 8])) == 1
    assert [len(chosen) for chosen in worth_merging([file(4)] * 7, max_rows=12)] == [3, 3]
    assert worth_merging([file(1000)]) == []


def test_a_damaged_file_stops_compaction_and_changes_nothing(lake: Lake) -> None:
    many(lake)
    damaged = Path(lake.files("usage")[3])
    damaged.write_bytes(damaged.read_bytes()[:-9])

    with pytest.raises(DamagedLake, match=damaged.name):
        compact(lake, "usage", When(LATER), silent)

    assert lake.history().compacted("usage").number == 0


def test_a_damaged_file_is_named_where_its_rows_are_counted(lake: Lake) -> None:
    many(lake)
    damaged = Path(lake.files("usage")[3])
    damaged.write_bytes(b"")

    with pytest.raises(DamagedLake, match="0 bytes"):
        expiring(lake, "usage", LATER)
    with pytest.raises(DamagedLake, match="0 bytes"):
        lake.count("usage", EPOCH, LATER)


def test_batches_of_a_job_become_one_file_in_which_the_newest_still_wins(lake: Lake) -> None:
    for batch in range(6):
        lake.append(
            "state", states((f"n{batch // 5}", 0, float(batch)), (f"n{batch}", 1, 1.0)), BatchId("follow", batch)
        )
    before = lake.read("state")

    done = compact(lake, "state", When(LATER), silent)
    sweep(lake, "state", LATER, grace=timedelta())

    assert (done.files, done.into, done.rows) == (5, 1, 10)
    assert lake.read("state").equals(before)
    assert before["cpu_cores"].to_pylist()[:2] == [4.0, 5.0]
    assert [path.name for path in lake.batch_path("state", "follow", 0).parent.iterdir()] == ["000000000005"]
    assert lake.append("state", states(("other", 0, 9.0)), BatchId("follow", 2)) == ()
    assert check(lake, silent).damage == []


def test_a_stream_that_began_anew_is_not_hidden_by_what_was_compacted(lake: Lake) -> None:
    for batch in range(4):
        lake.append("state", states(("n", 0, 1.0), (f"n{batch}", 1, 1.0)), BatchId("follow", batch))
    compact(lake, "state", When(LATER), silent)
    sweep(lake, "state", LATER, grace=timedelta())

    anew = lake.batch_path("state", "follow", 1)
    anew.mkdir()
    pq.write_table(states(("n", 0, 2.0)), anew / "part-0.parquet")
    (anew / "_SUCCESS").touch()

    assert lake.read("state")["cpu_cores"].to_pylist() == [1.0] * 5
    lake.batch_path("state", "follow", 3).joinpath("_SUCCESS").unlink()
    assert lake.read("state")["cpu_cores"].to_pylist() == [2.0, 1.0, 1.0, 1.0]
    assert check(lake, silent).damage == []


def test_a_batch_with_columns_of_other_names_is_neither_compacted_nor_read(lake: Lake) -> None:
    for batch in range(4):
        lake.append("state", states((f"n{batch}", 0, 1.0)), BatchId("follow", batch))
    [old] = lake.batch_path("state", "follow", 1).glob("*.parquet")
    names = [name.replace("cpu_cores", "cores") for name in STATE.schema.names]
    pq.write_table(states(("n1", 0, 1.0)).rename_columns(names), old)

    with pytest.raises(IngestError, match=r"table state of .* columns of other names"):
        compact(lake, "state", When(LATER), silent)
    with pytest.raises(IngestError, match="was written by another version, with columns of"):
        lake.read("state")

    assert pq.read_schema(old).names == names
    assert lake.compacted_through("state", "follow") == -1


def test_an_unfinished_batch_and_all_after_it_are_left_alone(lake: Lake) -> None:
    for batch in (0, 1, 3, 4):
        lake.append("state", states(("n", 0, 1.0)), BatchId("follow", batch))
    lake.batch_path("state", "follow", 2).mkdir()

    assert compact(lake, "state", When(LATER), silent).files == 2
    assert lake.compacted_through("state", "follow") == 1


def test_expired_rows_are_gone_and_are_never_landed_again(lake: Lake) -> None:
    rows = many(lake)
    before, position = T0 + HOUR, lake.position("usage", 0)
    told = expiring(lake, "usage", before)

    expire(lake, "usage", before, now=LATER)
    freed = sweep(lake, "usage", LATER, grace=timedelta())

    assert (told.rows, told.files) == (12, 12)
    assert (freed.files, freed.size_bytes) == (told.files, told.size_bytes)
    kept = sorted((row.partition, row.offset) for row in rows if row.hour == 1)
    assert offsets(lake) == offsets(Lake.open(lake.root, TABLES)) == kept
    assert Lake.open(lake.root, TABLES).position("usage", 0) == position
    assert lake.span("usage") == (microseconds(before), microseconds(before))
    assert check(lake, silent).damage == []


def test_a_horizon_never_moves_back(lake: Lake) -> None:
    many(lake)
    expire(lake, "usage", T0 + HOUR, now=LATER)
    expire(lake, "usage", T0, now=LATER)

    assert lake.horizon_us("usage") == microseconds(T0 + HOUR)


def test_ranges_and_batches_expire_too_and_a_file_across_the_horizon_stays(lake: Lake) -> None:
    rows = states(("a", 0, 1.0), ("a", 1, 2.0), ("a", 2, 3.0))
    folder = lake.stage("state", "daily")
    folder.mkdir(parents=True)
    pq.write_table(rows, folder / "part.parquet")
    lake.replace("state", T0, T0 + 3 * HOUR, "daily", folder)
    for batch in range(3):
        lake.append("state", states(("b", batch, 1.0)), BatchId("follow", batch))
    compact(lake, "state", When(LATER), silent)

    expire(lake, "state", T0 + HOUR, now=LATER)
    sweep(lake, "state", LATER, grace=timedelta())

    kept = [(row["node"], row["cpu_cores"]) for row in lake.read("state").to_pylist()]
    assert kept == [("a", 2.0), ("b", 1.0), ("a", 3.0), ("b", 1.0)]
    assert check(lake, silent).damage == []


def removed(path: Path) -> None:
    path.unlink()


def shortened(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def with_fewer_rows(path: Path) -> None:
    pq.write_table(pq.read_table(path).slice(1), path)


def with_other_times(path: Path) -> None:
    rows = pq.read_table(path)
    pq.write_table(rows.set_column(1, "ts", pa.array([T0 + 9 * HOUR] * rows.num_rows, TIMESTAMP)), path)


@pytest.mark.parametrize("harm", [removed, shortened, with_fewer_rows, with_other_times])
@pytest.mark.parametrize("compacted", [False, True])
def test_check_names_the_file_that_was_harmed(lake: Lake, harm: Callable[[Path], None], *, compacted: bool) -> None:
    many(lake)
    if compacted:
        compact(lake, "usage", When(LATER), silent)
    assert check(lake, silent).damage == []
    harmed = Path(lake.files("usage")[0])

    harm(harmed)

    assert [damage.path for damage in check(lake, silent).damage] == [lake.layout.relative(harmed)]


def test_check_finds_a_missing_link_one_that_overlaps_and_one_that_is_none(lake: Lake) -> None:
    for _ in range(6):
        land(lake, 0, [(0, 1), (0, 2)])
    lake.layout.link("usage", 0, 2).unlink()
    lake.layout.link("usage", 0, 7).write_bytes(lake.layout.link("usage", 0, 8).read_bytes())
    lake.layout.link("usage", 0, 10).write_text("{")

    told = {damage.path.rsplit("/", 1)[1]: damage.what for damage in check(lake, silent).damage}

    assert set(told) == {f"{start:020d}.json" for start in (4, 7, 8, 10)}
    assert "from 2 to 4 are missing" in told[f"{4:020d}.json"]
    assert "overlaps" in told[f"{7:020d}.json"]
    with pytest.raises(DamagedLake, match="missing"):
        Lake.open(lake.root, TABLES).read("usage")


def test_check_tells_of_a_horizon_that_cannot_be_read_and_of_all_else(lake: Lake) -> None:
    many(lake)
    expire(lake, "usage", T0, now=LATER)
    (lake.layout.horizons("usage") / f"{1:012d}.json").write_text("{")
    harmed = lake.layout.link("usage", 1, 2)
    harmed.write_text("{")

    told = {Path(damage.path).name for damage in check(lake, silent).damage}

    assert told == {f"{1:012d}.json", harmed.name}


def test_check_counts_gaps_and_orphans_and_calls_neither_damage(lake: Lake) -> None:
    lake.commit(Link("usage", 0, 0, 5), (), kind="gap")
    lake.append("usage", usage([Row(0, 1, 0, 5)]), Link("usage", 0, 5, 6))

    report = check(lake, silent)

    assert (report.gaps, report.gap_offsets, report.orphans.files, report.damage) == (1, 5, 1, [])
    assert report.orphans.size_bytes > 0


def test_check_finds_a_manifest_that_counts_rows_twice(lake: Lake) -> None:
    many(lake)
    compact(lake, "usage", When(LATER), silent)
    folder = lake.layout.compactions("usage")
    (folder / f"{2:012d}.json").write_bytes((folder / f"{1:012d}.json").read_bytes())

    assert all("which another file replaces" in damage.what for damage in check(lake, silent).damage)
    assert len(check(lake, silent).damage) == 2


Keys = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=6)
Step: st.SearchStrategy[tuple[str, int, list[tuple[int, int]]]] = st.one_of(
    st.tuples(st.just("land"), st.integers(0, 1), Keys),
    st.tuples(st.just("orphan"), st.integers(0, 1), Keys),
    st.tuples(st.just("compact"), st.integers(0, 40), st.just([])),
    st.tuples(st.just("expire"), st.integers(0, 3), st.just([])),
    st.tuples(st.just("sweep"), st.integers(0, 9), st.just([])),
    st.tuples(st.just("checkpoint"), st.just(0), st.just([])),
)


def take_step(lake: Lake, step: tuple[str, int, list[tuple[int, int]]], now: datetime) -> list[Row]:
    """Do one thing to a lake, or only a part of it as if the process had died; the rows that were landed."""
    what, number, keys = step
    if what == "land":
        return land(lake, number, keys)
    if what == "orphan":
        start = lake.position("usage", number) or 0
        lake.append("usage", usage([Row(*key, number, start) for key in keys]), Link("usage", number, start, start + 1))
    if what == "compact":
        try:
            compact(lake, "usage", When(now), dies_after(number))
        except Crash:
            return []
    if what == "expire":
        expire(lake, "usage", T0 + number * HOUR, now)
    if what == "checkpoint":
        checkpoint(lake, now)
    if what == "sweep":
        doomed = sorted(dead(lake, "usage", microseconds(now - HOUR)))
        for path in doomed[:number]:  # and then it died
            path.unlink()
    return []


def lowest(rows: list[Row], first_hour: int) -> list[tuple[int, int]]:
    """The naive model: of each (hour, container) the lowest partition and offset, from an hour on."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for row in rows:
        if row.hour >= first_hour:
            key, place = (row.hour, row.container), (row.partition, row.offset)
            found[key] = min(found.get(key, place), place)
    return sorted(found.values())


@settings(max_examples=60)
@given(steps=st.lists(Step, max_size=25))
def test_after_any_steps_and_deaths_the_rows_are_those_of_the_naive_model(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, list[tuple[int, int]]]]
) -> None:
    old = Lake.open(tmp_path_factory.mktemp("lake"), TABLES)
    rows: list[Row] = []
    first_hour = 0
    for number, step in enumerate(steps):
        lake = Lake.open(old.root, TABLES) if number % 2 else old
        rows += take_step(lake, step, LATER + number * HOUR / 2)
        first_hour = max(first_hour, step[1]) if step[0] == "expire" else first_hour

        for reader in (old, Lake.open(old.root, TABLES)):
            assert offsets(reader) == lowest(rows, first_hour)
            assert reader.landed_rows("usage") == sum(row.hour >= first_hour for row in rows)
    assert check(old, silent).damage == []
