"""Contention: what neighbours press with, leaving the container itself out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.contention.neighbour_sums import core_pressure, neighbour_max, neighbour_sum
from features.schema.errors import FeaturesError
from ingest.schema.cpuset import cores_of, membership

ONE_NODE = np.zeros(3, np.int64)
uses = st.lists(st.one_of(st.just(np.nan), st.floats(0, 64)), min_size=1, max_size=12)


def naive_sum(use: list[float], i: int) -> float:
    others = use[:i] + use[i + 1 :]
    known = [u for u in others if not np.isnan(u)]
    if not others:
        return 0.0
    return float(np.nan) if not known else sum(known) / len(known) * len(others)


def test_neighbours_leave_out_the_container_itself() -> None:
    assert neighbour_sum(np.array([3.0, 5.0, 1.0]), ONE_NODE).tolist() == [6.0, 4.0, 8.0]


def test_nodes_do_not_mix() -> None:
    assert neighbour_sum(np.array([3.0, 5.0, 2.0]), np.array([0, 0, 1])).tolist() == [5.0, 3.0, 0.0]


def test_a_neighbour_that_was_not_measured_counts_as_the_mean_of_the_others() -> None:
    assert neighbour_sum(np.array([3.0, np.nan, 1.0]), ONE_NODE).tolist() == [2.0, 4.0, 6.0]


def test_neighbours_of_whom_none_was_measured_are_missing_not_zero() -> None:
    assert np.isnan(neighbour_sum(np.array([3.0, np.nan]), np.zeros(2, np.int64))[0])


@given(use=uses)
def test_sums_and_maxima_equal_a_naive_loop(use: list[float]) -> None:
    group = np.zeros(len(use), np.int64)
    maxima = [max((u for u in use[:i] + use[i + 1 :] if not np.isnan(u)), default=np.nan) for i in range(len(use))]

    np.testing.assert_allclose(
        neighbour_sum(np.array(use), group), [naive_sum(use, i) for i in range(len(use))], atol=1e-9
    )
    np.testing.assert_allclose(neighbour_max(np.array(use), group), maxima if len(use) > 1 else [0.0])


@given(use=st.lists(st.floats(0, 64), min_size=1, max_size=12), more=st.floats(0, 64))
def test_a_further_neighbour_never_lowers_the_pressure(use: list[float], more: float) -> None:
    before = neighbour_sum(np.array(use), np.zeros(len(use), np.int64))
    after = neighbour_sum(np.array([*use, more]), np.zeros(len(use) + 1, np.int64))

    assert (after[:-1] >= before - 1e-9).all()


def test_lengths_must_agree() -> None:
    with pytest.raises(FeaturesError, match="differ in length"):
        neighbour_sum(np.zeros(2), ONE_NODE)


@pytest.mark.parametrize(("cpuset", "cores"), [("0-2,5", (0, 1, 2, 5)), ("7", (7,)), ("1,1-2", (1, 2))])
def test_a_cpuset_list_names_cores(cpuset: str, cores: tuple[int, ...]) -> None:
    assert cores_of(cpuset) == cores


@pytest.mark.parametrize("cpuset", ["a", "3-1", "1-", "0-99999999"])
def test_a_broken_cpuset_list_names_none(cpuset: str) -> None:
    assert cores_of(cpuset) is None


def test_pinned_neighbours_press_on_their_own_cores_only() -> None:
    own, elsewhere = core_pressure(np.array([0.5, 1.0, 0.8]), membership(["0", "0", "1"], 2))

    assert own.tolist() == pytest.approx([1.0, 0.5, 0.0])
    assert elsewhere.tolist() == pytest.approx([0.4, 0.4, 0.75])


def test_unpinned_containers_press_on_all_cores_alike() -> None:
    own, elsewhere = core_pressure(np.array([1.0, 3.0]), membership([None, None], 4))

    assert own.tolist() == [0.75, 0.25]
    assert elsewhere.tolist() == [0.0, 0.0]


@given(cpu=st.lists(st.floats(0, 8), min_size=1, max_size=6), seed=st.integers(0, 99))
def test_pinning_conserves_what_the_neighbours_use(cpu: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets = [str(rng.integers(4)) if rng.random() < 0.6 else None for _ in cpu]
    allowed = membership(sets, 4)

    own, elsewhere = core_pressure(np.array(cpu), allowed)

    total = neighbour_sum(np.array(cpu), np.zeros(len(cpu), np.int64))
    np.testing.assert_allclose(own * allowed.sum(axis=1) + elsewhere * 4, total, atol=1e-9)
