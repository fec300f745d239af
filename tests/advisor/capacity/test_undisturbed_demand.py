"""Undisturbed demand: use is corrected by what was measured to hide it or to add to it, and by nothing else."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from advisor.capacity.undisturbed_demand import MAX_THROTTLED, Measured, undisturbed
from features.schema.errors import FeaturesError

N = 60


def measured(n: int = N, **columns: object) -> Measured:
    """Windows of one core of use, of which nothing else is known."""
    values = {field.name: np.full(n, np.nan) for field in fields(Measured)}
    values |= {"cpu_cores": np.ones(n), "is_waiting": np.zeros(n, np.bool_)}
    return Measured(**(values | {name: np.broadcast_to(np.asarray(v), n).copy() for name, v in columns.items()}))


def test_use_is_demand_where_nothing_else_is_known() -> None:
    found = undisturbed(measured())

    assert found.cores.tolist() == [1.0] * N
    assert not found.raised.any()
    assert not found.lowered.any()


def test_a_container_that_its_limit_stops_half_of_the_time_wants_twice_its_use() -> None:
    found = undisturbed(measured(throttled_frac=0.5))

    assert found.cores.tolist() == [2.0] * N
    assert found.raised.all()


def test_throttling_raises_tenfold_at_most() -> None:
    found = undisturbed(measured(throttled_frac=1.0))

    assert found.cores.max() == pytest.approx(1.0 / (1.0 - MAX_THROTTLED))


def test_tasks_that_wait_all_the_time_are_demand_and_a_queue_that_empties_is_none() -> None:
    stuck = undisturbed(measured(run_delay_frac=1.5, queued_frac=0.9))
    emptied = undisturbed(measured(run_delay_frac=1.5, queued_frac=0.3))
    alone = undisturbed(measured(run_delay_frac=0.4))

    assert stuck.cores.tolist() == [2.5] * N
    assert emptied.cores.tolist() == [1.0] * N
    assert alone.cores.tolist() == [1.0] * N


def test_demand_behind_a_queue_is_at_most_what_response_times_say() -> None:
    half = np.arange(N) < N // 2
    slow = measured(
        run_delay_frac=np.where(half, 0.0, 5.0),
        queued_frac=np.where(half, 0.0, 1.0),
        qps=10.0,
        rt_mean_ms=np.where(half, 20.0, 30.0),
        slowdown_ratio=np.where(half, 1.0, 1.5),
    )

    assert np.unique(undisturbed(slow).cores).tolist() == [1.0, 1.5]


def test_cpu_time_that_neighbours_add_to_requests_is_taken_off() -> None:
    half = np.arange(N) < N // 2
    slow = measured(cpu_cores=np.where(half, 1.0, 1.6), qps=10.0, slowdown_ratio=np.where(half, 1.0, 1.6))

    found = undisturbed(slow)

    assert found.cores.tolist() == [1.0] * N
    assert found.lowered.tolist() == (~half).tolist()


def test_a_slowdown_alone_lowers_nothing() -> None:
    half = np.arange(N) < N // 2

    assert undisturbed(measured(slowdown_ratio=np.where(half, 1.0, 1.6))).cores.tolist() == [1.0] * N
    assert undisturbed(measured(slowdown_ratio=1.6, qps=10.0)).cores.tolist() == [1.0] * N


def test_what_was_not_measured_is_not_zero() -> None:
    found = undisturbed(measured(cpu_cores=np.where(np.arange(N) == 3, np.nan, 1.0), throttled_frac=0.5))

    assert np.isnan(found.cores[3])
    assert np.isfinite(np.delete(found.cores, 3)).all()
    assert not found.raised[3]


def test_columns_of_other_lengths_are_refused() -> None:
    with pytest.raises(FeaturesError):
        undisturbed(replace(measured(), qps=np.ones(2)))


def shares(high: float) -> st.SearchStrategy[object]:
    return arrays(np.float64, N, elements=st.floats(0.0, high) | st.just(np.nan))


@st.composite
def windows(draw: st.DrawFn) -> Measured:
    return measured(
        cpu_cores=draw(shares(8.0)),
        throttled_frac=draw(shares(1.0)),
        run_delay_frac=draw(shares(4.0)),
        queued_frac=draw(shares(1.0)),
        qps=draw(shares(50.0)),
        rt_mean_ms=draw(shares(100.0)),
        slowdown_ratio=draw(arrays(np.float64, N, elements=st.floats(0.8, 3.0) | st.just(np.nan))),
        is_waiting=draw(arrays(np.bool_, N)),
    )


@given(of=windows(), where=st.integers(0, N - 1), more=st.floats(0.0, 4.0))
def test_more_use_in_a_window_is_never_less_demand_in_any(of: Measured, where: int, more: float) -> None:
    raised = of.cpu_cores.copy()
    raised[where] += more

    before, after = undisturbed(of).cores, undisturbed(replace(of, cpu_cores=raised)).cores

    assert (np.isnan(after) == np.isnan(before)).all()
    assert (np.nan_to_num(after) >= np.nan_to_num(before) - 1e-9).all()


@given(of=windows(), seed=st.integers(0, 99))
def test_the_order_of_windows_does_not_matter(of: Measured, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(N)

    np.testing.assert_allclose(undisturbed(of.where(order)).cores, undisturbed(of).cores[order])


@given(of=windows())
def test_demand_is_below_use_only_where_neighbours_slowed_the_window(of: Measured) -> None:
    found = undisturbed(of)

    slowed = np.nan_to_num(of.slowdown_ratio) >= 1.1
    assert (np.isnan(of.cpu_cores) | slowed | (found.cores >= of.cpu_cores)).all()
