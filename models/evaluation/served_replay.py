"""As served: what a bundle's placement model says of labelled rows, with the bounds that are served with it. Kernel."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.schema.catalog import RAW_NAMES
from models.bundle.manifest import ModelEntry
from models.bundle.margin_updates import TIERS, where_stretches_stand
from models.bundle.margins import margins_of
from models.estimator.feature_matrix import read_rows
from models.estimator.predictor import Predictor

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class AsServed:
    """What is said of n rows, in log slowdown where nothing else is said.

    Args:
        truth: (n,) labels.
        mean: (n,) expected.
        choice: (n,) what nodes are compared by.
        margin: (n,) bound minus expectation as training calibrated it, >= 0.
        stretch: (n,) factor of that margin by the labels that were followed since.
        tier: (n,) how much is known of the row's app, see models.bundle.margins.
        unseen: (n,) expected, were the app not among those learnt from.
    """

    truth: Floats
    mean: Floats
    choice: Floats
    margin: Floats
    stretch: Floats
    tier: NDArray[np.int8]
    unseen: Floats

    @property
    def upper(self) -> Floats:
        """(n,) the bound."""
        found: Floats = self.mean + self.margin * self.stretch
        return found

    def take(self, chosen: NDArray[np.bool_]) -> "AsServed":
        """The chosen rows, (n,) flags."""
        return AsServed(*(getattr(self, one.name)[chosen] for one in fields(self)))


def as_served(entry: ModelEntry, predictor: Predictor, table: pa.Table) -> AsServed:
    """What would be served of rows of table `training`.

    Args:
        entry: of the placement model.
        predictor: opened from the same bundle.
        table: n rows, of any clusters.

    Returns:
        In the order of the table; missing values as in models.estimator.predictor.

    Raises:
        ModelsError: the predictor reads other columns than the catalogue's.

    Source: docs/decisions/0019-own-margins.md and 0024-following-labels.md.
    """
    rows, app = read_rows(table), _codes(table["app"].to_pylist())
    features = rows.dataset(predictor.medians[: len(RAW_NAMES)]).features
    known, tier = np.zeros(table.num_rows, np.bool_), np.zeros(table.num_rows, np.int8)
    multiplier, floor = np.zeros(table.num_rows), 0.0
    profiled = rows.profiled()
    for cluster, here in _clusters(table):
        margins, group = margins_of(entry, cluster, app.names), app.code[here]
        known[here], tier[here] = margins.known(group), margins.tier(group, profiled[here])
        multiplier[here], floor = margins.multipliers(group, profiled[here]), margins.floor
    said = predictor.predict(features, known)
    return AsServed(
        truth=rows.log_slowdown,
        mean=said.log_mean,
        choice=predictor.log_choice(rows.together, lambda chosen: features[chosen]),
        margin=multiplier * (said.spread + floor),
        stretch=_stretch(entry, table["platform"], tier),
        tier=tier,
        unseen=predictor.predict(features).log_mean if known.any() else said.log_mean,
    )


@dataclass(frozen=True)
class _Coded:
    names: list[str]
    code: Ints


def _codes(values: Sequence[str]) -> _Coded:
    names = sorted(set(values))
    at = {name: number for number, name in enumerate(names)}
    return _Coded(names, np.array([at[value] for value in values], np.int64))


def _clusters(table: pa.Table) -> list[tuple[str, NDArray[np.bool_]]]:
    """Each cluster and (n,) which rows are of it."""
    cluster = _codes(table["cluster"].to_pylist())
    return [(name, cluster.code == number) for number, name in enumerate(cluster.names)]


def _stretch(entry: ModelEntry, platform: pa.ChunkedArray, tier: NDArray[np.int8]) -> Floats:
    """(n,) factors of followed labels; 1 where none were."""
    if entry.margins is None:
        return np.ones(len(tier))
    coded = _codes(pc.fill_null(platform, "").to_pylist())
    state = where_stretches_stand(entry.margins, coded.names).log_stretch.reshape(-1, TIERS)
    found: Floats = np.exp(state[coded.code, tier])
    return found
