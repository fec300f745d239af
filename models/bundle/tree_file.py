"""Tree file: the trees and the base of a model in a bundle, so that a serving process can explain and compile them.

One Arrow record batch of one row, one list for each array. Its bytes depend on nothing but the model.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from models.bundle.bundle import Bundle
from models.errors import BundleCorrupt, ModelsError
from models.forms.pressure_base import BaseTerms
from models.forms.tree_arrays import Forest

ROLE, FAMILIAR_ROLE, SPREAD_ROLE = "trees", "familiar_trees", "spread_trees"
"""Of the trees for any app, of those for apps learnt from, and of those for the size of the error."""
MAX_BYTES = 1 << 26
"""Some 80,000 trees of 31 leaves; a longer file is not read."""
SCHEMA = pa.schema(
    [
        ("width", pa.int32()),
        ("feature", pa.list_(pa.int32())),
        ("threshold", pa.list_(pa.float64())),
        ("nan_left", pa.list_(pa.bool_())),
        ("left", pa.list_(pa.int32())),
        ("right", pa.list_(pa.int32())),
        ("leaf_value", pa.list_(pa.float64())),
        ("leaf_cover", pa.list_(pa.int64())),
        ("roots", pa.list_(pa.int32())),
        ("base_columns", pa.list_(pa.int32())),
        ("base_weights", pa.list_(pa.float64())),
    ]
)
"""The fields of `Forest` and `BaseTerms`, as those describe them."""


def write_trees(forest: Forest, terms: BaseTerms) -> bytes:
    """The file of the trees of one role and the model's base, the same bytes for the same model."""
    fields = {**vars(forest), "base_columns": terms.columns, "base_weights": terms.weights}
    row = [pa.array([fields[field.name]], field.type) for field in SCHEMA]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA) as writer:
        writer.write_batch(pa.record_batch(row, schema=SCHEMA))
    return bytes(sink.getvalue())


def read_trees(bundle: Bundle, model: str, role: str = ROLE) -> tuple[Forest, BaseTerms]:
    """The trees and the base of a model of a verified bundle, checked so that attribution cannot go astray in them.

    Raises:
        ModelsError: the bundle has no model of that name; the bundle was written before there was such a file.
        BundleCorrupt: the file is not one, or describes no trees.
    """
    entry = bundle.entry_of(model)
    if role not in entry.files:
        raise ModelsError(
            f"bundle {bundle.directory} has graphs but no trees of model {model!r}, it is older than explanations: "
            "train again to have them"
        )
    corrupt = partial(BundleCorrupt, bundle.directory, entry.files[role])
    content = bundle.file_of(model, role)
    if len(content) > MAX_BYTES:
        raise corrupt(f"has {len(content)} bytes, at most {MAX_BYTES} are read")
    try:
        forest, terms = _parsed(content)
    except (pa.ArrowException, OSError, ValueError) as error:  # what pyarrow raises on other bytes than it wrote
        raise corrupt(f"is not a tree file ({error})") from error
    if fault := next(_faults(forest, terms, len(entry.features)), None):
        raise corrupt(f"describes no trees: {fault}")
    return forest, terms


def _parsed(content: bytes) -> tuple[Forest, BaseTerms]:
    table = pa.ipc.open_file(pa.BufferReader(content)).read_all()
    if not table.schema.equals(SCHEMA) or table.num_rows != 1:
        raise ValueError(f"it has {table.num_rows} rows of {', '.join(table.schema.names)}")
    table.validate(full=True)
    arrays = {name: _array(table[name][0]) for name in SCHEMA.names[1:]}
    terms = BaseTerms(arrays.pop("base_columns"), arrays.pop("base_weights"))
    return Forest(width=table["width"][0].as_py(), **arrays), terms


def _array(cell: pa.ListScalar) -> NDArray[Any]:
    if not cell.is_valid or cell.values.null_count:
        raise ValueError("a value is missing")
    values = cell.values.cast(pa.int64()) if pa.types.is_integer(cell.type.value_type) else cell.values
    array: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return array


def _faults(forest: Forest, terms: BaseTerms, width: int) -> Iterator[str]:
    """What is wrong, first things first: a check may rely on those before it."""
    nodes, leaves = len(forest.feature), len(forest.leaf_value)
    if forest.width != width:
        yield f"they read {forest.width} columns, the manifest names {width}"
    if {len(getattr(forest, name)) for name in ("threshold", "nan_left", "left", "right")} != {nodes}:
        yield "their nodes differ in number"
    if len(forest.leaf_cover) != leaves or len(terms.columns) != len(terms.weights) or not len(terms.columns):
        yield "their leaves or the terms of the base differ in number"
    for column in (forest.feature, terms.columns):
        if not _within(column, width):
            yield f"a column is not one of {width}"
    if np.isnan(forest.threshold).any() or not np.isfinite(np.concatenate([forest.leaf_value, terms.weights])).all():
        yield "a threshold, a leaf or a weight is not a number"
    if not (forest.leaf_cover >= 1).all():
        yield "a leaf has no cover"
    if not _are_trees(forest, nodes, leaves):
        yield "a node or a leaf hangs on no node, or on two"


def _are_trees(forest: Forest, nodes: int, leaves: int) -> bool:
    """Whether every node is a root or hangs on one node, which has a smaller number, and every leaf on one node."""
    node = np.arange(nodes)
    splits = forest.left != forest.right
    child, above = np.concatenate([forest.left, forest.right[splits]]), np.concatenate([node, node[splits]])
    inner = child >= 0
    hangs = np.concatenate([forest.roots, child[inner]])
    return (
        bool((child > above)[inner].all())  # no node is above itself
        and np.array_equal(np.sort(hangs), node)
        and np.array_equal(np.sort(~child[~inner]), np.arange(leaves))
    )


def _within(index: NDArray[np.int64], count: int) -> bool:
    return bool(((index >= 0) & (index < count)).all())
