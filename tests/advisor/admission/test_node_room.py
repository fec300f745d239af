"""Room of nodes: what kube-scheduler compares, and the rules by which a node accepts a pod."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from advisor.admission.node_room import Needs, NodeRoom, Rooms, node_rooms, rooms_by_use
from advisor.admission.room_file import FILE, NewestRooms, read_rooms, write_rooms
from advisor.errors import Unavailable
from advisor.remediation.pod_rules import PodRules, Requirement, Toleration
from features.contention.node_state import Facts
from ingest.schema.tables import LANDED
from tests.advisor.admission.reviews import advice
from tests.advisor.clusters import NOW_US, snapshot

NOW = datetime.fromtimestamp(NOW_US / 1e6, UTC)
ANY = Needs(PodRules())


def rows(table: str, *found: dict[str, object]) -> pa.Table:
    schema = LANDED[table].schema
    dated = [{"cluster": "c", "ts": NOW - timedelta(seconds=60), **row} for row in found]
    columns = {field.name: pa.array([row.get(field.name) for row in dated], field.type) for field in schema}
    return pa.table(columns, pa.schema([field.with_nullable(True) for field in schema]))


def test_what_is_left_is_allocatable_less_requests_of_pods_that_run() -> None:
    of = snapshot(1, nodes=2)
    nodes = rows(
        "nodes",
        {
            "node": "n0",
            "allocatable_cores": 8.0,
            "allocatable_memory_bytes": 1e9,
            "allocatable_pods": 3.0,
            "allocatable_extended": [("nvidia.com/gpu", "2.0")],
            "labels": [("disk", "ssd")],
            "taints": ["a=b:NoSchedule"],
        },
        {"node": "n1", "cores": 4.0},
    )
    pods = rows(
        "placements",
        {"node": "n0", "container": "a", "event": "add", "cpu_request_cores": 2.0, "memory_request_bytes": 4e8,
         "extended_requests": [("nvidia.com/gpu", "1.0")]},
        {"node": "n0", "container": "b", "event": "add"},
        {"node": "n0", "container": "c", "event": "delete", "cpu_request_cores": 2.0},
        {"node": "gone", "container": "d", "event": "add", "cpu_request_cores": 2.0},
    )  # fmt: skip

    first, second = node_rooms(of, Facts(nodes, pods)).nodes

    assert first == NodeRoom("n0", {"disk": "ssd"}, ("a=b:NoSchedule",), None, 6.0, 6e8, 1.0, {"nvidia.com/gpu": 1.0})
    assert second == NodeRoom("n1", cores=4.0)


def test_pods_with_advice_are_found_once_the_snapshot_holds_them() -> None:
    of = snapshot(11)
    uid = of.containers[0]
    [node] = of.nodes_of([uid]).values()
    pods = rows(
        "placements",
        {"node": node, "container": uid, "event": "add", "labels": [("cohabit.io/advice", advice(1)), ("a", "b")]},
        {"node": node, "container": "not-measured", "event": "add", "labels": [("cohabit.io/advice", advice(2))]},
    )

    found = node_rooms(of, Facts(rows("nodes"), pods))

    assert found.arrived == {advice(1): node}
    assert found.counted == {advice(1), advice(2)}


@pytest.mark.parametrize("said", ["x", "", "advice-", f"{advice(1)}0", "advice-000000000000000G"])
def test_an_annotation_that_is_no_id_of_advice_ends_nothing(said: str) -> None:
    of = snapshot(11)
    [node] = of.nodes_of([of.containers[0]]).values()
    pods = rows(
        "placements",
        {"node": node, "container": of.containers[0], "event": "add", "labels": [("cohabit.io/advice", said)]},
    )

    assert node_rooms(of, Facts(rows("nodes"), pods)).arrived == {}


@pytest.mark.parametrize("odd", ["nan", "inf", "-inf", "abc", "", "9" * 5000, None])
def test_an_amount_that_is_no_number_is_left_out_and_the_others_are_kept(odd: str, tmp_path: Path) -> None:
    of = snapshot(1, nodes=1)
    nodes = rows("nodes", {"node": "n0", "allocatable_extended": [("a/b", odd), ("c/d", "2.0")]})
    pods = rows(
        "placements",
        {"node": "n0", "container": "a", "event": "add", "extended_requests": [("c/d", "1.0"), ("a/b", odd)]},
    )

    write_rooms(tmp_path, node_rooms(of, Facts(nodes, pods)))

    found = read_rooms(tmp_path)
    assert found is not None
    assert found.nodes[0].extended == {"c/d": 1.0}


@pytest.mark.parametrize("name", ["N0", "a_b", "a..b", "-a", "a-", "a.-b", "", "a" * 254, "a\n", "é"])
def test_a_name_that_kube_apiserver_would_reject_takes_no_pod(name: str) -> None:
    rooms = Rooms(
        "c", NOW_US, (NodeRoom(name), NodeRoom("ip-10-0-0-1.eu-west-1.compute.internal"), NodeRoom("a" * 253))
    )

    assert not rooms.takes(ANY, name)
    assert rooms.takes(ANY, "ip-10-0-0-1.eu-west-1.compute.internal")
    assert rooms.takes(ANY, "a" * 253)


@pytest.mark.parametrize(
    ("node", "pod", "taken"),
    [
        (NodeRoom("n", cores=1.0, memory_bytes=1.0), ANY, True),
        (NodeRoom("n"), ANY, True),
        (NodeRoom("n"), Needs(PodRules(), cores=0.1), False),
        (NodeRoom("n", cores=1.0), Needs(PodRules(), cores=1.0), True),
        (NodeRoom("n", cores=1.0), Needs(PodRules(), cores=1.1), False),
        (NodeRoom("n", memory_bytes=1e9), Needs(PodRules(), memory_bytes=2e9), False),
        (NodeRoom("n", pods=0.0), ANY, False),
        (NodeRoom("n"), Needs(PodRules(), extended={"nvidia.com/gpu": 1.0}), False),
        (NodeRoom("n", extended={"nvidia.com/gpu": 1.0}), Needs(PodRules(), extended={"nvidia.com/gpu": 1.0}), True),
        (NodeRoom("n", taints=("a=b:NoSchedule",)), ANY, False),
        (NodeRoom("n", taints=("a=b:PreferNoSchedule",)), ANY, True),
        (NodeRoom("n", taints=("a=b:NoSchedule",)), Needs(PodRules(tolerations=(Toleration("a", "b", None),))), True),
        (NodeRoom("n", taints=("node.kubernetes.io/unschedulable:NoSchedule",)),
         Needs(PodRules(tolerations=(Toleration(None, None, None),))), False),
        (NodeRoom("n", taints=("DeletionCandidateOfClusterAutoscaler=1:PreferNoSchedule",)), ANY, False),
        (NodeRoom("n", {"disk": "ssd"}), Needs(PodRules(selector=(Requirement("disk", "In", ("ssd",)),))), True),
        (NodeRoom("n", {"disk": "hdd"}), Needs(PodRules(selector=(Requirement("disk", "In", ("ssd",)),))), False),
        (NodeRoom("n"), Needs(PodRules(readable=False)), False),
        (NodeRoom("m"), ANY, False),
    ],
    ids=str,
)  # fmt: skip
def test_a_node_takes_a_pod_where_kube_scheduler_would(node: NodeRoom, pod: Needs, taken: bool) -> None:  # noqa: FBT001
    assert Rooms("c", NOW_US, (node,)).takes(pod, "n") is taken


@pytest.mark.parametrize(
    ("node", "pod", "assumed", "taken"),
    [
        (NodeRoom("n", cores=2.0), Needs(PodRules(), cores=1.0), 1, True),
        (NodeRoom("n", cores=2.0), Needs(PodRules(), cores=1.0), 2, False),
        (NodeRoom("n", memory_bytes=2e9), Needs(PodRules(), memory_bytes=1e9), 2, False),
        (NodeRoom("n", pods=2.0), ANY, 1, True),
        (NodeRoom("n", pods=2.0), ANY, 2, False),
        (NodeRoom("n", extended={"a/b": 2.0}), Needs(PodRules(), extended={"a/b": 1.0}), 1, True),
        (NodeRoom("n", extended={"a/b": 2.0}), Needs(PodRules(), extended={"a/b": 1.0}), 2, False),
        (NodeRoom("n"), ANY, 3, True),
    ],
    ids=str,
)
def test_pods_that_are_assumed_on_a_node_take_up_what_they_request(
    node: NodeRoom, pod: Needs, assumed: int, *, taken: bool
) -> None:
    assert Rooms("c", NOW_US, (node,)).takes(pod, "n", [pod] * assumed) is taken


def test_by_the_snapshot_alone_room_is_capacity_less_use() -> None:
    of = snapshot(3, missing=0.0)

    rooms = rooms_by_use(of)

    for i, node in enumerate(rooms.nodes):
        use = of.resident_use[of.first[i] : of.first[i + 1]]
        assert node.cores == pytest.approx(of.node_capacity[i, 0] - use[:, 0].sum())
    assert rooms_by_use(snapshot(3, missing=1.0, residents=(1, 2))).nodes[0].cores is None


def test_the_file_says_what_was_written_and_a_broken_one_is_as_none(tmp_path: Path) -> None:
    node = NodeRoom("n", {"a": "b"}, ("t:NoSchedule",), "z", 1.0, 2.0, 3.0, {"g": 1.0})
    rooms = Rooms("c", NOW_US, (node,), {"i": "n"})
    newest = NewestRooms(tmp_path)
    assert newest.newest() is None

    write_rooms(tmp_path, rooms)
    assert newest.newest() == rooms

    for content in (b"", b"{", b'{"format": 2, "rooms": {}}', b'{"format": 1, "rooms": {}}', b"[" * 100_000):
        (tmp_path / FILE).write_bytes(content)
        with pytest.raises(Unavailable, match="cohabit refresh"):
            read_rooms(tmp_path)
        assert newest.newest() is None


def test_a_snapshot_without_nodes_has_no_rooms() -> None:
    of = snapshot(1, nodes=0)

    assert rooms_by_use(of).nodes == node_rooms(of, Facts(rows("nodes"), rows("placements"))).nodes == ()
