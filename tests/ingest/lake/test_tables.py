"""The lake: what counts is exactly what a link, a batch or a range names."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.schema.tables import TABLES
from ingest.lake.layout import DataFile, LinkFacts
from ingest.lake.tables import Lake
from ingest.schema.errors import DamagedLake, IngestError, LinkTaken
from ingest.schema.provenance import BatchId, Link
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


def land(lake: Lake, link: Link, rows: pa.Table) -> None:
    lake.commit(link, lake.append("usage", rows, link))


def test_landed_rows_come_back_sorted_by_time_and_unchanged(lake: Lake) -> None:
    rows = usage_rows(("b", 0, 1.0, 0), ("a", 0, None, 1), ("a", 3600, 2.0, 2))

    land(lake, Link("usage", 0, 0, 3), rows)

    assert lake.read("usage").equals(rows.sort_by([("ts", "ascending"), ("container", "ascending")]))


def test_rows_without_a_link_do_not_count(lake: Lake) -> None:
    lake.append("usage", usage_rows(("a", 0, 1.0, 0)), Link("usage", 0, 0, 1))

    assert lake.read("usage").num_rows == 0
    assert lake.position("usage", 0) is None


def test_of_two_writers_from_one_position_exactly_one_lands(lake: Lake) -> None:
    link = Link("usage", 0, 0, 1)
    zombie = Lake.open(lake.root, LANDED)
    late = zombie.append("usage", usage_rows(("a", 0, 9.0, 0)), link)
    land(lake, link, usage_rows(("a", 0, 1.0, 0)))

    with pytest.raises(LinkTaken):
        zombie.commit(link, late)

    assert lake.read("usage")["cpu_cores"].to_pylist() == [1.0]
    assert zombie.position("usage", 0) == 1


def test_a_chain_starts_at_zero_and_has_no_holes(lake: Lake) -> None:
    with pytest.raises(IngestError, match="ends at 0"):
        land(lake, Link("usage", 0, 5, 6), usage_rows(("a", 0, 1.0, 5)))

    lake.commit(Link("usage", 0, 0, 5), (), kind="gap")
    land(lake, Link("usage", 0, 5, 6), usage_rows(("a", 0, 1.0, 5)))

    assert [(link.start, link.end, facts.kind) for link, facts in lake.chain("usage", 0)] == [
        (0, 5, "gap"),
        (5, 6, "batch"),
    ]


def test_links_that_were_read_are_never_read_again(lake: Lake) -> None:
    for start in range(3):
        land(lake, Link("usage", 0, start, start + 1), usage_rows((f"u{start}", start, 1.0, start)))
    assert lake.read("usage").num_rows == 3

    for start in range(2):
        lake.layout.link("usage", 0, start).unlink()
    land(lake, Link("usage", 0, 3, 4), usage_rows(("u3", 3, 1.0, 3)))

    assert lake.read("usage")["container"].to_pylist() == ["u0", "u1", "u2", "u3"]
    assert lake.position("usage", 0) == 4


def test_a_batch_without_rows_still_moves_the_chain(lake: Lake) -> None:
    land(lake, Link("usage", 2, 0, 7), usage_rows())

    assert Lake.open(lake.root, LANDED).position("usage", 2) == 7


def test_of_duplicates_the_lowest_position_stays(lake: Lake) -> None:
    land(lake, Link("usage", 0, 0, 3), usage_rows(("a", 0, 2.0, 1), ("a", 0, 1.0, 0), ("a", 0, 3.0, 2)))

    assert lake.read("usage", columns=["cpu_cores"]).to_pylist() == [{"cpu_cores": 1.0}]


def test_reading_as_of_sees_only_what_had_arrived(lake: Lake) -> None:
    land(lake, Link("usage", 0, 0, 2), usage_rows(("a", 0, 1.0, 0), ("a", 30, 2.0, 1)))

    seen = lake.read("usage", columns=["cpu_cores"], as_of=T0 + timedelta(seconds=2))

    assert seen["cpu_cores"].to_pylist() == [1.0]


def test_reading_keeps_to_its_stretch_of_time_and_its_nodes(lake: Lake) -> None:
    land(lake, Link("usage", 0, 0, 3), usage_rows(("a", 0, 1.0, 0), ("b", 0, 2.0, 1), ("a", 60, 3.0, 2)))

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


def test_a_lake_without_create_if_absent_is_refused_at_start(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="only folders"):
        Lake.open("s3://bucket/lake", LANDED)
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(IngestError, match="cannot be used"):
        Lake.open(tmp_path / "file", LANDED)


@pytest.mark.parametrize("topic", ["../other", "a/b", "", "."])
def test_a_topic_never_leads_out_of_the_lake(topic: str) -> None:
    with pytest.raises(IngestError, match="cannot name a place in the lake"):
        Link(topic, 0, 0, 1)


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
    lake.commit(Link("usage", 0, 0, 2), (), unknown_fields={"colour": 2})
    lake.commit(Link("usage", 1, 0, 2), (), unknown_fields={"colour": 1, "shape": 1})

    assert lake.unknown_fields() == {"colour": 3, "shape": 1}


def test_reading_what_is_computed_follows_no_stream(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path, TABLES)
    land(lake, Link("usage", 0, 0, 1), usage_rows(("a", 0, 1.0, 0)))
    (lake.layout.link("usage", 0, 0)).write_bytes(b"damaged")

    assert lake.read("profiles").num_rows == 0
    assert lake.landed_rows("profiles") == 0
    with pytest.raises(DamagedLake):
        lake.read("usage")


@pytest.mark.parametrize("path", ["/etc/x", "..", "../x", "data/../../x", "data/..", "a\x00b", "", "a" * 3000])
def test_what_a_link_says_never_leads_out_of_the_lake(lake: Lake, path: str) -> None:
    land(lake, Link("usage", 0, 0, 1), usage_rows(("u", 0, 1.0, 0)))
    link = lake.layout.link("usage", 0, 0)
    said = json.loads(link.read_bytes())
    said["files"][0]["path"] = path
    link.write_text(json.dumps(said))

    with pytest.raises(DamagedLake, match="cannot be read"):
        Lake.open(lake.root, TABLES).read("usage")


def test_names_with_dots_are_no_way_out() -> None:
    file = DataFile("usage", "data/a..b/..c/d...parquet", 1, 0, 0)
    facts = LinkFacts(1, "batch", (file,), {})

    assert LinkFacts.parse(facts.written()) == facts
