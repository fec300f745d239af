"""Challengers: other ways to learn from the same rows that might do better than ours, and must be shown to, or not.

Baselines are what anybody can compute; challengers are what another team would build.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from models.challengers.matrix_factorisation import low_rank, matrix_completion
from models.challengers.tree_ensembles import (
    extra_trees,
    hist_boosting,
    lightgbm_alone,
    quantile_shifted,
    random_forest,
)
from models.data.dataset import Dataset
from models.estimator.fitted_model import Placement
from models.estimator.onnx_session import load_graph
from models.forms.pressure_base import base_sum
from models.onnx_export.exporter import TREE_RAW, export_spread
from models.training.fit import TrainConfig

Floats = NDArray[np.float64]
Says = Callable[[Dataset], Floats]
"""What a fitted challenger says of imputed rows: (n,) log slowdown, expected or at most."""
FAMILIAR = 0.95
"""Quantile of the learnt bases beyond which the trees' correction shrinks."""


@dataclass(frozen=True)
class Lesson:
    """What a challenger learns from.

    Args:
        seen: imputed rows, with a base.
        ours: our model of the same rows.
        config: how ours was trained.
    """

    seen: Dataset
    ours: Placement
    config: TrainConfig


def base_alone(lesson: Lesson) -> Says:
    """Our base without any trees."""
    terms = lesson.ours.base()
    return lambda rows: np.log1p(base_sum(rows.features, terms))


def log_base(lesson: Lesson) -> Says:
    """The same columns with weights >= 0, but adding up in the log: harms multiply.

    Source: Lawson and Hanson, "Solving Least Squares Problems", 1974 (non-negative least squares).
    """
    seen, columns = lesson.seen, np.flatnonzero(lesson.seen.base)
    root = np.sqrt(seen.weight)
    weights, _ = nnls(seen.features[:, columns] * root[:, None], seen.log_slowdown * root)
    return lambda rows: np.asarray(rows.features[:, columns] @ weights, np.float64)


def shrunken_residual(lesson: Lesson) -> Says:
    """Ours, but its trees' correction shrinks by known over asked where the base exceeds nearly all that was learnt."""
    terms, trees = lesson.ours.base(), load_graph(export_spread(lesson.ours.residual))
    known = float(np.quantile(base_sum(lesson.seen.features, terms), FAMILIAR))

    def says(rows: Dataset) -> Floats:
        base = base_sum(rows.features, terms)
        trust = np.minimum(1.0, known / np.maximum(base, known))
        return np.log1p(base) + trust * trees.predict(rows.features)[TREE_RAW]

    return says


def _of_rows(fit: Callable[[Dataset, TrainConfig], Says]) -> Callable[[Lesson], Says]:
    """A challenger that needs nothing of ours."""
    return lambda lesson: fit(lesson.seen, lesson.config)


CHALLENGERS: Mapping[str, Callable[[Lesson], Says]] = {
    "matrix_completion": _of_rows(matrix_completion),
    "low_rank": lambda lesson: low_rank(lesson.seen),
    "random_forest": _of_rows(random_forest),
    "extra_trees": _of_rows(extra_trees),
    "hist_boosting": _of_rows(hist_boosting),
    "lightgbm_alone": _of_rows(lightgbm_alone),
    "base_alone": base_alone,
    "log_base": log_base,
    "shrunken_residual": shrunken_residual,
}
"""Of the expectation."""
BOUNDS: Mapping[str, Callable[[Lesson], Says]] = {
    "quantile_lightgbm": _of_rows(quantile_shifted(shift=False)),
    "quantile_shifted": _of_rows(quantile_shifted(shift=True)),
}
"""Of the bound."""
WORDS: Mapping[str, str] = {
    "matrix_completion": "apps by classes of neighbours, sampled (decision 0018); new apps by profiles that look ahead",
    "low_rank": "slowdown - 1 = app's row x pressures; the rows of all apps of rank 2 around the common one",
    "random_forest": "scikit-learn's, 100 trees, 5 rows a leaf, a third of the columns a split",
    "extra_trees": "scikit-learn's, the same sizes",
    "hist_boosting": "scikit-learn's histogram gradient boosting as it comes",
    "lightgbm_alone": "our monotone trees without a base, as many as do best on apps left out",
    "base_alone": "our base without trees",
    "log_base": "the base's columns, adding up in the log",
    "shrunken_residual": "ours, its trees shrunk where the base exceeds 95 % of those learnt",
    "quantile_lightgbm": "LightGBM's own 0.9 quantile, no signs, as many trees as do best on apps left out",
    "quantile_shifted": "the same, shifted to cover 0.9 of the rows of apps left out (CQR)",
}
"""What each is, in a line."""
