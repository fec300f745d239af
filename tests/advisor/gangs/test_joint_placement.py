"""Joint placement: the whole gang in one domain at the least cost, or the reason why not."""

from collections import Counter
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.gangs.gang_capacity import capacity, holds
from advisor.gangs.gang_columns import GangColumns
from advisor.gangs.gang_request import GangPlacement, GangRequest, Infeasible
from advisor.gangs.joint_placement import BREAK_COST, CROSSING_COST, break_costs, placed
from tests.advisor.gangs.gang_clusters import columns, every_placement, gang, naive_cost, workers


def found(request: GangRequest, nodes: GangColumns, recent: tuple[int, ...] = ()) -> GangPlacement:
    answer = placed(request, nodes, recent)
    assert isinstance(answer, GangPlacement), answer
    return answer


def on(answer: GangPlacement) -> Counter[str]:
    return Counter(seat.node for seat in answer.seats)


def test_a_gang_goes_to_the_rack_that_holds_all_of_it_though_another_has_the_cheapest_node() -> None:
    nodes = columns([[1, 1], [2, 1]], [[0.0, 0.9, 0.5, 0.5]])

    assert on(found(gang(workers(3)), nodes)) == {"n2": 2, "n3": 1}


def test_members_share_a_node_while_their_harm_to_each_other_is_less_than_another_nodes() -> None:
    nodes = columns([[4, 4]], [[0.0, 0.5]], 0.3)

    answer = found(gang(workers(4)), nodes)

    assert on(answer) == {"n0": 3, "n1": 1}  # marginals: 0, 0.3, 0.6, 0.9 and 0.5, 0.8
    assert answer.cost == pytest.approx(0.0 + 0.3 + 0.6 + 0.5)
    assert answer.among_members == pytest.approx(0.9)


def test_equal_racks_are_filled_the_fullest_first() -> None:
    assert found(gang(workers(2)), columns([[4, 4], [1, 1], [3, 3]])).domain == "r1"


def test_a_rack_that_a_larger_gang_of_late_would_need_costs_more() -> None:
    nodes = columns([[2, 2, 2, 2], [2, 1]], [[0.0] * 4 + [0.02] * 2])

    assert found(gang(workers(2)), nodes).domain == "r0"
    assert found(gang(workers(2)), nodes, recent=(8,)).domain == "r1"
    assert break_costs(np.array([8.0, 3.0]), 2, (8, 7, 2)).tolist() == pytest.approx([8 * BREAK_COST, 2 * BREAK_COST])


def test_a_gang_that_no_rack_holds_is_refused_with_the_best_rack_and_what_runs_short() -> None:
    nodes = columns([[9, 9], [9, 9]], rooms=[[1000] * 4, [1000], [1000] * 2, [1000] * 2])

    assert placed(gang(workers(8, devices=1)), nodes) == Infeasible({"worker": 3}, "rack r0: 5 of 8; gpu")


def test_enough_members_start_without_the_rest_and_fewer_never_do() -> None:
    nodes = columns([[2, 1], [1, 1]])

    assert on(found(gang(workers(5), min_count=3), nodes)) == {"n0": 2, "n1": 1}
    assert isinstance(placed(gang(workers(5), min_count=4), nodes), Infeasible)


def test_eight_devices_in_halves_do_not_serve_a_member_that_asks_for_eight() -> None:
    halves, whole = [[4.0, 4.0]], [[1000] * 4, [1000] * 4]

    assert isinstance(placed(gang(workers(1, devices=8)), columns(halves, rooms=whole)), Infeasible)
    assert isinstance(placed(gang(workers(1, devices=1)), columns([[4.0]], rooms=[[500, 500]])), Infeasible)
    assert found(gang(workers(2, share=500)), columns([[4.0]], rooms=[[500, 500]])).seats


def test_preferred_racks_are_crossed_as_little_as_possible_at_a_cost() -> None:
    nodes = columns([[1, 1], [2, 1], [1, 0]])

    answer = found(gang(workers(5), mode="preferred"), nodes)

    assert (answer.domains, answer.cost) == (2, CROSSING_COST)
    assert found(gang(workers(3), mode="preferred"), nodes).domains == 1
    assert isinstance(placed(gang(workers(5)), nodes), Infeasible)


def test_nodes_without_a_rack_belong_to_none_and_are_used_last_where_racks_are_preferred() -> None:
    declared = columns([[1], [8]])
    nodes = GangColumns(
        declared.names, np.array([0, -1]), ("r0",), "rack", declared.free, declared.room, declared.first, declared.step
    )

    assert isinstance(placed(gang(workers(3)), nodes), Infeasible)
    assert found(gang(workers(3), mode="preferred"), nodes).domain == "r0, none"


def test_without_candidates_all_members_are_missing() -> None:
    answer = cast("Infeasible", placed(gang(workers(3)), columns([]).only(np.zeros(0, np.int64))))

    assert answer.missing == {"worker": 3}


def test_a_gang_that_needs_more_members_than_it_has_never_starts() -> None:
    assert placed(gang(workers(2), min_count=3), columns([[9]])) == Infeasible({}, "min_count 3 exceeds its 2 members")


def test_missing_members_of_classes_of_one_name_are_added() -> None:
    answer = placed(gang(workers(2), workers(2, 2.0)), columns([[1]], [[0.0], [0.0]]))

    assert isinstance(answer, Infeasible)
    assert answer.missing == {"worker": 3}


COSTS = st.lists(st.integers(0, 20).map(lambda tenths: tenths / 10), min_size=6, max_size=6)


@given(
    cores=st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=2, max_size=2),
    first=COSTS,
    step=st.integers(0, 8).map(lambda tenths: tenths / 10),
    count=st.integers(1, 6),
)
@settings(max_examples=60, deadline=None)
def test_one_class_costs_as_little_as_any_placement_and_is_refused_only_where_there_is_none(
    cores: list[list[float]], first: list[float], step: float, count: int
) -> None:
    nodes, request = columns(cores, [first], step), gang(workers(count))
    ways = [naive_cost(nodes, counts) for at in range(2) for counts in every_placement(request, nodes, at)]

    answer = placed(request, nodes)

    assert isinstance(answer, GangPlacement) == bool(ways)
    if isinstance(answer, GangPlacement):
        assert answer.cost == pytest.approx(min(ways), abs=1e-6)


@given(
    cores=st.lists(st.lists(st.integers(0, 4), min_size=2, max_size=3), min_size=1, max_size=2),
    rooms=st.lists(st.lists(st.sampled_from([0, 500, 1000]), min_size=2, max_size=2), min_size=6, max_size=6),
    costs=st.tuples(COSTS, COSTS),
    steps=st.lists(st.integers(0, 5).map(lambda tenths: tenths / 10), min_size=3, max_size=3),
    counts=st.tuples(st.integers(1, 2), st.integers(1, 2)),
)
@settings(max_examples=60, deadline=None)
def test_several_classes_never_exceed_a_node_and_are_placed_where_they_can_be(
    cores: list[list[float]],
    rooms: list[list[int]],
    costs: tuple[list[float], list[float]],
    steps: list[float],
    counts: tuple[int, int],
) -> None:
    n = sum(map(len, cores))
    step = [[steps[0], steps[1]], [steps[1], steps[2]]]
    nodes = columns(cores, [cost[:n] for cost in costs], step, rooms=rooms[:n])
    request = gang(workers(counts[0], 2.0, devices=1), workers(counts[1], share=500, name="launcher"))
    ways = [naive_cost(nodes, way) for at in range(len(cores)) for way in every_placement(request, nodes, at)]

    answer = placed(request, nodes)

    assert isinstance(answer, GangPlacement) == bool(ways)
    if isinstance(answer, GangPlacement):
        assert len(answer.seats) == request.count
        for row, node in enumerate(nodes.names):
            assert holds(nodes, row, [request.members[seat.member] for seat in answer.seats if seat.node == node])
        assert answer.cost >= min(ways) - 1e-9


def test_the_answer_does_not_depend_on_the_order_of_nodes() -> None:
    rng = np.random.default_rng(3)
    nodes = columns(rng.integers(0, 4, (6, 5)).tolist(), rng.random((1, 30)).tolist(), 0.2)
    shuffled = nodes.only(rng.permutation(30))

    one, other = found(gang(workers(7)), nodes), found(gang(workers(7)), shuffled)

    assert (one.domain, on(one)) == (other.domain, on(other))


def test_held_slots_are_taken_off_nodes_and_given_back() -> None:
    nodes, one = columns([[4]], rooms=[[1000, 600]]), workers(1, devices=1)

    after = nodes.without([(one, "n0"), (workers(1, share=300), "n0"), (one, "elsewhere")])

    assert (after.free[0, 0], sorted(after.room[0].tolist())[-2:]) == (2.0, [0, 300])
    assert capacity(after.with_freed([(one, "n0")]), one).tolist() == [1]
