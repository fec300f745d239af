"""Prediction: one container's predicted slowdown, and the features that it comes from. An edge."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cohabit.config.errors import CohabitError
from features.schema.catalog import RAW_NAMES
from features.training.model_input import complete
from ingest.lake.tables import Lake
from models.bundle.bundle import Bundle
from models.bundle.leakage_guard import PLACEMENT
from models.estimator.feature_matrix import read_rows
from models.estimator.predictor import open_predictor
from models.explain.explainer import open_explainer

SUBJECT = ("app", "node", "container")


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a container's predicted slowdown is what it is.

    Args:
        app: of the container.
        node: on which it ran.
        container: uid.
        window_end: of the five minutes.
        measured: slowdown ratio by its label.
        predicted: slowdown ratio by the model; `expected` times all `factors`.
        expected: slowdown ratio that the model expects without knowing any feature.
        factors: features by name with the ratio that each contributes, the largest contribution first.
    """

    app: str
    node: str
    container: str
    window_end: datetime
    measured: float
    predicted: float
    expected: float
    factors: tuple[tuple[str, float], ...]


def explain(lake: Lake, bundle: Bundle, subject: Sequence[str | None]) -> Explanation:
    """Explain the newest training row of an app, node and container.

    Args:
        lake: with table `training`.
        bundle: its placement model is explained.
        subject: app, node and container, in this order; None matches all. Of several newest rows, the one predicted
            slowest.

    Raises:
        CohabitError: no row matches.
        ModelsError: the bundle holds no trees.
    """
    row = _newest(lake, subject)
    entry = bundle.entry_of(PLACEMENT)
    seen = {(one.cluster, one.app) for one in entry.margins.apps} if entry.margins else set()
    predictor = open_predictor(bundle, PLACEMENT)
    fills = open_explainer(bundle, PLACEMENT).medians[: len(RAW_NAMES)]
    features = complete(read_rows(row).raw, fills)
    known = np.array(
        [pair in seen for pair in zip(*(row[name].to_pylist() for name in ("cluster", "app")), strict=True)]
    )
    log_mean = predictor.predict(features, known).log_mean
    at = int(np.argmax(log_mean))
    explainer = open_explainer(bundle, PLACEMENT, known=bool(known[at]))
    found = explainer.explain(features[at : at + 1])
    return _explanation(row.slice(at, 1), float(log_mean[at]), found.expected, explainer.names, found.by_feature[0])


def _newest(lake: Lake, subject: Sequence[str | None]) -> pa.Table:
    table = lake.read("training")
    looked_at = table.num_rows
    for name, value in zip(SUBJECT, subject, strict=True):
        if value is not None:
            table = table.filter(pc.equal(table[name], value))
    if not table.num_rows:
        asked = ", ".join(
            f"{name} {value!r}" for name, value in zip(SUBJECT, subject, strict=True) if value is not None
        )
        raise CohabitError(
            f"none of {looked_at:,} training rows is of {asked or 'any container'}: rows are of containers with a "
            "label, see `cohabit features`; `cohabit victims` names containers"
        )
    return table.filter(pc.equal(table["window_end"], pc.max(table["window_end"])))


def _explanation(
    row: pa.Table, log_mean: float, expected: float, names: Sequence[str], parts: NDArray[np.float64]
) -> Explanation:
    [of] = row.select([*SUBJECT, "window_end", "log_slowdown"]).to_pylist()
    order = np.argsort(-np.abs(parts), kind="stable")
    return Explanation(
        of["app"],
        of["node"],
        of["container"],
        of["window_end"],
        measured=float(np.exp(of["log_slowdown"])),
        predicted=float(np.exp(log_mean)),
        expected=float(np.exp(expected)),
        factors=tuple((names[i], float(np.exp(parts[i]))) for i in order),
    )
