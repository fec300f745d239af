"""Compaction, expiry and check: whatever is done to the files, the rows stay what they were."""

import json
import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.lake import fence, upkeep
from ingest.lake.check import check
from ingest.lake.data_files import DataFile
from ingest.lake.landing import Positions, RangeRows
from ingest.lake.row_filter import microseconds
from ingest.lake.tables import Lake
from ingest.lake.upkeep import When, compact, expire, expiring, vacuum, worth_merging
from ingest.schema.errors import DamagedLake
from ingest.schema.provenance import BatchId, OffsetRange
from ingest.schema.tables import LANDED, TIMESTAMP, USAGE, Column, Table
from tests.landed import land_rows

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
    """Land (hour, container) pairs at a partition's position."""
    start = position(lake, partition) or 0
    rows = [Row(hour, container, partition, start + i) for i, (hour, container) in enumerate(keys)]
    land_rows(lake, "usage", OffsetRange("usage", partition, start, start + len(rows)), usage(rows))
    return rows


def position(lake: Lake, partition: int) -> int | None:
    return Positions(lake).position("usage", partition)


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
    before, at = lake.read("usage"), position(lake, 0)

    done = compact(lake, "usage", When(LATER), silent)

    assert (done.files, done.into, done.rows) == (24, 2, 24)
    assert len(lake.files("usage")) == 2
    for reader in (lake, Lake.open(lake.root, TABLES)):
        assert reader.read("usage").equals(before)
        assert (position(reader, 0), reader.landed_rows("usage")) == (at, 24)


def test_a_compacted_file_is_as_old_as_the_oldest_in_it_since_streams_read_by_age(lake: Lake) -> None:
    many(lake)
    oldest = min(file.written_ms for file in lake.fence("usage").files() if "hour=12" in file.path)

    compact(lake, "usage", When(LATER), silent)

    [merged] = [file for file in lake.fence("usage").files() if "hour=12" in file.path]
    assert merged.written_ms == oldest


def test_counts_of_unknown_fields_are_added_up(lake: Lake) -> None:
    for start in range(12):
        brought = RangeRows(OffsetRange("usage", 0, start, start + 1), usage([]), unknown_fields={"colour": 1, "x": 2})
        assert Positions(lake).land("usage", [brought]) == []

    compact(lake, "unknown_fields", When(LATER), silent)

    assert lake.rows("unknown_fields").num_rows == 2
    assert lake.unknown_fields() == {"colour": 12, "x": 24}


def test_no_batch_is_merged_past_one_that_is_too_large(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "MAX_ROWS", 20)
    for batch, rows in enumerate((1, 1, 11, 1, 1)):
        lake.append("state", states(*[(f"n{i}", 0, float(batch)) for i in range(rows)]), BatchId("follow", batch))
    before = lake.read("state")

    assert compact(lake, "state", When(LATER), silent).files == 4

    assert lake.read("state").equals(before)


def test_what_was_compacted_keeps_what_a_reader_as_of_then_must_see(lake: Lake) -> None:
    land(lake, 0, [(0, 1)] * 9)
    land(lake, 0, [(0, 1)] * 9)
    seen = [lake.read("usage", as_of=T0 + timedelta(seconds=s)) for s in range(80, 101)]

    compact(lake, "usage", When(LATER), silent)

    assert [lake.read("usage", as_of=T0 + timedelta(seconds=s)) for s in range(80, 101)] == seen


def test_files_out_of_use_stay_as_long_as_the_log_keeps_the_versions_that_name_them(lake: Lake) -> None:
    many(lake)
    listed = lake.files("usage")
    compact(lake, "usage", When(LATER), silent)

    assert vacuum(lake, "usage").files == 0
    assert vacuum(lake, "usage", everything=True).files == 0
    assert all(map(os.path.exists, listed))
    assert vacuum(lake, "usage", retention=timedelta()).files == 24
    assert not any(map(os.path.exists, listed))
    assert check(lake, silent).damage == []
    assert lake.read("usage").num_rows == 24


def test_a_file_that_no_version_names_stays_for_a_week_since_its_writer_may_only_be_slow(lake: Lake) -> None:
    many(lake)
    lake.files_of("usage", usage([Row(0, 1, 0, 99)]))
    left = [path for path in lake.store.sizes("usage") if path not in str(lake.files("usage"))]

    assert vacuum(lake, "usage", everything=True, retention=timedelta()).files == 0
    for path in left:
        os.utime(lake.root / "usage" / path, (T0.timestamp(), T0.timestamp()))
    assert vacuum(lake, "usage").files == 0
    assert vacuum(lake, "usage", everything=True).files == len(left) == 1


@pytest.mark.parametrize(
    ("table", "days", "gone"), [("usage", 6, 0), ("usage", 8, 24), ("state", 29, 0), ("state", 31, 24)]
)
def test_a_thorough_clean_up_leaves_each_table_the_versions_that_it_promises(
    lake: Lake, table: str, days: int, gone: int
) -> None:
    many(lake)
    for hour in range(24):
        lake.append("state", states(("a", hour, 1.0)), BatchId("follow", hour))
    compact(lake, table, When(LATER), silent)
    for entry in (lake.root / table / "_delta_log").glob("*.json"):
        removed_ms = round((entry.stat().st_mtime - days * 86_400) * 1000)
        entry.write_text(re.sub(r'"deletionTimestamp":\d+', f'"deletionTimestamp":{removed_ms}', entry.read_text()))
    for checkpoint in (lake.root / table / "_delta_log").glob("*checkpoint*"):
        checkpoint.unlink()

    assert vacuum(Lake.open(lake.root, TABLES), table, everything=True).files == gone


def test_what_another_engine_compacted_is_found_and_never_doubled(lake: Lake) -> None:
    for hour in range(3):
        lake.replace("state", T0 + hour * HOUR, T0 + (hour + 1) * HOUR, "daily", states(("a", hour, 0.0)))
    DeltaTable(str(lake.root / "state")).optimize.compact()

    again = Lake.open(lake.root, TABLES)
    with pytest.raises(DamagedLake, match="another engine wrote it"):
        again.replace("state", T0, T0 + HOUR, "daily", states(("a", 0, 1.0)))

    assert again.read("state").num_rows == 3
    assert ["another engine" in str(one) for one in check(again, silent).damage] == [True]


def test_rows_of_another_engine_without_our_columns_are_refused_and_never_read_as_none(lake: Lake) -> None:
    many(lake)
    red = pa.table({"colour": ["red"], "date": [T0.date()], "hour": pa.array([0], pa.int32())})
    write_deltalake(str(lake.root / "usage"), red, mode="overwrite", schema_mode="overwrite")

    again = Lake.open(lake.root, TABLES)
    for read in (again.read, again.span, again.landed_rows, again.count, lambda table: list(again.pieces(table))):
        with pytest.raises(DamagedLake, match="another engine wrote it"):
            read("usage")
    assert "another engine wrote it" in str(check(again, silent).damage)


def test_a_folder_of_the_table_may_lie_on_another_disk(lake: Lake, tmp_path: Path) -> None:
    many(lake)
    day = next((lake.root / "usage").glob("date=*"))
    day.rename(tmp_path / "elsewhere")
    day.symlink_to(tmp_path / "elsewhere")

    assert lake.read("usage").num_rows
    assert check(lake, silent).damage == []


def test_folders_of_processes_that_died_are_removed_once_they_are_old(lake: Lake) -> None:
    old, new = lake.stage("state", "job"), lake.stage("state", "job")
    for folder in (old, new):
        folder.mkdir()
    os.utime(old.parent, (T0.timestamp(), T0.timestamp()))

    lake.store.tidy(T0 + HOUR)

    assert (old.exists(), new.exists()) == (False, True)


def test_of_an_hour_that_is_still_written_the_older_files_become_one_and_young_ones_stay(lake: Lake) -> None:
    rows = [*land(lake, 0, [(0, 0)]), *land(lake, 1, [(0, 1)])]
    time.sleep(0.01)
    rows += land(lake, 0, [(0, 2)])
    written = {file.path: file.written_ms for file in lake.fence("usage").files()}
    youngest = max(written, key=lambda path: written[path])
    before_it = datetime.fromtimestamp((written[youngest] - 1) / 1000, UTC)

    done = compact(lake, "usage", When(before_it + When(T0).older_than), silent)

    left = {file.path: file.written_ms for file in lake.fence("usage").files()}
    assert (done.files, done.into, len(left), youngest in left) == (2, 1, 2, True)
    assert sorted(left.values()) == [min(written.values()), written[youngest]]
    assert offsets(lake) == sorted((row.partition, row.offset) for row in rows)


def test_of_two_compactions_at_once_one_wins_and_nothing_is_doubled(lake: Lake) -> None:
    rows = many(lake)
    other = Lake.open(lake.root, TABLES)
    bins = list(upkeep._bins(lake, "usage", When(LATER)))
    merged = upkeep._merged(lake, "usage", bins[0])
    compact(other, "usage", When(LATER), silent)

    assert upkeep._commit_merged(lake, "usage", bins[0], merged)

    assert offsets(lake) == sorted((row.partition, row.offset) for row in rows)
    assert check(lake, silent).orphans.files == 1
    assert len(lake.files("usage")) == 2


def test_one_late_record_does_not_have_its_hour_written_anew() -> None:
    def file(rows: int) -> DataFile:
        return DataFile("", rows, 0, 0, 0, 0)

    assert worth_merging([file(1000), file(1)]) == []
    assert worth_merging([file(600), file(600)]) == [(file(600), file(600))]
    assert len(worth_merging([file(1000), *[file(1)] * 8])) == 1
    assert [len(chosen) for chosen in worth_merging([file(4)] * 7, max_rows=12)] == [3, 3]
    assert worth_merging([file(1000)]) == []


def test_a_damaged_file_stops_compaction_and_changes_nothing(lake: Lake) -> None:
    many(lake)
    damaged, version = Path(lake.files("usage")[3]), lake.version("usage")
    damaged.write_bytes(damaged.read_bytes()[:-9])

    with pytest.raises(DamagedLake, match=damaged.name):
        compact(lake, "usage", When(LATER), silent)

    assert lake.version("usage") == version


def test_batches_of_a_job_become_one_file_in_which_the_newest_still_wins(lake: Lake) -> None:
    for batch in range(6):
        rows = states((f"n{batch // 5}", 0, float(batch)), (f"n{batch}", 1, 1.0))
        assert lake.append("state", rows, BatchId("follow", batch))
    before = lake.read("state")

    done = compact(lake, "state", When(LATER), silent)
    vacuum(lake, "state", retention=timedelta())

    assert (done.files, done.into, done.rows) == (6, 1, 12)
    assert lake.read("state").equals(before)
    assert before["cpu_cores"].to_pylist()[:2] == [4.0, 5.0]
    assert not lake.append("state", states(("other", 0, 9.0)), BatchId("follow", 2))
    assert check(lake, silent).damage == []


def test_a_batch_that_comes_after_what_was_compacted_goes_before_it(lake: Lake) -> None:
    for batch in range(4):
        lake.append("state", states(("n", 0, float(batch))), BatchId("follow", batch))
    compact(lake, "state", When(LATER), silent)
    lake.append("state", states(("n", 0, 9.0)), BatchId("follow", 4))

    assert lake.read("state")["cpu_cores"].to_pylist() == [9.0]


def test_expired_rows_are_gone_and_are_never_landed_again(lake: Lake) -> None:
    rows = many(lake)
    before, at = T0 + HOUR, position(lake, 0)
    told = expiring(lake, "usage", before)

    expire(lake, "usage", before)
    freed = vacuum(lake, "usage", retention=timedelta())

    assert (told.rows, told.files) == (12, 12)
    assert (freed.files, freed.size_bytes) == (told.files, told.size_bytes)
    kept = sorted((row.partition, row.offset) for row in rows if row.hour == 1)
    assert offsets(lake) == offsets(Lake.open(lake.root, TABLES)) == kept
    assert position(Lake.open(lake.root, TABLES), 0) == at
    assert lake.span("usage") == (microseconds(before), microseconds(before))
    assert check(lake, silent).damage == []
    land(lake, 0, [(0, 77)])
    assert offsets(lake) == kept  # what lands later of before is not seen


def test_the_moment_before_which_rows_expire_never_moves_back(lake: Lake) -> None:
    many(lake)
    expire(lake, "usage", T0 + HOUR)
    expire(lake, "usage", T0)

    assert lake.horizon_us("usage") == microseconds(T0 + HOUR)


def test_ranges_and_batches_expire_too_and_that_they_were_computed_is_remembered(lake: Lake) -> None:
    rows = states(("a", 0, 1.0), ("a", 1, 2.0), ("a", 2, 3.0))
    folder = lake.stage("state", "daily")
    folder.mkdir(parents=True)
    pq.write_table(rows, folder / "part.parquet")
    lake.replace("state", T0, T0 + 3 * HOUR, "daily", folder)
    for hour in (-3, -2, -1):
        lake.replace("state", T0 + hour * HOUR, T0 + (hour + 1) * HOUR, "daily", states(("a", hour, 0.0)))
    for batch in range(3):
        lake.append("state", states(("b", batch, 1.0)), BatchId("follow", batch))
    compact(lake, "state", When(LATER), silent)

    expire(lake, "state", T0 + HOUR)
    vacuum(lake, "state", retention=timedelta())

    kept = [(row["node"], row["cpu_cores"]) for row in lake.read("state").to_pylist()]
    assert kept == [("a", 2.0), ("b", 1.0), ("a", 3.0), ("b", 1.0)]
    assert DeltaTable(str(lake.root / "state")).to_pyarrow_table().num_rows == 4
    spans = [((part.start_us, part.end_us)) for part in lake.range_parts("state")]
    assert spans == [tuple(microseconds(T0 + h * HOUR) for h in span) for span in ((-3, 1), (1, 3))]
    assert check(lake, silent).damage == []


def test_a_stream_of_an_engine_reads_nothing_again_after_compaction(lake: Lake) -> None:
    many(lake)
    version = lake.version("usage")
    compact(lake, "usage", When(LATER), silent)

    log = lake.root / "usage" / "_delta_log"
    actions = [
        json.loads(line) for path in sorted(log.glob("*.json"))[version + 1 :] for line in path.read_text().splitlines()
    ]
    changes = [one[kind]["dataChange"] for one in actions for kind in ("add", "remove") if kind in one]
    assert len(changes) == 26
    assert not any(changes)


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

    assert [damage.path for damage in check(lake, silent).damage] == [str(harmed)]


def test_check_counts_gaps_and_orphans_and_calls_neither_damage(lake: Lake) -> None:
    gap = OffsetRange("usage", 0, 0, 5)
    Positions(lake).land("usage", [RangeRows(gap, usage([]), gaps=(gap,))])
    lake.files_of("usage", usage([Row(0, 1, 0, 5)]))

    report = check(lake, silent)

    assert (report.gaps, report.gap_offsets, report.orphans.files, report.damage) == (1, 5, 1, [])
    assert report.orphans.size_bytes > 0


def test_check_tells_of_a_log_that_cannot_be_read_and_of_all_else(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "CHECKPOINT_EVERY", 1000)
    many(lake)
    lake.append("state", states(("n", 0, 1.0)), BatchId("follow", 0))
    entry = sorted((lake.root / "usage" / "_delta_log").glob("*.json"))[3]
    entry.write_text("{")
    Path(lake.files("state")[0]).unlink()

    told = {Path(damage.path).name for damage in check(Lake.open(lake.root, TABLES), silent).damage}

    assert told == {"usage", entry.name, Path(lake.files("state")[0]).name}


Keys = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=6)
Step: st.SearchStrategy[tuple[str, int, list[tuple[int, int]]]] = st.one_of(
    st.tuples(st.just("land"), st.integers(0, 1), Keys),
    st.tuples(st.just("orphan"), st.integers(0, 1), Keys),
    st.tuples(st.just("compact"), st.integers(0, 3), st.just([])),
    st.tuples(st.just("expire"), st.integers(0, 3), st.just([])),
    st.tuples(st.just("vacuum"), st.integers(0, 1), st.just([])),
)


def take_step(lake: Lake, step: tuple[str, int, list[tuple[int, int]]], now: datetime) -> list[Row]:
    """Do one thing to a lake, or only a part of it as if the process had died; the rows that were landed."""
    what, number, keys = step
    if what == "land":
        return land(lake, number, keys)
    if what == "orphan":
        lake.files_of("usage", usage([Row(*key, number, position(lake, number) or 0) for key in keys]))
    if what == "compact":
        try:
            compact(lake, "usage", When(now), dies_after(number))
        except Crash:
            return []
    if what == "expire":
        expire(lake, "usage", T0 + number * HOUR)
    if what == "vacuum":
        vacuum(lake, "usage", everything=bool(number), retention=timedelta())
    return []


def lowest(rows: list[Row], first_hour: int) -> list[tuple[int, int]]:
    """The naive model: of each (hour, container) the lowest partition and offset, from an hour on."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for row in rows:
        if row.hour >= first_hour:
            key, place = (row.hour, row.container), (row.partition, row.offset)
            found[key] = min(found.get(key, place), place)
    return sorted(found.values())


@settings(max_examples=30)
@given(steps=st.lists(Step, max_size=12))
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
