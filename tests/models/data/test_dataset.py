"""Dataset: contradictions are refused when it is made, not found when it is trained on."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from models.data.dataset import Dataset
from models.data.impute import impute, training_medians
from models.errors import InconsistentDataset

Draw = Callable[..., Dataset]


@pytest.fixture(scope="module")
def data(placements: Draw) -> Dataset:
    return placements(seed=4, groups=2, rows_per_group=5)


def test_chosen_rows_keep_their_labels(data: Dataset) -> None:
    second = data.rows(data.group == 1)

    assert len(second.features) == 5
    assert second.log_slowdown.tolist() == data.log_slowdown[5:].tolist()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"weight": np.ones(3)}, "10 rows"),
        ({"names": ("a",)}, "6 columns"),
        ({"log_slowdown": np.full(10, np.nan)}, "not finite"),
        ({"base": np.zeros(6, dtype=np.bool_)}, "no column is in the base"),
        ({"base": np.array([False] * 4 + [True] * 2)}, "'hour' has negative"),
    ],
)
def test_data_that_contradict_themselves_are_refused(data: Dataset, change: dict[str, object], problem: str) -> None:
    with pytest.raises(InconsistentDataset, match=problem):
        replace(data, **change)  # type: ignore[arg-type]


def test_only_columns_with_a_median_are_imputed() -> None:
    features = np.array([[1.0, np.nan], [3.0, 5.0], [np.nan, 7.0]])

    medians = training_medians(features, np.array([True, False]))
    filled = impute(features, medians)

    np.testing.assert_array_equal(medians, [2.0, np.nan])
    np.testing.assert_array_equal(filled, [[1.0, np.nan], [3.0, 5.0], [2.0, 7.0]])


def test_a_pressure_that_was_never_measured_is_refused() -> None:
    with pytest.raises(InconsistentDataset, match="column 1"):
        training_medians(np.array([[1.0, np.nan], [2.0, np.nan]]), np.array([True, True]))
