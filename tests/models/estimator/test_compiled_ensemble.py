"""Compiled trees: LightGBM's bits and the graph's on any row, at any batch size, or no compiled trees at all."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from features.schema.catalog import catalogue_hash
from models.bundle.bundle import load_bundle
from models.errors import ModelsError
from models.estimator import compiled_trees
from models.estimator.compiled_ensemble import (
    CompiledEnsemble,
    awkward_rows,
    compiled_ensemble,
    open_compiled,
    refuse_difference,
)
from models.estimator.onnx_session import Graph, load_graph
from models.estimator.predictor import open_predictor
from models.forms.pressure_base import BaseTerms, base_sum
from models.forms.tree_arrays import Forest, parse_forest
from models.forms.tree_bitvectors import MAX_LEAVES
from models.onnx_export.exporter import export_mean, export_spread
from tests.advisor.clusters import trained, write, write_mixed_up, write_older
from tests.models.conftest import AWKWARD

Floats = NDArray[np.float64]
Train = Callable[..., lgb.Booster]
Rows = Callable[[Forest, int], Floats]
TERMS = BaseTerms(np.array([4, 0, 5]), np.array([0.1, 1 / 3, 7.7]))


def bits(values: Floats) -> list[int]:
    """The doubles themselves; any NaN counts as one."""
    as_integers: list[int] = np.where(np.isnan(values), np.nan, values).view(np.int64).tolist()
    return as_integers


def grown(seed: int, width: int = 4) -> Forest:
    """Random trees of one to MAX_LEAVES leaves on awkward thresholds; NaN goes either way."""
    rng = np.random.default_rng(seed)
    parts: dict[str, list[int]] = {"left": [], "right": [], "roots": []}
    leaves = 0
    for count in rng.choice([1, 2, 7, 31, MAX_LEAVES], 6).tolist():
        first, nodes = len(parts["left"]), max(count - 1, 1)
        parts["roots"].append(first)
        parts["left"] += [0] * nodes
        parts["right"] += [0] * nodes
        ends = [(first, "left"), (first, "right")]
        for node in range(first + 1, first + nodes):
            above, side = ends.pop(int(rng.integers(len(ends))))
            parts[side][above] = node
            ends += [(node, "left"), (node, "right")]
        for number, (node, side) in enumerate(ends if count > 1 else []):
            parts[side][node] = ~(leaves + number)
        if count == 1:
            parts["left"][first] = parts["right"][first] = ~leaves
        leaves += count
    nodes = len(parts["left"])
    return Forest(
        width=width,
        feature=rng.integers(width, size=nodes),
        threshold=rng.choice(np.append(AWKWARD[~np.isnan(AWKWARD)], rng.normal(size=20)), nodes),
        nan_left=rng.random(nodes) < 0.5,
        left=np.array(parts["left"]),
        right=np.array(parts["right"]),
        leaf_value=rng.normal(size=leaves),
        leaf_cover=np.ones(leaves, np.int64),
        roots=np.array(parts["roots"]),
    )


@given(seed=st.integers(0, 10**6), count=st.integers(0, 150))
def test_compiled_trees_and_base_equal_the_graph_to_the_bit(seed: int, count: int) -> None:
    forest = grown(seed)
    terms = BaseTerms(np.array([3, 0, 1]), np.array([0.1, 1 / 3, 1e10]))
    graph, compiled = load_graph(export_mean(forest, terms)), compiled_ensemble(forest, terms)
    rows = awkward_rows(forest)[:count]

    found, expected = compiled.predict(rows), graph.predict(rows)

    assert found.keys() == expected.keys() == set(compiled.outputs)
    assert all(bits(found[name]) == bits(expected[name]) for name in found)
    alone = [compiled.predict(rows[i : i + 1])["tree_raw"] for i in range(count)]
    assert bits(np.concatenate([*alone, np.empty(0)])) == bits(expected["tree_raw"])


@pytest.mark.parametrize("missing_share", [0.0, 0.1], ids=["trained without NaN", "trained with NaN"])
@pytest.mark.parametrize("objective", ["huber", "gamma"])
def test_compiled_trees_equal_lightgbm_to_the_bit_at_any_batch_size(
    train: Train, adversarial_rows: Rows, objective: str, missing_share: float
) -> None:
    booster = train(objective=objective, missing_share=missing_share)
    forest = parse_forest(booster.model_to_string())
    rows = adversarial_rows(forest, 600)
    expected = np.asarray(booster.predict(rows, raw_score=True, num_threads=1), np.float64)

    compiled = compiled_ensemble(forest)

    for size in (1, 2, 3, 4, 8, 9, 63, 64, 65, 128, 600):
        parts = [compiled.predict(rows[i : i + size])["tree_raw"] for i in range(0, len(rows), size)]
        assert bits(np.concatenate(parts)) == bits(expected)


def test_the_base_equals_its_kernel_to_the_bit(train: Train, adversarial_rows: Rows) -> None:
    forest = parse_forest(train(rounds=2).model_to_string())
    rows = adversarial_rows(forest, 600)

    found = compiled_ensemble(forest, TERMS).predict(rows)["base_sum"]

    with np.errstate(invalid="ignore", over="ignore"):
        assert bits(found) == bits(base_sum(rows, TERMS))


def test_memory_order_and_read_only_rows_change_nothing_and_compile_nothing(train: Train) -> None:
    forest = parse_forest(train(rounds=5).model_to_string())
    compiled = compiled_ensemble(forest, TERMS)
    rows = awkward_rows(forest)[:70]
    expected = bits(compiled.predict(rows)["tree_raw"])
    kept = rows.copy()
    kept.flags.writeable = False

    for other in (np.asfortranarray(rows), kept, np.repeat(rows, 2, axis=0)[::2]):
        assert bits(compiled.predict(other)["tree_raw"]) == expected
    assert len(compiled_trees.tree_sum.signatures) == 1  # type: ignore[attr-defined]


def test_rows_of_another_width_are_refused(train: Train) -> None:
    compiled = compiled_ensemble(parse_forest(train(rounds=1).model_to_string()))

    for shape in ((3, 5), (3, 7), (6,)):
        with pytest.raises(ModelsError, match="the model reads"):
            compiled.predict(np.zeros(shape))


def test_no_rows_give_no_values(train: Train) -> None:
    found = compiled_ensemble(parse_forest(train(rounds=1).model_to_string()), TERMS).predict(np.zeros((0, 6)))

    assert [values.shape for values in found.values()] == [(0,), (0,)]


def test_a_tree_of_too_many_leaves_is_refused(train: Train) -> None:
    forest = parse_forest(train(rounds=2, num_leaves=MAX_LEAVES + 1).model_to_string())

    with pytest.raises(ModelsError, match=f"at most {MAX_LEAVES}"):
        compiled_ensemble(forest)


def test_one_bit_of_one_leaf_is_a_difference(train: Train) -> None:
    forest = parse_forest(train(rounds=3).model_to_string())
    other = replace(forest, leaf_value=np.nextafter(forest.leaf_value, np.inf))
    rows = awkward_rows(forest)

    refuse_difference(compiled_ensemble(forest), load_graph(export_spread(forest)), rows)
    with pytest.raises(ModelsError, match="differ from their ONNX graph in tree_raw"):
        refuse_difference(compiled_ensemble(other), load_graph(export_spread(forest)), rows)


def test_an_opened_bundle_predicts_the_same_compiled(tmp_path: Path) -> None:
    bundle = load_bundle(write(trained(), tmp_path / "b"), catalogue_hash())
    rows = np.random.default_rng(1).gamma(1.5, 0.3, (200, len(bundle.entry_of("placement").features)))
    known = np.arange(200) % 3 == 0

    plain, compiled = open_predictor(bundle, "placement"), open_compiled(bundle, "placement")

    assert plain.familiar is not None
    assert compiled.familiar is not None
    ours = (compiled.mean, compiled.spread, compiled.familiar.mean)
    assert all(isinstance(ensemble, CompiledEnsemble) for ensemble in ours)
    found, expected = compiled.predict(rows, known), plain.predict(rows, known)
    assert all(bits(getattr(found, name)) == bits(getattr(expected, name)) for name in vars(expected))


def test_a_bundle_without_trees_goes_on_with_its_graphs(tmp_path: Path) -> None:
    older = load_bundle(write_older(trained(), tmp_path / "b"), catalogue_hash())

    opened = open_compiled(older, "placement")

    assert isinstance(opened.mean, Graph)
    assert isinstance(opened.spread, Graph)


def test_trees_of_another_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelsError, match="differ from their ONNX graph"):
        open_compiled(load_bundle(write_mixed_up(trained(), tmp_path / "b"), catalogue_hash()), "placement")


def test_a_kernel_that_cannot_be_kept_is_not_compiled() -> None:
    found: dict[str, Callable[[], int]] = {}
    exec("def nowhere() -> int: return 1", found)  # noqa: S102 - of no file

    with pytest.raises(ModelsError, match="COHABIT_CACHE"):
        compiled_trees._compiled(found["nowhere"])
