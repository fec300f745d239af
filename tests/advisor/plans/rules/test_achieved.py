"""Outcome: what steps saved, held against those held back."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.plans.rules.did_estimate import (
    AFTER_US,
    LEAST_CONTROLS,
    LEAST_FACTOR,
    MAX_FACTOR,
    Seen,
    Trial,
    changes_of,
    factor_of,
    outcome,
)
from advisor.plans.rules.policy import HOUR_US
from advisor.remediation.benefit import degradation
from tests.advisor.plans.made import NOW_US

WINDOW_US = HOUR_US // 12


def seen(before: float, after: float, node: str = "n0") -> Seen:
    """An hour before and an hour and a half after, window by window."""
    ends = NOW_US + WINDOW_US * np.arange(-11, 19)
    return Seen(ends, np.where(ends <= NOW_US, before, after), np.array([node] * len(ends), object))


def trial(victim: str = "v", *, gain: float = 1.0, source: str = "n0", target: str | None = None) -> Trial:
    return Trial(gain, NOW_US, NOW_US, (victim,), {}, source, target)


def change_of(one: Trial, windows: Mapping[str, Seen]) -> float | None:
    return changes_of([one], windows)[0]


def cost(slowdown: float) -> float:
    return float(degradation(np.array([slowdown]))[0])


def test_what_is_spared_is_what_it_suffered_less_what_it_suffers() -> None:
    assert change_of(trial(), {"v": seen(1.8, 1.1)}) == pytest.approx(cost(1.8) - cost(1.1))
    assert change_of(trial(), {"v": seen(1.1, 1.8)}) == pytest.approx(cost(1.1) - cost(1.8))


def test_what_getting_better_anyway_is_worth_is_taken_off() -> None:
    controls = [trial(f"c{n}", source=f"m{n}") for n in range(LEAST_CONTROLS)]
    windows = {"v": seen(1.8, 1.0)} | {f"c{n}": seen(1.8, 1.4, f"m{n}") for n in range(LEAST_CONTROLS)}

    found = outcome([trial()], controls, windows)

    assert found.realised == pytest.approx((cost(1.8) - cost(1.0)) - (cost(1.8) - cost(1.4)))
    assert (found.measured, found.controls, found.predicted) == (1, LEAST_CONTROLS, 1.0)


def test_nobody_counts_twice_where_several_steps_are_done_beside_each_other() -> None:
    windows = {"v": seen(1.8, 1.0), "w": seen(1.6, 1.2), "beside": seen(1.4, 1.1)}

    found = changes_of([trial("v"), trial("w")], windows)

    assert found == pytest.approx([(cost(1.8) - cost(1.0)) + (cost(1.4) - cost(1.1)), cost(1.6) - cost(1.2)])


def test_few_held_back_tell_nothing() -> None:
    controls = [trial(f"c{n}", source=f"m{n}") for n in range(LEAST_CONTROLS - 1)]
    windows = {"v": seen(1.8, 1.0)} | {f"c{n}": seen(1.8, 1.4, f"m{n}") for n in range(LEAST_CONTROLS - 1)}

    found = outcome([trial()], controls, windows)

    assert found.realised == pytest.approx(cost(1.8) - cost(1.0))
    assert found.controls == 0


def test_who_was_held_back_beside_a_step_that_was_done_is_no_measure_of_it() -> None:
    controls = [trial(f"c{n}", source="n0") for n in range(LEAST_CONTROLS)]
    windows = {"v": seen(1.8, 1.0)} | {f"c{n}": seen(1.8, 1.4) for n in range(LEAST_CONTROLS)}

    assert outcome([trial()], controls, windows).controls == 0


def test_who_was_moved_is_followed_under_its_new_uid() -> None:
    moved = replace(trial("old"), heirs={"old": "new"})

    assert change_of(moved, {"old": seen(1.8, 1.8), "new": seen(9.0, 1.0)}) == pytest.approx(cost(1.8) - cost(1.0))


def test_who_was_on_the_target_already_and_who_stays_behind_count_too() -> None:
    there, behind, elsewhere = seen(1.0, 1.5, "n1"), seen(1.4, 1.1, "n0"), seen(1.0, 1.5, "n2")

    windows = {"v": seen(1.8, 1.0), "there": there, "behind": behind, "elsewhere": elsewhere}
    found = change_of(trial(target="n1"), windows)

    spared = (cost(1.8) - cost(1.0)) + (cost(1.0) - cost(1.5)) + (cost(1.4) - cost(1.1))
    assert found == pytest.approx(spared)


def test_what_was_not_measured_does_not_count_as_nothing() -> None:
    unknown = replace(seen(1.8, 1.0), slowdown=np.full(30, np.nan))

    assert change_of(trial(), {}) is None
    assert change_of(trial(), {"v": unknown}) is None
    assert outcome([trial(), trial("w")], [], {"v": seen(1.8, 1.0)}).measured == 1
    assert outcome([trial()], [], {}).measured == 0


def test_the_restart_itself_does_not_count() -> None:
    of = seen(1.8, 1.0)
    restarting = replace(
        of, slowdown=np.where((of.ends_us > NOW_US) & (of.ends_us <= NOW_US + HOUR_US // 6), 9.0, of.slowdown)
    )
    late = replace(of, slowdown=np.where(of.ends_us > NOW_US + AFTER_US, 9.0, of.slowdown))

    assert change_of(trial(), {"v": restarting}) == change_of(trial(), {"v": late}) == change_of(trial(), {"v": of})


@given(predicted=st.floats(0, 1e6), realised=st.floats(-1e6, 1e6))
def test_the_correction_is_bounded_and_goes_the_right_way(predicted: float, realised: float) -> None:
    found = factor_of(predicted, realised)

    assert LEAST_FACTOR <= found <= MAX_FACTOR
    assert (found >= 1.0) == (realised >= predicted) or found == 1.0


def test_nothing_known_corrects_nothing() -> None:
    assert factor_of(0.0, 0.0) == 1.0
    assert factor_of(100.0, 80.0) == pytest.approx(100.0 / 120.0)
