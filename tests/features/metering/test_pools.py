"""Pools: what a node is part of, what there was and what it cost, to the micro-unit."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.metering.node_hours import pool_names
from features.metering.pools import pool_hours
from features.metering.units import HOUR_US, MICROS
from features.schema.errors import FeaturesError
from features.schema.tables import BILLS
from ingest.lake.row_filter import microseconds
from tests.features.rows import T0, at, nodes

START_US = microseconds(T0)
STD = {"pool": "std", "zone": "a", "cost_micros_per_hour": 60_000_001}


def bills(*rows: dict[str, object]) -> pa.Table:
    filled = [
        {"cluster": "c", "pool": "std@a", "bill": "b", "item": str(i), "currency": "EUR", **row}
        for i, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(filled, schema=BILLS.schema)


def pools(described: pa.Table, billed: pa.Table | None = None, hours: int = 1) -> list[dict[str, object]]:
    found = pool_hours(described, bills() if billed is None else billed, START_US, hours)
    return [{**row, "capacity": dict(row["capacity"] or [])} for row in found.to_pylist()]


def test_a_pool_is_a_class_of_nodes_at_a_site() -> None:
    described = nodes(
        {"pool": "p", "sku": "s", "zone": "z"}, {"sku": "s", "zone": "z"}, {"zone": "z"}, {"platform": None}
    )

    assert pool_names(described).to_pylist() == ["p@z", "s@z", "p@z", "unknown@unknown"]


def test_whole_hours_cost_what_the_nodes_do_and_have_what_they_have() -> None:
    found = pools(nodes({"node": "n", **STD, "allocatable_cores": 7.5}, {"node": "m", **STD, "gpus": 2.0}))

    assert len(found) == 1
    assert (found[0]["nodes"], found[0]["cost_micros"], found[0]["cost_source"]) == (2, 120_000_002, "nodes")
    assert found[0]["capacity"] == {
        "cpu": 60 * 15_500_000,
        "gpu": 120 * MICROS,
        "memory": 60 * 2 * round(8e9 / 2**30 * MICROS),
    }


def test_a_node_counts_from_the_minute_it_is_described_in_and_by_its_newest_description() -> None:
    found = pools(
        nodes({"ts": 1800, **STD}, {"ts": 2700, **STD, "cost_micros_per_hour": 120_000_000, "cores": 16.0}), hours=2
    )

    assert [row["cost_micros"] for row in found] == [15 * 60_000_001 // 60 + 15 * 2_000_000, 120_000_000]
    assert [row["capacity"]["cpu"] for row in found] == [15 * 24 * MICROS, 60 * 16 * MICROS]  # type: ignore[index]


@given(costs=st.lists(st.tuples(st.integers(0, 59), st.integers(0, 10**9)), min_size=1, max_size=9))
def test_parts_of_hours_lose_less_than_a_micro_unit_a_pool(costs: list[tuple[int, int]]) -> None:
    rows = [{**STD, "node": f"n{i}", "ts": 60 * m, "cost_micros_per_hour": cost} for i, (m, cost) in enumerate(costs)]

    found = pools(nodes(*rows))[0]["cost_micros"]

    assert found == sum(cost * (60 - minute) for minute, cost in costs) // 60


def test_a_cost_that_some_node_does_not_tell_is_not_known() -> None:
    described = nodes({"node": "n", **STD}, {"node": "m", **STD, "cost_micros_per_hour": None})

    found = pools(described)

    assert (found[0]["cost_micros"], found[0]["cost_source"], found[0]["nodes"]) == (None, None, 2)


def test_what_bills_say_takes_the_place_of_what_nodes_do_also_where_there_are_none() -> None:
    billed = bills(
        {"hour": T0, "cost_micros": 5}, {"hour": T0, "cost_micros": -2, "bill": "credit"},
        {"hour": at(3600), "cost_micros": 9, "pool": "gone@a"}, {"hour": at(7200), "cost_micros": 1},
    )  # fmt: skip

    found = pools(nodes(STD), billed, hours=2)

    told = [(row["hour"], row["pool"], row["nodes"], row["cost_micros"], row["cost_source"]) for row in found]
    assert told == [
        (T0, "std@a", 1, 3, "b, credit"),
        (at(3600), "gone@a", 0, 9, "b"),
        (at(3600), "std@a", 1, 60_000_001, "nodes"),
    ]


def test_nothing_is_converted() -> None:
    with pytest.raises(FeaturesError, match="EUR, USD"):
        pools(nodes(STD), bills({"hour": T0, "cost_micros": 5}, {"hour": T0, "cost_micros": 5, "currency": "USD"}))


@given(order=st.permutations(range(4)), pieces=st.sampled_from([1, 2]))
def test_neither_order_nor_pieces_of_time_make_a_difference(order: list[int], pieces: int) -> None:
    described = nodes(
        {"node": "n", **STD}, {"node": "n", **STD, "ts": 900, "zone": "b"}, {"node": "m", **STD, "ts": 4000},
        {"node": "m", **STD, "ts": 5000, "cores": 4.0},
    )  # fmt: skip

    whole = pool_hours(described, bills(), START_US, 2)

    shuffled = described.take(pa.array(order))
    starts = range(START_US, START_US + 2 * HOUR_US, 2 // pieces * HOUR_US)
    found = [pool_hours(shuffled, bills(), start, 2 // pieces) for start in starts]
    assert pa.concat_tables(found).to_pylist() == whole.to_pylist()
