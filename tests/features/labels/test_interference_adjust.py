"""Harm: pressure is taken off the normal, whatever the form of the law, and never more than the windows say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.labels.interference_adjust import harm
from features.labels.slowdown import Conditions, log_ratio
from ingest.simulator.law import PLATFORMS, capacities_of, draw_apps
from ingest.simulator.laws import LAWS

N = 600
APPS = 12
MAX_BIAS = 0.06
"""In log slowdown, where a few windows come close to being alone on their node."""


def ratios(signal: np.ndarray, load: np.ndarray, pressure: np.ndarray) -> np.ndarray:
    """Labels of windows one after the other: nobody has a replica, and nobody knows its own use."""
    return log_ratio(signal, Conditions(load, np.full(len(load), np.nan), np.arange(len(load)), pressure))


def pressures(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.uniform(0, 1, (count, 1)) * rng.gamma(1.0, 0.3, (count, 3))


def signal_of(pressure: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    noisy: np.ndarray = 4.0 * (1 + pressure @ [0.5, 2.0, 0.0]) * rng.lognormal(0, 0.01, len(pressure))
    return noisy


@pytest.mark.parametrize("law", LAWS)
def test_labels_are_not_biased_under_a_law_of_any_form(law: str) -> None:
    rng = np.random.default_rng(5)
    apps = draw_apps(APPS, rng)
    hidden = LAWS[law](apps)
    bias = []
    for victim in range(APPS):
        crowding = rng.uniform(0.0, 20.0 / APPS, (N, 1))
        neighbours = rng.poisson(crowding, (N, APPS)) * rng.uniform(0.25, 0.95, (N, APPS))
        load, platform = rng.uniform(0.25, 0.95, N), np.zeros(N, np.int64)
        truth = hidden.slowdown(np.full(N, victim), neighbours, load, platform)
        measured = neighbours @ apps.demand / capacities_of(PLATFORMS)[0]
        label = ratios(5.0 * truth * rng.lognormal(0, 0.02, N), 100.0 * load, measured)
        bias.append(float(np.nanmean(label - np.log(truth))))

    assert abs(np.mean(bias)) < MAX_BIAS
    assert np.abs(bias).max() < 2 * MAX_BIAS


@given(seed=st.integers(0, 99), count=st.integers(1, 120))
def test_harm_is_at_least_one_and_rises_with_every_pressure(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    pressure = pressures(rng, count)
    ratio = signal_of(pressure, rng)
    lower = pressure * np.array([1.0, 0.0, 1.0])
    both = np.concatenate([pressure, lower])

    found = harm(np.append(ratio, np.full(count, np.nan)), both, np.ones(2 * count))

    assert (found >= 1).all()
    assert (found[:count] >= found[count:] - 1e-12).all()
    calm = both.sum(axis=1) <= np.quantile(both.sum(axis=1), 0.2)
    assert np.median(found[calm]) <= 1.2


@given(seed=st.integers(0, 99), scale=st.sampled_from([1e-6, 0.5, 3.0, 1e9]))
def test_neither_the_unit_of_a_signal_nor_the_order_of_rows_changes_a_label(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    pressure = pressures(rng, 200)
    signal, load, order = signal_of(pressure, rng), rng.uniform(1, 9, 200), rng.permutation(200)

    plain = ratios(signal, load, pressure)

    np.testing.assert_allclose(ratios(scale * signal, load, pressure), plain, atol=1e-6)
    np.testing.assert_allclose(ratios(signal[order], load[order], pressure[order]), plain[order], atol=1e-6)


def test_without_neighbours_the_normal_is_the_signal_itself() -> None:
    rng = np.random.default_rng(1)
    signal = rng.lognormal(1.0, 0.1, 100)

    label = ratios(signal, np.full(100, np.nan), np.zeros((100, 3)))

    np.testing.assert_allclose(label, np.log(signal / np.median(signal)))


def test_windows_alone_on_their_node_are_the_normal_whatever_the_others_say() -> None:
    rng = np.random.default_rng(2)
    pressure = np.where(np.arange(200)[:, None] < 60, 0.0, 1.0 + pressures(rng, 200))
    signal = np.where(np.arange(200) < 60, 2.0, 8.0) * rng.lognormal(0, 0.01, 200)

    label = ratios(signal, np.full(200, np.nan), pressure)

    assert np.median(label[:60]) == pytest.approx(0.0, abs=0.005)


@pytest.mark.parametrize("own", [1.0, 1.15, 1.25])
def test_what_replicas_have_always_is_not_taken_for_harm_by_what_hardly_varies(own: float) -> None:
    """As e2e.stock records: alone, with the others, with a noisy neighbour; replicas differ in pressure on memory."""
    rng = np.random.default_rng(1)
    phase, first = np.repeat([0, 1, 2], [18, 51, 21]), np.arange(90) % 3 == 0
    cpu = np.array([0.010, 0.117, 0.31])[phase] * rng.lognormal(0, 0.05, 90)
    memory = np.where(first, 0.024, 0.029) * rng.lognormal(0, 0.005, 90)
    signal = np.array([60.0, 72.0, 126.0])[phase] * np.where(first, 1 / own, 1.0) * rng.lognormal(0, 0.1, 90)

    found = np.exp(ratios(signal, np.full(90, 4.0), np.column_stack([cpu, memory])))

    assert 2.1 / 1.3 <= np.median(found[phase == 2]) <= 2.1 * 1.3
    assert np.median(found[phase == 0]) == pytest.approx(1.0, abs=0.2)


def test_few_windows_claim_no_harm() -> None:
    pressure = pressures(np.random.default_rng(3), 39)

    assert (harm(1 + pressure.sum(axis=1), pressure, np.ones(39)) == 1).all()
