"""Signs: a window counts where two signals say slower than allowed; what is usual is told by an app's own windows."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.diagnosis.slowdown_outliers import ALONE, LEAST_QUIET, QUIET, Windows, least, medians, signs

LIMIT = 1.25
COUNT = 40


def windows(*, slow: float = 1.6, second: float = 1.6, waiting: float = 0.0, throttled: float = 0.0) -> Windows:
    """An app of which the last window is as told, and all others are quiet; the label is made of the first signal."""
    rng = np.random.default_rng(0)
    slowdown = np.append(1.0 + 0.02 * rng.random(COUNT - 1), slow)
    unlike = 10.0 * (1.0 + 0.02 * rng.random(COUNT))
    unlike[-1] = 10.0 * second
    return Windows(
        container=np.zeros(COUNT, np.int64),
        app_platform=np.zeros(COUNT, np.int64),
        number=np.arange(COUNT),
        slowdown=slowdown,
        label_signal=np.where(np.isfinite(slowdown), 0, -1),
        working=np.column_stack([slowdown, unlike]),
        waiting=np.append(np.zeros(COUNT - 1), waiting)[:, None],
        throttled=np.append(np.zeros(COUNT - 1), throttled),
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, True),
        ({"second": 1.0}, False),
        ({"second": 1.0, "waiting": 0.2}, True),
        ({"second": 1.0, "waiting": 0.04}, False),
        ({"second": np.nan}, False),
        ({"slow": 1.2}, False),
        ({"slow": np.nan}, False),
    ],
)
def test_a_window_counts_where_two_signals_say_so(*, given: dict[str, float], expected: bool) -> None:
    shown = signs(windows(**given), LIMIT)

    assert bool(shown.slow[-1]) is expected
    assert not shown.slow[:-1].any()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"throttled": 0.2}, True),
        ({"throttled": 0.01}, False),
        ({"throttled": 0.2, "slow": 1.0, "second": 1.0}, False),
        ({"throttled": 0.2, "slow": np.nan, "second": 1.5}, True),
        ({"throttled": np.nan}, False),
    ],
)
def test_who_is_throttled_and_takes_longer_is_held_back(*, given: dict[str, float], expected: bool) -> None:
    assert bool(signs(windows(**given), LIMIT).held[-1]) is expected


def test_waiting_that_is_usual_says_nothing() -> None:
    of = windows(second=1.0, waiting=0.2)
    always = replace(of, waiting=np.full((COUNT, 1), 0.15))

    assert signs(of, LIMIT).waited[-1]
    assert not signs(always, LIMIT).waited.any()


@pytest.mark.parametrize(
    ("usual", "slow", "expected"),
    [
        (0.01, 1.07, True),
        (0.01, 1.05, False),
        (0.05, 1.12, True),
        (0.05, 1.08, False),
        (0.2, 1.3, True),
        (0.2, 1.24, False),
    ],
)
def test_a_label_of_waiting_alone_counts_from_where_it_stands_out_of_what_is_usual_of_its_app(
    *, usual: float, slow: float, expected: bool
) -> None:
    slowdown = np.append(np.full(COUNT - 1, 1.0 + usual), slow)
    of = replace(windows(second=1.0), slowdown=slowdown, label_signal=np.full(COUNT, ALONE))

    assert bool(signs(of, LIMIT).slow[-1]) is expected
    assert not signs(of, LIMIT).slow[:-1].any()
    assert not signs(replace(of, label_signal=np.zeros(COUNT, np.int64)), LIMIT).slow.any()  # there a second is needed


@given(seed=st.integers(0, 500))
@settings(max_examples=30, deadline=None)
def test_order_makes_no_difference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    of = windows(slow=1.0 + rng.random(), second=1.0 + rng.random(), waiting=rng.random(), throttled=rng.random())
    of = replace(of, app_platform=rng.integers(0, 2, COUNT))
    order = rng.permutation(COUNT)
    mixed = Windows(*(getattr(of, name)[order] for name in Windows.__slots__))

    one, other = signs(of, LIMIT), signs(mixed, LIMIT)

    for name in ("slow", "known", "worked", "waited", "held"):
        assert getattr(one, name)[order].tolist() == getattr(other, name).tolist()


def test_the_calmest_share_of_each_group_tells_what_is_usual() -> None:
    group, slowdown = np.repeat([0, 1], 20), np.tile(np.arange(20.0), 2)
    slowdown[0] = np.nan

    chosen = least(slowdown, group)

    assert slowdown[chosen & (group == 1)].tolist() == list(range(round(QUIET * 20)))
    assert slowdown[chosen & (group == 0)].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_a_median_of_too_few_is_not_known() -> None:
    values = np.arange(10.0)[:, None]
    chosen = np.arange(10) < LEAST_QUIET - 1

    assert np.isnan(medians(values, np.zeros(10, np.int64), chosen)).all()
