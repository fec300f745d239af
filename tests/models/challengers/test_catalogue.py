"""Challengers: what each claims to be, on the rows, folds and columns of ours, with differences that are paired."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from features.schema.catalog import RAW_NAMES
from models.challengers.catalogue import (
    BOUNDS,
    CHALLENGERS,
    WORDS,
    Lesson,
    Says,
    base_alone,
    log_base,
    shrunken_residual,
)
from models.challengers.comparison import REFUSALS, Contest, compared, winners
from models.challengers.matrix_factorisation import Classes, low_rank
from models.challengers.tree_ensembles import rounds_by_groups
from models.data.dataset import Dataset
from models.data.impute import impute
from models.data.splits import leave_group_out
from models.estimator.fitted_model import Placement
from models.metrics.baselines import fit_constant
from models.metrics.errors_and_ranks import resamples_of
from models.training.fit import TrainConfig, raw_score
from models.training.trainer import OURS, Question, Trainer, fit, open_fitted, standard_questions
from tests.models.simulated import Simulated

Floats = NDArray[np.float64]
QUICK = TrainConfig(rounds=40, learning_rate=0.1, spread_rounds=5, folds=3)


def imputed(learnt: Simulated, ours: Placement) -> Dataset:
    data = learnt.rows.dataset(ours.medians[: len(RAW_NAMES)])
    return data.with_features(impute(data.features, ours.medians))


@pytest.fixture(scope="module")
def halves(learnt: Simulated) -> tuple[Lesson, Dataset]:
    """What half of the apps teach, and the other half."""
    split = leave_group_out(learnt.rows.group, folds=2)[0]
    ours = fit(learnt.rows.take(split.train), QUICK)
    rows = imputed(learnt, ours)
    return Lesson(rows.rows(split.train), ours, QUICK), rows.rows(split.test)


@pytest.mark.parametrize("name", CHALLENGERS)
def test_whoever_challenges_knows_more_of_unseen_apps_than_a_constant(
    halves: tuple[Lesson, Dataset], name: str
) -> None:
    lesson, unseen = halves

    said = CHALLENGERS[name](lesson)(unseen)

    constant = fit_constant(lesson.seen).predict(unseen)
    assert np.abs(said - unseen.log_slowdown).mean() < np.abs(constant - unseen.log_slowdown).mean()


def test_every_challenger_has_words() -> None:
    assert [*WORDS] == [*CHALLENGERS, *BOUNDS]


def test_base_alone_is_ours_without_trees(halves: tuple[Lesson, Dataset]) -> None:
    lesson, unseen = halves

    said = open_fitted(lesson.ours).predict(unseen.features)

    np.testing.assert_array_equal(base_alone(lesson)(unseen), np.log1p(said.base_sum))


def test_a_shrunken_residual_is_ours_where_pressures_are_familiar_and_the_base_far_beyond(
    halves: tuple[Lesson, Dataset],
) -> None:
    lesson, unseen = halves
    far = unseen.with_features(unseen.features + 1e6 * unseen.base)
    ours, says = open_fitted(lesson.ours), shrunken_residual(lesson)

    near = ours.predict(unseen.features)
    beyond = ours.predict(far.features)

    familiar = near.base_sum < np.quantile(near.base_sum, 0.5)
    np.testing.assert_allclose(says(unseen)[familiar], near.log_mean[familiar], rtol=0, atol=1e-12)
    np.testing.assert_allclose(says(far), np.log1p(beyond.base_sum), rtol=0, atol=1e-3)


def additive(pressure: Floats, group: NDArray[np.int32]) -> Dataset:
    """Slowdown is 1 + 2 x the sum of two pressures."""
    n = len(pressure)
    return Dataset(
        features=pressure,
        names=("pressure_cpu", "pressure_llc"),
        signs=np.ones(2, np.int8),
        base=np.ones(2, np.bool_),
        log_slowdown=np.log1p(2 * pressure.sum(axis=1)),
        weight=np.ones(n),
        group=group,
        node_window=np.arange(n),
        time=np.arange(n),
    )


def test_a_base_in_the_log_explodes_beyond_what_it_learnt(halves: tuple[Lesson, Dataset]) -> None:
    rng = np.random.default_rng(0)
    seen = additive(rng.random((400, 2)) * 0.3, (np.arange(400) % 8).astype(np.int32))
    beyond = additive(rng.random((100, 2)) * 0.5 + 1.5, np.zeros(100, np.int32))
    lesson = replace(halves[0], seen=seen)

    in_range = np.abs(log_base(lesson)(seen) - seen.log_slowdown).mean()
    outside = log_base(lesson)(beyond) - beyond.log_slowdown

    assert in_range < 0.06
    assert outside.min() > np.log(3)


def test_a_table_of_low_rank_knows_each_app_and_takes_new_ones_for_average() -> None:
    rng, width = np.random.default_rng(1), 10
    group = np.repeat(np.arange(6), 300).astype(np.int32)
    sensitivity = np.linspace(0.2, 2.2, 6)
    pressure = rng.random((len(group), width))
    data = fit_rows(pressure, np.log1p(sensitivity[group] * (pressure @ np.linspace(0, 1, width)) * 0.2), group)

    says = low_rank(data)

    assert np.abs(says(data) - data.log_slowdown).mean() < 0.05
    new = says(replace(data, group=np.full(len(group), 99, np.int32)))
    assert np.abs(new - data.log_slowdown).mean() > 0.15
    by_app = [new[group == app].mean() for app in range(6)]
    assert np.ptp(by_app) < 0.05


def fit_rows(pressure: Floats, label: Floats, group: NDArray[np.int32]) -> Dataset:
    n, names = len(label), RAW_NAMES[:10]
    return Dataset(
        features=pressure,
        names=names,
        signs=np.ones(10, np.int8),
        base=np.ones(10, np.bool_),
        log_slowdown=label,
        weight=np.ones(n),
        group=group,
        node_window=np.arange(n),
        time=np.arange(n),
    )


def test_classes_tell_the_foremost_resource_and_how_hard_all_press() -> None:
    classes = Classes(np.array([0.1, 1.0]), np.array([0.5, 1.0, 2.0]))

    found = classes.of(np.array([[0.2, 0.1], [0.0, 0.7], [0.2, 3.0]]))

    assert found.tolist() == [0, 5, 7]
    assert classes.count == 8


def test_the_number_of_trees_is_chosen_on_groups_that_they_never_saw(halves: tuple[Lesson, Dataset]) -> None:
    import lightgbm as lgb

    seen = halves[0].seen
    learnt_from: list[set[int]] = []

    def grow(rows: Dataset, rounds: int) -> lgb.Booster:
        learnt_from.append(set(rows.group.tolist()))
        return lgb.train({"verbosity": -1, "seed": 0}, lgb.Dataset(rows.features, rows.log_slowdown), rounds)

    rounds, said = rounds_by_groups(seen, QUICK, grow, lambda truth, path: np.abs(path - truth))

    assert 1 <= rounds <= QUICK.rounds
    folds = leave_group_out(seen.group, folds=QUICK.folds)
    assert [groups & set(seen.group[f.test].tolist()) for groups, f in zip(learnt_from, folds, strict=True)] == [
        set() for _ in folds
    ]
    trees = grow(seen.rows(folds[0].train), QUICK.rounds)
    np.testing.assert_array_equal(said[folds[0].test], raw_score(trees, seen.features[folds[0].test], rounds))


def test_a_shifted_quantile_covers_as_promised_where_the_plain_one_does_not(halves: tuple[Lesson, Dataset]) -> None:
    lesson, _ = halves

    plain, shifted = (BOUNDS[name](lesson)(lesson.seen) for name in ("quantile_lightgbm", "quantile_shifted"))

    assert np.ptp(shifted - plain) < 1e-12
    assert (lesson.seen.log_slowdown <= shifted).mean() >= 0.9


def echo(_: Lesson) -> Says:
    """Says when, so that the order of rows can be told."""
    return lambda rows: rows.time.astype(np.float64)


def cold(_: Lesson) -> Says:
    """Says how many windows are behind the profile."""
    return lambda rows: rows.features[:, RAW_NAMES.index("profile_windows")]


def test_challengers_judge_the_rows_of_ours_in_their_order_and_learn_each_part_once(learnt: Simulated) -> None:
    questions = standard_questions(learnt.rows, folds=2, origins=1)
    trainer = Trainer(learnt.rows, QUICK)
    contest = Contest(trainer, {"echo": echo, "cold": cold}, {})
    told: list[str] = []

    for name in ("leave_app_out", "cold_app"):
        ours = trainer.judge(questions[name], lambda _: None)
        said = contest.judge(questions[name], told.append)

        np.testing.assert_array_equal(said.said["echo"], ours.rows.time)
        assert (said.said["cold"] == 0).all() == (name == "cold_app")

    assert len(contest.done) == len(trainer.done) == 2
    assert told == [f"split {k} of 2, {who}" for k in (1, 2) for who in ("ours", "echo", "cold")]


def test_who_cannot_learn_says_why_and_the_others_go_on(learnt: Simulated) -> None:
    def broken(lesson: Lesson) -> Says:
        raise ValueError("window shape cannot be larger than input array shape\nand more")

    def speechless(rows: Dataset) -> Floats:
        raise ValueError("only later")

    contest = Contest(
        Trainer(learnt.rows, replace(QUICK, rounds=2)),
        {
            "broken": broken,
            "speechless": lambda _: speechless,
            "level": lambda _: lambda rows: np.zeros(len(rows.weight)),
        },
        {},
    )

    heard = contest.judge(standard_questions(learnt.rows, folds=2, origins=1)["leave_app_out"], lambda _: None)

    assert [*heard.said] == ["level"]
    assert heard.unfitted == {
        "broken": "window shape cannot be larger than input array shape", "speechless": "only later"
    }  # fmt: skip


def test_boosting_refuses_a_column_without_values_and_nothing_else_does(halves: tuple[Lesson, Dataset]) -> None:
    lesson, _ = halves
    features = lesson.seen.features[:30].copy()
    features[:, RAW_NAMES.index("profile_cpi")] = np.nan
    few = replace(lesson.seen.rows(np.arange(len(lesson.seen.weight)) < 30), features=features)

    with pytest.raises(REFUSALS):
        CHALLENGERS["hist_boosting"](replace(lesson, seen=few))


@pytest.fixture(scope="module")
def judged(learnt: Simulated) -> tuple[Trainer, Question]:
    return Trainer(learnt.rows, QUICK), standard_questions(learnt.rows, folds=2, origins=1)["leave_app_out"]


def test_who_knows_the_truth_wins_who_says_the_same_does_not_and_who_errs_more_loses(
    judged: tuple[Trainer, Question],
) -> None:
    trainer, question = judged
    outcome = trainer.judge(question, lambda _: None)
    truth, ours = outcome.rows.log_slowdown, outcome.predicted[OURS]
    again = resamples_of(outcome.rows.group, np.random.default_rng(0))
    said = {"oracle": truth, "same": ours, "further": truth + 2 * (ours - truth), "quantile_shifted": truth}

    found = compared(outcome, said, again)

    assert winners(found) == ["oracle", "quantile_shifted"]
    mae = found[OURS]["mae_log"].value
    assert found["oracle"]["above_ours"].value == pytest.approx(-mae)
    assert found["further"]["above_ours"].value == pytest.approx(mae)
    assert found["same"]["above_ours"].high == 0
    assert found["quantile_shifted"]["coverage90"].value == 1.0
    assert found["quantile_shifted"]["above_ours"].value == pytest.approx(-found[OURS]["pinball90"].value)


def test_pairing_is_surer_than_two_intervals(judged: tuple[Trainer, Question]) -> None:
    trainer, question = judged
    outcome = trainer.judge(question, lambda _: None)
    truth, ours = outcome.rows.log_slowdown, outcome.predicted[OURS]
    again = resamples_of(outcome.rows.group, np.random.default_rng(0))

    found = compared(outcome, {"nearly": truth + 1.05 * (ours - truth)}, again)

    alone = [found[name]["mae_log"] for name in (OURS, "nearly")]
    assert all(one.high > other.low for one, other in pairwise([*alone, alone[0]]))
    assert found["nearly"]["above_ours"].low > 0
