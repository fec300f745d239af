"""Learn: better than the baselines on rows it never saw, honest bounds, and truthful about neighbours once exported."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from features.contention.node_state import capacities
from features.contention.pressure import Members
from features.schema.catalog import FEATURE_NAMES, FEATURES, PRESSURES, RAW, RAW_NAMES, RESOURCES
from features.training.model_input import FILLED, complete, node_matrix, profile_matrix, raw_features, training_fills
from features.training.residents import newest_profile
from features.training.rows import joining_pressure
from ingest.simulator.law import PLATFORMS, SaturatingLaw, counters
from ingest.simulator.messages import app_name
from ingest.simulator.simulate import hidden_apps
from models.calibration.log_link import upper_ratio
from models.estimator.feature_matrix import with_fills
from models.estimator.fitted_model import Placement
from models.estimator.predictor import Predictor
from models.metrics.errors_and_ranks import spearman
from models.training.fit import TrainConfig
from models.training.trainer import OURS, Metrics, Trainer, judge, standard_questions
from tests.models.simulated import CONFIG, PLAN, Simulated

Floats = NDArray[np.float64]
RISING = [i for i, f in enumerate(RAW) if f.sign > 0]
IN_BASE = [RAW_NAMES.index(name) for name in PRESSURES]
ASKED = ("time_forward", "leave_app_out", "cold_app")


@pytest.fixture(scope="module")
def report(learnt: Simulated) -> dict[str, Metrics]:
    """How models that never saw the rows did on them."""
    questions, rng = standard_questions(learnt.rows, folds=3, origins=1), np.random.default_rng(0)
    trainer = Trainer(learnt.rows, CONFIG)
    return {name: trainer.judge(questions[name], lambda _: None).metrics(rng) for name in ASKED}


@pytest.mark.parametrize("question", ["time_forward", "leave_app_out"])
@pytest.mark.parametrize("baseline", ["constant", "group_mean", "sum_of_pressure"])
def test_ours_beats_the_baseline_on_rows_it_never_saw(report: dict[str, Metrics], question: str, baseline: str) -> None:
    ours, theirs = report[question][OURS], report[question][baseline]

    assert ours["mae_log"].value < theirs["mae_log"].value
    assert ours["spearman"].value > theirs["spearman"].value


@pytest.mark.parametrize("question", ASKED)
def test_the_bound_holds_at_least_as_often_as_it_says(report: dict[str, Metrics], question: str) -> None:
    assert 0.88 <= report[question][OURS]["coverage90"].value <= 0.999


def test_whoever_is_judged_was_not_learnt_from(learnt: Simulated) -> None:
    for name, question in standard_questions(learnt.rows, folds=3, origins=2).items():
        for split in question.splits:
            assert not (split.train & split.test).any()
            if name == "time_forward":
                assert learnt.rows.time[split.train].max() < learnt.rows.time[split.test].min() - 300_000_000
            else:
                assert not set(learnt.rows.group[split.train]) & set(learnt.rows.group[split.test])


def test_models_of_unseen_apps_are_trained_once_for_both_questions_and_say_the_same(learnt: Simulated) -> None:
    rows = learnt.rows.take(np.arange(len(learnt.rows.time)) % 4 == 0)
    questions, quick = standard_questions(rows, folds=2, origins=1), TrainConfig(2, 2, folds=2)
    trainer = Trainer(rows, quick)

    known, cold = (trainer.judge(questions[name], lambda _: None) for name in ("leave_app_out", "cold_app"))

    alone = judge(rows, questions["cold_app"], quick, lambda _: None)
    assert len(trainer.done) == 2
    np.testing.assert_array_equal(cold.predicted[OURS], alone.predicted[OURS])
    assert not np.array_equal(cold.predicted[OURS], known.predicted[OURS])
    np.testing.assert_array_equal(rows.log_slowdown[known.where], known.rows.log_slowdown)
    assert sorted(known.where) == list(range(len(rows.time)))


def mixed(rows: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Rows whose columns come from different training rows."""
    return np.column_stack([rng.choice(column, n) for column in rows.T])


def asked(served: Predictor, raw: Floats) -> tuple[Floats, Floats]:
    """What is served for raw features: log mean and spread."""
    said = served.predict(complete(raw, served.medians[: len(RAW_NAMES)]))
    return said.log_mean, said.spread


@pytest.mark.parametrize("seed", range(4))
def test_more_pressure_never_lowers_what_is_served_and_raises_the_mean(
    learnt: Simulated, placement: Placement, served: Predictor, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    calm = mixed(learnt.rows.raw, 5000, rng)
    more = rng.exponential(0.3, calm.shape) * (rng.random(calm.shape) < 0.3)
    pressed = calm.copy()
    pressed[:, RISING] += more[:, RISING]
    rose = ((more > 0) & np.isfinite(calm))[:, IN_BASE].any(axis=1)

    (mean, spread), (mean_after, spread_after) = asked(served, calm), asked(served, pressed)

    assert (mean_after < mean).sum() == 0
    assert (mean_after[rose] <= mean[rose]).sum() == 0
    bounds, before = placement.bounds(), upper_ratio(mean, spread, placement.calibration.node)
    assert (upper_ratio(mean_after, spread_after, placement.calibration.node) < before).sum() == 0
    for multiplier in (bounds.seen, bounds.unseen, bounds.cold, *bounds.own):
        before = upper_ratio(mean, spread + bounds.floor, multiplier)
        assert (upper_ratio(mean_after, spread_after + bounds.floor, multiplier) < before).sum() == 0


@dataclass(frozen=True)
class Situations:
    """n times a container of an app on a node beside neighbours, and what is true of it.

    Args:
        raw: (n, raw features) as serving would describe it.
        slowdown: (n,) by the law.
    """

    raw: Floats
    slowdown: Floats


@pytest.fixture(scope="module")
def alternatives(learnt: Simulated) -> tuple[Situations, Situations]:
    """Random situations, and the same with one more neighbour."""
    rng = np.random.default_rng(3)
    n, apps, most = 600, PLAN.apps, 14
    victim, platform, load = rng.integers(apps, size=n), rng.integers(len(PLATFORMS), size=n), np.full(n, 0.6)
    beside, size = rng.integers(apps, size=(n, most)), rng.integers(1, most, size=n)
    fewer = np.arange(most) < size[:, None]
    more = np.arange(most) < size[:, None] + 1
    return tuple(situations(learnt, victim, platform, load, beside, inside) for inside in (fewer, more))  # type: ignore[return-value]


def situations(
    learnt: Simulated,
    victim: NDArray[np.int64],
    platform: NDArray[np.int64],
    load: Floats,
    beside: NDArray[np.int64],
    inside: NDArray[np.bool_],
) -> Situations:
    """Victims beside some of the candidates, all at the same load, described from what the counters show."""
    law = SaturatingLaw(hidden_apps(PLAN))
    n, apps = len(victim), PLAN.apps
    counts = np.zeros((n, apps))
    row, column = np.nonzero(inside)
    np.add.at(counts, (row, beside[row, column]), load[row])
    calm = np.ones(len(row))
    shown = counters(law.apps, beside[row, column], load[row], slowdown=calm, platform=platform[row], rng=Noiseless(0))
    unknown = np.full(len(row), np.nan)
    nodes = learnt.sources.nodes
    where = nodes.take([nodes["platform"].to_pylist().index(PLATFORMS[p].name) for p in platform])
    home = Members(
        group=row,
        use=np.column_stack([np.sum([shown.get(c, unknown) for c in r.usage], axis=0) for r in RESOURCES]),
        capacity=capacities(where)[row],
        best_effort=law.apps.best_effort[beside[row, column]],
        cpuset=[None] * len(row),
    )
    pressure = joining_pressure(home, np.arange(n), capacities(where))
    keys = where.select(["cluster", "platform"]).append_column("app", [[app_name(int(a)) for a in victim]])
    forever = np.full(n, 2**62)
    profile = profile_matrix(newest_profile(keys, forever, learnt.sources.profiles))
    truth = law.slowdown(victim, counts, load, platform)
    return Situations(raw_features(pressure, profile, node_matrix(where)), truth)


class Noiseless(np.random.Generator):
    """A generator whose noise is always one, so that counters show demand."""

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.PCG64(seed))

    def lognormal(self, mean: float = 0.0, sigma: float = 1.0, size: object = None) -> Floats:  # type: ignore[override]
        return np.ones(size)  # type: ignore[call-overload,no-any-return]


def test_a_further_neighbour_raises_what_is_served_where_it_raises_the_truth(
    placement: Placement, served: Predictor, alternatives: tuple[Situations, Situations]
) -> None:
    fewer, more = alternatives

    (mean, spread), (mean_after, spread_after) = asked(served, fewer.raw), asked(served, more.raw)

    rises = more.slowdown > fewer.slowdown
    assert rises.mean() > 0.95
    assert (mean_after[rises] > mean[rises]).all()
    bounds = placement.bounds()
    for multiplier in (bounds.seen, bounds.unseen, bounds.cold, *bounds.own):
        before = upper_ratio(mean, spread + bounds.floor, multiplier)
        assert (upper_ratio(mean_after, spread_after + bounds.floor, multiplier) >= before).all()


def test_what_is_served_ranks_situations_as_the_truth_does(
    served: Predictor, alternatives: tuple[Situations, Situations]
) -> None:
    fewer, _ = alternatives

    predicted, _ = asked(served, fewer.raw)

    assert spearman(np.log(fewer.slowdown), predicted) > 0.7


def gaps(learnt: Simulated) -> dict[str, Floats]:
    """Training rows as they are, and with what serving may lack."""
    raw = learnt.rows.raw
    cpi, pressed, nothing = raw.copy(), raw.copy(), np.full_like(raw, np.nan)
    cpi[:, RAW_NAMES.index("profile_cpi")] = np.nan
    pressed[:, IN_BASE] = np.nan
    return {"whole": raw, "no profile_cpi": cpi, "no pressure": pressed, "nothing": nothing}


@pytest.mark.parametrize("lacking", ["whole", "no profile_cpi", "no pressure", "nothing"])
def test_serving_says_what_training_would_to_the_bit(
    learnt: Simulated, placement: Placement, served: Predictor, lacking: str
) -> None:
    raw = gaps(learnt)[lacking]
    training = placement.medians[: len(RAW_NAMES)]
    by_training = served.predict(complete(raw, training))

    one_by_one = [asked(served, raw[i : i + 1]) for i in range(0, 300, 10)]
    together = asked(served, raw)

    np.testing.assert_array_equal(together[0], by_training.log_mean)
    np.testing.assert_array_equal([mean[0] for mean, _ in one_by_one], together[0][0:300:10])
    np.testing.assert_array_equal([spread[0] for _, spread in one_by_one], together[1][0:300:10])
    assert np.isfinite(together[0]).all()


def test_rows_are_completed_alike_with_what_training_and_what_serving_fill_in(
    learnt: Simulated, placement: Placement
) -> None:
    fills = training_fills(learnt.rows.raw)

    for raw in gaps(learnt).values():
        np.testing.assert_array_equal(complete(raw, fills), complete(raw, placement.medians[: len(RAW_NAMES)]))


def test_what_training_left_missing_serving_leaves_missing(learnt: Simulated, placement: Placement) -> None:
    free = {i for i, f in enumerate(FEATURES) if not f.sign and i not in set(FILLED)}
    left = {i for i, median in enumerate(placement.medians) if np.isnan(median)}

    assert left == free
    assert "profile_cpi" in {FEATURE_NAMES[i] for i in left}
    again = with_fills(placement, np.full(len(RAW_NAMES), 7.0))
    assert {i for i, median in enumerate(again.medians) if np.isnan(median)} == free


def test_a_missing_profile_is_not_taken_for_the_average_one(learnt: Simulated, served: Predictor) -> None:
    raw = learnt.rows.raw[:500]
    lacking = raw.copy()
    lacking[:, RAW_NAMES.index("profile_cpi")] = np.nan
    median = raw.copy()
    median[:, RAW_NAMES.index("profile_cpi")] = np.nanmedian(learnt.rows.raw[:, RAW_NAMES.index("profile_cpi")])

    features = [complete(rows, served.medians[: len(RAW_NAMES)]) for rows in (lacking, median)]

    assert np.isnan(features[0][:, RAW_NAMES.index("profile_cpi")]).all()
    assert not np.array_equal(features[0], features[1], equal_nan=True)
