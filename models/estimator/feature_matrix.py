"""Training table to dataset: the rows a placement model learns from, complete and in the catalogue's order. Kernel."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.columnar.arrow_columns import floats, micros
from features.columnar.group_means import group_codes
from features.schema.catalog import EXPECTED, FEATURES, RAW_NAMES, TOGETHER, expected_name
from features.training.model_input import FILLED, complete
from models.data.dataset import Dataset
from models.estimator.fitted_model import Placement

PROFILE = [i for i, name in enumerate(RAW_NAMES) if name.startswith(("sensitivity_", "demand_", "profile_"))]
"""Raw features that describe the pending pod's app."""
PRIOR = [RAW_NAMES.index(name) for name in EXPECTED]
"""Those that are expected of an app of which they are not known."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Training rows before anything is filled in.

    Args:
        raw: (n, len(RAW)) raw features; NaN where missing.
        log_slowdown: (n,) labels.
        weight: (n,) weights.
        group: (n,) what is left out together, the app unless said otherwise.
        node_window: (n,) which node-window each row belongs to.
        time: (n,) end of the label's window, microseconds.
        series: (n,) container and node: windows of one are alike when they are near in time.
        expected: (n, len(EXPECTED)) what would be expected of the app, had it never run; NaN where nothing would.
        together: (n, len(TOGETHER)) what all neighbours do together, see features.contention.co_runner_effects; NaN
        where not known.
        together_new: the same, had the app never run.
    """

    raw: Floats
    log_slowdown: Floats
    weight: Floats
    group: Ints
    node_window: Ints
    time: Ints
    series: Ints
    expected: Floats
    together: Floats
    together_new: Floats

    def take(self, chosen: NDArray[np.bool_]) -> "Rows":
        """The chosen rows, (n,) flags."""
        return Rows(*(getattr(self, name)[chosen] for name in Rows.__dataclass_fields__))

    def followed_by(self, other: "Rows") -> "Rows":
        """These rows, then the others."""
        return Rows(*(np.concatenate([getattr(self, n), getattr(other, n)]) for n in Rows.__dataclass_fields__))

    def profiled(self) -> NDArray[np.bool_]:
        """(n,) whether the app had a profile on the node's platform."""
        return np.asarray(self.raw[:, RAW_NAMES.index("profile_windows")] > 0, np.bool_)

    def without_profile(self) -> "Rows":
        """The same rows as if their apps had never run anywhere: what is expected of them is all that is known."""
        raw = self.raw.copy()
        raw[:, PROFILE] = np.nan
        raw[:, PRIOR] = self.expected
        raw[:, RAW_NAMES.index("profile_windows")] = 0.0
        return replace(self, raw=raw, together=self.together_new)

    def without_prior(self) -> "Rows":
        """The same rows where nothing would be expected of an app that never ran."""
        unknown = np.full_like(self.together_new, np.nan)
        return replace(self, expected=np.full_like(self.expected, np.nan), together_new=unknown)

    def alike(self) -> Ints:
        """(n,) code of rows of one app on nodes described alike."""
        nodes = np.nan_to_num(self.raw[:, RAW_NAMES.index("node_cores") :], nan=-1.0)
        kind = np.unique(nodes, axis=0, return_inverse=True)[1].reshape(-1)
        return np.asarray(self.group * (kind.max(initial=0) + 1) + kind, np.int64)

    def dataset(self, fills: Floats) -> Dataset:
        """Complete rows; what is missing is filled with (len(RAW),) fills, see features.training.model_input."""
        return Dataset(
            features=complete(self.raw, fills),
            names=tuple(f.name for f in FEATURES),
            signs=np.array([f.sign for f in FEATURES], np.int8),
            base=np.array([f.base for f in FEATURES], np.bool_),
            log_slowdown=self.log_slowdown,
            weight=self.weight,
            group=self.group.astype(np.int32),
            node_window=self.node_window,
            time=self.time,
        )


def read_rows(table: pa.Table) -> Rows:
    """Rows of table `training`."""
    return Rows(
        raw=np.column_stack([floats(table[name]) for name in RAW_NAMES]),
        log_slowdown=floats(table["log_slowdown"]),
        weight=floats(table["weight"]),
        group=group_codes(table, ["cluster", "app"]),
        node_window=group_codes(table, ["cluster", "node", "window_end"]),
        time=micros(table["window_end"]),
        series=group_codes(table, ["cluster", "node", "container"]),
        expected=_expected_of(table, [expected_name(name) for name in EXPECTED]),
        together=_expected_of(table, TOGETHER),
        together_new=_expected_of(table, [expected_name(name) for name in TOGETHER]),
    )


def _expected_of(table: pa.Table, names: Sequence[str]) -> Floats:
    """(n, k) columns of those names, NaN in tables that were derived before there were any."""
    if not set(names) <= set(table.column_names):
        return np.full((table.num_rows, len(names)), np.nan)
    return np.column_stack([floats(table[name]) for name in names])


def with_fills(placement: Placement, fills: Floats) -> Placement:
    """The model with the (len(RAW),) fills that serving completes raw features with, where they are used at all.

    A column that training left missing must stay missing: the trees learnt what its absence means.
    """
    whole = placement.medians.copy()
    whole[FILLED] = fills[FILLED]
    return replace(placement, medians=whole)
