"""Factors: a matrix of harm as few things that workloads do, each more or less."""

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

Floats = NDArray[np.float64]
ROUNDS = 500


def factors(harm: Floats, rank: int, rng: np.random.Generator) -> Floats:
    """How much each workload does of each of a few things that together explain the harm it does.

    Args:
        harm: (n, m) of each of n workloads to each of m others, >= 0; NaN where not measured: the mean of the workload
            stands in, and that of all where it was never measured.
        rank: how many things; 1 or more.
        rng: where the search begins.

    Returns:
        (n, rank) >= 0; columns beyond the smaller side of the matrix are 0.

    Raises:
        Nothing.

    Source: Lee and Seung, "Learning the parts of objects by non-negative matrix factorization", Nature 1999.
    """
    known = np.isfinite(harm)
    overall = harm[known].mean() if known.any() else 0.0
    count = known.sum(axis=1)
    own = np.where(count > 0, np.where(known, harm, 0.0).sum(axis=1) / np.maximum(count, 1), overall)
    whole = np.where(known, harm, own[:, None])
    parts = min(rank, *whole.shape)
    model = NMF(parts, init="nndsvda", max_iter=ROUNDS, random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # near enough
        found = model.fit_transform(whole)
    return np.pad(found, ((0, 0), (0, rank - parts)))
