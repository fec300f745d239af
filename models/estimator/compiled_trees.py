"""Compiled trees: kernels over bitvectors as machine code. The only module of models that imports numba.

Machine code is kept in the user's cache. Import this where a process is to compute by it, and nowhere else.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba
import numpy as np
from numba.cpython.unsafe import numbers
from numpy.typing import NDArray

from ingest.devkafka.java import cache_folder
from models.errors import ModelsError
from models.forms.tree_bitvectors import Bitvectors

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
P = ParamSpec("P")
R = TypeVar("R")

ALL, ZERO, ONE = np.uint64(0xFFFF_FFFF_FFFF_FFFF), np.uint64(0), np.uint64(1)
BLOCK = 64
"""Rows that are at one split together: their columns stay in the first cache."""
LANES = 8
"""Rows of a block are rounded up to so many: whole vectors."""
FEW = 3
"""So many rows cost less one by one."""


leftmost = cast("Callable[[np.uint64], int]", numbers.trailing_zeros)
"""The lowest bit that is set."""


def _compiled(function: Callable[P, R]) -> Callable[P, R]:
    """The function as machine code that lets other threads run, adds in the written order, and is kept on disk."""
    if not numba.config.CACHE_DIR:  # type: ignore[attr-defined]  # set when numba is imported
        numba.config.CACHE_DIR = str(cache_folder() / "compiled" / "trees")  # type: ignore[attr-defined]
    try:
        return cast("Callable[P, R]", numba.njit(cache=True, nogil=True, error_model="numpy")(function))
    except RuntimeError as error:
        raise ModelsError(f"{error}: set COHABIT_CACHE to a folder that can be written") from error


@_compiled
def weighted_sum(rows: Floats, columns: Ints, weights: Floats) -> Floats:
    """As models.forms.pressure_base.base_sum, to the bit.

    Args:
        rows: (n, d) in C order, writeable.
        columns: (k,) k >= 1 columns of rows; not checked.
        weights: (k,) their weights.

    Returns:
        (n,) Σ weight × column, added from the first to the last. NaN and inf follow IEEE arithmetic.

    Raises:
        Nothing.

    Source: ours, see docs/decisions/0003-exporter.md.
    """
    found = np.empty(len(rows))
    for row in range(len(rows)):
        total = rows[row, columns[0]] * weights[0]
        for term in range(1, len(columns)):
            total += rows[row, columns[term]] * weights[term]
        found[row] = total
    return found


@_compiled
def tree_sum(rows: Floats, trees: Bitvectors) -> Floats:
    """Sum of one leaf per tree, in tree order: LightGBM's raw score, to the bit.

    Args:
        rows: (n, d) in C order, writeable; d is not checked.
        trees: on d columns.

    Returns:
        (n,) raw scores. NaN follows the trees. Each row's result is independent of the other rows.

    Raises:
        Nothing.

    Source: ours, see docs/decisions/0069-compiled-trees.md.
    """
    found = np.zeros(len(rows))
    columns, words = np.empty((rows.shape[1], BLOCK)), np.empty(BLOCK, np.uint64)
    start = 0
    while len(rows) - start > FEW:
        end = min(start + BLOCK, len(rows))
        _add_block(rows[start:end], trees, columns, words, found[start:end])
        start = end
    for row in range(start, len(rows)):
        found[row] = _row_sum(rows[row], trees)
    return found


@_compiled
def _add_block(rows: Floats, trees: Bitvectors, columns: Floats, words: Words, found: Floats) -> None:
    """Add the trees' leaves for up to BLOCK rows, which pass each split together."""
    lanes = (len(rows) + LANES - 1) // LANES * LANES  # the words of those beyond the rows are not read
    for row in range(len(rows)):
        for column in range(rows.shape[1]):
            columns[column, row] = rows[row, column]
    for tree in range(len(trees.nan_right)):
        for lane in range(lanes):
            words[lane] = ALL
        for split in range(trees.starts[tree], trees.nan_right[tree]):
            x, threshold, kept = columns[trees.column[split]], trees.threshold[split], trees.kept[split]
            for lane in range(lanes):
                words[lane] &= kept if x[lane] > threshold else ALL
        for split in range(trees.nan_right[tree], trees.starts[tree + 1]):
            x, threshold, kept = columns[trees.column[split]], trees.threshold[split], trees.kept[split]
            for lane in range(lanes):
                words[lane] &= ALL if x[lane] <= threshold else kept
        for row in range(len(rows)):
            found[row] += trees.leaf_value[trees.first_leaf[tree] + leftmost(words[row])]


@_compiled
def _row_sum(x: Floats, trees: Bitvectors) -> float:
    """The same of one row, without branches: they depend on the row, and half of them would be predicted wrong."""
    total = 0.0
    for tree in range(len(trees.nan_right)):
        word = ALL
        for split in range(trees.starts[tree], trees.nan_right[tree]):
            goes_right = np.uint64(x[trees.column[split]] > trees.threshold[split])
            word &= trees.kept[split] | (goes_right - ONE)
        for split in range(trees.nan_right[tree], trees.starts[tree + 1]):
            goes_left = np.uint64(x[trees.column[split]] <= trees.threshold[split])
            word &= trees.kept[split] | (ZERO - goes_left)
        total += trees.leaf_value[trees.first_leaf[tree] + leftmost(word)]
    return total
