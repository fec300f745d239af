"""Soak: how surely memory grows is told from samples that hang together."""

import csv
import os
from io import StringIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.soak.asking import Asked
from e2e.soak.memory import Samples, least, slope_of

SECONDS = np.arange(0.0, 3600.0, 5.0)


def wandering(seed: int) -> np.ndarray:
    """Memory that comes and goes, and stays."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=len(SECONDS))
    held = np.zeros(len(SECONDS))
    for i in range(1, len(held)):
        held[i] = 0.95 * held[i - 1] + steps[i]
    return 1e8 + 2e5 * held


@given(st.floats(0.5, 20.0), st.integers(0, 1000))
def test_growth_is_found_within_its_interval(percent: float, seed: int) -> None:
    held = wandering(seed)
    held = held + 1e6 * percent * (SECONDS - SECONDS.mean()) / 3600
    found = slope_of(SECONDS, held, np.random.default_rng(0))
    assert found.low <= found.value <= found.high
    assert abs(found.value - percent) < 1.5


def test_what_stays_is_told_not_to_grow_most_of_the_time() -> None:
    found = [slope_of(SECONDS, wandering(seed), np.random.default_rng(0)) for seed in range(40)]
    assert np.mean([one.low <= 0 <= one.high for one in found]) >= 0.75


def test_constant_memory_has_no_slope() -> None:
    found = slope_of(SECONDS, np.full(len(SECONDS), 5e7), np.random.default_rng(0))
    assert (found.value, found.low, found.high) == pytest.approx((0.0, 0.0, 0.0), abs=1e-9)


def test_what_each_process_holds_is_kept_and_written_down_and_one_that_is_gone_holds_nothing() -> None:
    samples = Samples(told := StringIO())
    samples.take(0.5, {"here": os.getpid(), "gone": 2**22 + 1})
    samples.take(1.0, {"here": os.getpid()})
    _, *rows = csv.reader(told.getvalue().splitlines())

    assert samples.at_s == {"here": [0.5, 1.0], "gone": [0.5]}
    assert samples.held["gone"] == [0.0]
    assert [[name, float(at)] for name, at, *_ in rows] == [["here", 0.5], ["gone", 0.5], ["here", 1.0]]
    assert [float(held) for name, _, held, _ in rows if name == "here"] == samples.held["here"]
    assert all(1e6 < int(of_files) < int(held) for name, _, held, of_files in rows if name == "here")


def test_the_slowest_hundredth_is_of_its_own_stretch_of_time() -> None:
    asked = Asked(at_s=[1.0, 2.0, 11.0], took_s=[0.001, 0.001, 0.5])
    assert asked.p99_ms(0, 10) == pytest.approx(1.0)
    assert asked.p99_ms(10, 20) == pytest.approx(500.0)
    assert np.isnan(asked.p99_ms(20, 30))


def test_what_is_taken_for_a_piece_of_work_and_given_back_is_no_growth_and_a_leak_beneath_it_is() -> None:
    work = np.where(np.arange(len(SECONDS)) % 12 < 8, 2e7 * (1 + SECONDS / SECONDS[-1]), 0.0)
    leaking = 1e8 * (1 + 0.05 * (SECONDS - SECONDS[0]) / 3600)

    still = slope_of(*least(SECONDS, 1e8 + work, 60.0), np.random.default_rng(0))
    grows = slope_of(*least(SECONDS, leaking + work, 60.0), np.random.default_rng(0))

    assert max(abs(still.value), abs(still.high)) < 1e-6
    assert grows.low > 4


@pytest.mark.parametrize(("last", "lows"), [(302.0, [4.0, 6.0]), (355.0, [4.0, 6.0, 8.0])])
def test_the_least_is_of_each_whole_piece_of_time_in_which_somebody_looked(last: float, lows: list[float]) -> None:
    """In what is left at the end nothing may have been given back: it would look like growth."""
    at, held = least(np.array([0.0, 30.0, 61.0, 300.0, last]), np.array([5.0, 4.0, 6.0, 9.0, 8.0]), 60.0)

    assert (at.tolist(), held.tolist()) == ([0.0, 61.0, 300.0][: len(lows)], lows)
