"""Intervals: 90 % intervals as they are drawn, all of a table on one scale that begins at nothing. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 200.0
"""Of the drawing of an interval, in units of its own."""
LEAST = 0.01
"""The scale reaches at least so far."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A 90 % interval as it is drawn: from, how wide, and where its middle is, of WIDTH."""

    low: float
    wide: float
    middle: float


def intervals(values: Sequence[tuple[float, float, float]]) -> list[Interval]:
    """What is expected, the lower and the upper end of each, as they are drawn; what is not known is drawn at 0."""
    scale = WIDTH / max([*(max(mean, high) for mean, _, high in values if math.isfinite(high)), LEAST])

    def place(value: float) -> float:
        return min(max(value, 0.0) * scale, WIDTH) if math.isfinite(value) else 0.0

    return [Interval(place(low), place(high) - place(low), place(mean)) for mean, low, high in values]
