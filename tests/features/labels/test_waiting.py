"""Waiting: stalls against own busy time, and a reason wherever nothing can be said."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from features.labels.slowdown import REASONS, TRUST, WAITING, trust
from tests.features.labelled import settled_labels, windows

RNG = np.random.default_rng(5)
N = 240
PRESSURE = np.where(np.arange(N) % 3 == 0, 0.0, RNG.uniform(0.1, 1.2, N))
USE = RNG.uniform(0.2, 2.0, N)
STALL = 0.5 * PRESSURE * USE / np.ceil(USE)
"""Of each CPU's time: the app takes half as long again under the pressure of a whole node."""
STOCK = {"cpu_cores": USE, "demand_cpu": USE / 8.0}
"""What a kubelet says of CPU, on nodes of eight cores."""


def test_a_stock_cluster_has_labels_and_they_follow_the_truth() -> None:
    labels = settled_labels(windows(PRESSURE, psi_cpu_some_frac=STALL + 0.01, **STOCK))

    assert set(labels["kind"].to_pylist()) == {"waiting"}
    assert labels["log_slowdown"].null_count == 0
    assert spearmanr(labels["log_slowdown"].to_numpy(), PRESSURE)[0] > 0.95


def test_a_stall_is_set_against_busy_time_not_wall_time() -> None:
    """1.7 % of the time at 7.7 % of a CPU is a fifth longer."""
    calm = np.arange(N) % 2 == 0
    stall = np.where(calm, 0.0, 0.017)
    rows = windows(
        np.where(calm, 0.0, 0.5),
        psi_cpu_some_frac=stall,
        psi_io_full_frac=np.full(N, 1e-6),
        cpu_cores=np.full(N, 0.077),
    )

    labels = np.exp(settled_labels(rows)["log_slowdown"].to_numpy())

    np.testing.assert_allclose(labels[~calm], 1.22, atol=0.01)
    np.testing.assert_allclose(labels[calm], 1.0, atol=0.01)


@pytest.mark.parametrize(("calm", "label"), [(0.0, 1.0), (0.15, np.sqrt(1.5)), (1.35, 1.5**0.9)])
def test_what_an_app_waits_in_calm_windows_is_its_own_as_far_as_no_neighbour_uses_cpu_then(
    calm: float, label: float
) -> None:
    """It always waits half as long as it works: from none of its neighbours' doing to nearly all of it."""
    rows = windows(np.full(N, calm), psi_cpu_some_frac=np.full(N, 0.25), cpu_cores=np.full(N, 0.5))

    labels = settled_labels(rows)["log_slowdown"].to_numpy()

    np.testing.assert_allclose(np.exp(labels), label, atol=0.01)


def test_run_delay_stands_where_pressure_does_not() -> None:
    by_pressure = settled_labels(windows(PRESSURE, psi_cpu_some_frac=STALL, **STOCK))
    by_delay = settled_labels(windows(PRESSURE, run_delay_frac=STALL * np.ceil(USE), **STOCK))

    np.testing.assert_allclose(by_delay["log_slowdown"].to_numpy(), by_pressure["log_slowdown"].to_numpy())


def test_cycles_above_normal_lengthen_what_waiting_lengthens() -> None:
    alone = settled_labels(windows(PRESSURE, psi_cpu_some_frac=STALL, **STOCK))["log_slowdown"].to_numpy()
    cycles = 0.8 * (1.0 + 0.6 * PRESSURE)

    both = settled_labels(windows(PRESSURE, psi_cpu_some_frac=STALL, cpi=cycles, **STOCK))["log_slowdown"].to_numpy()

    np.testing.assert_allclose(both[PRESSURE > 0], (alone + np.log1p(0.6 * PRESSURE))[PRESSURE > 0], atol=0.1)


def test_latency_is_believed_before_waiting() -> None:
    latency = 5.0 * (1.0 + PRESSURE)
    rows = windows(PRESSURE, rt_mean_ms=latency, qps=np.full(N, 50.0), psi_cpu_some_frac=STALL, **STOCK)

    assert set(settled_labels(rows)["kind"].to_pylist()) == {"latency"}


@pytest.mark.parametrize(
    ("reason", "columns", "limited"),
    [
        ("own_limit", {"cpu_throttled_frac": np.full(N, 0.02)}, 1),
        ("throttling_not_reported", {}, 1),
        ("idle", {"cpu_cores": np.full(N, 0.04)}, 0),
        ("not_reported", {"psi_cpu_some_frac": np.full(N, np.nan)}, 0),
        ("pressure_all_zero", {"psi_cpu_some_frac": np.zeros(N)}, 0),
    ],
)
def test_what_is_not_measured_has_no_label_and_says_why(
    reason: str, columns: dict[str, np.ndarray], limited: int
) -> None:
    rows = windows(PRESSURE, **{"psi_cpu_some_frac": STALL + 1e-4, **STOCK, **columns})

    labels = settled_labels(rows, np.full(N, limited, np.bool_))

    busy = PRESSURE + USE / 8.0 > 0.3
    asked = labels.filter(busy) if reason == "pressure_all_zero" else labels
    assert asked["log_slowdown"].null_count == asked.num_rows
    assert reason in set(asked["reason"].to_pylist())
    assert set(labels["reason"].to_pylist()) <= {None, *REASONS}


def test_who_sleeps_on_a_busy_node_is_idle_and_says_nothing_of_its_kernel() -> None:
    rows = windows(PRESSURE, psi_cpu_some_frac=np.zeros(N), **{**STOCK, "cpu_cores": np.full(N, 0.04)})

    assert set(settled_labels(rows)["reason"].to_pylist()) == {"idle"}


def test_no_pressure_at_all_is_believed_on_an_idle_node() -> None:
    calm = np.full(N, 0.05)
    rows = windows(calm, psi_cpu_some_frac=np.zeros(N), cpu_cores=np.full(N, 0.5), demand_cpu=np.full(N, 0.06))

    np.testing.assert_allclose(settled_labels(rows)["log_slowdown"].to_numpy(), 0.0, atol=1e-9)


def test_a_label_or_a_reason_and_never_both() -> None:
    holes = RNG.uniform(size=N) < 0.3
    labels = settled_labels(windows(PRESSURE, psi_cpu_some_frac=np.where(holes, np.nan, STALL + 1e-4), **STOCK))

    for log, reason in zip(labels["log_slowdown"].to_pylist(), labels["reason"].to_pylist(), strict=True):
        assert (log is None) == (reason is not None)


def test_a_window_judged_by_waiting_counts_little_in_training() -> None:
    labels = settled_labels(windows(PRESSURE, psi_cpu_some_frac=STALL, **STOCK))

    np.testing.assert_allclose(trust(labels["kind"]), TRUST[WAITING])
    assert TRUST[WAITING] < 0.1
