"""Line file: the same lines make the same bytes, under the name of their digest, and are read as they were written."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.billing.lines.parquet import in_line_order, read_lines, write_lines
from advisor.billing.lines.schema import SCHEMA, SHARED
from advisor.billing.pricing.billed_quantity import HOUR
from advisor.billing.pricing.charges import bill_pool_hours
from advisor.errors import Unavailable
from tests.advisor.billing.billed import START_US, Pool, book, taken

FACTS = dict.fromkeys(SHARED, "x")


def lines() -> pa.Table:
    rows = taken(
        ("search", "c1", "prod", "cpu", 5 * HOUR), ("ads", "c2", "mid", "memory", 3 * HOUR),
        ("ads", "c1", "free", "cpu", HOUR), gap_minutes=15, minutes=45,
    )  # fmt: skip
    return bill_pool_hours(rows, Pool(1_000_003, {"cpu": 50 * HOUR, "memory": HOUR}).hours(START_US), book())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 99), cut=st.integers(0, 5))
def test_shuffled_lines_in_pieces_make_the_same_file(tmp_path: Path, seed: int, cut: int) -> None:
    """I3."""
    first = write_lines(lines(), FACTS, tmp_path)
    shuffled = lines().take(pa.array(np.random.default_rng(seed).permutation(lines().num_rows)))

    again = write_lines(pa.concat_tables([shuffled.slice(0, cut), shuffled.slice(cut)]), FACTS, tmp_path / "other")

    assert (again.sha256, again.path.read_bytes()) == (first.sha256, first.path.read_bytes())
    assert (again.rows, again.amount_micros) == (lines().num_rows, 1_000_003)


def test_what_was_written_is_read_exactly(tmp_path: Path) -> None:
    facts = {name: f"{name} é" for name in SHARED}

    written = write_lines(lines(), facts, tmp_path)

    assert written.path == tmp_path / f"{written.sha256}.parquet"
    table, shared = read_lines(written.path)
    assert table.equals(lines())
    assert table.schema.equals(SCHEMA)
    assert shared == facts
    assert [path.name for path in tmp_path.iterdir()] == [written.path.name], "nothing unfinished is left"


def test_a_file_that_is_not_what_its_name_says_is_refused(tmp_path: Path) -> None:
    written = write_lines(lines(), FACTS, tmp_path)
    content = bytearray(written.path.read_bytes())
    content[len(content) // 2] ^= 1
    written.path.write_bytes(content)

    with pytest.raises(Unavailable, match="restore it from a backup"):
        read_lines(written.path)


def test_lines_that_do_not_say_what_they_share_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="currency"):
        write_lines(lines(), {"format": "1"}, tmp_path)


def test_no_lines_are_a_file_too(tmp_path: Path) -> None:
    written = write_lines(SCHEMA.empty_table(), FACTS, tmp_path)

    assert (written.rows, written.amount_micros) == (0, 0)
    assert read_lines(written.path)[0].equals(SCHEMA.empty_table())


def test_lines_of_the_whole_period_stand_first() -> None:
    monthly = lines().slice(0, 1).set_column(0, SCHEMA.field("hour"), pa.nulls(1, SCHEMA.field("hour").type))

    ordered = in_line_order(pa.concat_tables([lines(), monthly]))

    assert ordered["hour"][0].as_py() is None
    assert ordered.slice(1).combine_chunks().equals(lines())
