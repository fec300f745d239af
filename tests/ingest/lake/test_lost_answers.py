"""Commits whose answer is lost: the store has made them, and says on the second try that another did."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingest.lake.check import check
from ingest.lake.fence import Fence, Taken
from ingest.lake.landing import Positions, RangeRows
from ingest.lake.tables import Lake
from ingest.lake.upkeep import When, compact
from ingest.schema.provenance import BatchId, OffsetRange
from tests.ingest.lake.test_upkeep import HOUR, LATER, STATE, T0, TABLES, Row, many, offsets, silent, states, usage


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(tmp_path / "lake", TABLES)


@pytest.fixture
def lose_answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lose the answer to the next commit."""
    write, left = Fence._write, [0]

    def forgetful(fence: Fence, *args: Any, **words: Any) -> None:
        write(fence, *args, **words)
        left[0] -= 1
        if left[0] == 0:
            raise Taken(fence.kind.name)

    monkeypatch.setattr(Fence, "_write", forgetful)
    return lambda: left.__setitem__(0, 1)


def test_a_range_is_landed_once(lake: Lake, lose_answer: Callable[[], None]) -> None:
    many(lake)
    lose_answer()

    Positions(lake).land("usage", [RangeRows(OffsetRange("usage", 0, 12, 13), usage([Row(0, 99, 0, 12)]))])

    assert lake.landed_rows("usage") == 25
    assert Positions(lake).position("usage", 0) == 13


def test_a_batch_is_appended_once(lake: Lake, lose_answer: Callable[[], None]) -> None:
    lose_answer()

    lake.append(STATE.name, states(("n", 0, 1.0)), BatchId("job", 0))

    assert lake.rows(STATE.name).num_rows == 1


def test_a_range_is_replaced_once(lake: Lake, lose_answer: Callable[[], None]) -> None:
    lake.replace(STATE.name, T0, T0 + 2 * HOUR, "job", states(("n", 0, 1.0), ("n", 1, 2.0)))
    lose_answer()

    lake.replace(STATE.name, T0 + HOUR, T0 + 3 * HOUR, "job", states(("n", 1, 3.0), ("n", 2, 4.0)))

    assert lake.rows(STATE.name)["cpu_cores"].to_pylist() == [1.0, 3.0, 4.0]
    assert Lake.open(lake.root, TABLES).read(STATE.name)["cpu_cores"].to_pylist() == [1.0, 3.0, 4.0]
    assert not check(lake, silent, "rows").damage


def test_files_are_compacted_once(lake: Lake, lose_answer: Callable[[], None]) -> None:
    many(lake)
    before = offsets(lake)
    lose_answer()

    compact(lake, "usage", When(LATER), silent)

    assert offsets(lake) == before
    assert lake.landed_rows("usage") == 24
