"""Dataset: what a model is trained on, checked once when it is made."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.errors import InconsistentDataset, ModelsError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def refuse_other_widths(features: Floats, width: int) -> None:
    """Raise ModelsError unless features are (n, width), with the columns that a model was trained on."""
    if features.ndim != 2 or features.shape[1] != width:
        raise ModelsError(
            f"features have shape {features.shape}, the model reads (rows, {width}): build the rows with the catalogue "
            "of the model's manifest"
        )


@dataclass(frozen=True)
class Dataset:
    """n rows, one per container and window, and d columns, in catalogue order.

    Raises InconsistentDataset when lengths disagree, a label or weight is not finite, or a base pressure is negative.
    """

    features: Floats
    """(n, d) as known at the decision; NaN is missing."""
    names: tuple[str, ...]
    """(d,) catalogue names."""
    signs: NDArray[np.int8]
    """(d,) +1: more of it never lowers the slowdown, -1: never raises it, 0: free."""
    base: Flags
    """(d,) columns of the base, pressures >= 0 that strictly raise the slowdown. None where no sign is known."""
    log_slowdown: Floats
    """(n,) the label; 0.0 is the app's baseline."""
    weight: Floats
    """(n,) how much a row counts, >= 0."""
    group: NDArray[np.int32]
    """(n,) app, or kind: what a fold leaves out as a whole."""
    node_window: NDArray[np.int64]
    """(n,) id of the node and window."""
    time: NDArray[np.int64]
    """(n,) end of the window, microseconds since 1970 UTC."""
    kind: NDArray[np.int32] | None = None
    """(n,) what rows like each other have in common, where folds are not made by it; `group` where None."""

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        _refuse_lengths(self)
        if not (np.isfinite(self.log_slowdown).all() and np.isfinite(self.weight).all()):
            raise InconsistentDataset("a label or a weight is not finite", "drop rows without a measured slowdown")
        if self.signs.any() and not self.base.any():
            raise InconsistentDataset("no column is in the base", "mark the pressures that raise the slowdown")
        negative = self.base & (self.features < 0).any(axis=0)
        if negative.any():
            name = self.names[int(np.flatnonzero(negative)[0])]
            raise InconsistentDataset(f"base column {name!r} has negative values", "a pressure is zero or more")

    def rows(self, chosen: Flags) -> "Dataset":
        """The chosen rows, (n,) flags."""
        return self._with_rows(self.features[chosen], chosen)

    def with_features(self, features: Floats) -> "Dataset":
        """The same rows with other feature values, (n, d)."""
        return self._with_rows(features, np.ones(len(self.features), dtype=np.bool_))

    def _with_rows(self, features: Floats, chosen: Flags) -> "Dataset":
        return Dataset(
            features=features,
            names=self.names,
            signs=self.signs,
            base=self.base,
            log_slowdown=self.log_slowdown[chosen],
            weight=self.weight[chosen],
            group=self.group[chosen],
            node_window=self.node_window[chosen],
            time=self.time[chosen],
            kind=None if self.kind is None else self.kind[chosen],
        )

    def kinds(self) -> NDArray[np.int32]:
        """(n,) what rows like each other have in common."""
        return self.group if self.kind is None else self.kind


def _refuse_lengths(data: Dataset) -> None:
    n, d = data.features.shape
    per_row = (data.log_slowdown, data.weight, data.group, data.node_window, data.time, data.kinds())
    if not all(len(column) == n for column in per_row):
        raise InconsistentDataset(f"features have {n} rows, another array differs", "give one value per row")
    if not len(data.names) == len(data.signs) == len(data.base) == d:
        raise InconsistentDataset(f"features have {d} columns, names, signs or base differ", "give one per column")
