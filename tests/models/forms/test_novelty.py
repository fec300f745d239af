"""Novelty: far rows are told from rows like those learnt from, whatever varies within groups."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.data.dataset import Dataset
from models.forms.novelty import WIDEST, Novelty, Widths, distance, widening
from models.training.fit import TrainConfig, fit_placement
from models.training.fit_novelty import MAX_POINTS, fit_novelty
from models.training.fit_power_law import REACH
from models.training.stacking import ON_TREND, PRIOR, LeftOut, far_weights
from models.training.trainer import open_fitted

Floats = NDArray[np.float64]
GROUPS, ROWS, WIDTH = 12, 40, 10
STEADY = 2
"""Columns that tell groups apart; the others jump about within each."""


def kinds(rng: np.random.Generator, groups: int = GROUPS) -> tuple[Floats, NDArray[np.int64]]:
    """Counters above zero: the first STEADY differ from group to group, the others within groups."""
    group = np.repeat(np.arange(groups), ROWS)
    steady = rng.uniform(0, 3, (groups, STEADY))[group] + rng.normal(0, 0.05, (len(group), STEADY))
    loose = rng.normal(0, 2, (len(group), WIDTH - STEADY))
    return np.exp(np.hstack([steady, loose])), group


def limit_of(features: Floats, group: NDArray[np.int64]) -> Novelty:
    found = fit_novelty(features, group, free=np.ones(features.shape[1], np.bool_), seed=0)
    assert found is not None
    return found


def test_a_kind_never_seen_is_far_and_rows_of_kinds_seen_are_not() -> None:
    rng = np.random.default_rng(0)
    features, group = kinds(rng)
    again = features * np.exp(np.hstack([rng.normal(0, 0.05, (len(group), STEADY)), np.zeros((len(group), 8))]))
    other = features.copy()
    other[:, 0] *= np.exp(8)
    limit = limit_of(features, group)

    assert (distance(other, limit) > 1).mean() > 0.95
    assert (distance(again, limit) > 1).mean() < 0.1


def test_a_counter_that_always_jumps_about_says_little_when_it_jumps_again() -> None:
    features, group = kinds(np.random.default_rng(1))
    steady, loose = features[:40].copy(), features[:40].copy()
    steady[:, 0] *= np.exp(6)
    loose[:, -1] *= np.exp(6)
    limit = limit_of(features, group)

    assert np.median(distance(steady, limit)) > 3 * np.median(distance(loose, limit))


def test_about_the_promised_share_of_new_rows_of_the_same_groups_is_flagged() -> None:
    features, group = kinds(np.random.default_rng(2))
    half = np.arange(len(group)) % 2 == 0

    assert (distance(features[~half], limit_of(features[half], group[half])) > 1).mean() < 0.1


@pytest.fixture(scope="module")
def learnt() -> tuple[Floats, Novelty]:
    features, group = kinds(np.random.default_rng(3))
    return features, limit_of(features, group)


@given(rows=st.lists(st.integers(0, GROUPS * ROWS - 1), min_size=1, max_size=300))
def test_a_rows_distance_does_not_depend_on_the_rows_beside_it(learnt: tuple[Floats, Novelty], rows: list[int]) -> None:
    features, limit = learnt

    assert (distance(features, limit)[rows] == distance(features[rows], limit)).all()


def test_a_missing_value_is_no_reason_to_be_far() -> None:
    features, group = kinds(np.random.default_rng(4))
    features[::7, 3] = np.nan
    unknown = features[:40].copy()
    unknown[:, 3] = np.nan

    found = distance(unknown, limit_of(features, group))

    assert np.isfinite(found).all()
    assert (found > 1).mean() < 0.2


def test_groups_of_hardly_more_than_a_row_do_not_fail() -> None:
    rng = np.random.default_rng(9)

    for rows, groups in ((7, 6), (60, 59)):
        found = fit_novelty(rng.normal(size=(rows, 3)), np.arange(rows) % groups, free=np.ones(3, np.bool_), seed=0)
        assert found is None or found.limit > 0


def test_an_infinite_value_counts_as_missing() -> None:
    features, group = kinds(np.random.default_rng(10))
    features[3, 4] = np.inf
    limit = limit_of(features, group)

    assert np.isfinite(distance(np.full((2, WIDTH), np.inf), limit)).all()


def test_columns_with_a_sign_are_not_looked_at() -> None:
    features, group = kinds(np.random.default_rng(5))
    free = np.ones(WIDTH, np.bool_)
    free[0] = False
    limit = fit_novelty(features, group, free=free, seed=0)
    assert limit is not None
    pressed = features.copy()
    pressed[:, 0] *= 1e6

    assert (distance(pressed, limit) == distance(features, limit)).all()


def test_few_points_stand_for_many_rows() -> None:
    features, group = kinds(np.random.default_rng(6), groups=30)

    assert len(limit_of(features, group).points) == MAX_POINTS


@pytest.mark.parametrize(
    ("features", "group"),
    [
        (np.arange(40.0)[:, None], np.zeros(40, np.int64)),
        (np.arange(40.0)[:, None], np.arange(40)),
        (np.ones((40, 2)), np.arange(40) // 10),
        (np.full((40, 2), np.nan), np.arange(40) // 10),
        (np.zeros((40, 0)), np.arange(40) // 10),
        (np.repeat(np.arange(4.0), 10)[:, None], np.arange(40) // 10),
    ],
    ids=["one group", "every row its own group", "nothing varies", "nothing is known", "no columns", "steady groups"],
)
def test_where_nothing_tells_groups_apart_nothing_is_far(features: Floats, group: NDArray[np.int64]) -> None:
    assert fit_novelty(features, group, free=np.ones(features.shape[1], np.bool_), seed=0) is None


def test_margins_widen_beyond_the_limit_as_far_rows_need_and_stay_finite() -> None:
    apart = np.array([0.0, 1.0, 3.0, 4.5, 1e9])

    assert widening(apart, Widths(1.0, 1.0, 1.5)).tolist() == [1.0, 1.0, 3.0, 3.0, WIDEST]
    assert widening(apart, Widths(2.0, 4.0, 4.0)).tolist() == [1.0, 1.0, 1.5, 4.0, 4.0]


def left_out(truth: Floats, error: Floats) -> LeftOut:
    """Two ends left out, the parts as far off as `error` says."""
    rng = np.random.default_rng(0)
    said = truth[:, None] + error * rng.choice([-1.0, 1.0], (len(truth), len(PRIOR)))
    return LeftOut(said, truth, np.full(len(truth), 2.0), np.arange(len(truth)) % 2)


@pytest.mark.parametrize("better", [ON_TREND, ~ON_TREND], ids=["the trend goes on", "the trend goes astray"])
def test_far_rows_are_left_to_what_did_well_beyond_an_end_of_all_others(better: NDArray[np.bool_]) -> None:
    weights = far_weights(PRIOR, left_out(np.linspace(0, 1, 200), np.where(better, 0.05, 1.0)))

    assert weights[better].sum() > 0.9
    assert weights.sum() == pytest.approx(1)


def test_without_far_rows_to_learn_from_far_rows_are_as_others() -> None:
    assert (far_weights(PRIOR, left_out(np.zeros(3), np.ones(len(PRIOR)))) == PRIOR).all()


def test_the_trained_model_says_what_is_far_and_widens_its_bound() -> None:
    rng = np.random.default_rng(7)
    features, group = kinds(rng)
    n = len(group)
    log = 0.4 * np.log(features[:, 0]) + rng.normal(0, 0.05, n)
    data = Dataset(
        features=features,
        names=tuple(f"c{i}" for i in range(WIDTH)),
        signs=np.zeros(WIDTH, np.int8),
        base=np.zeros(WIDTH, np.bool_),
        log_slowdown=log,
        weight=np.ones(n),
        group=group.astype(np.int32),
        node_window=np.arange(n),
        time=np.arange(n),
    )
    predictor = open_fitted(fit_placement(data, TrainConfig(folds=3, spread_rounds=10)))
    far, farther = features.copy(), features.copy()
    far[:, 0] *= np.exp(5)
    farther[:, 0] *= 1e30

    near_said, far_said = predictor.predict(features), predictor.predict(far)

    assert (near_said.distance <= 1).mean() > 0.9
    assert (far_said.distance > 1).all()
    assert np.median(far_said.log_mean) > np.quantile(log, 0.9)
    assert np.median(far_said.spread) > np.median(near_said.spread)
    assert predictor.predict(farther).log_mean.max() <= log.max() + REACH * np.ptp(log)
