"""Impute: a missing pressure takes its training median, in training and serving alike.

Without it the base would be NaN, and a missing value would have no place in the monotone order.
"""

import numpy as np
from numpy.typing import NDArray

from models.errors import InconsistentDataset

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def training_medians(features: Floats, columns: Flags) -> Floats:
    """What stands in for a missing value.

    Args:
        features: (n, d) training rows; NaN is missing.
        columns: (d,) which columns are imputed.

    Returns:
        (d,) median of the known values of those columns, in the column's unit; NaN for the others.

    Raises:
        InconsistentDataset: an imputed column is missing in every row.

    Source: ours, docs/decisions/0005-missing-neighbours.md.
    """
    unknown = columns & np.isnan(features).all(axis=0)
    if unknown.any():
        raise InconsistentDataset(
            f"column {int(np.flatnonzero(unknown)[0])} is a pressure and missing in every row", "leave the column out"
        )
    medians = np.full(features.shape[1], np.nan)
    medians[columns] = np.nanmedian(features[:, columns], axis=0)
    return medians


def impute(features: Floats, medians: Floats) -> Floats:
    """Rows with every missing value replaced that has a median.

    Args:
        features: (n, d), NaN is missing; not changed.
        medians: (d,) as `training_medians` gives them; where NaN, missing stays missing.

    Returns:
        (n, d) new array.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0005-missing-neighbours.md.
    """
    return np.where(np.isnan(features), medians, features)
