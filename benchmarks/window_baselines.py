"""Window baselines: regressions as a library fits them out of the box, on the same columns and rows as ours."""

from collections.abc import Callable, Mapping
from typing import Protocol

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import HuberRegressor, RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

Floats = NDArray[np.float64]
NEIGHBOURS = 10
"""Of fewer rows all are neighbours."""
PENALTIES = np.logspace(-3, 4, 15)


class Regressor(Protocol):
    """What can be fitted to rows and predict others."""

    def fit(self, x: Floats, y: Floats) -> "Regressor":
        """Learn (n, d) -> (n,)."""

    def predict(self, x: Floats) -> Floats:
        """(m, d) -> (m,)."""


class PlainLightGbm:
    """300 trees of 31 leaves, everything else as it comes."""

    def fit(self, x: Floats, y: Floats) -> "PlainLightGbm":
        """Learn (n, d) -> (n,)."""
        parameters = {"num_leaves": 31, "verbosity": -1, "num_threads": 1, "seed": 0, "deterministic": True}
        self.trees = lgb.train(parameters, lgb.Dataset(x, y), 300)
        return self

    def predict(self, x: Floats) -> Floats:
        """(m, d) -> (m,)."""
        return np.asarray(self.trees.predict(x, num_threads=1), np.float64)


class NearestRows:
    """The mean of the ten nearest rows by standardised columns, of all rows where there are fewer."""

    def fit(self, x: Floats, y: Floats) -> "NearestRows":
        """Learn (n, d) -> (n,)."""
        self.rows = _filled(StandardScaler(), KNeighborsRegressor(min(NEIGHBOURS, len(x)))).fit(x, y)
        return self

    def predict(self, x: Floats) -> Floats:
        """(m, d) -> (m,)."""
        return self.rows.predict(x)


def _filled(*steps: object) -> Regressor:
    """A pipeline that fills in medians first."""
    pipeline: Regressor = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), *steps)
    return pipeline


WINDOW_BASELINES: Mapping[str, Callable[[], Regressor]] = {
    "constant": lambda: _filled(DummyRegressor()),
    "ridge": lambda: _filled(StandardScaler(), RidgeCV(PENALTIES)),
    "huber_linear": lambda: _filled(StandardScaler(), HuberRegressor(max_iter=1000)),
    "k_nearest": NearestRows,
    "random_forest": lambda: _filled(RandomForestRegressor(200, random_state=0, n_jobs=-1)),
    "plain_lightgbm": PlainLightGbm,
}
