"""Idle: what nobody took of nodes, by cause, never more than is free."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from features.contention.node_state import Facts
from features.metering.idle_causes import DAY_US, LEAD_TIME_US, idle_hours
from features.metering.pools import pool_hours
from features.metering.units import HOUR_US, MICROS, Hours
from features.schema.tables import BILLS, IDLE, METERED
from ingest.lake.row_filter import microseconds
from tests.features.rows import T0, at, nodes, placements

GIB = 2.0**30
HOUR = 60 * MICROS
ONE = Hours(microseconds(T0), 1)
STD = {"pool": "std", "zone": "a", "cores": 8.0, "memory_bytes": 8 * GIB}
DAY_S, LEAD_TIME_S = DAY_US // MICROS, LEAD_TIME_US // MICROS
FAILED = ["node.kubernetes.io/unschedulable:NoSchedule"]
OLD = {"ts": -DAY_S * 30, **STD}
"""A node that was there when records began."""


def metered(*rows: dict[str, object]) -> pa.Table:
    """Rows of `metered`: quantities in unit-hours."""
    filled = []
    for number, row in enumerate(rows):
        amounts = {name: round(float(str(row.get(name, 0))) * HOUR) for name in ("requested", "within", "beyond")}
        known = {"cluster": "c", "node": "n", "hour": T0, "container": f"c{number}", "resource": "cpu", "team": "ads"}
        filled.append({**known, "pool": "std@a", "qos": "LS", "minutes": 60, "gap_minutes": 0, **row, **amounts})
    return pa.Table.from_pylist(filled, schema=METERED.schema)


def taken(node: str = "n", team: str | None = "ads", **units: float) -> list[dict[str, object]]:
    """What a team requested on a node, by resource."""
    return [{"node": node, "team": team, "resource": name, "requested": amount} for name, amount in units.items()]


@dataclass(frozen=True)
class Told:
    """Unit-hours of a cause and resource, and by team."""

    units: float
    by_team: dict[str, float]


def idle(
    described: pa.Table, rows: list[dict[str, object]], placed: pa.Table | None = None
) -> dict[tuple[str, str], Told]:
    found = idle_hours(Facts(described, placements() if placed is None else placed), metered(*rows), ONE)
    return {
        (row["cause"], row["resource"]): Told(
            row["quantity"] / HOUR, {team: round(own / HOUR, 6) for team, own in row["by_team"]}
        )
        for row in found.to_pylist()
    }


def test_cores_that_no_memory_is_left_for_are_stranded() -> None:
    found = idle(nodes(OLD), taken(cpu=2, memory=6))

    assert found == {("stranded", "cpu"): Told(4.0, {"ads": 4.0})}


def test_a_balanced_node_an_empty_one_and_one_without_capacity_strand_nothing() -> None:
    described = nodes(OLD, {**OLD, "node": "empty"}, {**OLD, "node": "untold", "memory_bytes": None})

    assert idle(described, taken(cpu=4, memory=4) + taken("untold", cpu=1)) == {}


def test_gpus_are_stranded_where_cores_or_memory_are_gone_and_never_strand_others() -> None:
    described = nodes({**OLD, "gpus": 4.0}, {**OLD, "node": "m", "gpus": 4.0})

    found = idle(described, taken(cpu=8, memory=8, gpu=1) + taken("m", cpu=1, memory=1, gpu=4))

    assert found == {("stranded", "gpu"): Told(3.0, {"ads": 3.0})}


def test_a_team_has_stranded_what_would_be_usable_without_it() -> None:
    rows = taken(cpu=1, memory=5) + taken(team="search", cpu=3, memory=1) + taken(team="shop", cpu=1, memory=1)

    found = idle(nodes(OLD), rows)

    assert found == {("stranded", "cpu"): Told(2.0, {"ads": 2.0})}


def test_several_that_strand_the_same_share_it_and_nobodys_part_is_nobodys() -> None:
    several = taken(cpu=0, memory=3) + taken(team="search", cpu=0, memory=3) + taken(team="shop", cpu=4)
    nobody = taken(cpu=0, memory=3) + taken(team=None, cpu=0, memory=3)

    assert idle(nodes(OLD), several)["stranded", "cpu"] == Told(2.0, {"ads": 1.0, "search": 1.0})
    assert idle(nodes(OLD), nobody)["stranded", "cpu"] == Told(6.0, {"ads": 3.0})


def test_what_is_free_on_a_failed_node_is_failed_for_as_long_as_it_was() -> None:
    described = nodes({**OLD, "taints": ["dedicated=ads:NoSchedule"]}, {**STD, "ts": 900, "taints": FAILED})

    found = idle(described, taken(cpu=4, memory=8))

    assert found == {("failure", "cpu"): Told(3.0, {}), ("stranded", "cpu"): Told(1.0, {"ads": 1.0})}


def test_a_node_that_came_and_waits_for_its_first_container_was_bought_ahead() -> None:
    described = nodes(OLD, {**STD, "node": "new", "ts": -DAY_S})
    agent = placements({"node": "new", "container": "agent", "qos": "SYSTEM", "ts": -60})
    used = placements(
        {"node": "new", "container": "web", "ts": -60}, {"node": "new", "container": "web", "ts": 0, "event": "delete"}
    )
    system = [{**row, "qos": "SYSTEM"} for row in taken("new", cpu=1, memory=1)]

    waiting = idle(described, taken(cpu=1, memory=1) + system, agent)

    assert waiting == {("lead_time", "cpu"): Told(7.0, {}), ("lead_time", "memory"): Told(7.0, {})}
    assert idle(described, [], used) == {}
    assert idle(described, taken("new", cpu=1, memory=1)) == {}


def test_neither_nodes_of_the_beginning_nor_those_that_have_waited_long_were_bought_ahead() -> None:
    began = nodes({**STD, "ts": -3600}, {**STD, "node": "m", "ts": -1800})
    late = nodes(OLD, {**STD, "node": "new", "ts": -LEAD_TIME_S})

    assert idle(began, []) == idle(late, []) == {}


@st.composite
def drawn(draw: st.DrawFn) -> tuple[pa.Table, list[dict[str, object]]]:
    described, rows = [OLD], list[dict[str, object]]()
    for node in "nmo":
        taints = draw(st.sampled_from([None, FAILED]))
        since = draw(st.sampled_from([-30 * DAY_S, -DAY_S, 600]))
        described.append(
            {**STD, "node": node, "ts": since, "taints": taints, "gpus": draw(st.sampled_from([None, 2.0]))}
        )
        for team in draw(st.sets(st.sampled_from(["ads", "search", None]))):
            amounts = draw(st.fixed_dictionaries(dict.fromkeys(("cpu", "memory", "gpu"), st.floats(0, 5))))
            rows += taken(node, team, **amounts)
    return nodes(*described), rows


@given(case=drawn(), seed=st.integers(0, 99))
def test_causes_are_never_more_than_what_is_free_in_whatever_order(
    case: tuple[pa.Table, list[dict[str, object]]], seed: int
) -> None:
    """I3, and I1 of quantities: what teams add is a part of what there is."""
    described, rows = case
    facts, all_rows, rng = Facts(described, placements()), metered(*rows), np.random.default_rng(seed)

    found = idle_hours(facts, all_rows, ONE)

    shuffled = Facts(described.take(pa.array(rng.permutation(described.num_rows))), facts.placements)
    assert idle_hours(shuffled, all_rows.take(pa.array(rng.permutation(all_rows.num_rows))), ONE).equals(found)
    assert found.schema.equals(IDLE.schema)
    pools = pool_hours(described, BILLS.schema.empty_table(), ONE.start_us, 1).to_pylist()
    for resource, capacity in dict(pools[0]["capacity"]).items():
        own = [row for row in found.to_pylist() if row["resource"] == resource]
        assert sum(row["quantity"] for row in own) <= capacity
        assert all(0 <= sum(dict(row["by_team"]).values()) <= row["quantity"] for row in own)


def test_hours_are_told_one_by_one_as_all_at_once() -> None:
    described = nodes(OLD, {**STD, "node": "m", "ts": 1800, "taints": FAILED})
    rows = metered(*taken(cpu=1, memory=6), *({**row, "hour": at(3600)} for row in taken(cpu=5, memory=1)))
    facts = Facts(described, placements())

    whole = idle_hours(facts, rows, Hours(ONE.start_us, 2))
    singly = [idle_hours(facts, rows, Hours(ONE.start_us + hour * HOUR_US, 1)) for hour in range(2)]

    assert pa.concat_tables(singly).equals(whole)
    assert whole.num_rows >= 4
