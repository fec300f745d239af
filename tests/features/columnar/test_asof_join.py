"""As-of joins: the newest that was known by then, against a naive loop."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.columnar.arrow_columns import micros
from features.columnar.asof_join import NEVER, key_codes, newest_known, row_of, stands_until
from features.contention.node_state import known_at, known_by
from features.schema.errors import FeaturesError
from tests.features.rows import at, nodes

events = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), max_size=15)


def columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([k for k, _ in pairs], np.int64), np.array([t for _, t in pairs], np.int64)


@given(left=events, right=events)
def test_the_newest_known_row_is_found_as_a_loop_would(
    left: list[tuple[int, int]], right: list[tuple[int, int]]
) -> None:
    def newest(key: int, time: int) -> int:
        known = [(t, i) for i, (k, t) in enumerate(right) if k == key and t <= time]
        return max(known)[1] if known else -1

    assert newest_known(*columns(left), *columns(right)).tolist() == [newest(*row) for row in left]


@given(known=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=15))
def test_an_event_stands_until_a_later_one_is_known(known: list[tuple[int, int]]) -> None:
    rows = sorted(known, key=lambda row: row[0])
    expected = [
        min((t for k, t in rows[i + 1 :] if k == key), default=NEVER) for i, (key, _) in enumerate(rows)
    ]  # fmt: skip

    assert stands_until(*columns(rows)).tolist() == expected


@given(
    facts=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5), st.integers(0, 5)), max_size=8),
    order=st.randoms(use_true_random=False),
)
def test_facts_are_those_landed_last_of_the_newest_that_had_arrived(
    facts: list[tuple[str, int, int]], order: Random
) -> None:
    rows = [
        {"node": n, "ts": ts, "arrived_at": at(ts + late), "offset": i, "cores": float(i + 1)}
        for i, (n, ts, late) in enumerate(facts)
    ]

    def newest(node: str, time: int, *, arrived: bool) -> float | None:
        known = [
            (ts, ts + late, i)
            for i, (n, ts, late) in enumerate(facts)
            if n == node and ts <= time and not (arrived and ts + late > time)
        ]
        return max(known)[2] + 1.0 if known else None

    shuffled = list(rows)
    order.shuffle(shuffled)
    asked = [(node, time) for node in "ab" for time in range(12)]
    left = pa.table({"cluster": ["c"] * len(asked), "node": [n for n, _ in asked]})
    left_us = micros(pa.chunked_array([pa.array([at(t) for _, t in asked])]))

    by_time = known_at(left, left_us, nodes(*shuffled), ["cluster", "node"])["cores"].to_pylist()
    by_arrival = known_by(left, left_us, nodes(*shuffled), ["cluster", "node"])["cores"].to_pylist()

    assert by_time == [newest(*row, arrived=False) for row in asked]
    assert by_arrival == [newest(*row, arrived=True) for row in asked]


def test_null_is_a_key_like_any_other() -> None:
    left = pa.table({"a": ["x", None, "z"]})
    right = pa.table({"a": pa.array([None, "x"], pa.string())})

    assert row_of(*key_codes(left, right, ["a"])).tolist() == [1, 0, -1]


@given(
    left=st.lists(st.sampled_from(["x", "z", "", None]), max_size=6),
    right=st.lists(st.sampled_from(["x", "y", None]), max_size=6),
)
def test_codes_of_texts_do_not_depend_on_whether_they_lie_in_a_dictionary(
    left: list[str | None], right: list[str | None]
) -> None:
    own, other = (pa.table({"a": pa.array(texts, pa.string())}) for texts in (left, right))
    at = pa.array([None if text is None else ["y", "z", "", "x"].index(text) for text in left], pa.int32())
    coded = pa.table({"a": pa.DictionaryArray.from_arrays(at, ["y", "z", "", "x"])})

    expected = [codes.tolist() for codes in key_codes(own, other, ["a"])]

    assert [codes.tolist() for codes in key_codes(coded, other, ["a"])] == expected
    known = sorted({text for text in left + right if text is not None})
    places = {text: place for place, text in enumerate([*known, None])}
    assert expected == [[places[text] for text in texts] for texts in (left, right)]


def test_lengths_must_agree() -> None:
    one, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
    with pytest.raises(FeaturesError, match="differ in length"):
        newest_known(one, two, one, one)
    with pytest.raises(FeaturesError, match="differ in length"):
        stands_until(one, two)
