"""Equality: whether the exported graph says what LightGBM says, to the bit, where it is hardest."""

from dataclasses import dataclass, replace

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from models.data.impute import impute
from models.estimator.feature_matrix import Rows
from models.estimator.fitted_model import Placement
from models.estimator.onnx_session import load_graph
from models.forms.tree_arrays import Forest, absorb_zero_flush
from models.onnx_export.exporter import export_placement
from models.training.fit import TrainConfig, fit_residual, raw_score
from models.training.fit_known_apps import familiar_trees

Floats = NDArray[np.float64]
SPECIAL = (np.nan, np.inf, -np.inf, 1e-36, -1e-36, 0.0, -0.0, 1e300)
BATCHES = (1, 2, 500, 5000)


@dataclass(frozen=True, slots=True)
class Equality:
    """How many rows were compared at each batch size, and how many differed in any bit."""

    rows: int
    differing: int


def compare(rows: Rows, placement: Placement, config: TrainConfig) -> Equality:
    """Train the same trees again and compare LightGBM's raw score with the exported graph's.

    Args:
        rows: the rows that the model was trained on.
        placement: the model.
        config: how it was trained.

    Returns:
        Rows compared, more than half of them adversarial, over all of BATCHES; of both graphs where apps learnt from
        have their own.
    """
    fills = placement.medians[: rows.raw.shape[1]]
    known = rows.dataset(fills)
    known = known.with_features(impute(known.features, placement.medians))
    graphs, base = export_placement(placement), placement.base()
    trees = fit_residual(known, base, replace(config, rounds=len(placement.residual.roots)))
    found = _compared(known.features, placement.residual, trees, graphs["mean"])
    if (own := placement.familiar) is None:
        return found
    trees = familiar_trees(known, base, len(own.residual.roots), config)
    more = _compared(known.features, own.residual, trees, graphs["familiar"])
    return Equality(found.rows + more.rows, found.differing + more.differing)


def _compared(features: Floats, forest: Forest, trees: lgb.Booster, exported: bytes) -> Equality:
    """A booster compared with a graph, on imputed rows, on awkward copies and on the forest's thresholds."""
    graph = load_graph(exported)
    tested = np.concatenate([features[:5000], awkward(features[:5000]), on_thresholds(features, forest)])
    expected = raw_score(trees, tested).view(np.int64)
    compared = differing = 0
    for size in BATCHES:
        part = tested if size > 2 else tested[-200:]
        got = np.concatenate([graph.predict(part[i : i + size])["tree_raw"] for i in range(0, len(part), size)])
        differing += int((got.view(np.int64) != expected[-len(part) :]).sum())
        compared += len(part)
    return Equality(compared, differing)


def awkward(features: Floats) -> Floats:
    """The rows, each with one value moved to one that comparisons stumble over."""
    rng = np.random.default_rng(0)
    moved = features.copy()
    row = np.arange(len(moved))
    moved[row, rng.integers(moved.shape[1], size=len(moved))] = rng.choice(SPECIAL, len(moved))
    return moved


def on_thresholds(features: Floats, forest: Forest) -> Floats:
    """For every split that any row reaches, such a row with the split's value on, just below and just above it."""
    reached = reaching(features, forest)
    split = np.flatnonzero(reached >= 0)
    threshold = absorb_zero_flush(forest.threshold)[split]
    near = [threshold, np.nextafter(threshold, -np.inf), np.nextafter(threshold, np.inf)]
    rows = np.tile(features[reached[split]], (len(near), 1))
    rows[np.arange(len(rows)), np.tile(forest.feature[split], len(near))] = np.concatenate(near)
    return rows


def reaching(features: Floats, forest: Forest) -> NDArray[np.int64]:
    """(splits,) a row that comes by each split on its way through its tree; -1 where none does."""
    found = np.full(len(forest.feature), -1)
    threshold = absorb_zero_flush(forest.threshold)
    at = np.tile(forest.roots[:, None], len(features))
    while (under_way := at >= 0).any():
        split, row = at[under_way], np.nonzero(under_way)[1]
        found[split] = row
        value = features[row, forest.feature[split]]
        left = np.where(np.isnan(value), forest.nan_left[split], value <= threshold[split])
        at[under_way] = np.where(left, forest.left[split], forest.right[split])
    return found
