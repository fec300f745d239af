"""Utilisation: who tells no load is held against its own normal at the same use, as far as there is support."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.columnar.arrow_columns import Floats, floats
from features.labels.baseline import MIN_BIN
from features.labels.load_proxy import fit_use, normal_by_use, trust
from features.schema.errors import FeaturesError
from tests.features.labelled import settled_labels, windows

N = 400


def normal_at(use: Floats, value: Floats, asked: Floats) -> Floats:
    whole = float(np.median(value))
    return normal_by_use(fit_use(use, value, whole), asked, whole)


def test_hard_work_is_not_taken_for_interference() -> None:
    rng = np.random.default_rng(1)
    use = rng.uniform(0.5, 4.0, N)
    pressure = rng.uniform(0, 1, N)
    truth = 1 + 0.5 * pressure
    latency = 5.0 * (1 + use / 4) * truth

    blind = floats(settled_labels(windows(pressure, rt_mean_ms=latency))["log_slowdown"])
    told = floats(settled_labels(windows(pressure, rt_mean_ms=latency, cpu_cores=use))["log_slowdown"])

    assert np.abs(blind - np.log(truth)).mean() > 0.12
    assert np.abs(told - np.log(truth)).mean() < 0.06
    assert np.isfinite(told).all()


def test_use_makes_no_difference_to_an_app_that_tells_its_load() -> None:
    rng = np.random.default_rng(2)
    pressure, load = rng.uniform(0, 1, N), rng.uniform(10, 100, N)
    latency = (1 + load / 50) * (1 + pressure)

    without = settled_labels(windows(pressure, rt_mean_ms=latency, qps=load))
    with_use = settled_labels(windows(pressure, rt_mean_ms=latency, qps=load, cpu_cores=rng.uniform(0, 9, N)))

    assert with_use["log_slowdown"].equals(without["log_slowdown"])


def test_cpu_time_per_request_needs_no_use() -> None:
    rng = np.random.default_rng(3)
    pressure = rng.uniform(0, 1, N)
    spent = 900.0 * (1 + pressure)

    without = settled_labels(windows(pressure, cpu_us_per_request=spent))
    with_use = settled_labels(windows(pressure, cpu_us_per_request=spent, cpu_cores=1 + pressure))

    assert with_use["log_slowdown"].equals(without["log_slowdown"])


@given(seed=st.integers(0, 99), count=st.integers(1, 2 * MIN_BIN - 1))
def test_with_one_bin_nothing_changes(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    use, value = rng.uniform(0, 4, count), rng.lognormal(0, 1, count)

    found = normal_at(use, value, rng.uniform(-1, 9, 20))

    assert (found == np.median(value)).all()


def test_a_signal_that_does_not_follow_use_keeps_one_normal() -> None:
    rng = np.random.default_rng(4)
    use, value = rng.uniform(0, 4, N), 2.0 * rng.lognormal(0, 0.1, N)

    np.testing.assert_allclose(normal_at(use, value, use), 2.0, rtol=0.03)


def test_a_window_that_does_not_tell_its_use_is_held_against_the_whole() -> None:
    use = np.linspace(1, 4, N)

    found = normal_at(use, 1 + use, np.array([np.nan]))

    assert found[0] == np.median(1 + use)


def test_beyond_the_use_that_was_seen_the_normal_stays_level() -> None:
    use = np.linspace(1, 4, N)

    low, lowest, high, highest = normal_at(use, 1 + use, np.array([1.0, 0.0, 4.0, 40.0]))

    assert low == lowest
    assert high == highest


@given(seed=st.integers(0, 99), times=st.integers(2, 6))
def test_more_support_never_makes_a_bin_ignore_its_own_rows(seed: int, times: int) -> None:
    rng = np.random.default_rng(seed)
    logs = [rng.normal(0, 0.2, MIN_BIN), rng.normal(rng.uniform(-0.5, 0.5), 0.2, MIN_BIN)]
    apart = np.array([np.median(log) for log in logs])

    few, more = trust(logs, apart), trust(_repeated(logs, 0, times), apart)

    assert (few >= 0).all()
    assert (more <= 1).all()
    assert (more >= few - 1e-12).all()
    assert more[0] >= more[1]


def _repeated(logs: list[Floats], which: int, times: int) -> list[Floats]:
    """The bins, one of them with each row so many times."""
    return [np.repeat(log, times) if number == which else log for number, log in enumerate(logs)]


@given(seed=st.integers(0, 99), count=st.integers(1, 200))
def test_a_normal_lies_between_the_whole_and_its_rows_in_any_order(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    use, value = rng.uniform(0, 4, count), rng.lognormal(0, 1, count)
    order = rng.permutation(count)

    found = normal_at(use, value, use)

    np.testing.assert_allclose(normal_at(use[order], value[order], use), found)
    assert (found >= value.min() - 1e-9).all()
    assert (found <= value.max() + 1e-9).all()


def test_use_and_signal_are_of_the_same_rows() -> None:
    with pytest.raises(FeaturesError, match="differ in length"):
        fit_use(np.ones(3), np.ones(2), 1.0)
