"""Choice: how what neighbours do to a container adds up, where more than their sum is known. Kernel."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.schema.catalog import ORDERS

Floats = NDArray[np.float64]


BELOW = 0.1
"""Slope below the knee over that above it: of nodes without slowed containers, the one with less harm is better."""


@dataclass(frozen=True)
class Choice:
    """What nodes are compared by: the harm of all neighbours together.

    Args:
        order: one of features.contention.co_runner_effects.ORDERS: the higher, the more only the worst neighbour
        counts.
        weight: of that harm, ratio, > 0.
        knee: harm at which slowing down begins, >= 0: less of it is borne.
    """

    order: int
    weight: float
    knee: float = 0.0

    def log_slowdown(self, together: Floats) -> Floats:
        """(n,) log1p(weight x bent harm) of (n, len(ORDERS)) harms; NaN where the harm is not known."""
        weighed: Floats = np.log1p(self.weight * bent(together[:, ORDERS.index(self.order)], self.knee))
        return weighed


def bent(harm: Floats, knee: float) -> Floats:
    """(n,) harm beyond the knee and a little of what is below: rising everywhere, the harm itself by a knee of 0."""
    over: Floats = np.maximum(harm - knee, 0.0) + BELOW * np.minimum(harm, knee)
    return over
