"""Roster: who residents are, who is left alone, and what nodes have left, by what nodes and placements told."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from advisor.cluster.snapshot import Snapshot
from advisor.plans.rules.evictable import USED, Roster, roster_of
from advisor.plans.rules.policy import HOUR_US
from features.contention.node_state import Facts
from ingest.schema.tables import LANDED
from tests.advisor.clusters import NOW_US, snapshot

TWO = snapshot(nodes=2, residents=(2, 2), missing=0.0)
FIRST, LAST = TWO.containers[0], TWO.containers[-1]


def placed(container: str, hours_ago: float = 1.0, /, **more: object) -> dict[str, object]:
    ts = NOW_US - round(hours_ago * HOUR_US)
    told = {"cluster": "c", "container": container, "ts": ts, "event": "add", "node": "n0", "arrived_at": ts}
    return {**told, "qos": "LS", **more}


def node(name: str, **more: object) -> dict[str, object]:
    ts = NOW_US - HOUR_US
    return {"cluster": "c", "node": name, "ts": ts, "arrived_at": ts, "cores": 8.0, "memory_bytes": 64e9, **more}


def roster(of: Snapshot, *placements: dict[str, object], **more: object) -> Roster:
    def rows(table: str, told: list[dict[str, object]]) -> pa.Table:
        return pa.Table.from_pylist(told, schema=LANDED[table].schema)

    return roster_of(
        of, Facts(rows("nodes", [node(name, **more) for name in of.nodes]), rows("placements", [*placements]))
    )


def test_a_container_began_when_it_was_told_of_first_and_is_what_was_told_last() -> None:
    found = roster(TWO, placed(FIRST, 1.0, event="change", app="web", qos="BE"), placed(FIRST, 5.0, app="old"))

    assert found.began_us == {FIRST: NOW_US - 5 * HOUR_US}
    assert found.identity[FIRST].app == "web"
    assert found.identity[FIRST].best_effort


def test_of_whom_nobody_told_nothing_is_known_and_it_is_left_alone() -> None:
    found = roster(TWO, placed(FIRST), placed(LAST, cluster="another"))

    assert LAST not in found.began_us
    assert found.identity[LAST].app is None
    assert found.left_alone[LAST] == "it has no description on topic placements"
    assert FIRST not in found.left_alone


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"pinned": True}, "it is pinned"),
        ({"local_storage": True}, "it has data on its node"),
        ({"qos": "SYSTEM"}, "it is a system container"),
        ({"disruption_budget": "web", "disruptions_allowed": 0}, "its disruption budget web allows no disruption"),
        ({"gang": "g"}, "its gang g is scheduled as a whole, and its minimum is not known"),
        ({"gang": "g", "gang_minimum": 1}, "its gang g would fall below its minimum"),
    ],
)
def test_whoever_may_not_go_is_left_alone_with_the_reason(told: dict[str, object], why: str) -> None:
    assert roster(TWO, placed(FIRST, **told)).left_alone[FIRST] == why


@pytest.mark.parametrize(("minimum", "spare"), [(1, 1), (2, 0), (3, -1)])
def test_a_gang_spares_the_pods_that_run_beyond_its_minimum(minimum: int, spare: int) -> None:
    gang = {"gang": "shop/g", "gang_minimum": minimum}
    ended = placed("over", event="delete", **gang)

    found = roster(TWO, placed(FIRST, **gang), placed("unmeasured", **gang), placed(LAST), ended)

    assert (found.gangs, found.spare) == ({FIRST: "shop/g"}, {"shop/g": spare})
    assert (FIRST in found.left_alone) is (spare <= 0)


def test_what_a_disruption_budget_allows_is_known_where_the_watcher_says_so() -> None:
    found = roster(TWO, placed(FIRST, disruption_budget="web", disruptions_allowed=2), placed(LAST, app="db"))

    assert found.allowed == {FIRST: 2}
    assert not {FIRST, LAST} & found.left_alone.keys()


def test_room_is_what_may_be_given_out_less_the_larger_of_requests_and_use() -> None:
    use = TWO.resident_use.copy()
    use[:, USED] = [1.0, 1e9]
    of = replace(TWO, resident_use=use)

    found = roster(of, placed(FIRST, cpu_request_cores=3.0, memory_request_bytes=5e8), allocatable_cores=7.0)

    assert found.room.needs[0].tolist() == [3.0, 1e9, 0.0, 1.0]
    np.testing.assert_allclose(found.room.free[:, :2], [[7.0 - 3.0 - 1.0, 64e9 - 2e9], [7.0 - 2.0, 64e9 - 2e9]])
    assert found.room.free[:, 2:].tolist() == [[0.0, np.inf], [0.0, np.inf]]


def test_a_node_without_an_extended_resource_that_a_pod_requests_is_no_target_and_named() -> None:
    asks = {"extended_requests": [("example.com/fpga", "1.0"), ("hugepages-2Mi", "4194304.0")]}
    small = {"cpu_request_cores": 0.1, "memory_request_bytes": 1e6}
    taken = placed("unmeasured", node="n1", extended_requests=[("example.com/fpga", "1.0")], **small)
    home = TWO.nodes.index("n0")

    def lacking(has: list[tuple[str, str]] | None) -> str:
        return roster(TWO, placed(FIRST, **asks), taken, allocatable_extended=has, cores=99.0).room.lacking(0, home)

    assert lacking([("example.com/fpga", "2.0"), ("hugepages-2Mi", "8388608.0")]) == ""
    assert lacking([("example.com/fpga", "1.0"), ("hugepages-2Mi", "8388608.0")]) == "1 lacks example.com/fpga"
    assert lacking([("example.com/fpga", "2.0")]) == "1 lacks hugepages-2Mi"
    assert lacking(None) == "", "its node does not say"


def test_a_node_of_which_nothing_is_known_has_no_room_and_who_needs_the_unknown_fits_nowhere() -> None:
    use = TWO.resident_use.copy()
    use[0, USED] = np.nan
    of = replace(TWO, resident_use=use, node_known=np.array([True, False]))

    found = roster(of)

    assert np.isneginf(found.room.free[1]).all()
    assert np.isinf(found.room.needs[0, :2]).all()
    assert not len(found.room.nodes_for(0, 1))
