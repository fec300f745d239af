"""Tree file: as written or refused; nothing in it can lead attribution astray."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from models.bundle.bundle import Bundle
from models.bundle.manifest import Manifest
from models.bundle.tree_file import MAX_BYTES, ROLE, SCHEMA, read_trees, write_trees
from models.errors import BundleCorrupt, ModelsError
from models.explain.shap import tree_shap
from models.explain.tree_paths import paths_of
from models.forms.pressure_base import BaseTerms
from models.forms.tree_arrays import Forest, parse_forest
from tests.advisor.clusters import manifest_of, trained

Train = Callable[..., lgb.Booster]
Change = Callable[[Forest], tuple[Forest, BaseTerms]]
TERMS = BaseTerms(np.array([0, 2]), np.array([0.1, 1 / 3]))


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    """Of a model of six columns with a tree file."""
    whole = manifest_of(trained())
    entry = whole.models["placement"].model_copy(
        update={"files": {ROLE: "t"}, "features": tuple("abcdef"), "signs": (0,) * 6, "medians": {}}
    )
    return whole.model_copy(update={"models": {"placement": entry}})


def bundle(manifest: Manifest, content: bytes) -> Bundle:
    return Bundle(Path("b1"), manifest, {"t": content})


@pytest.mark.parametrize("parameters", [{"rounds": 3}, {"missing_share": 0.1}, {"min_data_in_leaf": 100_000}])
def test_trees_come_back_as_written(train: Train, manifest: Manifest, parameters: dict[str, object]) -> None:
    forest = parse_forest(train(**parameters).model_to_string())

    read, terms = read_trees(bundle(manifest, write_trees(forest, TERMS)), "placement")

    for expected, found in ((forest, read), (TERMS, terms)):
        for name, array in vars(expected).items():
            np.testing.assert_array_equal(vars(found)[name], array)
            assert np.asarray(vars(found)[name]).dtype == np.asarray(array).dtype


def test_the_same_model_gives_the_same_file(train: Train) -> None:
    once, again = (write_trees(parse_forest(train().model_to_string()), TERMS) for _ in range(2))

    assert once == again


def arrays_of(forest: Forest) -> dict[str, NDArray[Any]]:
    """Of the forest and of TERMS."""
    return {**vars(forest), **vars(TERMS)}


def model_with(forest: Forest, name: str, array: NDArray[Any]) -> tuple[Forest, BaseTerms]:
    """The forest and TERMS with one array exchanged."""
    if name in vars(TERMS):
        return forest, BaseTerms(**{**vars(TERMS), name: array})
    return Forest(**{**vars(forest), name: array}), TERMS


def changed(name: str, at: int, value: float) -> Change:
    def change(forest: Forest) -> tuple[Forest, BaseTerms]:
        array = arrays_of(forest)[name].copy()
        array[at] = value
        return model_with(forest, name, array)

    return change


def cut(name: str, to: int) -> Change:
    return lambda forest: model_with(forest, name, arrays_of(forest)[name][:to])


def in_a_circle() -> Forest:
    """A tree of one split, and two nodes that hang on each other."""
    return Forest(
        width=6,
        feature=np.array([0, 1, 2]),
        threshold=np.zeros(3),
        nan_left=np.ones(3, np.bool_),
        left=np.array([-1, 2, 1]),
        right=np.array([-2, -3, -4]),
        leaf_value=np.arange(4.0),
        leaf_cover=np.ones(4, np.int64),
        roots=np.array([0]),
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda forest: (replace(forest, width=7), TERMS), "7 columns, the manifest names 6"),
        (cut("threshold", -1), "nodes differ"),
        (cut("nan_left", -1), "nodes differ"),
        (cut("right", -1), "nodes differ"),
        (cut("leaf_cover", -1), "differ in number"),
        (cut("weights", 1), "differ in number"),
        (lambda forest: (forest, BaseTerms(np.empty(0, np.int64), np.empty(0))), "differ in number"),
        (changed("feature", 3, 6), "column is not one of 6"),
        (changed("feature", 3, -1), "column is not one of 6"),
        (changed("columns", 1, 6), "column is not one of 6"),
        (changed("threshold", 0, np.nan), "not a number"),
        (changed("leaf_value", 0, np.inf), "not a number"),
        (changed("weights", 0, np.nan), "not a number"),
        (changed("leaf_cover", 2, 0), "no cover"),
        (changed("left", 3, 0), "hangs on"),
        (changed("left", 0, 13), "hangs on"),
        (changed("left", 0, -1000), "hangs on"),
        (changed("right", 2, 1_000_000), "hangs on"),
        (changed("roots", 0, 1), "hangs on"),
        (changed("roots", 1, 0), "hangs on"),
        (changed("roots", 2, 1_000_000), "hangs on"),
        (lambda _: (in_a_circle(), TERMS), "hangs on"),
        (cut("roots", 0), "hangs on"),
        (cut("roots", 2), "hangs on"),
    ],
)
def test_what_is_no_tree_is_refused(train: Train, manifest: Manifest, change: Change, problem: str) -> None:
    forest = parse_forest(train(rounds=3).model_to_string())

    with pytest.raises(BundleCorrupt, match=problem):
        read_trees(bundle(manifest, write_trees(*change(forest))), "placement")


def test_a_file_of_something_else_is_refused(train: Train, manifest: Manifest) -> None:
    whole = write_trees(parse_forest(train(rounds=3).model_to_string()), TERMS)
    table = pa.ipc.open_file(pa.BufferReader(whole)).read_all()

    def written(other: pa.Table) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, other.schema) as writer:
            writer.write_table(other)
        return bytes(sink.getvalue())

    def without(name: str, value: list[object] | None) -> bytes:
        field = SCHEMA.field(name)
        return written(table.set_column(SCHEMA.get_field_index(name), field, pa.array([value], field.type)))

    others = [
        b"",
        whole[:-1],
        whole[: len(whole) // 2],
        b"ARROW1",
        written(table.slice(0, 0)),
        written(pa.concat_tables([table, table])),
        written(table.drop_columns("roots")),
        without("base_weights", None),
        without("base_weights", [None, 0.5]),
        without("base_columns", [None, 2]),
        without("nan_left", [None] * len(table["feature"][0])),
        written(table.set_column(0, SCHEMA.field(0), pa.array([None], pa.int32()))),
    ]
    for content in others:
        with pytest.raises(BundleCorrupt, match=r"is not a tree file|describes no trees"):
            read_trees(bundle(manifest, content), "placement")


def test_changed_bytes_are_refused_or_still_are_trees(train: Train, manifest: Manifest) -> None:
    whole = write_trees(parse_forest(train(rounds=3, num_leaves=4).model_to_string()), TERMS)
    rng, refused = np.random.default_rng(0), 0
    for _ in range(1500):
        content = bytearray(whole)
        for at in rng.integers(len(content), size=rng.integers(1, 4)):
            content[at] = rng.integers(256)
        try:
            forest, _ = read_trees(bundle(manifest, bytes(content)), "placement")
        except BundleCorrupt:
            refused += 1
        else:
            assert tree_shap(np.zeros((1, 6)), paths_of(forest)).by_feature.shape == (1, 6)

    assert 500 < refused < 1500


def test_a_file_that_is_too_long_is_not_read(manifest: Manifest) -> None:
    with pytest.raises(BundleCorrupt, match=f"at most {MAX_BYTES}"):
        read_trees(bundle(manifest, bytes(MAX_BYTES + 1)), "placement")


def test_an_older_bundle_says_that_it_has_no_trees(manifest: Manifest) -> None:
    entry = manifest.models["placement"].model_copy(update={"files": {}})

    with pytest.raises(ModelsError, match="train again"):
        read_trees(bundle(manifest.model_copy(update={"models": {"placement": entry}}), b""), "placement")
