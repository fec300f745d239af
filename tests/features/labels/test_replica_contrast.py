"""Contrast: what replicas share at one time is no interference; what one of them alone suffers is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.columnar.arrow_columns import Floats, Ints
from features.labels.replica_contrast import FLOOR, MAX_DRIFT, MIN_TIMES, shared_drift, use_at_rest
from features.labels.slowdown import Conditions, log_ratio
from features.schema.errors import FeaturesError

TIMES, REPLICAS = 80, 5
UNKNOWN = np.full(TIMES * REPLICAS, np.nan)


def replicas(rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Times of the windows of an app's replicas, and the pressure on each, from nearly none to a whole node."""
    return np.repeat(np.arange(TIMES), REPLICAS), rng.uniform(0, 1, (TIMES * REPLICAS, 1)) ** 2


def test_a_mix_of_requests_that_changes_for_all_is_no_interference() -> None:
    rng = np.random.default_rng(1)
    time, pressure = replicas(rng)
    mix = np.exp(0.3 * np.sin(time / 9))
    truth = 1 + 0.5 * pressure[:, 0]
    signal = 5 * mix * truth * rng.lognormal(0, 0.02, len(time))

    alone = log_ratio(signal, Conditions(UNKNOWN, UNKNOWN, np.arange(len(time)), pressure))
    together = log_ratio(signal, Conditions(UNKNOWN, UNKNOWN, time, pressure))

    assert np.abs(alone - np.log(truth)).mean() > 0.15
    assert np.abs(together - np.log(truth)).mean() < 0.05


def test_what_one_replica_alone_suffers_stays_in_its_label() -> None:
    rng = np.random.default_rng(2)
    time, pressure = replicas(rng)
    truth = 1 + 0.5 * pressure[:, 0]
    signal = 5 * truth * rng.lognormal(0, 0.02, len(time))

    alone = log_ratio(signal, Conditions(UNKNOWN, UNKNOWN, np.arange(len(time)), pressure))
    together = log_ratio(signal, Conditions(UNKNOWN, UNKNOWN, time, pressure))

    np.testing.assert_array_equal(together, alone)


def test_a_replica_is_not_held_against_itself() -> None:
    time, pressure = replicas(np.random.default_rng(3))
    log = 0.3 * np.sin(time / 9)
    odd = np.where(np.arange(len(log)) == 7, log + 0.5, log)

    told, told_of_odd = shared_drift(log, pressure, time), shared_drift(odd, pressure, time)

    assert told_of_odd[7] == pytest.approx(told[7], abs=0.02)


def test_nothing_is_shared_by_a_few_times_or_by_who_is_alone() -> None:
    few = np.repeat(np.arange(MIN_TIMES - 1), 2)

    assert (shared_drift(np.sin(few), np.zeros((len(few), 1)), few) == 0).all()
    assert (shared_drift(np.sin(np.arange(99)), np.zeros((99, 1)), np.arange(99)) == 0).all()
    assert (shared_drift(np.full(99, np.nan), np.zeros((99, 1)), np.arange(99)) == 0).all()


def test_what_a_wrong_form_of_harm_could_make_replicas_share_is_left_in() -> None:
    time, pressure = replicas(np.random.default_rng(4))

    assert (shared_drift(FLOOR * np.where(time % 2, 1.0, -1.0), pressure, time) == 0).all()
    assert (shared_drift(3 * FLOOR * np.where(time % 2, 1.0, -1.0), pressure, time) != 0).all()


@given(seed=st.integers(0, 99), missing=st.floats(0, 0.9))
def test_neither_the_order_of_rows_nor_gaps_make_more_of_drift_than_was_seen(seed: int, missing: float) -> None:
    rng = np.random.default_rng(seed)
    time, pressure = replicas(rng)
    log = np.where(rng.random(len(time)) < missing, np.nan, rng.normal(0, 1, TIMES)[time])
    order = rng.permutation(len(time))

    found = shared_drift(log, pressure, time)

    np.testing.assert_allclose(shared_drift(log[order], pressure[order], time[order]), found[order], atol=1e-6)
    assert np.isfinite(found).all()
    assert np.abs(found).max() <= MAX_DRIFT + 1e-9


@given(seed=st.integers(0, 99))
def test_a_level_that_all_windows_share_is_the_normals_business(seed: int) -> None:
    rng = np.random.default_rng(seed)
    time, pressure = replicas(rng)
    log = rng.normal(0, 0.2, TIMES)[time]

    np.testing.assert_allclose(shared_drift(log + 3.0, pressure, time), shared_drift(log, pressure, time), atol=1e-9)


@pytest.mark.parametrize("follows", [0.0, 1.0])
def test_use_is_corrected_by_as_much_as_replicas_of_one_load_differ(follows: float) -> None:
    rng = np.random.default_rng(5)
    time, pressure = replicas(rng)
    load, harm = rng.uniform(0.5, 4.0, TIMES)[time], 1 + pressure[:, 0]

    found = use_at_rest(load * harm**follows, harm, time)

    np.testing.assert_allclose(found, load, rtol=0.02)


def test_without_replicas_use_is_believed_to_follow_harm_by_half() -> None:
    found = use_at_rest(np.array([2.0, 2.0, np.nan]), np.array([1.0, 4.0, 4.0]), np.arange(3))

    np.testing.assert_allclose(found, [2.0, 1.0, np.nan])


@given(seed=st.integers(0, 99))
def test_use_at_rest_is_never_more_than_use_nor_less_than_harm_allows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    time, pressure = replicas(rng)
    use, harm = rng.lognormal(0, 1, len(time)), 1 + pressure[:, 0]

    found = use_at_rest(use, harm, time)

    assert (found <= use + 1e-12).all()
    assert (found >= use / harm - 1e-12).all()


def test_arrays_are_of_the_same_rows() -> None:
    with pytest.raises(FeaturesError, match="differ in length"):
        shared_drift(np.ones(3), np.ones((2, 1)), np.arange(3))
    with pytest.raises(FeaturesError, match="differ in length"):
        use_at_rest(np.ones(3), np.ones(2), np.arange(3))
