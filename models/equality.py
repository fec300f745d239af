"""Equality: whether the exported graph says what LightGBM says, to the bit, where it is hardest."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from models.export import export_placement
from models.impute import impute
from models.placement import Placement
from models.runtime import load_graph
from models.table import Rows
from models.train import TrainConfig, fit_residual, raw_score

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
        Rows compared, half of them adversarial, over all of BATCHES.
    """
    fills = placement.medians[: rows.raw.shape[1]]
    known = rows.dataset(fills)
    known = known.with_features(impute(known.features, placement.medians))
    trees = fit_residual(known, placement.terms, replace(config, rounds=len(placement.residual.roots)))
    graph = load_graph(export_placement(placement)["mean"])
    tested = np.concatenate([known.features[:5000], adversarial(known.features[:5000], placement)])
    expected = raw_score(trees, tested).view(np.int64)
    differing = 0
    for size in BATCHES:
        part = tested if size > 2 else tested[-200:]
        got = np.concatenate([graph.predict(part[i : i + size])["tree_raw"] for i in range(0, len(part), size)])
        differing += int((got.view(np.int64) != expected[-len(part) :]).sum())
    return Equality(2 * len(tested) + 400, differing)


def adversarial(features: Floats, placement: Placement) -> Floats:
    """The rows with values moved onto and next to the trees' thresholds, and to values comparisons stumble over."""
    rng = np.random.default_rng(0)
    moved = features.copy()
    for row in range(len(moved)):
        node = rng.integers(len(placement.residual.threshold))
        threshold = placement.residual.threshold[node]
        near = (threshold, np.nextafter(threshold, -np.inf), np.nextafter(threshold, np.inf), *SPECIAL)
        moved[row, placement.residual.feature[node]] = near[rng.integers(len(near))]
    return moved
