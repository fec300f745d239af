"""Pools of nodes: what is requested, who fits, and what pods do to everybody."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.admission.node_pools import FULLEST, Bound, Filled, Pools, with_requests
from benchmarks.herd import drawn
from benchmarks.laws import simulated_world
from ingest.simulator.simulate import Plan

pytestmark = pytest.mark.slow
SIZE = 6


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Pools:
    folder: Path = tmp_path_factory.mktemp("pools")
    world = simulated_world(folder, Plan(6, 6, hours=1.0, law="threshold"))
    return with_requests(drawn(world, 2 * SIZE, np.random.default_rng(0)), SIZE, np.random.default_rng(1))


def test_all_nodes_hold_their_own_containers_and_the_fullest_hardly_more(pools: Pools) -> None:
    used = (pools.cluster.counts @ pools.requests)[:, 0] / pools.allocatable[:, 0]

    assert used.max() == pytest.approx(FULLEST, abs=0.01)


def test_a_pod_has_room_where_all_that_it_requests_is_left(pools: Pools) -> None:
    filled = Filled(pools)
    before = filled.feasible(0, 1).tolist()
    row, cores = before[0], pools.requests[0, 0]

    for number in range(int((pools.allocatable[row, 0] - filled.requested[row, 0]) / cores)):
        assert row in filled.feasible(0, 1)
        filled.bind(Bound(f"pod-{number}", 0, row))

    assert filled.feasible(0, 1).tolist() == before[1:]
    assert set(before) <= set(range(SIZE, 2 * SIZE))


def test_harm_is_that_of_the_whole_cluster_and_of_no_other_pool(pools: Pools) -> None:
    filled, sent = Filled(pools), np.array([7, 7, 9])

    for number, row in enumerate(sent.tolist()):
        filled.bind(Bound(f"pod-{number}", 2, row))

    assert filled.harm(0) == 0
    assert filled.harm(1) == pytest.approx(pools.cluster.harm(2, sent))
    assert filled.harm(1) > 0


def test_bound_pods_are_residents_and_their_requests_are_gone(pools: Pools) -> None:
    filled = Filled(pools)
    filled.bind(Bound("pod-a", 2, 7, "advice-0123456789abcdef"))

    view, rooms = filled.view(2, 1_000_000, np.random.default_rng(3)), filled.rooms(1_000_000)

    assert view.nodes_of({"pod-a"}) == {"pod-a": "n0007"}
    assert len(view.containers) == len(pools.cluster.view.containers) + 1
    at = view.containers.index("pod-a")
    assert view.apps[view.resident_app[at]] == "app-002"
    assert np.isfinite(view.resident_use[at]).any()
    assert rooms.arrived == {"advice-0123456789abcdef": "n0007"}
    left = pools.allocatable[7, 0] - (pools.cluster.counts[7] @ pools.requests)[0] - pools.requests[2, 0]
    assert rooms.by_name["n0007"][0].cores == pytest.approx(left)
