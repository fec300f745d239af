"""Groups: siblings are spread or kept in a rack, a little, and nothing is ever forbidden by that."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from msgspec import Raw
from msgspec.json import decode
from numpy.typing import NDArray

from advisor.api.scheduler.pod_types import ExtenderArgs, Metadata, Object, extender_offer, group_of
from advisor.api.scheduler.volcano import PrioritizeRequest, offer_of
from advisor.cluster import pod_groups as grouping
from advisor.cluster.pending_pod import PendingPod, PodClass
from advisor.cluster.pod_groups import ELSEWHERE, KEPT_US, MAX_LOST, Groups, packed, spread
from advisor.placement.offer import Offer
from advisor.placement.prioritizer import Prioritizer
from cohabit.server.score_table_process import Tabling
from tests.advisor.clusters import snapshot
from tests.advisor.processes import Process

Ints = NDArray[np.int64]
points = arrays(np.int64, 12, elements=st.integers(0, 10))
siblings = arrays(np.int64, 12, elements=st.integers(0, 5))
NODES = tuple(f"n{i}" for i in range(6))


@given(points, siblings)
def test_points_are_lost_by_siblings_and_never_all_of_them(points: Ints, siblings: Ints) -> None:
    after = spread(points, siblings)

    assert (after <= points).all()
    assert (points - after <= MAX_LOST).all()
    assert (after[siblings == 0] == points[siblings == 0]).all()
    assert ((after == 0) == (points == 0)).all()


@given(points, arrays(np.bool_, 12))
def test_racks_without_siblings_lose_a_point_where_there_is_one_with(points: Ints, near: NDArray[np.bool_]) -> None:
    after = packed(points, near)

    assert (points - after <= ELSEWHERE).all()
    assert (after[near] == points[near]).all()
    assert ((after == 0) == (points == 0)).all()
    if not near.any():
        assert (after == points).all()


joins = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 8), st.integers(0, 3)), max_size=40)


@given(joins)
def test_a_member_is_in_one_group_and_on_one_node(joins: list[tuple[str, int, int]]) -> None:
    groups, expected = Groups(), dict[str, tuple[str, str]]()
    for group, uid, node in joins:
        groups.join(group, str(uid), f"n{node}", 0)
        expected[str(uid)] = group, f"n{node}"

    assert len(groups) == len(expected)
    for group in "abc":
        there = [node for of, node in expected.values() if of == group]
        assert sorted(groups.nodes(group, "", 0).elements()) == sorted(there)


def test_a_member_does_not_count_as_its_own_sibling_and_counts_where_it_was_seen() -> None:
    groups = Groups()
    groups.join("g", "a", "n1", 0)
    groups.join("g", "b", "n1", 0)
    groups.landed("b", "n2")
    groups.landed("stranger", "n3")

    assert groups.nodes("g", "a", 0) == {"n2": 1}
    assert groups.nodes("g", "c", 0) == {"n1": 1, "n2": 1}


def test_a_group_that_everybody_left_is_not_kept() -> None:
    groups = Groups()
    for number in range(10):
        groups.join(f"g{number}", "a", "n0", number)

    assert list(groups._groups) == ["g9"]


def test_old_groups_are_forgotten_and_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "MOST", 10)
    groups = Groups()
    for number in range(100):
        groups.join(f"g{number // 5}", str(number), "n1", 0)
    assert len(groups) == 10
    assert groups.nodes("g19", "", 0) == {"n1": 5}
    assert not groups.nodes("g19", "", KEPT_US + 1)
    assert len(groups) == 5


@pytest.mark.parametrize(
    ("pod", "group"),
    [
        (Object(), ""),
        (Object(Metadata(labels={"scheduling.x-k8s.io/pod-group": "train"}, namespace="ml")), "ml/train"),
        (Object(Metadata(annotations={"scheduling.k8s.io/group-name": "job-1"})), "default/job-1"),
        (Object(Metadata(annotations={"gang.scheduling.koordinator.sh/name": "g"})), "default/g"),
        (Object(Metadata(labels={"kueue.x-k8s.io/pod-group-name": "g"})), "default/g"),
        (Object(Metadata(labels={"jobset.sigs.k8s.io/jobset-name": "g"})), "default/g"),
        (Object(spec=Raw(b'{"schedulingGroup": {"podGroupName": "workers"}}')), "default/workers"),
        (Object(spec=Raw(b'{"schedulingGroup": {"podGroupName": null}}')), ""),
        (Object(spec=Raw(b'{"schedulingGroup": 7}')), ""),
        (Object(Metadata(labels={"scheduling.x-k8s.io/pod-group": ""})), ""),
    ],
)
def test_schedulers_name_groups_in_ways_of_their_own(pod: Object, group: str) -> None:
    assert group_of(pod) == group


def test_both_protocols_tell_the_group() -> None:
    pod = {"metadata": {"namespace": "ml", "annotations": {"scheduling.k8s.io/group-name": "job"}}, "spec": None}

    extender = decode(json.dumps({"Pod": pod, "NodeNames": []}), type=ExtenderArgs)
    volcano = decode(json.dumps({"task": {"Pod": pod}, "nodes": []}), type=PrioritizeRequest)
    assert extender_offer(extender).group == offer_of(volcano).group == "ml/job"


@pytest.fixture
def prioritizer(process: Process, tmp_path: Path) -> Prioritizer:
    process.promote("first")
    process.publish(replace(snapshot(11), racks=("r1", "r1", "r2", "r2", "r3", None)))
    tabling = Tabling(process.serving, tmp_path / "table")
    for of in (PodClass("web", False), PodClass("batch", True)):
        tabling.ask(of, 0.0)
    for _ in range(3):
        tabling.step(0.0)
    made = Prioritizer(process.serving, tabling.path)
    made.take(made.newer())
    return made


def said(prioritizer: Prioritizer, pending_pod: PendingPod, uid: str, group: str = "") -> Ints:
    reply = json.loads(asyncio.run(prioritizer.answer(Offer(pending_pod, uid, NODES, group))).body)
    return np.array([entry["Score"] for entry in reply])


def test_siblings_of_a_latency_sensitive_pod_push_it_away(prioritizer: Prioritizer, process: Process) -> None:
    web = PendingPod("web")
    before = said(prioritizer, web, "", "ml/web")
    prioritizer.assumed.groups.join("ml/web", "sibling", "n2", process.now_us)
    after = said(prioritizer, web, "", "ml/web")

    assert after.tolist() == spread(before, np.array([0, 0, 1, 0, 0, 0])).tolist()
    assert said(prioritizer, web, "", "ml/other").tolist() == before.tolist()
    assert process.counted("cohabit_pod_group_score_requests_total") == 1


def test_siblings_of_a_best_effort_pod_keep_it_in_their_rack(prioritizer: Prioritizer, process: Process) -> None:
    batch = PendingPod("batch", None, best_effort=True)
    before = said(prioritizer, batch, "", "ml/train")
    prioritizer.assumed.groups.join("ml/train", "sibling", "n2", process.now_us)

    near = np.array([False, False, True, True, False, False])
    assert said(prioritizer, batch, "", "ml/train").tolist() == packed(before, near).tolist()


def test_pods_of_a_group_are_siblings_from_the_first_answer_on(prioritizer: Prioritizer) -> None:
    for number in range(4):
        said(prioritizer, PendingPod("web"), f"pod-{number}", "ml/web")

    placed = prioritizer.assumed.groups.nodes("ml/web", "", prioritizer.serving.now_us())
    assert placed.total() == 4


def test_a_snapshot_without_racks_or_with_the_wrong_number_of_them(process: Process) -> None:
    process.promote("first")
    process.publish(snapshot(11, version=1))
    process.serving.reload()
    assert process.serving.scorer is not None
    assert process.serving.scorer.snapshot.rack_of == {}

    process.publish(replace(snapshot(11, version=2), racks=("r1",)))
    process.serving.reload()
    assert "1 racks for 6 nodes" in process.serving.refused["no_snapshot"]
