"""Familiar: apps learnt from have trees of their own, served exactly and as monotone as all others."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cohabit.training.train_model import entry_of, files_of
from features.schema.catalog import catalogue_hash
from models.bundle.bundle import Bundle, write_bundle
from models.bundle.leakage_guard import PLACEMENT
from models.bundle.manifest import Manifest
from models.data.impute import impute
from models.errors import BundleCorrupt, InconsistentDataset
from models.estimator.fitted_model import Placement
from models.estimator.predictor import Predictor, open_predictor
from models.evaluation.onnx_parity import compare
from models.explain.explainer import open_explainer
from models.training.fit_known_apps import ROUNDS, SHARE, fit_familiar, look_ahead
from models.training.trainer import Trainer, open_fitted, standard_questions
from tests.models.simulated import CONFIG, Simulated

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@pytest.fixture(scope="module")
def rows(learnt: Simulated, placement: Placement) -> Floats:
    return learnt.rows.dataset(placement.medians[: learnt.rows.raw.shape[1]]).features


@pytest.fixture(scope="module")
def bundle(placement: Placement, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    manifest = Manifest(
        created_at=now,
        models={PLACEMENT: entry_of(PLACEMENT, placement)},
        catalogue_hash=catalogue_hash(),
        training_window=(now, now),
        data_fingerprint="0" * 64,
        platforms=("p",),
        metrics={},
    )
    folder: Path = tmp_path_factory.mktemp("familiar")
    return write_bundle(folder / "bundle", manifest, files_of(PLACEMENT, placement))


def flags(rows: Floats, share: float) -> Flags:
    return np.arange(len(rows)) % 10 < 10 * share


def test_apps_learnt_from_have_trees_of_their_own(placement: Placement) -> None:
    assert placement.familiar is not None
    assert placement.familiar.share == SHARE
    assert 0 < len(placement.familiar.residual.roots) <= ROUNDS


def test_they_are_closer_to_what_was_learnt(learnt: Simulated, served: Predictor, rows: Floats) -> None:
    truth = learnt.rows.log_slowdown

    known = np.abs(served.predict(rows, flags(rows, 1.0)).log_mean - truth).mean()
    unknown = np.abs(served.predict(rows).log_mean - truth).mean()

    assert known < unknown


def test_tomorrow_is_told_by_them_and_unseen_apps_are_not(learnt: Simulated) -> None:
    questions = standard_questions(learnt.rows, folds=2, origins=1)
    trainer = Trainer(learnt.rows, CONFIG)

    for name, expected in (("time_forward", True), ("leave_app_out", False)):
        split = questions[name].splits[0]
        model, judged = trainer.model_of(split), learnt.rows.take(split.test)
        assert bool(model.bounds().known(judged.group).any()) is expected


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_row_is_told_the_same_whatever_is_asked_beside_it(served: Predictor, rows: Floats, share: float) -> None:
    known = flags(rows[:200], share)

    together = served.predict(rows[:200], known)
    alone = [served.predict(rows[i : i + 1], known[i : i + 1]) for i in range(200)]

    assert together.log_mean.tolist() == [one.log_mean[0] for one in alone]
    assert together.base_sum.tolist() == [one.base_sum[0] for one in alone]


def test_more_pressure_never_lowers_and_base_pressure_always_raises(
    served: Predictor, placement: Placement, rows: Floats
) -> None:
    rng = np.random.default_rng(0)
    calm = impute(rows, placement.medians)[rng.integers(0, len(rows), 5000)]
    more = rng.exponential(0.3, calm.shape) * (rng.random(calm.shape) < 0.2)
    pressed = calm + np.where(placement.signs > 0, more, 0.0) - np.where(placement.signs < 0, more, 0.0)
    all_known = flags(calm, 1.0)

    before, after = served.predict(calm, all_known), served.predict(pressed, all_known)

    assert (after.log_mean < before.log_mean).sum() == 0
    rose = (pressed > calm)[:, placement.base().columns].any(axis=1)
    assert (after.ratio()[rose] <= before.ratio()[rose]).sum() == 0


def test_both_graphs_say_what_lightgbm_says_to_the_bit(learnt: Simulated, placement: Placement) -> None:
    plain = compare(learnt.rows, placement_without(placement), CONFIG)

    both = compare(learnt.rows, placement, CONFIG)

    assert both.differing == 0
    assert both.rows > plain.rows


def placement_without(placement: Placement) -> Placement:
    return Placement(**{**vars(placement), "familiar": None})


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_bundle_serves_what_was_trained(bundle: Bundle, served: Predictor, rows: Floats, share: float) -> None:
    known = flags(rows, share)

    assert (
        open_predictor(bundle, PLACEMENT).predict(rows, known).log_mean == served.predict(rows, known).log_mean
    ).all()


@pytest.mark.parametrize("known", [False, True])
def test_contributions_add_up_for_either(bundle: Bundle, rows: Floats, *, known: bool) -> None:
    predictor, explainer = open_predictor(bundle, PLACEMENT), open_explainer(bundle, PLACEMENT, known=known)

    found = explainer.explain(rows[:50])

    told = predictor.predict(rows[:50], np.full(50, known)).log_mean
    np.testing.assert_allclose(found.expected + found.by_feature.sum(axis=1), told, rtol=1e-9, atol=1e-9)


def test_a_graph_without_its_share_is_no_manifest(placement: Placement) -> None:
    entry = entry_of(PLACEMENT, placement)

    with pytest.raises(ValueError, match="go together"):
        type(entry).model_validate({**entry.model_dump(), "seen_share": None})


@pytest.mark.parametrize("known", [np.zeros(3, np.bool_), np.zeros(0, np.bool_), np.zeros(10, np.int64)])
def test_flags_that_are_not_one_a_row_are_refused(served: Predictor, rows: Floats, known: Flags) -> None:
    with pytest.raises(InconsistentDataset, match="one flag a row"):
        served.predict(rows[:10], known)


@pytest.mark.parametrize(("role", "other"), [("familiar", "spread"), ("spread", "mean"), ("mean", "spread")])
def test_a_graph_in_anothers_place_is_refused_by_name(bundle: Bundle, role: str, other: str) -> None:
    entry = bundle.manifest.models[PLACEMENT]
    files = {**bundle.files, entry.files[role]: bundle.files[entry.files[other]]}

    with pytest.raises(BundleCorrupt, match=entry.files[role]):
        open_predictor(Bundle(bundle.directory, bundle.manifest, files), PLACEMENT)


def test_where_they_are_no_better_there_are_none(learnt: Simulated, placement: Placement) -> None:
    known = learnt.rows.dataset(placement.medians[: learnt.rows.raw.shape[1]])
    known = known.with_features(impute(known.features, placement.medians))

    assert fit_familiar(known, placement.base(), 0, CONFIG) is None
    assert open_fitted(placement_without(placement)).familiar is None
    ahead = look_ahead(known, len(placement.residual.roots), CONFIG)
    assert ahead is not None
    assert ahead.rounds <= ROUNDS
