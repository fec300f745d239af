"""Right-sizing: the quantile of demand with its risk, floors that are named, and reasons where there is nothing."""

from dataclasses import replace
from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.capacity.rightsize import DAYS, FLOOR, MIB, NONE, PEAK, QUANTILE, Present, Rule, Windows, rightsize
from tests.advisor.capacity.test_undisturbed_demand import measured

GIB = 1024 * MIB


def windows(cores: np.ndarray, *, app: object = 0, day: object = 0, memory: object = GIB) -> Windows:
    n = len(cores)
    apps, days = (np.broadcast_to(np.asarray(one), n).astype(np.int64) for one in (app, day))
    return Windows(apps, days, np.broadcast_to(np.asarray(memory, np.float64), n).copy(), measured(n, cpu_cores=cores))


def present(*cores: float, app: int = 0, limit: float = np.nan) -> Present:
    n = len(cores)
    return Present(
        np.full(n, app), np.array(cores, np.float64), np.full(n, 2 * GIB), np.full(n, limit), np.full(n, np.nan)
    )


IDLE = present()


def test_the_request_is_the_smallest_whole_millicore_that_demand_exceeds_as_rarely_as_stated() -> None:
    (found,) = rightsize(windows(np.arange(1000) / 1000), present(2.0, 2.0, np.nan), ["web"], Rule())

    assert found.cpu.recommended == 0.95
    assert found.exceeded <= 0.05
    assert (found.quantile, found.risk, found.cpu.rule, found.reason) == (0.95, 0.05, QUANTILE, "")
    assert (found.cpu.request, found.cpu.requesting, found.containers) == (2.0, 2, 3)
    assert found.cpu.freed == pytest.approx(2.1)
    assert found.cpu.saved_share == pytest.approx(2.1 / 4.0)


def test_a_day_that_needs_more_than_most_counts_on_its_own() -> None:
    day = np.repeat(np.arange(4), 300)

    (found,) = rightsize(windows(np.where(day == 3, 2.0, 1.0), day=day), IDLE, ["web"], Rule(risk=0.3))

    assert (found.cpu.recommended, found.cpu.rule, found.days) == (2.0, DAYS, 4)


def test_memory_is_the_largest_use_and_a_margin() -> None:
    used = np.where(np.arange(1000) == 7, 3 * GIB, GIB)

    (found,) = rightsize(windows(np.ones(1000), memory=used), present(1.0), ["web"], Rule())

    assert found.memory.recommended >= 3 * GIB * 1.15
    assert found.memory.recommended == pytest.approx(3 * GIB * 1.15, abs=MIB)
    assert (found.memory.rule, found.memory.saved_share < 0) == (PEAK, True)


def test_a_floor_is_named_where_it_speaks() -> None:
    (found,) = rightsize(windows(np.full(500, 0.001), memory=MIB), IDLE, ["web"], Rule())

    assert (found.cpu.recommended, found.cpu.rule) == (0.025, FLOOR)
    assert (found.memory.recommended, found.memory.rule) == (250 * MIB, FLOOR)


def test_too_few_minutes_give_no_recommendation_and_say_how_many_are_needed() -> None:
    cores = np.concatenate([np.ones(399), np.full(100, np.nan)])

    (found,) = rightsize(windows(cores), present(1.0), ["web"], Rule())

    assert found.reason.startswith("399 of the 400 minutes with CPU use that a quantile of 95.0% needs")
    assert isnan(found.cpu.recommended)
    assert isnan(found.cpu.freed)
    assert found.cpu.rule == NONE


def test_an_app_that_its_limit_holds_back_is_raised() -> None:
    held = windows(np.ones(500))
    held = replace(held, measured=replace(held.measured, throttled_frac=np.full(500, 0.5)))

    (found,) = rightsize(held, present(1.0, limit=1.0), ["web"], Rule())

    assert (found.cpu.recommended, found.raised, found.cpu.limit) == (2.0, 500, 1.0)
    assert found.cpu.freed == pytest.approx(-1.0)


def test_without_known_requests_nothing_is_freed() -> None:
    (found,) = rightsize(windows(np.ones(500)), present(np.nan), ["web"], Rule())

    assert found.cpu.recommended == 1.0
    assert isnan(found.cpu.freed)
    assert isnan(found.cpu.saved_share)


def test_each_app_has_its_own_and_they_come_by_what_they_free() -> None:
    cores = np.repeat([1.0, 2.0], 500)
    both = Present(
        *(np.append(a, b) for a, b in zip(_columns(present(1.5)), _columns(present(4.0, app=1)), strict=True))
    )

    found = rightsize(windows(cores, app=np.repeat([0, 1], 500)), both, ["small", "large"], Rule())

    assert [(one.app, one.cpu.recommended, one.cpu.freed) for one in found] == [
        ("large", 2.0, 2.0),
        ("small", 1.0, 0.5),
    ]


def _columns(of: Present) -> tuple[np.ndarray, ...]:
    return of.app, of.request_cores, of.request_bytes, of.limit_cores, of.limit_bytes


@given(seed=st.integers(0, 500), where=st.integers(0, 799), more=st.floats(0.0, 20.0))
def test_more_use_never_lowers_the_request(seed: int, where: int, more: float) -> None:
    drawn = np.random.default_rng(seed)
    cores, day = drawn.lognormal(0.0, 1.0, 800), drawn.integers(0, 3, 800)
    higher = cores.copy()
    higher[where] += more

    (before,), (after,) = (rightsize(windows(c, day=day), IDLE, ["web"], Rule()) for c in (cores, higher))

    assert after.cpu.recommended >= before.cpu.recommended


@given(seed=st.integers(0, 500), risks=st.tuples(st.floats(0.03, 0.5), st.floats(0.03, 0.5)))
def test_a_smaller_risk_is_never_a_smaller_request(seed: int, risks: tuple[float, float]) -> None:
    drawn = np.random.default_rng(seed)
    seen = windows(drawn.lognormal(0.0, 1.0, 800), day=drawn.integers(0, 3, 800))

    (small,), (large,) = (rightsize(seen, IDLE, ["web"], Rule(risk=risk)) for risk in sorted(risks))

    assert small.cpu.recommended >= large.cpu.recommended
    assert small.exceeded <= min(risks)


@given(seed=st.integers(0, 500))
def test_the_order_of_minutes_and_containers_does_not_matter(seed: int) -> None:
    drawn = np.random.default_rng(seed)
    seen = windows(drawn.lognormal(0.0, 1.0, 900), app=drawn.integers(0, 2, 900), day=drawn.integers(0, 3, 900))
    there = present(*drawn.uniform(0.1, 9.0, 7))
    rows, pods = drawn.permutation(900), drawn.permutation(7)
    mixed = Windows(seen.app[rows], seen.day[rows], seen.memory_bytes[rows], seen.measured.where(rows))

    apart = rightsize(mixed, Present(*(column[pods] for column in _columns(there))), ["a", "b"], Rule())

    assert repr(apart) == repr(rightsize(seen, there, ["a", "b"], Rule()))


@given(missing=st.integers(0, 400))
def test_minutes_that_were_not_measured_do_not_lower_the_request(missing: int) -> None:
    cores = np.concatenate([np.full(500, 2.0), np.full(missing, np.nan)])

    (found,) = rightsize(windows(cores, memory=np.where(np.isnan(cores), np.nan, GIB)), IDLE, ["web"], Rule())

    assert (found.cpu.recommended, found.cpu.windows, found.memory.windows) == (2.0, 500, 500)
