"""Trees: a trained LightGBM model as flat arrays, or a refusal when its arithmetic cannot be reproduced exactly.

The model *text* is read, never the JSON dump: JSON writes an infinite threshold as 1e300, which sends an
infinite value to the other side.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.errors import ModelsError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Fields = dict[str, str]

ZERO_BAND = float(np.float32(1e-35))
"""LightGBM reads every |x| up to this as zero. Its constant is a float, so it is a little above 1e-35."""

_CATEGORICAL, _DEFAULT_LEFT, _MISSING_ZERO, _MISSING_NAN = 1, 2, 4, 8


@dataclass(frozen=True)
class Forest:
    """Decision trees, all nodes in one table; the prediction is the sum of one leaf per tree, in tree order.

    A node sends x left when x <= threshold. `left` and `right` hold a node's row, or ~leaf for a leaf.
    A tree that never splits is one node with the same leaf on both sides.
    """

    width: int
    feature: Ints
    threshold: Floats
    nan_left: Flags
    left: Ints
    right: Ints
    leaf_value: Floats
    leaf_cover: Ints
    """How many training rows came to each leaf; a node's cover is the sum of its leaves'. Attribution weighs by it."""
    roots: Ints


@dataclass(frozen=True)
class _Tree:
    feature: Ints
    threshold: Floats
    decision: Ints
    left: Ints
    right: Ints
    leaf_value: Floats
    leaf_cover: Ints


def parse_forest(model_text: str) -> Forest:
    """Read what `booster.model_to_string()` wrote.

    Returns:
        The forest, thresholds as LightGBM compares them (after it has flushed |x| <= ZERO_BAND to zero).
        NaN goes left where `nan_left`: its learned side, or the side of zero where NaN was not seen in training.

    Raises:
        ModelsError: several classes, averaged trees (rf), linear leaves, categorical splits, zero read as missing, no
            trees, or an unknown version of the format.

    Source: LightGBM 4.7, include/LightGBM/tree.h (NumericalDecision), src/io/tree.cpp (ToString).
    """
    header, *blocks = model_text.split("\nend of trees", 1)[0].split("\nTree=")
    _refuse_header(_fields(header))
    if not blocks:
        raise _not_exactly_exportable("it has no trees", "train at least one round")
    return _joined(int(_fields(header)["max_feature_idx"]) + 1, [_tree(_fields(block)) for block in blocks])


def absorb_zero_flush(threshold: Floats) -> Floats:
    """Thresholds that decide on x as the given ones decide on x after |x| <= ZERO_BAND became zero.

    Args:
        threshold: (nodes,) as LightGBM compares, any value but NaN.

    Returns:
        (nodes,) thresholds u with (x <= u) == (flush(x) <= threshold) for every double x; NaN compares false in both.

    Source: ours, see docs/decisions/0003-exporter.md.
    """
    below = np.nextafter(-ZERO_BAND, -np.inf)
    lifted = np.where((threshold >= 0) & (threshold <= ZERO_BAND), ZERO_BAND, threshold)
    return np.where((threshold < 0) & (threshold >= -ZERO_BAND), below, lifted)


def _fields(block: str) -> Fields:
    pairs = (line.partition("=") for line in block.splitlines())
    return {key: value for key, _, value in pairs}


def _refuse_header(header: Fields) -> None:
    if header.get("version") != "v4":
        raise _not_exactly_exportable(f"format {header.get('version')!r} is not v4", "use LightGBM 4.6 or newer")
    if header["num_tree_per_iteration"] != "1":
        raise _not_exactly_exportable("it predicts several classes", "train one model per output")
    if "average_output" in header:
        raise _not_exactly_exportable("boosting=rf averages its trees", "train with boosting=gbdt or dart")


def _refuse_tree(fields: Fields, decision: Ints) -> None:
    if fields.get("is_linear", "0") != "0":
        raise _not_exactly_exportable("linear_tree puts regressions in leaves", "train with linear_tree=false")
    if (decision & _CATEGORICAL).any():
        raise _not_exactly_exportable("it splits on categories", "encode categories as numbers before training")
    if (decision & _MISSING_ZERO).any():
        raise _not_exactly_exportable("zero_as_missing reads zero as missing", "train with zero_as_missing=false")


def _tree(fields: Fields) -> _Tree:
    decision = _ints(fields["decision_type"])
    _refuse_tree(fields, decision)
    leaf_value = _floats(fields["leaf_value"])
    if len(leaf_value) == 1:
        only_leaf, any_cover = np.array([-1]), np.array([1])  # LightGBM's count of a constant may be 0
        return _Tree(np.array([0]), np.array([0.0]), np.array([0]), only_leaf, only_leaf, leaf_value, any_cover)
    return _Tree(
        feature=_ints(fields["split_feature"]),
        threshold=_floats(fields["threshold"]),
        decision=decision,
        left=_ints(fields["left_child"]),
        right=_ints(fields["right_child"]),
        leaf_value=leaf_value,
        leaf_cover=_ints(fields["leaf_count"]),
    )


def _joined(width: int, trees: list[_Tree]) -> Forest:
    first_node = _starts(len(tree.feature) for tree in trees)
    first_leaf = _starts(len(tree.leaf_value) for tree in trees)
    threshold = np.concatenate([tree.threshold for tree in trees])
    decision = np.concatenate([tree.decision for tree in trees])
    return Forest(
        width=width,
        feature=np.concatenate([tree.feature for tree in trees]),
        threshold=threshold,
        nan_left=np.where(decision & _MISSING_NAN, decision & _DEFAULT_LEFT, threshold >= 0) != 0,
        left=np.concatenate([moved(t.left, n, m) for t, n, m in zip(trees, first_node, first_leaf, strict=True)]),
        right=np.concatenate([moved(t.right, n, m) for t, n, m in zip(trees, first_node, first_leaf, strict=True)]),
        leaf_value=np.concatenate([tree.leaf_value for tree in trees]),
        leaf_cover=np.concatenate([tree.leaf_cover for tree in trees]),
        roots=first_node,
    )


def _starts(sizes: Iterable[int]) -> Ints:
    return np.cumsum([0, *sizes], dtype=np.int64)[:-1]


def moved(child: Ints, first_node: int, first_leaf: int) -> Ints:
    """(nodes,) children as they are called when their nodes and leaves come after that many others."""
    return np.where(child >= 0, child + first_node, child - first_leaf)


def _ints(text: str) -> Ints:
    return np.array(text.split(), dtype=np.int64)


def _floats(text: str) -> Floats:
    return np.array(text.split(), dtype=np.float64)


def _not_exactly_exportable(reason: str, remedy: str) -> ModelsError:
    return ModelsError(f"the forest cannot be exported exactly: {reason}; {remedy}")
