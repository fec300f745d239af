"""Near: what the rows most like a row measured beyond the trend, a smooth surface through the training rows.

It needs no axes along which to split, fills in between few rows far better than trees, and fades out far from all rows.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CHUNK = 64
"""Rows at a time, so that distances stay in the processor's cache."""


@dataclass(frozen=True)
class Near:
    """Sum over m points of coefficient x exp(-squared distance / reach), distances in standardised columns."""

    centre: Floats
    width: Floats
    points: Floats
    coefficients: Floats
    reach: float


def near_value(logs: Floats, near: Near) -> Floats:
    """How far rows like these lay above the trend.

    Args:
        logs: (n, k) signed logs of the trend's columns, finite.
        near: the surface.

    Returns:
        (n,) log slowdown; each row's value does not depend on the other rows, to the bit.

    Raises:
        Nothing.

    Source: Gaussian radial basis functions; Broomhead and Lowe, Complex Systems 1988.
    """
    standard = np.ascontiguousarray((logs - near.centre) / near.width)  # sums along rows, in one order for any n
    found = np.empty(len(logs))
    for i in range(0, len(logs), CHUNK):
        apart = ((standard[i : i + CHUNK, None] - near.points) ** 2).sum(axis=2)
        found[i : i + CHUNK] = (np.exp(-apart / near.reach) * near.coefficients).sum(axis=1)
    return found
