"""Search: whoever is chosen was chosen without the apps that judge, and the default is one of the candidates."""

from dataclasses import replace

import numpy as np
import pytest

from models.data.splits import leave_group_out
from models.errors import InconsistentDataset
from models.estimator.feature_matrix import Rows
from models.estimator.fitted_model import Placement
from models.training.fit import TrainConfig
from models.training.trainer import fit, open_fitted
from models.training.tuning import SPACE, Effort, drawn, halving, predicted, search
from tests.models.simulated import Simulated

QUICK = TrainConfig(rounds=20, learning_rate=0.1, spread_rounds=5, folds=2)
LITTLE = Effort(candidates=3, outer=2, inner=2, resamples=20)


@pytest.fixture(scope="module")
def few(learnt: Simulated) -> Rows:
    """Every fourth row."""
    return learnt.rows.take(np.arange(len(learnt.rows.group)) % 4 == 0)


def silent(_: str) -> None:
    """Nobody is told."""


def test_candidates_differ_come_from_the_space_and_begin_with_the_default() -> None:
    found = drawn(QUICK, Effort(candidates=40, seed=3))

    assert found[0] == QUICK
    assert len(set(found)) == 41
    for config in found[1:]:
        assert all(getattr(config, name) in values for name, values in SPACE.items())
        assert all(type(getattr(config, name)) is type(getattr(QUICK, name)) for name in SPACE)
    assert found == drawn(QUICK, Effort(candidates=40, seed=3))
    assert found != drawn(QUICK, Effort(candidates=40, seed=4))


def test_the_mean_that_is_searched_is_the_mean_that_is_served(learnt: Simulated, few: Rows) -> None:
    split = leave_group_out(few.group, folds=2)[0]
    served: Placement = fit(few.take(split.train), QUICK)

    said = open_fitted(served).predict(few.take(split.test).dataset(served.medians[: few.raw.shape[1]]).features)

    np.testing.assert_array_equal(predicted(few, split, QUICK), said.log_mean)


def test_a_third_goes_on_to_all_inner_folds_and_so_does_the_default(few: Rows) -> None:
    told: list[str] = []
    configs = drawn(QUICK, Effort(candidates=8))

    errors = halving(few, configs, LITTLE, told.append)

    going_on = np.flatnonzero(np.isfinite(errors))
    assert 0 in going_on
    assert 3 <= len(going_on) <= 4
    assert sum("first inner fold" in line for line in told) == 9
    assert sum("all inner folds" in line for line in told) == len(going_on)


def test_inner_choices_never_see_the_apps_that_judge(few: Rows) -> None:
    wild = replace(few, log_slowdown=np.where(few.group == few.group[0], 3.0, few.log_slowdown))

    found, other = (search(rows, QUICK, LITTLE, silent) for rows in (few, wild))

    split = next(s for s in leave_group_out(few.group, folds=2) if few.group[0] in few.group[s.test])
    configs = drawn(QUICK, LITTLE)
    before, after = (halving(rows.take(split.train), configs, LITTLE, silent) for rows in (few, wild))
    np.testing.assert_array_equal(before, after)
    assert other.default.value > found.default.value


def test_what_is_told_agrees_with_itself(few: Rows) -> None:
    found = search(few, QUICK, LITTLE, silent)

    assert found.candidates[0].config == QUICK
    assert sum(one.chosen for one in found.candidates) == LITTLE.outer
    assert found.candidates[0].inner == 0.0
    assert found.candidates[0].outer == pytest.approx(found.default.value)
    assert found.gain.value == pytest.approx(found.default.value - found.nested.value)
    assert all(np.isfinite(one.outer) == (one.chosen > 0 or k == 0) for k, one in enumerate(found.candidates))
    assert search(few, QUICK, LITTLE, silent).nested == found.nested


def test_a_default_that_learns_nothing_loses(few: Rows) -> None:
    hopeless = replace(QUICK, huber_log_ratio=1e-6, rounds=1)

    found = search(few, hopeless, replace(LITTLE, candidates=5, resamples=200), silent)

    assert found.default_loses
    assert found.gain.low > 0


def test_one_app_is_too_few(few: Rows) -> None:
    with pytest.raises(InconsistentDataset):
        search(few.take(few.group == few.group[0]), QUICK, LITTLE, silent)
