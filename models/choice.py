"""Choice: how what neighbours do to a container adds up, where more than their sum is known. Kernel."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.together import ORDERS

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Choice:
    """What nodes are compared by: the harm of all neighbours together.

    Args:
        order: one of features.together.ORDERS: the higher, the more only the worst neighbour counts.
        weight: of that harm, ratio, > 0.
    """

    order: int
    weight: float

    def log_slowdown(self, together: Floats) -> Floats:
        """(n,) log1p(weight x harm) of (n, len(ORDERS)) harms; NaN where the harm is not known."""
        told: Floats = np.log1p(self.weight * together[:, ORDERS.index(self.order)])
        return told
