"""Outcome: minutes of a pod, and of residents beyond what they had before; what was not measured adds nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.labels.violation_minutes import Measured, Outcomes, Windows, neighbour_minutes, outcomes, own_minutes
from features.schema.errors import FeaturesError

POD, ELSE = 0, 9
HORIZON = 3


def windows(*rows: tuple[int, int, int, float]) -> Measured:
    """Rows of node, container, window and whether it violated: NaN where that was not measured."""
    node, container, number, ill = np.array(rows, np.float64).reshape(-1, 4).T
    place, who, when = (column.astype(np.int64) for column in (node, container, number))
    return Measured(place, who, when, np.ones(len(ill), np.bool_), np.isfinite(ill), ill == 1)


def of(measured: Measured, start: int = 3) -> Outcomes:
    return outcomes(measured, np.array([POD]), np.array([0]), np.array([start]), horizon=HORIZON)


def test_the_minutes_of_the_pod_are_those_within_the_horizon() -> None:
    own = [(0, POD, number, ill) for number, ill in ((3, 1), (4, 0), (5, 1), (6, 1))]

    assert of(windows(*own)).own.tolist() == [10.0]


def test_a_pod_of_which_nothing_was_measured_has_no_outcome() -> None:
    assert np.isnan(of(windows((0, POD, 3, np.nan))).own).all()


def test_a_resident_counts_by_how_much_worse_it_is_than_before() -> None:
    """One of three windows before was ill, all three after are: two windows more, ten minutes."""
    beside = [(0, 5, number, ill) for number, ill in enumerate((1, 0, 0, 1, 1, 1))]

    found = of(windows((0, POD, 3, 0), *beside))

    assert found.neighbours.tolist() == pytest.approx([10.0])
    assert (found.residents.tolist(), found.compared.tolist()) == ([1], [1])


def test_a_young_resident_is_compared_at_its_rate() -> None:
    """Its only window before was ill, as are two of three after: one less than at that rate."""
    beside = [(0, 5, number, ill) for number, ill in ((2, 1), (3, 1), (4, 1), (5, 0))]

    assert of(windows((0, POD, 3, 0), *beside)).neighbours.tolist() == pytest.approx([-5.0])


def test_who_came_later_left_before_or_stood_elsewhere_is_no_resident() -> None:
    later, gone = [(0, 5, n, 1) for n in (3, 4, 5)], [(0, 6, n, 1) for n in (0, 1, 2)]
    elsewhere = [(1, 7, n, n >= 3) for n in range(6)]

    found = of(windows((0, POD, 3, 0), *later, *gone, *elsewhere))

    assert (found.neighbours.tolist(), found.residents.tolist()) == ([0.0], [0])


def test_a_resident_that_was_not_measured_on_one_side_is_told_and_adds_nothing() -> None:
    beside = [(0, 5, number, np.nan if number < 3 else 1) for number in range(6)]

    found = of(windows((0, POD, 3, 0), *beside))

    assert (found.neighbours.tolist(), found.residents.tolist(), found.compared.tolist()) == ([0.0], [1], [0])


def test_best_effort_residents_do_not_count() -> None:
    one = windows((0, POD, 3, 0), *[(0, 5, number, number >= 3) for number in range(6)])
    tolerant = Measured(one.node, one.container, one.number, one.container != 5, one.measured, one.violating)

    assert (of(one).neighbours.tolist(), of(tolerant).neighbours.tolist()) == ([15.0], [0.0])


@given(seed=st.integers(0, 10_000))
def test_many_pods_at_once_are_as_one_by_one_in_any_order_and_as_a_plain_loop_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, pods = 120, 6
    key = np.unique(np.column_stack([rng.integers(8, size=n), rng.integers(12, size=n)]), axis=0)
    at = rng.permutation(len(key))
    container, number = key[at, 0], key[at, 1]
    home = rng.integers(3, size=8)
    one = Measured(
        home[container],
        container,
        number,
        rng.random(8)[container] < 0.8,
        rng.random(len(at)) < 0.8,
        rng.random(len(at)) < 0.5,
    )
    pod, start = rng.integers(8, size=pods), rng.integers(2, 10, pods)

    found = outcomes(one, pod, home[pod], start, horizon=HORIZON)

    for i in range(pods):
        assert_plain(one, int(pod[i]), int(home[pod[i]]), int(start[i]), found, i)


def assert_plain(one: Measured, pod: int, node: int, start: int, found: Outcomes, i: int) -> None:
    rows = [
        (c, k, m, v)
        for c, n, k, s, m, v in zip(
            one.container, one.node, one.number, one.sensitive, one.measured, one.violating, strict=True
        )
        if n == node and c != pod and s and start - HORIZON <= k < start + HORIZON
    ]
    total, compared = 0.0, 0
    for c in {row[0] for row in rows}:
        before, after = (
            [v for w, k, m, v in rows if w == c and m and bool(k >= start) == late] for late in (False, True)
        )
        if before and after:
            compared += 1
            total += 5.0 * len(after) * (np.mean(after) - np.mean(before))
    own = [
        v
        for c, k, m, v in zip(one.container, one.number, one.measured, one.violating, strict=True)
        if c == pod and m and start <= k < start + HORIZON
    ]
    assert found.neighbours[i] == pytest.approx(total)
    assert found.compared[i] == compared
    assert found.own[i] == pytest.approx(5.0 * sum(own) if own else np.nan, nan_ok=True)


def test_without_pods_or_windows_there_is_nothing() -> None:
    none = np.zeros(0, np.int64)

    assert len(outcomes(windows((0, 1, 2, 1)), none, none, none, horizon=HORIZON).own) == 0
    assert of(windows()).neighbours.tolist() == [0.0]


def test_columns_that_differ_in_length_are_refused() -> None:
    short = Windows(np.zeros(2), np.zeros(3))

    with pytest.raises(FeaturesError, match="differ in length"):
        own_minutes(short)
    with pytest.raises(FeaturesError, match="differ in length"):
        neighbour_minutes(np.zeros(2, np.int64), short, short, 1)
