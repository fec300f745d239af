"""Checkpoints save reading and change nothing: whoever reads with them sees what whoever reads without them sees."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_upkeep import HOUR, LATER, T0, TABLES, Row, land, many, offsets, silent, states, usage

from ingest.checkpointing import checkpoint
from ingest.compaction import When, compact
from ingest.errors import DamagedLake
from ingest.expiry import dead, expire, sweep
from ingest.lake import Lake
from ingest.lake_check import check
from ingest.origin import BatchId, Link
from ingest.selection import microseconds

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
    assert checkpoint(lake)
    for path in (lake.root / "links").rglob("*.json"):
        path.write_text("not read")

    rows += land(lake, 0, [(2, 1)])

    assert offsets(again(lake)) == sorted((row.partition, row.offset) for row in rows)
    assert again(lake).position("usage", 0) == rows[-1].offset + 1


def test_a_reader_that_stays_forgets_what_a_newer_checkpoint_does_without(lake: Lake) -> None:
    many(lake, links=12)
    assert lake.landed_rows("usage") == 24
    compact(lake, "usage", When(LATER), silent)
    sweep(lake, "usage", LATER, NONE_GRACE)
    checkpoint(again(lake))

    assert lake.landed_rows("usage") == 24
    assert sum(len(lake.history().chains.files(name)) for name in TABLES) == 0
    assert [one.merged[0].replaces for one in lake.history().compacted("usage").compactions] == [()]


def test_a_checkpoint_does_not_grow_with_what_came_and_went(lake: Lake) -> None:
    def size() -> int:
        many(lake, links=12)
        compact(lake, "usage", When(LATER), silent)
        sweep(lake, "usage", LATER, NONE_GRACE)
        checkpoint(lake)
        return max(lake.layout.checkpoints().iterdir()).stat().st_size

    first = size()
    assert [size() < 1.2 * first for _ in range(4)] == [True] * 4
    assert len(list(lake.layout.checkpoints().iterdir())) == 2


def test_whoever_knows_fewer_tables_forgets_nothing_of_the_others(lake: Lake) -> None:
    many(lake, links=12)
    compact(lake, "usage", When(LATER), silent)
    sweep(lake, "usage", LATER, NONE_GRACE)
    checkpoint(lake)
    many(lake, links=2)
    with without_checkpoints(lake) as unaided:
        expected = seen(unaided)

    assert checkpoint(Lake.open(lake.root, {name: kind for name, kind in TABLES.items() if name != "usage"}))

    assert seen(again(lake)) == expected
    assert check(again(lake), silent).damage == []


def test_nothing_is_written_where_nothing_happened(lake: Lake) -> None:
    many(lake)

    assert [checkpoint(again(lake)) for _ in range(3)] == [True, False, False]
    assert [path.name for path in lake.layout.checkpoints().iterdir()] == [f"{1:012d}.json"]


def test_no_checkpoint_hides_a_missing_link(lake: Lake) -> None:
    many(lake, links=6)
    checkpoint(lake)
    start = lake.position("usage", 0) or 0
    for _ in range(2):
        land(lake, 0, [(0, 1)])
    lake.layout.link("usage", 0, start).unlink()

    with pytest.raises(DamagedLake, match="missing"):
        checkpoint(again(lake))
    assert len(list(lake.layout.checkpoints().iterdir())) == 1


@pytest.mark.parametrize("content", ["", "{", '{"chains": 1}', "[" * 100_000])
def test_one_that_cannot_be_read_is_passed_over_told_of_and_soon_replaced(lake: Lake, content: str) -> None:
    many(lake)
    before = seen(lake)
    checkpoint(lake)
    path = lake.layout.checkpoints() / f"{1:012d}.json"
    path.write_text(content)

    assert seen(again(lake)) == before
    told = check(again(lake), silent).damage
    assert [(one.path, one.what) for one in told] == [(f"checkpoints/{path.name}", "it cannot be read")]
    assert "delete it" in told[0].remedy

    assert checkpoint(again(lake))
    assert check(again(lake), silent).damage == []


def test_check_finds_one_that_leaves_a_file_out_or_ends_where_no_link_does(lake: Lake) -> None:
    many(lake)
    checkpoint(lake)
    path = lake.layout.checkpoints() / f"{1:012d}.json"
    sound = path.read_text()
    file = '{"table":"usage","path":"' + lake.layout.relative(Path(lake.files("usage")[0]))

    for old, new, told in (
        (file, file + "x", "other files of usage"),
        ('"end":12,', '"end":11,', "no link of usage 0 ends at 11"),
    ):
        assert old in sound
        path.write_text(sound.replace(old, new, 1))
        assert [told in damage.what for damage in check(again(lake), silent).damage] == [True]


def test_a_link_is_still_created_by_one_writer_only(lake: Lake) -> None:
    many(lake)
    slow = again(lake)
    assert slow.position("usage", 0) == 12
    land(lake, 0, [(0, 1)])
    checkpoint(lake)

    with pytest.raises(Exception, match="12"):
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
        checkpoint(lake)


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
