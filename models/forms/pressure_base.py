"""Base: the parametric part of a slowdown, a sum of weighted pressures.

The same chain of multiplications and additions runs as graph nodes in the ONNX file, equal to the bit.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class BaseTerms:
    """What is summed, in catalogue order: weights[i] × features[:, columns[i]]. At least one term."""

    columns: Ints
    weights: Floats


def base_sum(features: Floats, terms: BaseTerms) -> Floats:
    """Excess slowdown the pressures add up to, before the trees correct it.

    Args:
        features: (n, d) raw feature values, in the units of the catalogue.
        terms: k columns of features and their weights, in ratio per unit of the column.

    Returns:
        (n,) Σ weight × feature, added strictly from the first term to the last, so that its rounding is defined;
        a ratio above 1.0 (0.25 means 1.25 times as slow). NaN or inf in a term's column follows IEEE arithmetic.

    Raises:
        IndexError: a column lies outside features.

    Source: ours, see docs/decisions/0003-exporter.md.
    """
    products = features[:, terms.columns] * terms.weights
    total: Floats = products[:, 0]
    for i in range(1, len(terms.columns)):
        total = total + products[:, i]
    return total
