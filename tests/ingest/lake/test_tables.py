"""The lake: what counts is exactly what a table's log names."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from features.schema.tables import TABLES
from ingest.lake.folder import Folder
from ingest.lake.landing import Positions, RangeRows
from ingest.lake.tables import Lake
from ingest.schema.errors import DamagedLake, IngestError
from ingest.schema.provenance import BatchId, OffsetRange
from ingest.schema.tables import LANDED, USAGE

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)


def usage_rows(*rows: tuple[str, int, float | None, int], topic: str = "usage") -> pa.Table:
    """(container, seconds after T0, cpu_cores, offset)."""
    return pa.Table.from_pylist(
        [
            {
                "cluster": "c",
                "node": f"node-of-{container}",
                "container": container,
                "interval_s": 30.0,
                "ts": T0 + timedelta(seconds=second),
                "cpu_cores": cpu,
                "topic": topic,
                "partition": 0,
                "offset": offset,
                "arrived_at": T0 + timedelta(seconds=second + 2),
            }
            for container, second, cpu, offset in rows
        ],
        schema=USAGE.schema,
    )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(tmp_path / "lake", LANDED)


def land(lake: Lake, range_: OffsetRange, rows: pa.Table) -> list[OffsetRange]:
    return Positions(lake).land("usage", [RangeRows(range_, rows)])


def position(lake: Lake, partition: int = 0) -> int | None:
    return Positions(lake).position("usage", partition)


def test_landed_rows_come_back_sorted_by_time_and_unchanged(lake: Lake) -> None:
    rows = usage_rows(("b", 0, 1.0, 0), ("a", 0, None, 1), ("a", 3600, 2.0, 2))

    land(lake, OffsetRange("usage", 0, 0, 3), rows)

    assert lake.read("usage").equals(rows.sort_by([("ts", "ascending"), ("container", "ascending")]))


def test_rows_with_texts_as_codes_are_the_same_rows(lake: Lake) -> None:
    for number, names in enumerate(("ab", "bc")):
        rows = usage_rows(*((name, 60 * number + i, None, 2 * number + i) for i, name in enumerate(names)))
        land(lake, OffsetRange("usage", 0, 2 * number, 2 * number + 2), rows)

    coded = lake.rows("usage", coded=True)

    assert coded.cast(USAGE.schema).equals(lake.rows("usage"))
    assert [len(set(chunk.dictionary.to_pylist())) for chunk in coded["container"].chunks] == [3, 3]


def test_rows_that_are_not_committed_do_not_count(lake: Lake) -> None:
    lake.files_of("usage", usage_rows(("a", 0, 1.0, 0)))

    assert lake.read("usage").num_rows == 0
    assert position(lake) is None


def test_a_range_that_does_not_begin_at_the_position_is_refused(lake: Lake) -> None:
    gap = RangeRows(OffsetRange("usage", 0, 0, 5), usage_rows(), gaps=(OffsetRange("usage", 0, 0, 5),))

    assert land(lake, OffsetRange("usage", 0, 5, 6), usage_rows(("a", 0, 1.0, 5))) == [OffsetRange("usage", 0, 5, 6)]
    assert Positions(lake).land("usage", [gap]) == []
    assert land(lake, OffsetRange("usage", 0, 5, 6), usage_rows(("a", 0, 1.0, 5))) == []

    assert lake.rows("gaps").to_pylist() == [{"topic": "usage", "partition": 0, "start": 0, "end": 5}]
    assert (position(lake), lake.read("usage").num_rows) == (6, 1)


def test_a_batch_without_rows_still_moves_the_chain(lake: Lake) -> None:
    land(lake, OffsetRange("usage", 2, 0, 7), usage_rows())

    assert position(Lake.open(lake.root, LANDED), 2) == 7


def test_of_duplicates_the_lowest_position_stays(lake: Lake) -> None:
    land(lake, OffsetRange("usage", 0, 0, 3), usage_rows(("a", 0, 2.0, 1), ("a", 0, 1.0, 0), ("a", 0, 3.0, 2)))

    assert lake.read("usage", columns=["cpu_cores"]).to_pylist() == [{"cpu_cores": 1.0}]


def test_reading_as_of_sees_only_what_had_arrived(lake: Lake) -> None:
    land(lake, OffsetRange("usage", 0, 0, 2), usage_rows(("a", 0, 1.0, 0), ("a", 30, 2.0, 1)))

    seen = lake.read("usage", columns=["cpu_cores"], as_of=T0 + timedelta(seconds=2))

    assert seen["cpu_cores"].to_pylist() == [1.0]


def test_reading_keeps_to_its_stretch_of_time_and_its_nodes(lake: Lake) -> None:
    land(lake, OffsetRange("usage", 0, 0, 3), usage_rows(("a", 0, 1.0, 0), ("b", 0, 2.0, 1), ("a", 60, 3.0, 2)))

    rows = lake.read("usage", T0, T0 + timedelta(seconds=60), ["container"], nodes=["node-of-a"])

    assert rows["container"].to_pylist() == ["a"]


def test_a_streaming_batch_written_twice_counts_once(lake: Lake) -> None:
    for cpu in (1.0, 9.0):
        lake.append("usage", usage_rows(("a", 0, cpu, 0)), BatchId("stream", 4))

    assert lake.read("usage")["cpu_cores"].to_pylist() == [1.0]


def test_replacing_a_stretch_leaves_the_rest_of_older_files(lake: Lake) -> None:
    lake.replace("usage", T0, T0 + timedelta(seconds=90), "daily", usage_rows(*[("a", s, 1.0, 0) for s in (0, 30, 60)]))
    lake.replace(
        "usage", T0 + timedelta(seconds=30), T0 + timedelta(seconds=60), "daily", usage_rows(("a", 30, 2.0, 0))
    )

    assert lake.read("usage")["cpu_cores"].to_pylist() == [1.0, 2.0, 1.0]


def test_replacing_with_rows_outside_the_stretch_is_refused(lake: Lake) -> None:
    with pytest.raises(IngestError, match="1 rows"):
        lake.replace("usage", T0, T0 + timedelta(seconds=30), "daily", usage_rows(("a", 30, 1.0, 0)))


def test_an_address_that_names_no_store_is_refused_at_start(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="names no folder and no bucket"):
        Lake.open("ftp://host/lake", LANDED)
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(IngestError, match="cannot be used"):
        Lake.open(tmp_path / "file", LANDED)


@pytest.mark.parametrize("topic", ["../other", "a/b", "", "."])
def test_a_topic_never_leads_out_of_the_lake(topic: str) -> None:
    with pytest.raises(IngestError, match="cannot name a place in the lake"):
        OffsetRange(topic, 0, 0, 1)


@settings(max_examples=30)
@given(cuts=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 10)), min_size=1, max_size=5))
def test_replaced_ranges_hold_the_newest_value_of_every_moment(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[tuple[int, int]]
) -> None:
    lake = Lake.open(tmp_path_factory.mktemp("lake"), LANDED)
    expected: dict[int, float] = {}
    for number, (start, length) in enumerate(cuts):
        seconds = range(start, start + length)
        rows = usage_rows(*[("a", second, float(number), 0) for second in seconds])
        lake.replace("usage", T0 + timedelta(seconds=start), T0 + timedelta(seconds=start + length), "daily", rows)
        expected |= dict.fromkeys(seconds, float(number))

    values = lake.read("usage")["cpu_cores"].to_pylist()

    assert values == [expected[second] for second in sorted(expected)]


def test_fields_outside_the_catalogue_are_counted_by_name(lake: Lake) -> None:
    seen = ({"colour": 2}, {"colour": 1, "shape": 1})
    ranges = [
        RangeRows(OffsetRange("usage", p, 0, 2), usage_rows(), unknown_fields=some) for p, some in enumerate(seen)
    ]

    Positions(lake).land("usage", ranges)

    assert lake.unknown_fields() == {"colour": 3, "shape": 1}


def test_a_table_whose_log_is_gone_is_damaged_and_not_empty(lake: Lake) -> None:
    land(lake, OffsetRange("usage", 0, 0, 1), usage_rows(("a", 0, 1.0, 0)))
    shutil.rmtree(lake.root / "usage" / "_delta_log")

    with pytest.raises(DamagedLake, match="_delta_log cannot be read"):
        Lake.open(lake.root, TABLES).read("usage")


class OvertakenFolder(Folder):
    """A folder in which another process lands the first rows of a table just before its files are listed."""

    def sizes(self, table: str) -> dict[str, int]:
        land(Lake.open(self.root, LANDED), OffsetRange("usage", 0, 0, 1), usage_rows(("a", 0, 1.0, 0)))
        return super().sizes(table)


def test_a_table_that_is_created_while_it_is_looked_for_is_not_damaged(tmp_path: Path) -> None:
    assert Lake(OvertakenFolder(tmp_path), LANDED).read("usage").num_rows == 1


def test_a_file_that_is_gone_is_named(lake: Lake) -> None:
    land(lake, OffsetRange("usage", 0, 0, 1), usage_rows(("a", 0, 1.0, 0)))
    [file] = lake.files("usage")
    Path(file).unlink()

    with pytest.raises(DamagedLake, match=Path(file).name):
        lake.read("usage")


def test_a_column_that_came_since_is_null_in_older_rows(tmp_path: Path) -> None:
    before = replace(USAGE, columns=tuple(one for one in USAGE.columns if one.name != "cpu_cores"))
    old = Lake.open(tmp_path, {"usage": before})
    land(old, OffsetRange("usage", 0, 0, 1), usage_rows(("a", 0, 1.0, 0)).drop(["cpu_cores"]))

    lake = Lake.open(tmp_path, LANDED)
    land(lake, OffsetRange("usage", 0, 1, 2), usage_rows(("b", 0, 2.0, 1)))

    assert lake.read("usage")["cpu_cores"].to_pylist() == [None, 2.0]
    assert DeltaTable(str(tmp_path / "usage")).to_pyarrow_table()["cpu_cores"].null_count == 1


def test_columns_without_any_value_are_named_by_what_files_say(lake: Lake) -> None:
    assert not {"ts", "node", "arrived_at"} & lake.unmeasured("usage")

    land(lake, OffsetRange("usage", 0, 0, 1), usage_rows(("a", 0, None, 0)))
    land(lake, OffsetRange("usage", 0, 1, 2), usage_rows(("a", 3600, 1.0, 1)))

    assert {"cpu_cores", "memory_bytes"} <= lake.unmeasured("usage", end=T0 + timedelta(hours=1))
    assert lake.unmeasured("usage") == set(USAGE.schema.names) - {
        *("cluster", "node", "container", "interval_s", "ts", "cpu_cores", "topic", "partition", "offset", "arrived_at")
    }
