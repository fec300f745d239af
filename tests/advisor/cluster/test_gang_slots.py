"""Gang slots: a member is sent to its reserved node, others are kept off it by points alone."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.cluster.gang_slots import ELSEWHERE, OWN, SAME_CLASS, GangSlot, GangSlots
from advisor.cluster.pending_pod import PendingPod, PodClass
from advisor.placement.offer import Offer
from advisor.placement.prioritizer import Prioritizer
from cohabit.server.score_table_process import Tabling
from tests.advisor.clusters import NOW_US, snapshot
from tests.advisor.processes import Process

WEB = PodClass("web", False)
NODES = tuple(f"n{at}" for at in range(6))
LATER = NOW_US + 60_000_000


def slots(*nodes: str, group: str = "ml/train", of: PodClass = WEB, until_us: int = LATER) -> GangSlots:
    made = GangSlots()
    made.take([GangSlot(group, node, of, until_us) for node in nodes])
    return made


def points(reserved: GangSlots, given: list[int], group: str = "ml/train", **assumed: int) -> list[int]:
    names = [f"n{at}" for at in range(len(given))]
    found = reserved.points(np.array(given), names, group, WEB, assumed=assumed, now_us=NOW_US)
    return [int(value) for value in found]


def test_a_member_gets_its_node_then_other_slots_of_its_class_then_the_rest() -> None:
    assert points(slots("n1", "n2"), [9, 3, 7, 2]) == [ELSEWHERE, SAME_CLASS, OWN, 2]


def test_slots_that_siblings_hold_are_not_given_again() -> None:
    assert points(slots("n1", "n2"), [9, 3, 7, 2], n2=1) == [ELSEWHERE, OWN, ELSEWHERE, 2]


def test_without_an_offered_slot_the_points_stay() -> None:
    assert points(slots("n8"), [9, 3]) == [9, 3]


def test_others_lose_points_where_slots_are_open_and_nothing_is_forbidden() -> None:
    assert points(slots("n0", "n1", "n1", "n1"), [9, 9, 0, 1], group="ml/other") == [8, 7, 0, 1]
    assert points(slots("n3"), [9, 9, 0, 1], group="") == [9, 9, 0, 1]


def test_slots_of_another_class_or_of_the_past_are_not_a_members() -> None:
    assert points(slots("n0", of=PodClass("web", True)), [4, 9]) == [4, 9]
    assert points(slots("n0", until_us=NOW_US), [4, 9], group="") == [4, 9]


@given(
    st.lists(st.integers(0, 10), min_size=1, max_size=6), st.sets(st.integers(0, 5)), st.sampled_from(["ml/train", "x"])
)
def test_points_stay_on_the_scale_and_one_node_leads_for_a_member(given: list[int], at: set[int], group: str) -> None:
    found = points(slots(*(f"n{node}" for node in at)), given, group)

    assert all(0 <= value <= 10 for value in found)
    if group == "ml/train" and any(node < len(given) for node in at):
        assert found.count(OWN) == 1


@pytest.fixture
def prioritizer(process: Process, tmp_path: Path) -> Prioritizer:
    """With a table of `web`, and slots for two members."""
    process.promote("first")
    process.publish(replace(snapshot(11, version=1), racks=("r0",) * 3 + ("r1",) * 3))
    process.serving.reload()
    tabling = Tabling(process.serving, tmp_path / "table")
    tabling.ask(WEB, 0.0)
    tabling.step(0.0)
    made = Prioritizer(process.serving, tabling.path)
    made.take(made.newer())
    made.slots.take([GangSlot("ml/train", node, WEB, LATER) for node in ("n1", "n4")])
    return made


def best(prioritizer: Prioritizer, uid: str, names: tuple[str, ...] = NODES) -> str:
    offer = Offer(PendingPod("web"), uid, names, "ml/train")
    reply = json.loads(asyncio.run(prioritizer.answer(offer)).body)
    return str(max(reply, key=lambda entry: entry["Score"])["Host"])


def test_members_that_come_one_after_the_other_get_different_slots(prioritizer: Prioritizer) -> None:
    assert {best(prioritizer, "a"), best(prioritizer, "b")} == {"n1", "n4"}


def test_a_member_asked_for_again_in_another_domain_moves_and_is_counted_once(prioritizer: Prioritizer) -> None:
    assert best(prioritizer, "a", NODES[:3]) == "n1"
    assert best(prioritizer, "a", NODES[3:]) == "n4"

    assert [(one.uid, one.node) for one in prioritizer.assumed.bookings] == [("a", "n4")]
    assert best(prioritizer, "b") == "n1"
