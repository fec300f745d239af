"""Stability: how far features have moved since training, feature by feature. Kernel."""

from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from features.schema.catalog import RAW_NAMES
from models.estimator.feature_matrix import Rows

Floats = NDArray[np.float64]
REFERENCE = "reference.json"
"""File of a bundle: how features lay in the rows it learnt from."""
BINS = 10
LEAST_SHARE = 1e-3
"""Of an empty bin, so that the logarithm of its share is finite."""
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Spread(BaseModel):
    """How one feature lay."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    edges: tuple[Finite, ...]
    """Rising inner edges of bins; a value on an edge lies above it."""
    shares: tuple[Finite, ...]
    """Of all rows: by bin, of which there is one more than edges, and then of rows that miss the feature."""

    @model_validator(mode="after")
    def _every_bin_has_a_share(self) -> Self:
        if len(self.shares) != len(self.edges) + 2:
            raise ValueError("of each bin and of rows that miss the feature a share is needed")
        return self


class Reference(BaseModel):
    """How features lay in the rows that a bundle learnt from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = 1
    features: dict[str, Spread]


def reference_of(rows: Rows) -> Reference:
    """Deciles of every raw feature, and what share of rows lies between them."""
    return Reference(features={name: spread_of(rows.raw[:, at]) for at, name in enumerate(RAW_NAMES)})


def stability_index(before: Spread, values: Floats) -> float:
    """Population stability index of a feature.

    Args:
        before: how it lay.
        values: (n,) newer values; NaN is missing, which is a bin of its own.

    Returns:
        Sum over bins of (share now - share then) x log(share now / share then), >= 0; 0 without values. By custom below
        0.1 nothing moved, above 0.25 much did.

    Raises:
        Nothing.

    Source: Siddiqi, "Credit Risk Scorecards", 2006; shares are LEAST_SHARE at least.
    """
    if not len(values):
        return 0.0
    then, now = (np.maximum(shares, LEAST_SHARE) for shares in (np.array(before.shares), _shares(before.edges, values)))
    return float(((now - then) * np.log(now / then)).sum())


def spread_of(values: Floats) -> Spread:
    """How (n,) values of a feature lie; NaN is missing."""
    known = values[np.isfinite(values)]
    edges = np.unique(np.quantile(known, np.arange(1, BINS) / BINS)).tolist() if len(known) else []
    return Spread(edges=tuple(edges), shares=tuple(_shares(edges, values).tolist()))


def _shares(edges: "tuple[float, ...] | list[float]", values: Floats) -> Floats:
    """(len(edges) + 2,) share of values in each bin, the last one missing."""
    place = np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values, side="right"))
    return np.bincount(place, minlength=len(edges) + 2) / max(len(values), 1)
