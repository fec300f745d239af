"""Window baselines: simple regressions on the same columns and rows as ours.

Where one has settings that matter, several are tried on the inner folds that ours is tuned on, and the best is kept.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray
from sklearn.cross_decomposition import PLSRegression
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import HuberRegressor, RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

Floats = NDArray[np.float64]
NEIGHBOURS = (10, 3, 30)
FEWEST_IN_LEAF = (1, 5)
PENALTIES = np.logspace(-3, 4, 15)


class Regressor(Protocol):
    """What can be fitted to rows and predict others."""

    def fit(self, x: Floats, y: Floats) -> "Regressor":
        """Learn (n, d) -> (n,)."""

    def predict(self, x: Floats) -> Floats:
        """(m, d) -> (m,)."""


Maker = Callable[[], Regressor]


class PlainLightGbm:
    """300 trees of 31 leaves, or as many as given, everything else as it comes."""

    def __init__(self, leaves: int = 31, rounds: int = 300) -> None:
        self.leaves, self.rounds = leaves, rounds

    def fit(self, x: Floats, y: Floats) -> "PlainLightGbm":
        """Learn (n, d) -> (n,)."""
        parameters = {"num_leaves": self.leaves, "verbosity": -1, "num_threads": 1, "seed": 0, "deterministic": True}
        self.trees = lgb.train(parameters, lgb.Dataset(x, y), self.rounds)
        return self

    def predict(self, x: Floats) -> Floats:
        """(m, d) -> (m,)."""
        return np.asarray(self.trees.predict(x, num_threads=1), np.float64)


class NearestRows:
    """The mean of the nearest rows by standardised columns, of all rows where there are fewer."""

    def __init__(self, neighbours: int = 10) -> None:
        self.neighbours = neighbours

    def fit(self, x: Floats, y: Floats) -> "NearestRows":
        """Learn (n, d) -> (n,)."""
        self.rows = _filled(StandardScaler(), KNeighborsRegressor(min(self.neighbours, len(x)))).fit(x, y)
        return self

    def predict(self, x: Floats) -> Floats:
        """(m, d) -> (m,)."""
        return self.rows.predict(x)


class OneFactor:
    """The label by one weighted sum of the standardised columns, the one that goes along with it most."""

    def fit(self, x: Floats, y: Floats) -> "OneFactor":
        """Learn (n, d) -> (n,)."""
        self.level, self.still = float(y.mean()), not (np.nanstd(x, axis=0) > 0).any() or not y.std()
        if not self.still:
            self.factor = _filled(StandardScaler(), PLSRegression(1, scale=False)).fit(x, y)
        return self

    def predict(self, x: Floats) -> Floats:
        """(m, d) -> (m,)."""
        return np.full(len(x), self.level) if self.still else self.factor.predict(x).ravel()


def _filled(*steps: object) -> Regressor:
    """A pipeline that fills in medians first."""
    pipeline: Regressor = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), *steps)
    return pipeline


def _forest(fewest: int) -> Regressor:
    return _filled(RandomForestRegressor(200, min_samples_leaf=fewest, random_state=0, n_jobs=-1))


WINDOW_BASELINES: Mapping[str, Sequence[Maker]] = {
    "constant": [lambda: _filled(DummyRegressor())],
    "ridge": [lambda: _filled(StandardScaler(), RidgeCV(PENALTIES))],
    "huber_linear": [lambda: _filled(StandardScaler(), HuberRegressor(max_iter=1000))],
    "k_nearest": [partial(NearestRows, k) for k in NEIGHBOURS],
    "nearest_profile": [partial(NearestRows, 1)],
    "random_forest": [partial(_forest, fewest) for fewest in FEWEST_IN_LEAF],
    "plain_lightgbm": [PlainLightGbm, partial(PlainLightGbm, 7, 100)],
    "main_effects": [partial(PlainLightGbm, 2, 300)],
    "rank_1": [OneFactor],
}
"""By name, the settings that are tried, the usual one first; an app's mean is the constant where apps are left out."""
