"""Small trained boosters and rows that sit where two implementations of a tree could part."""

from collections.abc import Callable
from typing import Literal

import lightgbm as lgb
import numpy as np
import pytest
from numpy.typing import NDArray

from models.data.dataset import Dataset
from models.estimator.fitted_model import Placement
from models.estimator.predictor import Predictor
from models.forms.tree_arrays import ZERO_BAND, Forest
from models.training.trainer import fit, open_fitted
from tests.models.simulated import CONFIG, Simulated, simulated
from tests.shared import once

Floats = NDArray[np.float64]
Train = Callable[..., lgb.Booster]

NEAR_ZERO = [0.0, 1e-36, 1e-35, ZERO_BAND, np.nextafter(ZERO_BAND, 1), np.nextafter(ZERO_BAND, 0), 5e-324, 1e-310]
EXTREME = [np.inf, 1e300, 1.7e308, 3e38]
AWKWARD = np.array([np.nan, *NEAR_ZERO, *EXTREME, *(-np.array(NEAR_ZERO)), *(-np.array(EXTREME))])


def training_rows(rng: np.random.Generator, missing_share: float) -> tuple[Floats, Floats]:
    """Columns that are continuous, coarse, astronomically wide, around the zero band, and counts."""
    features = rng.normal(size=(1200, 6))
    features[:, 1] = np.round(features[:, 1] * 2) / 2
    features[:, 2] *= 10.0 ** rng.integers(-40, 40, len(features))
    features[:, 3] *= 1e-35
    features[:, 4] = rng.integers(0, 3, len(features))
    features[rng.random(features.shape) < missing_share] = np.nan
    known = np.nan_to_num(features)
    target = known[:, 0] + np.tanh(known[:, 2]) + known[:, 3] * 1e35 + known[:, 4] + 2 * np.isnan(features[:, 5])
    return features, target + rng.normal(scale=0.1, size=len(features))


@pytest.fixture(scope="session")
def train() -> Train:
    def trained(
        rounds: int = 60,
        missing_share: float = 0.0,
        categories: list[int] | Literal["auto"] = "auto",
        **parameters: object,
    ) -> lgb.Booster:
        features, target = training_rows(np.random.default_rng(7), missing_share)
        fixed = {"num_threads": 1, "deterministic": True, "seed": 1, "verbosity": -1, "min_data_in_leaf": 5}
        label = np.exp(target / 4) if parameters.get("objective") == "gamma" else target
        data = lgb.Dataset(features, label, categorical_feature=categories)
        return lgb.train({**fixed, "num_leaves": 15, **parameters}, data, rounds)

    return trained


@pytest.fixture(scope="session")
def adversarial_rows() -> Callable[[Forest, int], Floats]:
    def rows(forest: Forest, count: int) -> Floats:
        rng = np.random.default_rng(11)
        features = np.empty((count, forest.width))
        for column in range(forest.width):
            on = forest.threshold[forest.feature == column]
            pool = np.concatenate([on, np.nextafter(on, np.inf), np.nextafter(on, -np.inf), AWKWARD])
            features[:, column] = rng.choice(pool, count)
        return features

    return rows


@pytest.fixture(scope="session")
def placements() -> Callable[..., Dataset]:
    """Apps of differing sensitivity under three pressures, with headroom and two free columns.

    With a cliff, two pressures together hurt more than apart, as when a cache no longer holds both.
    """

    def drawn(
        seed: int, groups: int = 20, rows_per_group: int = 120, sensitivity_spread: float = 0.3, cliff: float = 0.0
    ) -> Dataset:
        rng = np.random.default_rng(seed)
        n = groups * rows_per_group
        group = np.repeat(np.arange(groups), rows_per_group)
        pressure, headroom, free = rng.gamma(1.5, 0.3, size=(n, 3)), rng.random(n), rng.normal(size=(n, 2))
        sensitivity = np.exp(rng.normal(0, sensitivity_spread, groups))[group]
        excess = pressure @ [0.5, 0.2, 0.05] + cliff * (pressure[:, 0] > 0.6) * (pressure[:, 1] > 0.4)
        truth = np.log1p(excess * sensitivity) - 0.05 * headroom + 0.05 * np.sin(free[:, 0])
        features = np.column_stack([pressure, headroom, free])
        features[rng.random(features.shape) < 0.1] = np.nan
        return Dataset(
            features=features,
            names=("cpu_pressure", "llc_pressure", "disk_pressure", "headroom", "hour", "load"),
            signs=np.array([1, 1, 1, -1, 0, 0], dtype=np.int8),
            base=np.array([True, True, True, False, False, False]),
            log_slowdown=truth + 0.05 * (1 + pressure[:, 0]) * rng.normal(size=n),
            weight=rng.uniform(0.5, 2, n),
            group=group.astype(np.int32),
            node_window=rng.permutation(n) // 8,
            time=np.arange(n, dtype=np.int64) * 60_000_000,
        )

    return drawn


@pytest.fixture(scope="session")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """Three hours of a small simulated cluster, landed and derived, by one of the processes for all."""
    return once(tmp_path_factory, "learnt", lambda: simulated(tmp_path_factory.mktemp("simulated")))


@pytest.fixture(scope="session")
def placement(learnt: Simulated, tmp_path_factory: pytest.TempPathFactory) -> Placement:
    """A model of all its rows."""
    return once(tmp_path_factory, "placement", lambda: fit(learnt.rows, CONFIG))


@pytest.fixture(scope="session")
def served(placement: Placement) -> Predictor:
    """The same model as serving opens it: the exported graphs."""
    return open_fitted(placement)
