"""Placement: everything training learnt, as plain data, ready to be exported."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.bundle.margins import Margins, without_apps
from models.calibration.conformal import Calibration
from models.errors import ModelsError
from models.forms.co_runner_choice import Choice
from models.forms.novelty import Novelty, Widths
from models.forms.power_law import Trend
from models.forms.pressure_base import BaseTerms
from models.forms.tree_arrays import Forest

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Beyond:
    """What is said of rows farther from those learnt from than groups left out were.

    Args:
        limit: how far a row is.
        widths: from which distance on it is far, and how wide its bound.
        start: trend they start from.
        residual: trees on top of it.
    """

    limit: Novelty
    widths: Widths
    start: Trend
    residual: Forest


@dataclass(frozen=True)
class Familiar:
    """What is said of apps learnt from, on the same base.

    Args:
        share: of the base's log that the trees start from, in [0, 1].
        residual: trees on top of it.
    """

    share: float
    residual: Forest


@dataclass(frozen=True)
class Placement:
    """A trained model of slowdown: base, trees on top of it, trees for the size of the error, and how to bound."""

    names: tuple[str, ...]
    signs: NDArray[np.int8]
    medians: Floats
    terms: BaseTerms | Trend
    """What the trees start from: the sum of pressures, or the trend of data without signs."""
    residual: Forest
    spread: Forest
    calibration: Calibration
    beyond: Beyond | None = None
    """Where rows far from those learnt from are predicted separately."""
    familiar: Familiar | None = None
    """Of apps with an own margin, where that did better on times not seen."""
    choice: Choice | None = None
    """What nodes are compared by; None where the base does it."""
    margins: Margins | None = None
    """Of single containers by what is known of their app, where the rows have apps and times; else calibration."""

    def base(self) -> BaseTerms:
        """The sum of pressures that the trees start from.

        Raises:
            ModelsError: they start from a trend.
        """
        if isinstance(self.terms, Trend):
            raise ModelsError(
                "the model starts from a trend, not from a sum of pressures: train it on columns with signs"
            )
        return self.terms

    def bounds(self) -> Margins:
        """How to bound single containers: by what is known of their app; as calibrated where the rows have no apps."""
        return self.margins or without_apps(self.calibration)

    def known_medians(self) -> dict[str, float]:
        """The medians by column name, without the columns that stay missing."""
        return {n: float(m) for n, m in zip(self.names, self.medians, strict=True) if not np.isnan(m)}
