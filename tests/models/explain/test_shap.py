"""Attribution: exact Shapley values equal to LightGBM's and to their definition, path sums beside a naive walk."""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import combinations
from math import comb

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.errors import ModelsError
from models.explain.shap import Attribution, base_attribution, path_attribution, tree_shap
from models.explain.tree_paths import paths_of
from models.forms.pressure_base import BaseTerms, base_sum
from models.forms.tree_arrays import ZERO_BAND, Forest, absorb_zero_flush, parse_forest

Floats = NDArray[np.float64]
Train = Callable[..., lgb.Booster]
Rows = Callable[[Forest, int], Floats]
AWKWARD = (np.nan, np.inf, -np.inf, 0.0, 1e-36, -1e-36, ZERO_BAND, -ZERO_BAND, 1e-34, 1e300)

MODELS: dict[str, dict[str, object]] = {
    "huber": {"objective": "huber"},
    "gamma": {"objective": "gamma"},
    "dart": {"boosting": "dart"},
    "bagging": {"bagging_freq": 1, "bagging_fraction": 0.5, "feature_fraction": 0.6},
    "goss": {"data_sample_strategy": "goss"},
    "monotone": {"monotone_constraints": [1, -1, 1, 0, 0, 0], "monotone_constraints_method": "basic"},
    "deep": {"num_leaves": 60, "min_data_in_leaf": 1, "learning_rate": 0.3},
    "stumps": {"num_leaves": 2},
    "extra trees": {"extra_trees": True},
    "quantised": {"use_quantized_grad": True},
    "constants": {"min_data_in_leaf": 100_000},
}


def lightgbm_says(booster: lgb.Booster, rows: Floats) -> Floats:
    """(n, d + 1) contributions and, last, the expected value."""
    return np.asarray(booster.predict(rows, pred_contrib=True, num_threads=1), dtype=np.float64)


def random_forest(rng: np.random.Generator, trees: int = 3, width: int = 4, max_leaves: int = 9) -> Forest:
    """Trees of any shape, with values near zero as thresholds and features that split again on their own path."""
    header = f"tree\nversion=v4\nnum_tree_per_iteration=1\nmax_feature_idx={width - 1}\n"
    grown = [_random_tree(rng, width, int(rng.integers(1, max_leaves + 1))) for _ in range(trees)]
    return parse_forest(header + "".join(grown))


def _random_tree(rng: np.random.Generator, width: int, leaves: int) -> str:
    """As LightGBM writes one: leaves are split one after the other, in any order."""
    children: list[list[int]] = []
    free: list[tuple[int, int]] = []
    for node in range(leaves - 1):
        if free:
            above, side = free.pop(rng.integers(len(free)))
            children[above][side] = node
        children.append([0, 0])
        free += [(node, 0), (node, 1)]
    for leaf, (above, side) in enumerate(free):
        children[above][side] = ~leaf
    pool = [*(x for x in AWKWARD if not np.isnan(x)), *rng.normal(size=4)]
    fields: dict[str, Iterable[object]] = {
        "split_feature": rng.integers(0, width, leaves - 1),
        "threshold": [repr(float(x)) for x in rng.choice(pool, leaves - 1)],
        "decision_type": rng.choice([0, 2, 8, 10], leaves - 1),
        "left_child": [left for left, _ in children],
        "right_child": [right for _, right in children],
        "leaf_value": rng.normal(size=leaves),
        "leaf_count": rng.integers(1, 1000, leaves),
    }
    return "\nTree=0\n" + "\n".join(f"{k}={' '.join(map(str, v))}" for k, v in fields.items())


def random_rows(rng: np.random.Generator, forest: Forest, count: int) -> Floats:
    pool = np.concatenate([forest.threshold, AWKWARD, rng.normal(size=5)])
    return rng.choice(pool, (count, forest.width))


def goes_left(row: Floats, forest: Forest, node: int) -> bool:
    value = row[forest.feature[node]]
    return bool(forest.nan_left[node] if np.isnan(value) else value <= absorb_zero_flush(forest.threshold)[node])


def mean_below(forest: Forest, at: int, row: Floats, known: frozenset[int]) -> tuple[float, float]:
    """Value and cover below a child, known features going the row's way, others both ways by cover: the definition."""
    if at < 0:
        return float(forest.leaf_value[~at]), float(forest.leaf_cover[~at])
    left, right = (mean_below(forest, int(side[at]), row, known) for side in (forest.left, forest.right))
    cover = left[1] + right[1]
    if int(forest.feature[at]) in known:
        return (left if goes_left(row, forest, at) else right)[0], cover
    return (left[0] * left[1] + right[0] * right[1]) / cover, cover


def by_definition(row: Floats, forest: Forest) -> Floats:
    """Shapley values as the weighted sum over all sets of the others."""

    def worth(known: tuple[int, ...]) -> float:
        return sum(mean_below(forest, int(root), row, frozenset(known))[0] for root in forest.roots)

    found = np.zeros(forest.width)
    for feature in range(forest.width):
        others = [f for f in range(forest.width) if f != feature]
        for size in range(forest.width):
            share = 1 / (forest.width * comb(forest.width - 1, size))
            found[feature] += share * sum(worth((*s, feature)) - worth(s) for s in combinations(others, size))
    return found


def by_walking(row: Floats, forest: Forest) -> Floats:
    """Changes of the mean on the way down, one node after the other."""
    found = np.zeros(forest.width)
    for root in forest.roots:
        at = int(root)
        while at >= 0:
            below = int((forest.left if goes_left(row, forest, at) else forest.right)[at])
            found[forest.feature[at]] += (
                mean_below(forest, below, row, frozenset())[0] - mean_below(forest, at, row, frozenset())[0]
            )
            at = below
    return found


def close(found: Attribution, expected: Floats) -> None:
    """Equal within 1e-9, relative to each value, and to 1e-12 of the largest where values cancel."""
    largest = np.abs(expected).max()
    np.testing.assert_allclose(found.by_feature, expected[:, :-1], rtol=1e-9, atol=1e-12 * largest)
    np.testing.assert_allclose(found.expected, expected[0, -1], rtol=1e-9, atol=1e-12 * largest)


@pytest.mark.parametrize("missing_share", [0.0, 0.1], ids=["trained without NaN", "trained with NaN"])
@pytest.mark.parametrize("name", MODELS)
def test_exact_values_equal_pred_contrib_on_adversarial_rows(
    train: Train, adversarial_rows: Rows, name: str, missing_share: float
) -> None:
    booster = train(missing_share=missing_share, **MODELS[name])
    forest = parse_forest(booster.model_to_string())
    rows = adversarial_rows(forest, 150)

    close(tree_shap(rows, paths_of(forest)), lightgbm_says(booster, rows))


@pytest.mark.parametrize("name", MODELS)
def test_both_add_up_to_the_raw_score(train: Train, adversarial_rows: Rows, name: str) -> None:
    booster = train(missing_share=0.1, **MODELS[name])
    forest = parse_forest(booster.model_to_string())
    rows = adversarial_rows(forest, 100)

    raw = np.asarray(booster.predict(rows, raw_score=True, num_threads=1))

    for found in (tree_shap(rows, paths_of(forest)), path_attribution(rows, paths_of(forest))):
        np.testing.assert_allclose(found.expected + found.by_feature.sum(axis=1), raw, rtol=1e-9, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    leaves=st.integers(2, 20),
    missing_share=st.sampled_from([0.0, 0.3]),
    signs=st.lists(st.sampled_from([-1, 0, 1]), min_size=4, max_size=4),
    weights=st.sampled_from(["no weights", "uneven weights"]),
)
def test_exact_values_equal_pred_contrib_for_any_model(
    seed: int, leaves: int, missing_share: float, signs: list[int], weights: str
) -> None:
    rng = np.random.default_rng(seed)
    features = np.round(rng.normal(size=(200, 4)), 1) * [1, 1e-35, 1e6, 1]
    features[rng.random(features.shape) < missing_share] = np.nan
    label = np.nan_to_num(features) @ [1, 1e35, 1e-6, 0] + rng.normal(size=200)
    weight = rng.gamma(0.5, size=200) + 0.01 if weights == "uneven weights" else None
    fixed = {"num_leaves": leaves, "min_data_in_leaf": 3, "num_threads": 1, "verbosity": -1, "deterministic": True}
    booster = lgb.train({**fixed, "monotone_constraints": signs}, lgb.Dataset(features, label, weight=weight), 5)
    forest = parse_forest(booster.model_to_string())
    rows = np.concatenate([features[:10], random_rows(rng, forest, 30)])

    close(tree_shap(rows, paths_of(forest)), lightgbm_says(booster, rows))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_exact_values_are_shapleys_by_their_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    forest = random_forest(rng)
    rows = random_rows(rng, forest, 3)

    found = tree_shap(rows, paths_of(forest)).by_feature

    np.testing.assert_allclose(found, [by_definition(row, forest) for row in rows], rtol=1e-9, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_path_attribution_is_a_walk_down_each_tree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    forest = random_forest(rng)
    rows = random_rows(rng, forest, 3)

    found = path_attribution(rows, paths_of(forest)).by_feature

    np.testing.assert_allclose(found, [by_walking(row, forest) for row in rows], rtol=1e-9, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
@pytest.mark.parametrize("attribution", [path_attribution, tree_shap])
def test_names_do_not_matter_and_who_decides_nothing_gets_nothing(
    attribution: Callable[..., Attribution], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    forest = random_forest(rng)
    rows = random_rows(rng, forest, 4)
    place = rng.permutation(forest.width + 2)
    wider = replace(forest, width=forest.width + 2, feature=place[forest.feature])
    elsewhere = rng.normal(size=(4, forest.width + 2))
    elsewhere[:, place[: forest.width]] = rows

    here, there = attribution(rows, paths_of(forest)), attribution(elsewhere, paths_of(wider))

    np.testing.assert_allclose(there.by_feature[:, place[: forest.width]], here.by_feature, rtol=1e-9, atol=1e-12)
    unused = ~np.isin(np.arange(wider.width), wider.feature[wider.left != wider.right])
    assert (there.by_feature[:, unused] == 0).all()
    assert there.expected == here.expected


def conjunction() -> Forest:
    """1 where both features are above 0, else 0; three of four rows are not."""
    return Forest(
        width=2,
        feature=np.array([0, 1]),
        threshold=np.array([0.0, 0.0]),
        nan_left=np.array([True, True]),
        left=np.array([-1, -2]),
        right=np.array([1, -3]),
        leaf_value=np.array([0.0, 0.0, 1.0]),
        leaf_cover=np.array([20, 10, 10]),
        roots=np.array([0]),
    )


def test_exact_values_share_evenly_between_equals_and_paths_favour_the_lower_split() -> None:
    both = np.array([[1.0, 1.0]])

    exact, by_path = tree_shap(both, paths_of(conjunction())), path_attribution(both, paths_of(conjunction()))

    assert exact.expected == by_path.expected == 0.25
    np.testing.assert_allclose(exact.by_feature, [[0.375, 0.375]], rtol=1e-15)
    np.testing.assert_allclose(by_path.by_feature, [[0.25, 0.5]], rtol=1e-15)


def test_a_path_may_ask_for_thirty_features() -> None:
    k = 30
    chain = Forest(
        width=k,
        feature=np.arange(k),
        threshold=np.zeros(k),
        nan_left=np.ones(k, np.bool_),
        left=~np.arange(k),
        right=np.append(np.arange(1, k), ~k),
        leaf_value=np.append(np.zeros(k), 1.0),
        leaf_cover=np.append(2 ** np.arange(k, 0, -1), 2),
        roots=np.array([0]),
    )

    found = tree_shap(np.ones((1, k)), paths_of(chain))

    np.testing.assert_allclose(found.by_feature, (1 - found.expected) / k, rtol=1e-9)


def test_the_cover_is_the_count_of_rows_and_not_their_weight() -> None:
    rng = np.random.default_rng(3)
    features, weight = rng.normal(size=(300, 3)), rng.gamma(0.3, size=300) + 1e-3
    data = lgb.Dataset(features, features[:, 0] + features[:, 1] ** 2, weight=weight)
    booster = lgb.train({"num_leaves": 6, "num_threads": 1, "verbosity": -1}, data, 3)
    text = booster.model_to_string()
    forest = parse_forest(text)
    heavy = np.concatenate([np.array(w.split(), float) for w in re.findall(r"leaf_weight=(.*)", text)])

    weighed = tree_shap(features, paths_of(replace(forest, leaf_cover=heavy)))

    close(tree_shap(features, paths_of(forest)), lightgbm_says(booster, features))
    assert np.abs(weighed.by_feature - lightgbm_says(booster, features)[:, :-1]).max() > 1e-3


@pytest.mark.parametrize("name", [name for name in MODELS if name != "constants"])
def test_the_count_of_a_node_is_that_of_its_leaves(train: Train, name: str) -> None:
    text = train(missing_share=0.1, rounds=20, **MODELS[name]).model_to_string()
    forest = parse_forest(text)

    told = np.concatenate([np.array(c.split(), int) for c in re.findall(r"internal_count=(.*)", text)])

    nothing = np.zeros(forest.width)
    assert [mean_below(forest, node, nothing, frozenset())[1] for node in range(len(told))] == told.tolist()


def test_a_row_is_explained_the_same_alone_and_among_thousands(train: Train, adversarial_rows: Rows) -> None:
    forest = parse_forest(train(missing_share=0.1).model_to_string())
    rows, paths = adversarial_rows(forest, 5000), paths_of(forest)

    together = path_attribution(rows, paths).by_feature

    alone = [path_attribution(row[None], paths).by_feature[0] for row in rows[::500]]
    np.testing.assert_array_equal(together[::500], alone)


@pytest.mark.parametrize("attribution", [path_attribution, tree_shap])
def test_no_rows_give_no_contributions_and_other_widths_are_refused(
    attribution: Callable[..., Attribution],
) -> None:
    assert attribution(np.empty((0, 2)), paths_of(conjunction())).by_feature.shape == (0, 2)
    with pytest.raises(ModelsError, match=r"\(1, 3\)"):
        attribution(np.zeros((1, 3)), paths_of(conjunction()))


terms_of = st.lists(st.floats(0, 1e6), min_size=3, max_size=3)


@given(pressure=terms_of, weights=terms_of)
def test_the_base_is_divided_in_proportion_to_its_terms(pressure: list[float], weights: list[float]) -> None:
    rows = np.array([[pressure[0], 99.0, pressure[1], pressure[2]]])
    terms = BaseTerms(np.array([0, 2, 3]), np.array(weights))

    found = base_attribution(rows, terms)

    assert found.sum() == pytest.approx(np.log1p(base_sum(rows, terms))[0], rel=1e-12, abs=1e-300)
    assert found[0, 1] == 0
    share, product = found[0, [0, 2, 3]], np.array(pressure) * weights
    np.testing.assert_allclose(share * product.sum(), product * found.sum(), rtol=1e-9, atol=1e-300)


def test_the_base_is_the_integral_of_its_gradient_from_no_pressure() -> None:
    rows, terms = np.array([[0.5, 2.0, 0.0]]), BaseTerms(np.array([0, 1, 2]), np.array([1.0, 0.75, 3.0]))
    at, weight = np.polynomial.legendre.leggauss(40)

    gradient = [terms.weights / (1 + base_sum(t * rows, terms)) for t in (at + 1) / 2]

    np.testing.assert_allclose(base_attribution(rows, terms), rows * (weight / 2 @ gradient), rtol=1e-12)


def test_no_pressure_adds_nothing() -> None:
    assert base_attribution(np.zeros((2, 3)), BaseTerms(np.array([0, 2]), np.ones(2))).tolist() == [[0.0] * 3] * 2
