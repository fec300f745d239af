"""Export: the ONNX file gives LightGBM's bits on any row, at any batch size, and the base its kernel's bits."""

import os
import re
import subprocess
import sys
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest
from numpy.typing import NDArray

from models.errors import ModelsError
from models.estimator.onnx_session import Graph, load_graph
from models.forms.pressure_base import BaseTerms, base_sum
from models.forms.tree_arrays import Forest, parse_forest
from models.onnx_export.exporter import export_mean, export_spread

Floats = NDArray[np.float64]
Train = Callable[..., lgb.Booster]
Rows = Callable[[Forest, int], Floats]

OBJECTIVES = {
    "huber": {"objective": "huber"},
    "l2": {"objective": "regression"},
    "gamma": {"objective": "gamma"},
    "dart": {"objective": "huber", "boosting": "dart"},
}


def bits(values: Floats) -> list[int]:
    """The doubles themselves; any NaN counts as one."""
    as_integers: list[int] = np.where(np.isnan(values), np.nan, values).view(np.int64).tolist()
    return as_integers


def lightgbm_bits(booster: lgb.Booster, rows: Floats) -> list[int]:
    return bits(np.asarray(booster.predict(rows, raw_score=True, num_threads=1), dtype=np.float64))


def in_batches(graph: Graph, features: Floats, size: int, output: str = "tree_raw") -> Floats:
    parts = [graph.predict(features[i : i + size])[output] for i in range(0, len(features), size)]
    return np.concatenate(parts)


@pytest.mark.parametrize("missing_share", [0.0, 0.1], ids=["trained without NaN", "trained with NaN"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_trees_equal_lightgbm_to_the_bit_on_adversarial_rows(
    train: Train, adversarial_rows: Rows, objective: str, missing_share: float
) -> None:
    booster = train(missing_share=missing_share, **OBJECTIVES[objective])
    forest = parse_forest(booster.model_to_string())
    rows = adversarial_rows(forest, 5000)

    graph = load_graph(export_spread(forest))

    expected = lightgbm_bits(booster, rows)
    assert bits(in_batches(graph, rows[:300], 1)) == expected[:300]
    for size in (2, 500, 5000):
        assert bits(in_batches(graph, rows, size)) == expected


@pytest.mark.parametrize("objective", ["binary", "cross_entropy", "poisson", "tweedie", "gamma"])
def test_the_graph_ends_at_the_raw_score_and_applies_no_link(adversarial_rows: Rows, objective: str) -> None:
    features = np.random.default_rng(3).normal(size=(400, 6))
    label = np.where(features[:, 0] + features[:, 1] ** 2 > 0.5, 1.0, 0.5 if objective == "gamma" else 0.0)
    data = lgb.Dataset(features, label)
    booster = lgb.train({"objective": objective, "num_threads": 1, "verbosity": -1, "num_leaves": 7}, data, 10)
    forest = parse_forest(booster.model_to_string())
    rows = adversarial_rows(forest, 300)

    found = load_graph(export_spread(forest)).predict(rows)["tree_raw"]

    assert bits(found) == lightgbm_bits(booster, rows)
    assert bits(found) != bits(np.asarray(booster.predict(rows, num_threads=1)))


@pytest.mark.parametrize("trees", [1, 7, 50, 80, 81, 200, 400])
def test_neither_the_number_of_trees_nor_of_rows_changes_a_bit(
    train: Train, adversarial_rows: Rows, trees: int
) -> None:
    booster = train(rounds=trees, num_leaves=7, missing_share=0.1, objective="huber")
    forest = parse_forest(booster.model_to_string())
    rows = adversarial_rows(forest, 600)

    graph = load_graph(export_spread(forest))

    expected = lightgbm_bits(booster, rows)
    for size in (3, 49, 50, 51, 79, 80, 81, 127, 128, 129, 255, 256, 257, 600):
        assert bits(in_batches(graph, rows, size)) == expected


@pytest.mark.parametrize("threshold", ["-1", "-1e-36", "-0.0", "0", "1e-36", "1"])
def test_where_training_saw_no_nan_it_goes_the_way_of_zero(train: Train, threshold: str) -> None:
    trained = train(rounds=1, num_leaves=2).model_to_string()
    text = re.sub(r"\nthreshold=.*", f"\nthreshold={threshold}", re.sub(r"\ntree_sizes=.*", "", trained))
    rows = np.repeat(np.array([[np.nan], [0.0], [-0.0], [-1e-36], [1e-36], [-2.0], [2.0]]), 6, axis=1)

    graph = load_graph(export_spread(parse_forest(text)))

    found = bits(graph.predict(rows)["tree_raw"])
    assert found == lightgbm_bits(lgb.Booster(model_str=text), rows)
    assert found[0] == found[1]


def test_a_forest_without_any_split_is_its_constant(train: Train) -> None:
    booster = train(rounds=1, min_data_in_leaf=100_000)
    rows = np.zeros((3, 6))

    graph = load_graph(export_spread(parse_forest(booster.model_to_string())))

    assert bits(graph.predict(rows)["tree_raw"]) == lightgbm_bits(booster, rows)


@pytest.mark.parametrize("size", [1, 2, 500, 5000])
@pytest.mark.parametrize("columns", [[2], [0, 5], [5, 4, 3, 2, 1, 0]])
def test_the_base_equals_its_kernel_to_the_bit(
    train: Train, adversarial_rows: Rows, columns: list[int], size: int
) -> None:
    forest = parse_forest(train(rounds=5).model_to_string())
    terms = BaseTerms(np.array(columns), np.array([0.1, 1 / 3, 1e-3, 7.7, 1e10, 0.2])[: len(columns)])
    tame = np.random.default_rng(5).normal(size=(4000, 6))
    rows = np.concatenate([adversarial_rows(forest, 1000), tame])
    if size == 1:
        rows = rows[::20]

    with np.errstate(all="ignore"):
        expected = base_sum(rows, terms)

    graph = load_graph(export_mean(forest, terms))
    assert bits(in_batches(graph, rows, size, "base_sum")) == bits(expected)


def test_the_base_adds_in_the_order_of_its_terms() -> None:
    rows = np.array([[1e16, 1.0, -1e16]])

    assert base_sum(rows, BaseTerms(np.array([0, 1, 2]), np.ones(3)))[0] == 0.0
    assert base_sum(rows, BaseTerms(np.array([0, 2, 1]), np.ones(3)))[0] == 1.0


def test_the_same_model_gives_the_same_file(train: Train) -> None:
    export = partial(export_mean, terms=BaseTerms(np.array([1]), np.array([0.5])))

    assert export(parse_forest(train().model_to_string())) == export(parse_forest(train().model_to_string()))


def test_rows_of_another_width_are_refused(train: Train) -> None:
    graph = load_graph(export_spread(parse_forest(train(rounds=2).model_to_string())))

    with pytest.raises(ModelsError, match=r"\(1, 5\)"):
        graph.predict(np.zeros((1, 5)))


def test_a_graph_keeps_nothing_of_batches_that_it_scored(train: Train) -> None:
    graph = load_graph(export_spread(parse_forest(train(rounds=3, objective="huber").model_to_string())))

    kept = graph.session.get_session_options()

    assert (kept.enable_mem_pattern, kept.enable_cpu_mem_arena) == (False, False)


def test_bytes_that_are_open_are_not_opened_again_and_are_closed_with_their_last_user(train: Train) -> None:
    one, other = (export_spread(parse_forest(train(rounds=rounds).model_to_string())) for rounds in (2, 3))
    graph = load_graph(one)
    session = weakref.ref(graph.session)

    assert load_graph(bytes(bytearray(one))) is graph
    assert load_graph(other) is not graph
    del graph
    assert session() is None


def test_nobody_is_told_that_a_graph_is_run_and_no_name_of_the_device_is_kept(train: Train, tmp_path: Path) -> None:
    graph = tmp_path / "graph.onnx"
    graph.write_bytes(export_spread(parse_forest(train(rounds=3, objective="huber").model_to_string())))
    run = (
        "import sys; from pathlib import Path; from models.estimator.onnx_session import load_graph; "
        "load_graph(Path(sys.argv[1]))"
    )
    kept = {name: value for name, value in os.environ.items() if not re.match("ORT_|XDG_|CI$|GITHUB_", name)}

    environment = kept | {"HOME": str(tmp_path / "home")}
    subprocess.run([sys.executable, "-c", run, str(graph)], env=environment, check=True)

    assert not (tmp_path / "home").exists()
