"""Export: our own LightGBM to ONNX writer, equal to the bit. The only module that imports `onnx`.

One `features` tensor (n, d) of doubles in, `tree_raw` (n,) and for the mean also `base_sum` or `trend_sum` (n,) out.
Why no public converter, no clip and no flush node: docs/decisions/0003-exporter.md.
"""

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from models.estimator.fitted_model import Placement
from models.forms.power_law import Trend
from models.forms.pressure_base import BaseTerms
from models.forms.tree_arrays import Forest, absorb_zero_flush

FEATURES, TREE_RAW, BASE_SUM, TREND_SUM = "features", "tree_raw", "base_sum", "trend_sum"
_OPSETS = (("", 18), ("ai.onnx.ml", 5))
_IR_VERSION = 10
_BRANCH_LEQ, _SUM, _NO_TRANSFORM = 0, 1, 0
_LAST_AXIS = numpy_helper.from_array(np.array([1]), "last_axis")


def export_placement(placement: Placement) -> dict[str, bytes]:
    """The graphs of a trained model by role.

    "mean" and "spread", "beyond" where far rows are predicted separately, "familiar" where apps learnt from have own
    trees.
    """
    graphs = {
        "mean": _export_start(placement.residual, placement.terms),
        "spread": export_spread(placement.spread),
    }
    if placement.beyond is not None:
        graphs["beyond"] = export_trend(placement.beyond.residual, placement.beyond.start)
    if placement.familiar is not None:
        graphs["familiar"] = export_mean(placement.familiar.residual, placement.base())
    return graphs


def export_mean(forest: Forest, terms: BaseTerms) -> bytes:
    """ONNX file of the mean model: `tree_raw` of the forest, `base_sum` of the terms.

    Args:
        forest: trees on d columns, as `parse_forest` read them.
        terms: k >= 1 columns below d and their weights; the graph adds them in this order.

    Returns:
        The serialised graph, the same bytes for the same arguments. Missing: NaN goes where the tree sends it, and
        makes `base_sum` NaN; impute before.

    Raises:
        onnx.checker.ValidationError: the graph is not valid ONNX, a bug here.

    Source: ours, see docs/decisions/0003-exporter.md.
    """
    nodes = [*_tree_nodes(forest), *_base_nodes(len(terms.columns))]
    constants = [
        _LAST_AXIS,
        numpy_helper.from_array(terms.columns.astype(np.int64), "base_columns"),
        numpy_helper.from_array(terms.weights.astype(np.float64), "base_weights"),
    ]
    return _serialised(nodes, constants, forest.width, (TREE_RAW, BASE_SUM))


def export_trend(forest: Forest, trend: Trend) -> bytes:
    """ONNX file of a mean model on a trend: `tree_raw` of the forest, `trend_sum` of the trend.

    Args:
        forest: trees on d columns.
        trend: k terms.

    Returns:
        The serialised graph. Its `features` are (n, d + k): the features, then `trend_inputs` of them, since a
        logarithm may differ in its last bit from one runtime to the next. Otherwise as `export_mean`.

    Raises:
        onnx.checker.ValidationError: the graph is not valid ONNX, a bug here.

    Source: ours, see docs/decisions/0016-blend.md.
    """
    count = len(trend.weights)
    columns = np.arange(forest.width, forest.width + count)
    constants = [
        _LAST_AXIS,
        numpy_helper.from_array(columns.astype(np.int64), "base_columns"),
        numpy_helper.from_array(trend.weights.astype(np.float64), "base_weights"),
        numpy_helper.from_array(np.array([[trend.intercept]]), "intercept"),
    ]
    nodes = [*_tree_nodes(forest), *_base_nodes(count, TREND_SUM, first="intercept")]
    return _serialised(nodes, constants, forest.width + count, (TREE_RAW, TREND_SUM))


def _export_start(forest: Forest, start: BaseTerms | Trend) -> bytes:
    return export_trend(forest, start) if isinstance(start, Trend) else export_mean(forest, start)


def export_spread(forest: Forest) -> bytes:
    """ONNX file of the spread model: `tree_raw` alone; otherwise as `export_mean`."""
    return _serialised(_tree_nodes(forest), [_LAST_AXIS], forest.width, (TREE_RAW,))


def _tree_nodes(forest: Forest) -> list[onnx.NodeProto]:
    ensemble = helper.make_node(
        "TreeEnsemble",
        [FEATURES],
        ["tree_column"],
        domain="ai.onnx.ml",
        n_targets=1,
        aggregate_function=_SUM,
        post_transform=_NO_TRANSFORM,
        tree_roots=forest.roots.tolist(),
        nodes_featureids=forest.feature.tolist(),
        nodes_modes=_tensor(np.full(len(forest.feature), _BRANCH_LEQ, dtype=np.uint8)),
        nodes_splits=_tensor(absorb_zero_flush(forest.threshold)),
        nodes_missing_value_tracks_true=forest.nan_left.astype(np.int64).tolist(),
        nodes_truenodeids=_row(forest.left),
        nodes_trueleafs=_is_leaf(forest.left),
        nodes_falsenodeids=_row(forest.right),
        nodes_falseleafs=_is_leaf(forest.right),
        leaf_targetids=[0] * len(forest.leaf_value),
        leaf_weights=_tensor(forest.leaf_value),
    )
    return [ensemble, helper.make_node("Squeeze", ["tree_column", "last_axis"], [TREE_RAW])]


def _base_nodes(count: int, output: str = BASE_SUM, first: str | None = None) -> list[onnx.NodeProto]:
    """A chain of additions; `first` is a constant that it begins with."""
    weighed = [f"term_{i}" for i in range(count)]
    terms = [*([first] if first else []), *weighed]
    sums = [terms[0], *(f"sum_{i}" for i in range(1, len(terms)))]
    return [
        helper.make_node("Gather", [FEATURES, "base_columns"], ["base_features"], axis=1),
        helper.make_node("Mul", ["base_features", "base_weights"], ["base_terms"]),
        helper.make_node("Split", ["base_terms"], weighed, axis=1, num_outputs=count),
        *(helper.make_node("Add", [sums[i - 1], terms[i]], [sums[i]]) for i in range(1, len(terms))),
        helper.make_node("Squeeze", [sums[-1], "last_axis"], [output]),
    ]


def _serialised(
    nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto], width: int, outputs: tuple[str, ...]
) -> bytes:
    double = onnx.TensorProto.DOUBLE
    graph = helper.make_graph(
        nodes,
        "cohabit",
        [helper.make_tensor_value_info(FEATURES, double, ["n", width])],
        [helper.make_tensor_value_info(name, double, ["n"]) for name in outputs],
        constants,
    )
    opsets = [helper.make_opsetid(domain, version) for domain, version in _OPSETS]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="cohabit")
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


def _tensor(values: NDArray[np.float64] | NDArray[np.uint8]) -> onnx.TensorProto:
    return numpy_helper.from_array(values)


def _row(child: NDArray[np.int64]) -> list[int]:
    rows: list[int] = np.where(child >= 0, child, ~child).tolist()
    return rows


def _is_leaf(child: NDArray[np.int64]) -> list[int]:
    flags: list[int] = (child < 0).astype(np.int64).tolist()
    return flags
