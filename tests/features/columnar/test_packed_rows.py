"""Packed rows: every row comes back, with those of its group, and never as another version's."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.columnar.packed_rows import packed, unpacked
from features.schema.errors import FeaturesError

SCHEMA = pa.schema([("group", pa.int64()), ("text", pa.string()), ("value", pa.float64())])


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.none() | st.text(max_size=3), st.none() | st.floats(allow_nan=False)),
        min_size=1,
        max_size=20,
    )
)
def test_rows_of_a_group_lie_together_and_come_back_as_they_were(
    rows: list[tuple[int, str | None, float | None]],
) -> None:
    table = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)

    values = list(packed(table, np.array([group for group, _, _ in rows], np.int64)))

    groups = [unpacked([value], SCHEMA) for _, value in values]
    expected = [[row for row in rows if row[0] == group] for group in sorted({group for group, _, _ in rows})]
    assert [[tuple(row.values()) for row in one.to_pylist()] for one in groups] == expected
    assert [rows[first] for first, _ in values] == [some[0] for some in expected]
    assert unpacked([value for _, value in values], SCHEMA).equals(pa.concat_tables(groups).combine_chunks())


def test_nothing_unpacks_to_no_rows() -> None:
    assert unpacked([], SCHEMA).equals(SCHEMA.empty_table())


def test_rows_of_another_version_are_refused_with_what_to_do() -> None:
    older = SCHEMA.remove(2)
    [(_, value)] = packed(pa.Table.from_pylist([{"group": 1, "text": "a"}], schema=older), np.zeros(1, np.int64))

    with pytest.raises(FeaturesError, match="delete its folder below checkpoints/"):
        unpacked([value], SCHEMA)
