"""Train: monotone on what is served, repeatable, better than the baselines, equal to LightGBM plus the base."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from models.bundle.bundle import load_bundle, write_bundle
from models.bundle.manifest import EntryChoice, Manifest, ModelEntry
from models.calibration.log_link import log_mean
from models.data.dataset import Dataset
from models.data.impute import impute, training_medians
from models.data.splits import leave_group_out
from models.errors import InconsistentDataset
from models.estimator.fitted_model import Placement
from models.estimator.onnx_session import load_graph
from models.estimator.predictor import Predictor, open_predictor
from models.forms.co_runner_choice import Choice
from models.forms.pressure_base import base_sum
from models.metrics.baselines import BASELINES
from models.metrics.errors_and_ranks import evaluate
from models.onnx_export.exporter import export_placement
from models.training.fit import TrainConfig, fit_base_of, fit_placement, fit_residual, out_of_fold_mean, raw_score
from models.training.fit_base import fit_base

Floats = NDArray[np.float64]
Draw = Callable[..., Dataset]

QUICK = TrainConfig(rounds=60, spread_rounds=40, leaves=15, folds=3)


def predictor(placement: Placement) -> Predictor:
    graphs = export_placement(placement)
    return Predictor(placement.medians, load_graph(graphs["mean"]), load_graph(graphs["spread"]))


@pytest.fixture(scope="module")
def data(placements: Draw) -> Dataset:
    return placements(seed=1)


@pytest.fixture(scope="module")
def placement(data: Dataset) -> Placement:
    return fit_placement(data, QUICK)


def counterfactual_rows(
    data: Dataset, rng: np.random.Generator, *, far: float
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Rows mixed from the data and made larger, the same under more pressure and less headroom, and where it rose."""
    n = 20_000
    calm = np.column_stack([rng.choice(column, n) for column in data.features.T]) * rng.uniform(0.5, 2, (n, 6)) * far
    calm[:, :3] = np.nan_to_num(calm[:, :3])
    more: Floats = far * rng.exponential(0.3, (n, 3)) * (rng.random((n, 3)) < 0.5)
    pressed = calm.copy()
    pressed[:, :3] += more
    pressed[:, 3] -= rng.exponential(0.3, n) * (rng.random(n) < 0.5)
    return calm, pressed, (more > 0).sum(axis=1) > 0


@pytest.mark.parametrize("config", [QUICK, replace(QUICK, objective="regression")], ids=["huber", "l2"])
@pytest.mark.parametrize(("seed", "far"), [(1, 1.0), (2, 1.0), (3, 1.0), (1, 20.0), (2, 1e4)])
def test_more_pressure_never_lowers_and_base_pressure_always_raises_what_is_served(
    placements: Draw, config: TrainConfig, seed: int, far: float
) -> None:
    data = placements(seed)
    trained = fit_placement(data, replace(config, min_rows_in_leaf=3 + seed))
    served = predictor(trained)
    calm, pressed, rose = counterfactual_rows(data, np.random.default_rng(seed), far=far)

    before, after = served.predict(calm), served.predict(pressed)

    assert (after.log_mean < before.log_mean).sum() == 0
    assert (after.spread < before.spread).sum() == 0
    assert (after.ratio()[rose] <= before.ratio()[rose]).sum() == 0
    for multiplier in (trained.calibration.pooled, trained.calibration.hierarchical, trained.calibration.node):
        assert (after.upper(multiplier)[rose] <= before.upper(multiplier)[rose]).sum() == 0


def test_what_is_served_is_what_lightgbm_and_the_base_say_to_the_bit(data: Dataset, placement: Placement) -> None:
    known = data.with_features(impute(data.features, placement.medians))
    terms = fit_base_of(known, QUICK)
    rounds = len(placement.residual.roots)
    trees = raw_score(fit_residual(known, terms, replace(QUICK, rounds=rounds)), known.features)
    base = base_sum(known.features, terms)

    served = predictor(placement).predict(data.features)

    assert np.array_equal(served.base_sum, base)
    assert np.array_equal(served.log_mean, log_mean(base, trees))
    assert np.array_equal(served.ratio(), np.exp(log_mean(base, trees)))


def test_the_same_data_and_configuration_give_the_same_files(data: Dataset, placement: Placement) -> None:
    assert export_placement(fit_placement(data, QUICK)) == export_placement(placement)


def errors_on_unseen_groups(data: Dataset, config: TrainConfig) -> dict[str, dict[str, float]]:
    """Predictor -> metric, every row judged by a model that never saw its group."""
    predicted = {name: np.empty(len(data.weight)) for name in (*BASELINES, "ours")}
    for split in leave_group_out(data.group, folds=4):
        seen, unseen = data.rows(split.train), data.rows(split.test)
        trained = fit_placement(seen, config)
        seen, known = (part.with_features(impute(part.features, trained.medians)) for part in (seen, unseen))
        for name, fit in BASELINES.items():
            predicted[name][split.test] = fit(seen).predict(known)
        predicted["ours"][split.test] = predictor(trained).predict(unseen.features).log_mean
    scores = evaluate(data.log_slowdown, predicted, data.group, rng=np.random.default_rng(0), resamples=20)
    return {name: {metric: found.value for metric, found in metrics.items()} for name, metrics in scores.items()}


@pytest.mark.parametrize("seed", [1, 2])
def test_ours_beats_every_baseline_on_unseen_groups_where_pressures_meet_a_cliff(placements: Draw, seed: int) -> None:
    scores = errors_on_unseen_groups(placements(seed, sensitivity_spread=0.1, cliff=0.4), TrainConfig())

    ours = scores.pop("ours")
    for baseline in scores.values():
        assert ours["mae_log"] < 0.95 * baseline["mae_log"]
        assert ours["mape_ratio"] < 0.95 * baseline["mape_ratio"]
        assert ours["spearman"] > baseline["spearman"]


@pytest.mark.parametrize("seed", [1, 2])
def test_where_a_straight_line_is_all_there_is_to_learn_ours_is_not_far_behind(placements: Draw, seed: int) -> None:
    scores = errors_on_unseen_groups(placements(seed), TrainConfig())

    ours = scores.pop("ours")
    assert ours["mae_log"] < 1.03 * min(baseline["mae_log"] for baseline in scores.values())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_served_bounds_cover_new_rows_and_whole_nodes_as_promised(placements: Draw, seed: int) -> None:
    trained = fit_placement(placements(seed, groups=30, sensitivity_spread=0.0), TrainConfig())
    new = placements(seed + 1000, groups=300, sensitivity_spread=0.0)
    said, truth = predictor(trained).predict(new.features), np.exp(new.log_slowdown)

    covered = truth <= said.upper(trained.calibration.pooled)
    missed_nodes = np.unique(new.node_window[truth > said.upper(trained.calibration.node)])

    three_deviations = 3 * np.sqrt(0.9 * 0.1 / trained.calibration.node_windows)
    assert covered.mean() == pytest.approx(0.9, abs=0.02)
    assert 1 - len(missed_nodes) / len(np.unique(new.node_window)) == pytest.approx(0.9, abs=three_deviations)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_served_hierarchical_bound_covers_apps_of_unknown_sensitivity(placements: Draw, seed: int) -> None:
    trained = fit_placement(placements(seed, groups=30), TrainConfig())
    new = placements(seed + 50, groups=30)
    said, truth = predictor(trained).predict(new.features), np.exp(new.log_slowdown)

    covered = truth <= said.upper(trained.calibration.hierarchical)

    per_app = np.bincount(new.group, covered) / np.bincount(new.group)
    assert (per_app >= 0.85).mean() >= 0.9


def test_the_base_finds_the_weights_that_made_the_slowdown() -> None:
    pressure = np.random.default_rng(3).gamma(1.5, 1.0, size=(500, 3)) * [1.0, 100.0, 1e9]
    weights = np.array([0.5, 0.002, 1e-10])

    terms = fit_base(pressure, np.log1p(pressure @ weights), np.ones(500), np.arange(3))

    np.testing.assert_allclose(terms.weights, weights, rtol=1e-3)


def test_a_pressure_that_seems_to_help_still_raises_the_base() -> None:
    pressure = np.random.default_rng(3).random((500, 2))
    label = np.log1p(0.5 * pressure[:, 0]) - 0.1 * pressure[:, 1]

    terms = fit_base(pressure, label, np.ones(500), np.arange(2))

    assert (terms.weights > 0).all()


def test_a_pressure_that_was_never_seen_still_raises_the_base() -> None:
    pressure = np.array([[0.1, 0.0], [0.4, 0.0], [0.9, 0.0]])

    terms = fit_base(pressure, np.log1p(pressure[:, 0]), np.ones(3), np.arange(2))

    assert terms.weights[1] > 0


def test_one_slow_outlier_hardly_moves_the_base() -> None:
    pressure = np.linspace(0, 1, 101)[:, None]
    label = np.log1p(0.5 * pressure[:, 0])
    spoiled = label.copy()
    spoiled[50] = 5.0

    terms = fit_base(pressure, spoiled, np.ones(101), np.array([0]), huber_log_ratio=0.1)

    assert terms.weights[0] == pytest.approx(0.5, rel=0.05)


def test_a_missing_pressure_counts_as_its_training_median(data: Dataset, placement: Placement) -> None:
    served = predictor(placement)
    row = np.array([[np.nan, 0.3, 0.2, np.nan, 0.0, np.nan]])
    filled = row.copy()
    filled[0, 0] = np.nanmedian(data.features[:, 0])

    assert served.predict(row).log_mean == served.predict(filled).log_mean


def test_a_model_predicts_the_same_after_its_way_through_a_bundle(
    tmp_path: Path, data: Dataset, placement: Placement
) -> None:
    entry = ModelEntry(
        files={"mean": "mean.onnx", "spread": "spread.onnx"},
        features=placement.names,
        signs=tuple(placement.signs.tolist()),
        medians=placement.known_medians(),
        calibration=placement.calibration,
        choice=EntryChoice(order=1, weight=0.7, knee=0.2),
    )
    now = datetime(2026, 3, 1, tzinfo=UTC)
    manifest = Manifest(
        created_at=now,
        models={"placement": entry},
        catalogue_hash="c",
        training_window=(now, now),
        data_fingerprint="d",
        platforms=("epyc",),
    )
    graphs = export_placement(placement)
    write_bundle(tmp_path / "b", manifest, {f"{role}.onnx": graph for role, graph in graphs.items()})

    opened = open_predictor(load_bundle(tmp_path / "b", "c"), "placement")
    served = opened.predict(data.features)

    expected = predictor(placement).predict(data.features)
    assert np.array_equal(served.log_mean, expected.log_mean)
    assert np.array_equal(served.upper(1.5), expected.upper(1.5))
    assert opened.choice == Choice(1, 0.7, 0.2)


def test_a_single_group_cannot_be_calibrated(placements: Draw) -> None:
    with pytest.raises(InconsistentDataset, match="one group"):
        fit_placement(placements(seed=1, groups=1), QUICK)


def test_more_trees_are_kept_where_that_costs_unseen_groups_little(placements: Draw) -> None:
    data = placements(1)
    folds = leave_group_out(data.group, folds=3)
    known = data.with_features(impute(data.features, training_medians(data.features, data.base | (data.signs > 0))))

    best, at_best = out_of_fold_mean(known, folds, TrainConfig(rounds=60, tolerance=0.0))
    kept, at_kept = out_of_fold_mean(known, folds, TrainConfig(rounds=60, tolerance=0.1))

    lost = [known.weight @ np.abs(found - known.log_slowdown) for found in (at_best, at_kept)]
    assert kept >= best
    assert lost[0] <= lost[1] <= 1.1 * lost[0]
