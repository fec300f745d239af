"""Calibrate: the promised share is covered for rows, for unseen groups, and for whole nodes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.calibration.conformal import calibrate, conformal_quantile

Floats = NDArray[np.float64]
GROUPS, ROWS = 40, 50


def scores(rng: np.random.Generator, group_spread: float) -> Floats:
    """(groups, rows) scores; a group's own shift is what makes unseen groups harder than unseen rows."""
    return rng.normal(size=(GROUPS, ROWS)) + rng.normal(scale=group_spread, size=(GROUPS, 1))


def ids(count: int, each: int) -> NDArray[np.int64]:
    return np.repeat(np.arange(count), each)


def test_the_quantile_is_an_order_statistic_with_room_for_the_new_score() -> None:
    hundred = np.arange(1.0, 101.0)

    assert conformal_quantile(hundred, 0.9) == 91.0
    assert conformal_quantile(hundred[:19], 0.9) == 18.0
    assert conformal_quantile(hundred[:5], 0.9) == 5.0


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_at_least_the_promised_share_of_the_scores_is_covered(values: list[float], level: float) -> None:
    array = np.array(values)

    covered = (array <= conformal_quantile(array, level)).mean()

    assert covered >= min(level, 1.0)


def test_the_pooled_bound_covers_new_rows_of_exchangeable_groups() -> None:
    rng = np.random.default_rng(0)
    coverage = []
    for _ in range(200):
        seen, new = scores(rng, group_spread=0.0), scores(rng, group_spread=0.0)
        bound = calibrate(seen.ravel(), ids(GROUPS, ROWS), ids(GROUPS * ROWS, 1), level=0.9).pooled
        coverage.append((new <= bound).mean())

    assert np.mean(coverage) == pytest.approx(0.9, abs=0.005)


def test_the_hierarchical_bound_covers_unseen_groups_where_the_pooled_one_does_not() -> None:
    rng = np.random.default_rng(1)
    kept = {"pooled": [], "hierarchical": []}  # type: dict[str, list[float]]
    for _ in range(100):
        seen, new = scores(rng, group_spread=1.0), scores(rng, group_spread=1.0)
        found = calibrate(seen.ravel(), ids(GROUPS, ROWS), ids(GROUPS * ROWS, 1), level=0.9)
        for name, bound in (("pooled", found.pooled), ("hierarchical", found.hierarchical)):
            kept[name].append(float(((new <= bound).mean(axis=1) >= 0.85).mean()))

    assert np.mean(kept["hierarchical"]) >= 0.9
    assert np.mean(kept["pooled"]) < 0.8


def test_the_node_bound_covers_every_container_of_a_node_at_once() -> None:
    rng = np.random.default_rng(2)
    seen, new = rng.normal(size=(400, 30)), rng.normal(size=(4000, 30))

    found = calibrate(seen.ravel(), ids(400 * 30, 1), ids(400, 30), level=0.9)

    assert (new <= found.node).all(axis=1).mean() == pytest.approx(0.9, abs=0.03)
    assert (new <= found.pooled).all(axis=1).mean() < 0.1


def test_neither_the_order_of_rows_nor_of_ids_matters() -> None:
    rng = np.random.default_rng(3)
    values, group, node = rng.normal(size=60), ids(6, 10), rng.permutation(ids(20, 3))
    order = rng.permutation(60)

    assert calibrate(values, group, node, level=0.8) == calibrate(values[order], -group[order], node[order], level=0.8)


def test_a_multiplier_is_never_negative() -> None:
    found = calibrate(np.full(30, -2.0), ids(3, 10), ids(10, 3), level=0.9)

    assert (found.pooled, found.hierarchical, found.node) == (0.0, 0.0, 0.0)
    assert (found.rows, found.groups, found.node_windows) == (30, 3, 10)


def test_nothing_is_calibrated_on_nothing() -> None:
    with pytest.raises(ValueError, match="empty"):
        conformal_quantile(np.array([]), 0.9)
