"""Bitvectors: trees as one word of leaves per split, so that many rows pass a split in one vector instruction.

Every split is compared with every row. A row that goes right at a split loses the leaves on its left; the leftmost
leaf that remains is the one that the row comes to.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.errors import ModelsError
from models.forms.tree_arrays import Forest, absorb_zero_flush

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Index = NDArray[np.uint32]
"""Compiled code asks of a signed index whether it counts from the end."""

MAX_LEAVES = 64
"""Bits of a word."""


class Bitvectors(NamedTuple):
    """A forest, tree after tree; in each tree the splits that send NaN left come first.

    A row goes right at a split when x > threshold, or not x <= threshold where NaN goes right. A tuple, since compiled
    code reads the fields of no other class.
    """

    column: Index
    """(splits,) what each split compares."""
    threshold: Floats
    """(splits,) as x is compared, the zero band absorbed."""
    kept: NDArray[np.uint64]
    """(splits,) leaves that remain to a row that goes right, bit 0 being the tree's leftmost leaf."""
    starts: Index
    """(trees + 1,) first split of each tree, then their number."""
    nan_right: Index
    """(trees,) first split of each tree that sends NaN right."""
    leaf_value: Floats
    """(leaves,) of each tree from left to right."""
    first_leaf: Index
    """(trees,) leftmost leaf of each tree."""


def bitvectors(forest: Forest) -> Bitvectors:
    """Bitvectors of a forest.

    Args:
        forest: trees of which each node has a smaller number than the nodes below it, as LightGBM writes them.

    Returns:
        The same decisions on every double, NaN and ±inf included; new arrays.

    Raises:
        ModelsError: a tree has more leaves than a word has bits, or the nodes of trees are mixed.

    Source: Lucchese et al., "QuickScorer", SIGIR 2015; across rows, "Exploiting CPU SIMD Extensions to Speed-up
    Document Scoring with Tree Ensembles", SIGIR 2016. Ours: no order of features, see
    docs/decisions/0069-compiled-trees.md.
    """
    tree = np.searchsorted(forest.roots, np.arange(len(forest.feature)), side="right") - 1
    for child in (forest.left, forest.right):
        if (tree[child[child >= 0]] != tree[child >= 0]).any():
            raise ModelsError("nodes of several trees are mixed: write the bundle again with `cohabit model train`")
    splits = forest.left != forest.right
    leaves = np.bincount(tree[splits], minlength=len(forest.roots)) + 1
    if leaves.max() > MAX_LEAVES:
        raise ModelsError(f"a tree has {leaves.max()} leaves, at most {MAX_LEAVES} are compiled: train with fewer")
    left_leaves, leftmost = _places(forest)
    first_leaf = np.cumsum(leaves) - leaves
    ordered = np.flatnonzero(splits)
    ordered = ordered[np.lexsort((~forest.nan_left[ordered], tree[ordered]))]
    lost = (np.left_shift(np.uint64(1), left_leaves[ordered]) - np.uint64(1)) << leftmost[ordered]
    starts = np.searchsorted(tree[ordered], np.arange(len(forest.roots) + 1))
    return Bitvectors(
        column=forest.feature[ordered].astype(np.uint32),
        threshold=absorb_zero_flush(forest.threshold)[ordered],
        kept=~lost,
        starts=starts.astype(np.uint32),
        nan_right=(starts[:-1] + np.bincount(tree[splits & forest.nan_left], minlength=len(leaves))).astype(np.uint32),
        leaf_value=forest.leaf_value[_left_to_right(forest, first_leaf[tree] + leftmost.astype(np.int64), left_leaves)],
        first_leaf=first_leaf.astype(np.uint32),
    )


def _places(forest: Forest) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """(nodes,) leaves on the left side of each node, and the number in its tree of the leftmost leaf beneath it."""
    left, right = forest.left.tolist(), forest.right.tolist()
    on_left, beneath, leftmost = [1] * len(left), [1] * len(left), [0] * len(left)
    for node in reversed(range(len(left))):
        on_left[node] = beneath[left[node]] if left[node] >= 0 else 1
        beneath[node] = on_left[node] + (beneath[right[node]] if right[node] >= 0 else 1)
    for node in range(len(left)):
        if left[node] >= 0:
            leftmost[left[node]] = leftmost[node]
        if right[node] >= 0:
            leftmost[right[node]] = leftmost[node] + on_left[node]
    return np.array(on_left, np.uint64), np.array(leftmost, np.uint64)


def _left_to_right(forest: Forest, leftmost: Ints, left_leaves: NDArray[np.uint64]) -> Ints:
    """(leaves,) rows of the leaves in the order of their places; `leftmost` counts over all trees."""
    order = np.zeros(len(forest.leaf_value), np.int64)
    on_left, on_right = forest.left < 0, (forest.right < 0) & (forest.left != forest.right)
    order[leftmost[on_left]] = ~forest.left[on_left]
    order[(leftmost + left_leaves.astype(np.int64))[on_right]] = ~forest.right[on_right]
    return order
