"""Predictor: rows in, slowdown out: imputation, the two graphs and the link, in the order of training."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models import link
from models.bundle import Bundle
from models.impute import impute
from models.manifest import ModelEntry
from models.runtime import Graph, load_graph

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Prediction:
    """What a model says of n rows."""

    base_sum: Floats
    """(n,) excess ratio of the base."""
    log_mean: Floats
    """(n,) expected log slowdown."""
    spread: Floats
    """(n,) typical size of its error, log ratio, > 0."""

    def ratio(self) -> Floats:
        """(n,) expected slowdown ratio."""
        return np.exp(self.log_mean)

    def upper(self, multiplier: float) -> Floats:
        """(n,) slowdown ratio bounded with a multiplier of the model's calibration."""
        return link.upper_ratio(self.log_mean, self.spread, multiplier)


@dataclass(frozen=True)
class Predictor:
    """A model ready to predict."""

    medians: Floats
    mean: Graph
    spread: Graph

    def predict(self, features: Floats) -> Prediction:
        """Expected slowdown of each row and the size of its error.

        Args:
            features: (n, d) raw feature values in catalogue order; NaN is missing.

        Returns:
            Three (n,) arrays. A missing pressure counts as its training median, another missing value goes where the
            trees send it. Each row's result is independent of the rows beside it.

        Raises:
            WrongFeatures: features are not (n, d).

        Source: ours, docs/decisions/0008-model-form.md.
        """
        self.mean.refuse_other_widths(features)
        rows = impute(features, self.medians)
        mean = self.mean.predict(rows)
        return Prediction(
            base_sum=mean["base_sum"],
            log_mean=link.log_mean(mean["base_sum"], mean["tree_raw"]),
            spread=link.spread(self.spread.predict(rows)["tree_raw"]),
        )


def open_predictor(bundle: Bundle, model: str) -> Predictor:
    """The predictor of one model of a verified bundle."""
    return predictor_of(
        medians_of(bundle.manifest.models[model]), bundle.file_of(model, "mean"), bundle.file_of(model, "spread")
    )


def medians_of(entry: ModelEntry) -> Floats:
    """(d,) what stands in for a missing value of each column, NaN where missing stays missing."""
    return np.array([entry.medians.get(name, np.nan) for name in entry.features])


def predictor_of(medians: Floats, mean: bytes, spread: bytes) -> Predictor:
    """A predictor from its parts: (d,) medians and the two serialised graphs."""
    return Predictor(medians, load_graph(mean), load_graph(spread))
