"""Checkpoints save reading and change nothing: whoever reads with them sees what whoever reads without them sees."""

import os
import pickle
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingest.lake.check import check
from ingest.lake.checkpoint_writer import checkpoint
from ingest.lake.compaction import When, compact
from ingest.lake.retention import dead, expire, sweep
from ingest.lake.row_filter import microseconds
from ingest.lake.tables import Lake
from ingest.schema.errors import DamagedLake, LinkTaken
from ingest.schema.provenance import BatchId, Link
from tests.ingest.lake.test_upkeep import HOUR, LATER, T0, TABLES, Row, land, many, offsets, silent, states, usage

NONE_GRACE = timedelta()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(tmp_path / "lake", TABLES)


def again(lake: Lake) -> Lake:
    return Lake.open(lake.root, TABLES)


@contextmanager
def without_checkpoints(lake: Lake) -> Iterator[Lake]:
    """The same lake, for whoever has to follow all of it."""
    folder, aside = lake.layout.checkpoints(), lake.root / "aside"
    there = folder.exists()
    if there:
        folder.rename(aside)
    yield again(lake)
    if there:
        aside.rename(folder)


def seen(lake: Lake) -> tuple[object, ...]:
    """All that links and manifests say to a reader, to compaction and to a sweep."""
    now_us = microseconds(LATER)
    return (
        *(sorted(lake.files(name)) for name in ("usage", "state")),
        *(dead(lake, name, now_us) for name in ("usage", "state")),
        *(lake.history().compacted(name).number for name in ("usage", "state")),
        lake.compacted_through("state", "job"),
        lake.position("usage", 0),
        lake.position("usage", 1),
        lake.unknown_fields(),
    )


def test_links_before_a_checkpoint_are_never_read_again(lake: Lake) -> None:
    rows = many(lake, links=6)
    assert checkpoint(lake, LATER)
    for place in lake.partitions():
        for start in sorted(lake.layout.starts(*place))[:-1]:
            lake.layout.link(*place, start).write_text("not read")

    rows += land(lake, 0, [(2, 1)])

    assert offsets(again(lake)) == sorted((row.partition, row.offset) for row in rows)
    assert again(lake).position("usage", 0) == rows[-1].offset + 1


def test_a_reader_that_stays_forgets_what_a_newer_checkpoint_does_without(lake: Lake) -> None:
    many(lake, links=12)
    assert lake.landed_rows("usage") == 24
    compact(lake, "usage", When(LATER), silent)
    sweep(lake, "usage", LATER, NONE_GRACE)
    checkpoint(again(lake), LATER)

    assert lake.landed_rows("usage") == 24
    assert sum(len(lake.history().chains.files(name)) for name in TABLES) == 0
    assert [one.merged[0].replaces for one in lake.history().compacted("usage").compactions] == [()]


def test_a_checkpoint_does_not_grow_with_what_came_and_went(lake: Lake) -> None:
    def size() -> int:
        many(lake, links=12)
        compact(lake, "usage", When(LATER), silent)
        sweep(lake, "usage", LATER, NONE_GRACE)
        checkpoint(lake, LATER)
        return max(lake.layout.checkpoints().iterdir()).stat().st_size

    first = size()
    assert [size() < 1.2 * first for _ in range(4)] == [True] * 4
    assert len(list(lake.layout.checkpoints().iterdir())) == 2


def test_whoever_knows_fewer_tables_forgets_nothing_of_the_others(lake: Lake) -> None:
    many(lake, links=12)
    compact(lake, "usage", When(LATER), silent)
    sweep(lake, "usage", LATER, NONE_GRACE)
    checkpoint(lake, LATER)
    many(lake, links=2)
    with without_checkpoints(lake) as unaided:
        expected = seen(unaided)

    assert checkpoint(Lake.open(lake.root, {name: kind for name, kind in TABLES.items() if name != "usage"}), LATER)

    assert seen(again(lake)) == expected
    assert check(again(lake), silent).damage == []


def test_nothing_is_written_where_nothing_happened(lake: Lake) -> None:
    many(lake)

    assert [checkpoint(again(lake), LATER) for _ in range(3)] == [True, False, False]
    assert [path.name for path in lake.layout.checkpoints().iterdir()] == [f"{1:012d}.json"]


def test_no_checkpoint_hides_a_missing_link(lake: Lake) -> None:
    many(lake, links=6)
    checkpoint(lake, LATER)
    start = lake.position("usage", 0) or 0
    for _ in range(2):
        land(lake, 0, [(0, 1)])
    lake.layout.link("usage", 0, start).unlink()

    with pytest.raises(DamagedLake, match="missing"):
        checkpoint(again(lake), LATER)
    assert len(list(lake.layout.checkpoints().iterdir())) == 1


@pytest.mark.parametrize("content", ["", "{", '{"chains": 1}', "[" * 100_000])
def test_one_that_cannot_be_read_is_passed_over_told_of_and_soon_replaced(lake: Lake, content: str) -> None:
    many(lake)
    before = seen(lake)
    checkpoint(lake, LATER)
    path = lake.layout.checkpoints() / f"{1:012d}.json"
    path.write_text(content)

    assert seen(again(lake)) == before
    told = check(again(lake), silent).damage
    assert [(one.path, one.what) for one in told] == [(f"lake-checkpoints/{path.name}", "it cannot be read")]
    assert "delete it" in told[0].remedy

    assert checkpoint(again(lake), LATER)
    assert check(again(lake), silent).damage == []


def test_check_finds_one_that_leaves_a_file_out_or_ends_where_no_link_does(lake: Lake) -> None:
    many(lake)
    checkpoint(lake, LATER)
    path = lake.layout.checkpoints() / f"{1:012d}.json"
    sound = path.read_text()
    file = '{"table":"usage","path":"' + lake.layout.relative(Path(lake.files("usage")[0]))

    for old, new, *told in (
        (file, file + "x", "other files of usage", "forgotten files of usage"),
        ('"end":12,', '"end":11,', "no link of usage 0 ends at 11"),
        ('"number":0', '"number":1', "other files of"),
    ):
        assert old in sound
        path.write_text(sound.replace(old, new, 1))
        damage = check(again(lake), silent).damage
        assert [words in one.what for words, one in zip(told, damage, strict=True)] == [True] * len(told)


def test_a_compacted_file_that_went_before_what_it_replaced_stays_replaced(lake: Lake) -> None:
    land(lake, 0, [(0, 1)])
    land(lake, 0, [(0, 2)])
    compact(lake, "usage", When(LATER), silent)
    land(lake, 0, [(0, 3), (0, 4)])
    compact(lake, "usage", When(LATER), silent)
    first = next(path for path in dead(lake, "usage", microseconds(LATER)) if "compacted" in path.parts)
    first.unlink()  # and then the sweep died

    checkpoint(lake, LATER)
    assert len(again(lake).files("usage")) == 1
    sweep(again(lake), "usage", LATER, NONE_GRACE)
    checkpoint(lake, LATER)
    assert len(again(lake).files("usage")) == 1
    assert len(offsets(again(lake))) == 4


@pytest.mark.parametrize("left", ["_SUCCESS", ".part-0.parquet.crc", ""])
def test_a_folder_of_batches_that_was_not_removed_yet_is_removed_later(lake: Lake, left: str) -> None:
    for batch in range(4):
        lake.append("state", states((f"n{batch}", 0, 1.0)), BatchId("job", batch))
    compact(lake, "state", When(LATER), silent)
    folder = lake.batch_path("state", "job", 0)
    for path in folder.iterdir():
        path.unlink()  # and then the sweep died
    if left:
        (folder / left).touch()

    checkpoint(lake, LATER)
    sweep(again(lake), "state", LATER, NONE_GRACE)

    assert sorted(path.name for path in folder.parent.iterdir()) == [f"{3:012d}"]


def test_batches_that_come_back_are_told(lake: Lake) -> None:
    for batch in range(4):
        lake.append("state", states((f"n{batch}", 0, 1.0)), BatchId("job", batch))
    shutil.copytree(lake.layout.batches("state"), lake.root / "copy")
    compact(lake, "state", When(LATER), silent)
    sweep(lake, "state", LATER, NONE_GRACE)
    checkpoint(lake, LATER)
    shutil.copytree(lake.root / "copy", lake.layout.batches("state"), dirs_exist_ok=True)

    assert "forgotten files of state" in check(again(lake), silent).damage[0].what
    for path in lake.layout.checkpoints().iterdir():
        path.unlink()
    assert again(lake).count("state", T0, LATER) == 4


def test_links_that_were_there_are_missed_by_whoever_would_land_on(lake: Lake) -> None:
    many(lake, links=6)
    checkpoint(lake, LATER)
    newest = max(lake.layout.starts("usage", 0))
    lake.layout.link("usage", 0, newest).unlink()  # as when an older copy is put back

    with pytest.raises(DamagedLake, match=f"a checkpoint knows of links up to {newest + 2}"):
        again(lake).position("usage", 0)
    with pytest.raises(DamagedLake, match=f"a checkpoint knows of links up to {newest + 2}"):
        checkpoint(again(lake), LATER)

    (lake.layout.checkpoints() / f"{1:012d}.json").unlink()
    assert again(lake).position("usage", 0) == newest


def test_whoever_only_lands_holds_the_name_of_no_file(lake: Lake) -> None:
    def held() -> int:
        writer = again(lake)
        many(writer, links=1)
        assert writer.position("usage", 0)
        return len(pickle.dumps(writer))

    many(lake, links=2)
    checkpoint(lake, LATER)
    few = held()
    many(lake, links=40)
    checkpoint(lake, LATER)

    assert held() == few


def test_a_writer_that_stays_knows_the_newest_checkpoint_where_it_takes_over_a_partition(lake: Lake) -> None:
    writer = again(lake)
    assert writer.position("usage", 0) is None
    many(lake, links=3)
    checkpoint(lake, LATER)
    for start in list(lake.layout.starts("usage", 0)):
        lake.layout.link("usage", 0, start).unlink()

    with pytest.raises(DamagedLake, match="a checkpoint knows of links up to"):
        writer.position("usage", 0)


def test_a_chain_whose_first_link_was_never_written_is_none(lake: Lake) -> None:
    many(lake, links=2)
    lake.layout.chain("usage", 7).mkdir()

    checkpoint(lake, LATER)

    assert check(again(lake), silent).damage == []


def test_whoever_stays_begins_anew_where_checkpoints_were_deleted_and_numbers_are_given_again(lake: Lake) -> None:
    many(lake, links=2)
    checkpoint(lake, LATER)
    rows = lake.landed_rows("usage")
    path = lake.layout.checkpoints() / f"{1:012d}.json"
    path.write_text(path.read_text().replace("data/", "gone/"))
    assert lake.files("usage")[0].startswith(str(lake.root / "gone"))

    path.unlink()
    assert checkpoint(again(lake), LATER)

    assert lake.landed_rows("usage") == rows
    assert lake.files("usage")[0].startswith(str(lake.root / "data"))


def test_a_sender_of_ever_new_fields_does_not_make_checkpoints_grow(lake: Lake) -> None:
    for number in range(30):
        link = Link("usage", 0, number, number + 1)
        lake.commit(link, (), unknown_fields={f"f{number}-{i}": 1 for i in range(20)})

    checkpoint(lake, LATER)

    assert lake.unknown_fields().total() == again(lake).unknown_fields().total() == 600
    assert len(again(lake).unknown_fields()) <= 101


def test_what_was_never_finished_is_removed(lake: Lake) -> None:
    many(lake)
    checkpoint(lake, LATER)
    old, new = (lake.layout.checkpoints() / f".000000000002.json.{name}" for name in ("old", "new"))
    for path in (old, new):
        path.touch()
    os.utime(old, (0, 0))
    os.utime(new, (LATER.timestamp(),) * 2)
    many(lake)

    checkpoint(lake, LATER)

    assert [old.exists(), new.exists()] == [False, True]


def test_a_link_is_still_created_by_one_writer_only(lake: Lake) -> None:
    many(lake)
    slow = again(lake)
    assert slow.position("usage", 0) == 12
    land(lake, 0, [(0, 1)])
    checkpoint(lake, LATER)

    with pytest.raises(LinkTaken, match="12"):
        slow.commit(Link("usage", 0, 12, 14), ())


Keys = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=3)
Step = st.one_of(
    st.tuples(st.just("land"), st.integers(0, 1), Keys),
    st.tuples(st.just("batch"), st.integers(0, 2), st.just([])),
    st.tuples(st.just("compact"), st.just(0), st.just([])),
    st.tuples(st.just("expire"), st.integers(0, 3), st.just([])),
    st.tuples(st.just("sweep"), st.integers(0, 9), st.just([])),
    st.tuples(st.just("checkpoint"), st.just(0), st.just([])),
)


def take(lake: Lake, number: int, step: tuple[str, int, list[tuple[int, int]]]) -> None:
    what, size, keys = step
    if what == "land":
        start = lake.position("usage", size) or 0
        link = Link("usage", size, start, start + len(keys))
        files = lake.append("usage", usage([Row(*key, size, start + i) for i, key in enumerate(keys)]), link)
        lake.commit(link, files, unknown_fields={"colour": len(keys)})
    if what == "batch":
        rows = [(f"n{number}", hour, float(number)) for hour in range(size)]
        lake.append("state", states(*rows), BatchId("job", number))
    for name in ("usage", "state"):
        if what == "compact":
            compact(lake, name, When(LATER), silent)
        if what == "expire":
            expire(lake, name, T0 + size * HOUR, LATER)
        if what == "sweep":
            for path in sorted(dead(lake, name, microseconds(LATER)))[:size]:  # and then it died
                path.unlink()
    if what == "checkpoint":
        checkpoint(lake, LATER)


SWEPT_BEFORE_WHAT_IT_REPLACED: list[tuple[str, int, list[tuple[int, int]]]] = [
    ("land", 0, [(0, 1)]),
    ("land", 0, [(0, 2)]),
    ("compact", 0, []),
    ("land", 0, [(0, 3), (0, 0)]),
    ("compact", 0, []),
    ("sweep", 1, []),
    ("checkpoint", 0, []),
    ("sweep", 9, []),
    ("checkpoint", 0, []),
]
MARKED_AND_SWEPT: list[tuple[str, int, list[tuple[int, int]]]] = [
    *[("batch", 1, [])] * 3,
    ("compact", 0, []),
    ("sweep", 1, []),
]


@example(SWEPT_BEFORE_WHAT_IT_REPLACED)
@example([*MARKED_AND_SWEPT, ("checkpoint", 0, []), ("compact", 0, [])])
@settings(max_examples=60)
@given(steps=st.lists(Step, max_size=25))
def test_whoever_reads_with_checkpoints_sees_what_whoever_reads_without_them_sees(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, list[tuple[int, int]]]]
) -> None:
    old = Lake.open(tmp_path_factory.mktemp("lake"), TABLES)
    for number, step in enumerate(steps):
        take(again(old) if number % 2 else old, number, step)

        with without_checkpoints(old) as unaided:
            expected = seen(unaided)
        assert seen(old) == expected
        assert seen(again(old)) == expected
    assert check(old, silent).damage == []
    shutil.rmtree(old.root)
