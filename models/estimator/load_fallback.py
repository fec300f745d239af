"""Load-aware: compares nodes by how much is pressed there, where a model is not believed any more. Kernel."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.schema.catalog import FEATURE_NAMES, PRESSURES
from models.data.dataset import refuse_other_widths
from models.estimator.predictor import Prediction
from models.forms.co_runner_choice import Choice

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

HARM = 0.25
"""Slowdown that a whole node's pressure on one resource is taken to cause: only the order of nodes is meant."""
COLUMNS = [FEATURE_NAMES.index(name) for name in PRESSURES]


@dataclass(frozen=True)
class LoadAware:
    """Answers in the place of a predictor. It has no bound: its spread is 0, so no node is vetoed.

    Args:
        medians: (d,) what stands in for a missing value, of the model that is not believed.
    """

    medians: Floats
    choice: Choice | None = None

    def predict(self, features: Floats, known: NDArray[np.bool_] | None = None) -> Prediction:  # noqa: ARG002 - apps
        """What the sum of pressures stands for.

        Args:
            features: (n, d) in catalogue order.
            known: not asked.

        Returns:
            log1p(HARM x sum of pressures), all else zero. A missing pressure counts as its median.

        Raises:
            ModelsError: features are not (n, d).

        Source: the strongest of the plain heuristics in our evaluation, docs/evaluation.md.
        """
        refuse_other_widths(features, len(FEATURE_NAMES))
        pressure = features[:, COLUMNS]
        filled = np.where(np.isnan(pressure), np.nan_to_num(self.medians[COLUMNS]), pressure)
        excess = HARM * filled.sum(axis=1)
        nothing = np.zeros(len(features))
        return Prediction(excess, np.log1p(excess), nothing, nothing)

    def log_choice(self, together: Floats, features: Callable[[Ints], Floats]) -> Floats:
        """(n,) what nodes are compared by, see models.estimator.predictor."""
        return self.predict(features(np.arange(len(together)))).log_mean
