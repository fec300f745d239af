"""Labels: slowdown against the app's own normal at the same load."""

import numpy as np
import pytest

from features.labels.baseline import fit_curve, normal_at
from features.labels.slowdown import choose_signal
from tests.features.labelled import settled_labels, windows

RNG = np.random.default_rng(3)
N = 400


def test_busy_hours_are_not_taken_for_interference() -> None:
    load = RNG.uniform(10, 100, N)
    pressure = 0.5 * (1.0 - load / 110) + RNG.uniform(0, 0.6, N)
    latency = 5.0 * (1 + load / 50)

    labels = settled_labels(windows(pressure, rt_mean_ms=latency, qps=load))

    found = np.array([v for v in labels["log_slowdown"].to_pylist() if v is not None])
    assert np.abs(found).max() < 0.25
    assert set(labels["kind"].to_pylist()) == {"latency"}


def test_slowdown_is_recovered_though_no_window_is_quite_calm() -> None:
    pressure = RNG.uniform(0.2, 1.5, N)
    truth = 1 + 0.8 * pressure

    labels = settled_labels(windows(pressure, rt_mean_ms=5 * truth, qps=np.full(N, 50.0)))

    np.testing.assert_allclose(np.exp(labels["log_slowdown"].to_numpy()), truth, rtol=0.12)


def test_load_never_seen_in_calm_windows_has_no_label() -> None:
    load = np.append(np.full(N, 50.0), 500.0)
    pressure = np.append(RNG.uniform(0, 1, N), 0.9)

    labels = settled_labels(windows(pressure, rt_mean_ms=np.full(N + 1, 5.0), qps=load))

    assert labels["log_slowdown"][-1].as_py() is None
    assert labels["log_slowdown"][0].as_py() is not None


def test_windows_throttled_by_the_own_limit_have_no_label() -> None:
    throttled = np.zeros(N)
    throttled[3] = 0.5

    labels = settled_labels(
        windows(RNG.uniform(0, 1, N), cpu_us_per_request=np.full(N, 9.0), cpu_throttled_frac=throttled)
    )

    assert labels["log_slowdown"][3].as_py() is None
    assert labels["kind"][0].as_py() == "cpu_time"


def test_cpi_is_the_signal_only_where_it_tracks_latency() -> None:
    latency = RNG.normal(0, 0.3, N)
    none = np.full(N, np.nan)

    def chosen(**ratios: np.ndarray) -> str:
        return choose_signal((dict.fromkeys(("cpi", "latency", "cpu_time", "waiting"), none) | ratios).__getitem__)

    assert chosen(cpi=latency + 0.1 * RNG.normal(size=N), latency=latency) == "cpi"
    assert chosen(cpi=RNG.normal(0, 0.3, N), latency=latency) == "latency"
    assert chosen(cpi=latency, waiting=latency) == "waiting"
    assert chosen(cpi=latency) == "none"


def test_an_app_without_a_signal_is_not_modelled() -> None:
    labels = settled_labels(windows(RNG.uniform(0, 1, N)))

    assert set(labels["kind"].to_pylist()) == {"none"}
    assert labels["log_slowdown"].null_count == N


def test_a_normal_needs_calm_windows() -> None:
    assert fit_curve(np.full(3, 1.0), np.full(3, 2.0)) is None


def test_a_normal_never_falls_with_load_and_ends_where_it_was_seen() -> None:
    load = np.linspace(1, 100, 200)
    curve = fit_curve(load, 10 - load / 20)

    assert curve is not None
    values = normal_at(curve, np.array([1.0, 50.0, 100.0, 200.0, np.nan]))
    assert (np.diff(values[:3]) >= 0).all()
    assert np.isnan(values[3:]).all()
    assert values[0] == pytest.approx(9.4, abs=0.5)
