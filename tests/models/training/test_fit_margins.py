"""Fit margins: each multiplier comes from models that knew as little as those it is served with."""

import numpy as np

from features.training.model_input import training_fills
from models.bundle.margins import ENOUGH_WINDOWS, FEW_WINDOWS, Margins
from models.data.impute import impute
from models.estimator.fitted_model import Placement
from models.training.fit import TrainConfig, train
from models.training.fit_known_apps import look_ahead
from models.training.fit_margins import fit_margins, left_out_errors
from tests.models.simulated import CONFIG, Simulated

QUICK = TrainConfig(rounds=5, spread_rounds=5, folds=2)


def test_the_less_is_known_of_an_app_the_wider_its_bound(placement: Placement) -> None:
    bounds = placement.bounds()

    assert bounds.floor > 0
    assert 0 < bounds.seen < bounds.unseen <= 1.5 * bounds.cold


def test_own_margins_are_of_apps_that_were_learnt_from(learnt: Simulated, placement: Placement) -> None:
    bounds = placement.bounds()

    assert len(bounds.group) > 0
    assert set(bounds.group) <= set(learnt.rows.group)
    assert (bounds.windows >= FEW_WINDOWS).all()
    started = bounds.windows < ENOUGH_WINDOWS
    assert (bounds.own[started] >= bounds.seen).all()


def test_looking_ahead_judges_later_rows_only(learnt: Simulated) -> None:
    rows = learnt.rows
    known = train(rows.dataset(training_fills(rows.raw)), QUICK).known

    ahead = look_ahead(known, 5, QUICK)

    assert ahead is not None
    assert len(ahead.error) == ahead.chosen.sum()
    assert known.time[ahead.chosen].min() > np.quantile(known.time, 0.3)


def test_apps_without_a_profile_are_judged_without_it_and_by_models_that_left_them_out(learnt: Simulated) -> None:
    rows, fills = learnt.rows, training_fills(learnt.rows.raw)
    trained = train(rows.dataset(fills), QUICK)
    cold = impute(rows.without_profile().dataset(fills).features, trained.placement.medians)

    warm_error, cold_error = left_out_errors(trained.known, cold, QUICK)
    own_error = left_out_errors(trained.known, trained.known.features, QUICK)

    assert np.abs(cold_error).mean() > np.abs(warm_error).mean()
    np.testing.assert_array_equal(own_error[0], own_error[1])


def test_rows_of_one_moment_know_no_tomorrow_and_bound_every_app_as_unseen(learnt: Simulated) -> None:
    rows = learnt.rows
    rows = type(rows)(**{**vars(rows), "time": np.zeros_like(rows.time)})
    fills = training_fills(rows.raw)

    trained = train(rows.dataset(fills), QUICK)
    ahead = look_ahead(trained.known, 5, QUICK)
    found = fit_margins(rows, fills, trained, ahead, config=QUICK)

    assert ahead is None
    assert found.seen == found.unseen
    assert (found.tier(rows.group, rows.profiled()) <= Margins.UNSEEN).all()


def test_the_same_rows_give_the_same_margins(learnt: Simulated, placement: Placement) -> None:
    fills = training_fills(learnt.rows.raw)

    trained = train(learnt.rows.dataset(fills), CONFIG)
    ahead = look_ahead(trained.known, len(trained.placement.residual.roots), CONFIG)
    again = fit_margins(learnt.rows, fills, trained, ahead, config=CONFIG)

    assert again.own.tolist() == placement.bounds().own.tolist()
    assert (again.seen, again.unseen, again.cold) == tuple(
        getattr(placement.bounds(), name) for name in ("seen", "unseen", "cold")
    )
