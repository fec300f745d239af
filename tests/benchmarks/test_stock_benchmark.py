"""The benchmark of stock clusters: each figure is of the windows that it is about."""

import numpy as np
import pytest

from benchmarks.stock import Labelled, figures
from benchmarks.stock_mixed import ratio_over_seeds
from ingest.simulator.law import HIDDEN


def harm(**by_resource: list[float]) -> np.ndarray:
    """(n, hidden resources) from columns that are given; 0 elsewhere."""
    count = len(next(iter(by_resource.values())))
    return np.column_stack([by_resource.get(name, [0.0] * count) for name in HIDDEN])


def test_ranks_are_of_labelled_windows_that_wait_and_flags_of_those_that_do_not() -> None:
    found = figures(
        Labelled(
            label=np.array([1.0, 1.2, 1.6, np.nan, 1.3, 1.0]),
            truth=np.array([1.0, 1.3, 1.5, 2.0, 1.4, 1.5]),
            harm=harm(cpu=[0.1, 0.3, 0.5, 1.0, 0.0, 0.0], llc=[0.0, 0.0, 0.0, 0.0, 0.4, 0.5]),
            throttled=np.array([0.0, 0.0, 0.3, 0.3, 0.0, 0.0]),
        )
    )

    assert found == {
        "modelled_share": pytest.approx(5 / 6),
        "label_spearman": pytest.approx(1.0),
        "blind_labelled": 0.5,
        "throttled_labels": 500.0,
        "windows": 6.0,
        "blind_windows": 2.0,
        "throttled_windows": 2.0,
    }


def test_both_fleets_of_a_seed_are_drawn_again_together() -> None:
    whole = np.array([0.1, 0.2, 0.9])

    same = ratio_over_seeds("error", np.column_stack([1.5 * whole, whole]), np.random.default_rng(0))
    apart = ratio_over_seeds("error", np.column_stack([np.array([0.1, 0.3, 0.9]), whole]), np.random.default_rng(0))

    assert same == pytest.approx({"error_ratio": 1.5, "error_ratio_low": 1.5, "error_ratio_high": 1.5})
    assert apart["error_ratio_low"] == 1.0 < apart["error_ratio"] < apart["error_ratio_high"] == pytest.approx(1.5)
