"""Training table to dataset: the rows a placement model learns from, complete and in the catalogue's order. Kernel."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.arrow import floats, micros
from features.catalog import DEMANDS, FEATURES, PRESSURES, RAW_NAMES, SENSITIVITIES
from features.grouping import group_codes
from features.placement import complete, training_medians
from models.dataset import Dataset
from models.placement import Placement

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
    """

    raw: Floats
    log_slowdown: Floats
    weight: Floats
    group: Ints
    node_window: Ints
    time: Ints

    def take(self, chosen: NDArray[np.bool_]) -> "Rows":
        """The chosen rows, (n,) flags."""
        return Rows(*(getattr(self, name)[chosen] for name in Rows.__dataclass_fields__))

    def dataset(self, medians: Floats) -> Dataset:
        """Complete rows; what is missing is filled with the given (len(RAW),) medians."""
        return Dataset(
            features=complete(self.raw, medians),
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
    )


def with_raw_medians(placement: Placement, medians: Floats) -> Placement:
    """The model with those of the (len(RAW),) medians that `complete` fills with.

    What `complete` leaves missing was missing in training too: its trees have a side for it, which a median would
    hide in serving.
    """
    whole = placement.medians.copy()
    filled = [RAW_NAMES.index(name) for name in (*PRESSURES, *SENSITIVITIES, *DEMANDS)]
    whole[filled] = medians[filled]
    return replace(placement, medians=whole)


__all__ = ["Rows", "read_rows", "training_medians", "with_raw_medians"]
