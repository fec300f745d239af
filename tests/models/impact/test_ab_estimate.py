"""Worth: what differs between arms beyond chance, with intervals that hold it, whatever the covariates."""

from collections.abc import Callable
from dataclasses import replace
from math import inf, isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import ModelsError
from models.impact.ab_estimate import (
    Interval,
    Trial,
    adjusted_effects,
    chance_of_difference,
    left_of_variance,
    ratio_interval,
    serial_variance,
    worth,
)

HOUR_US = 3_600_000_000
SEEDS = st.integers(0, 10_000)


def trial(seed: int = 0, n: int = 200, *, effect: float = -3.0, noise: float = 1.0, covariates: int = 2) -> Trial:
    """Pods of which the advice changes the outcome by `effect`, and moves three in four."""
    rng = np.random.default_rng(seed)
    advised = rng.permutation(np.arange(n) % 2 == 0)
    known = rng.standard_normal((n, covariates))
    outcome = 10.0 + known @ np.arange(1.0, covariates + 1) + effect * advised + noise * rng.standard_normal(n)
    complied = advised & (rng.random(n) < 0.75)
    at_us = np.sort(rng.integers(0, 100 * HOUR_US, n))
    return Trial(advised, np.full(n, 0.5), np.ones(n), outcome, complied, known, at_us)


def rows(of: Trial, order: np.ndarray) -> Trial:
    return Trial(*(getattr(of, name)[order] for name in of.__dataclass_fields__))


def test_without_covariates_the_effect_is_the_difference_of_means() -> None:
    one = trial(covariates=0)

    found = worth(one, HOUR_US)

    mine, theirs = one.outcome[one.advised], one.outcome[~one.advised]
    assert found.per_pod.value == pytest.approx(theirs.mean() - mine.mean())
    error = np.sqrt(mine.var(ddof=1) / len(mine) + theirs.var(ddof=1) / len(theirs))
    assert found.error == pytest.approx(error, rel=0.03), "HC2 without covariates is Welch's error"
    assert found.error <= error
    assert found.moved == pytest.approx(one.complied[one.advised].mean())
    assert found.per_mover.value == pytest.approx(found.per_pod.value / found.moved)


@given(seed=SEEDS, effect=st.floats(-50, 50), covariates=st.integers(0, 4))
def test_an_additive_outcome_without_noise_is_told_exactly(seed: int, effect: float, covariates: int) -> None:
    found = worth(trial(seed, effect=effect, noise=0.0, covariates=covariates), HOUR_US)

    assert found.per_pod.value == pytest.approx(-effect, abs=1e-6)
    assert found.error == pytest.approx(0.0, abs=1e-6)


@given(seed=SEEDS)
def test_the_order_of_rows_does_not_matter(seed: int) -> None:
    one = trial(seed)

    straight = worth(one, HOUR_US)
    other = worth(rows(one, np.random.default_rng(seed).permutation(len(one.outcome))), HOUR_US)

    for name in ("error", "serial_error", "advised", "moved", "more"):
        assert getattr(other, name) == pytest.approx(getattr(straight, name))
    assert close(other.per_pod, straight.per_pod)
    assert close(other.per_mover, straight.per_mover)


def close(one: Interval, other: Interval) -> bool:
    mine, theirs = ((of.value, of.low, of.high) for of in (one, other))
    return np.allclose(mine, theirs, rtol=1e-8, atol=1e-8)


@given(seed=SEEDS, added=st.floats(-1e3, 1e3))
def test_what_is_added_to_every_outcome_changes_nothing(seed: int, added: float) -> None:
    one = trial(seed)

    assert close(worth(replace(one, outcome=one.outcome + added), HOUR_US).per_pod, worth(one, HOUR_US).per_pod)


@given(seed=SEEDS, times=st.floats(0.1, 100))
def test_effects_are_of_the_unit_of_outcomes(seed: int, times: float) -> None:
    one = trial(seed)

    found = worth(replace(one, outcome=one.outcome * times), HOUR_US)

    assert close(found.per_pod, worth(one, HOUR_US).per_pod.times(times))
    assert found.total.value == pytest.approx(found.per_pod.value * one.advised.sum())


@given(seed=SEEDS)
def test_covariates_that_say_nothing_or_twice_the_same_change_nothing(seed: int) -> None:
    one = trial(seed)
    more = np.column_stack([one.covariates, one.covariates[:, 0] * 7 - 2, np.full(len(one.outcome), 3.0)])

    found, bare = worth(replace(one, covariates=more), HOUR_US), worth(one, HOUR_US)

    assert found.per_pod.value == pytest.approx(bare.per_pod.value)
    assert found.error == pytest.approx(bare.error)


def test_covariates_narrow_the_interval() -> None:
    one = trial(n=400)

    bare = worth(replace(one, covariates=np.zeros((400, 0))), HOUR_US)

    assert worth(one, HOUR_US).error < 0.6 * bare.error


def test_a_pod_stands_for_those_that_were_not_written_down() -> None:
    """Of the advised, those of one kind are kept all, those of the other one in ten."""
    rng = np.random.default_rng(4)
    kind, advised = rng.random(40_000) < 0.5, rng.random(40_000) < 0.5
    outcome = np.where(kind, 20.0, 5.0) - 2.0 * advised + rng.standard_normal(40_000)
    kept_chance = np.where(advised & kind, 0.1, 1.0)
    kept = rng.random(40_000) < kept_chance
    n = int(kept.sum())
    one = Trial(
        advised[kept], np.full(n, 0.5), kept_chance[kept], outcome[kept], advised[kept], np.zeros((n, 0)), np.arange(n)
    )

    found = worth(one, HOUR_US)

    assert found.per_pod.low < 2.0 < found.per_pod.high
    assert found.error < 0.5
    assert found.advised == pytest.approx(advised.sum(), rel=0.03)
    assert worth(replace(one, kept_chance=np.ones(n)), HOUR_US).per_pod.low > 3.0, "the weights are what does it"


def test_intervals_hold_the_effect_about_nine_times_in_ten() -> None:
    found = [worth(trial(seed, n=120), HOUR_US).per_pod for seed in range(300)]

    assert 0.86 <= np.mean([one.low <= 3.0 <= one.high for one in found]) <= 0.94


def test_more_pods_are_asked_for_while_an_effect_is_not_told_and_none_when_it_is() -> None:
    faint, plain = worth(trial(3, n=60, effect=-0.1), HOUR_US), worth(trial(3, n=2000), HOUR_US)

    assert faint.per_pod.low < 0 < faint.per_pod.high
    assert 60 < faint.more < inf
    assert plain.more == 0


@given(seed=SEEDS, horizon=st.integers(1, 40))
def test_the_serial_variance_is_the_sum_over_pairs(seed: int, horizon: int) -> None:
    rng = np.random.default_rng(seed)
    scores, at_us = rng.standard_normal((30, 2)), rng.integers(0, 60, 30)

    found = serial_variance(scores, at_us, horizon)

    weight = np.maximum(0.0, 1.0 - np.abs(at_us[:, None] - at_us) / horizon)
    assert found == pytest.approx(scores.T @ weight @ scores)
    assert np.linalg.eigvalsh(found).min() > -1e-9


def test_pods_that_are_far_apart_have_the_same_error_either_way() -> None:
    one = replace(trial(), at_us=np.arange(200) * 2 * HOUR_US)

    found = worth(one, HOUR_US)

    assert found.serial_error == pytest.approx(found.error)


def test_the_ratio_has_the_bounds_of_a_quotient_where_the_base_is_sure() -> None:
    found = ratio_interval(np.array([6.0, 0.5]), np.diag([1.0, 0.0]), 2.0)

    assert close(found, Interval(12.0, 8.0, 16.0))


@given(seed=SEEDS)
def test_bounds_of_the_ratio_are_where_the_difference_is_just_told(seed: int) -> None:
    rng = np.random.default_rng(seed)
    root, effects = rng.standard_normal((2, 2)) * 0.2, np.array([rng.normal(), 1.0 + rng.random()])
    variance = root @ root.T

    found = ratio_interval(effects, variance, 1.645)

    for bound in (found.low, found.high):
        if np.isfinite(bound):
            side = np.array([1.0, -bound])
            assert (side @ effects) ** 2 == pytest.approx(1.645**2 * side @ variance @ side, rel=1e-6, abs=1e-9)
    assert found.low <= found.value <= found.high


def test_where_the_advice_moves_nobody_for_sure_there_are_no_bounds() -> None:
    one = trial()
    stays = worth(replace(one, complied=np.zeros(200, np.bool_)), HOUR_US)
    faint = ratio_interval(np.array([1.0, 0.1]), np.diag([0.1, 0.1]), 1.645)

    assert isnan(stays.per_mover.value)
    assert (stays.per_mover.low, stays.per_mover.high) == (-inf, inf) == (faint.low, faint.high)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda t: rows(t, np.flatnonzero(t.advised)), "100 advised and 0 held-out"),
        (lambda t: rows(t, np.arange(30)), "20 of each are the least"),
        (lambda t: replace(t, outcome=np.where(t.at_us == t.at_us[3], np.nan, t.outcome)), "not finite"),
        (lambda t: replace(t, covariates=t.covariates + inf), "not finite"),
        (lambda t: replace(t, advised_chance=np.ones(200)), "in one arm only"),
        (lambda t: replace(t, kept_chance=np.zeros(200)), "chance to be kept"),
        (lambda t: replace(t, covariates=np.ones((200, 40))), "123 of each"),
    ],
    ids=["one arm", "few", "outcome", "covariate", "no chance", "never kept", "covariates"],
)
def test_what_cannot_be_compared_is_refused_with_what_to_do(spoil: Callable[[Trial], Trial], said: str) -> None:
    with pytest.raises(ModelsError, match=said):
        worth(spoil(trial()), HOUR_US)


def test_arms_that_miss_alike_are_told_from_arms_that_do_not() -> None:
    assert chance_of_difference((5, 5), (100, 100)) == 1.0
    assert chance_of_difference((0, 0), (100, 100)) == chance_of_difference((3, 0), (5, 0)) == 1.0
    assert chance_of_difference((2, 20), (100, 100)) < 0.001


def test_what_effects_must_differ_by_is_no_error_of_their_mean() -> None:
    """Where only those suffer who were not advised, effects are spread as their outcomes are: half the variance."""
    one = trial(n=2000, covariates=0)
    some = replace(one, outcome=np.where(one.advised, 0.0, one.outcome))

    _, scores = adjusted_effects(some)

    assert left_of_variance(scores[:, 0], some) == pytest.approx(0.5, abs=0.01)
    assert left_of_variance(adjusted_effects(one)[1][:, 0], one) > 0.95
    rare = replace(some, kept_chance=np.full(2000, 0.05))
    assert left_of_variance(adjusted_effects(rare)[1][:, 0], rare) > 0.97, "of pods not seen it says nothing"


def test_scores_add_up_to_nothing_without_leverage() -> None:
    """Residuals of each arm sum to 0; HC2 only stretches them."""
    effects, scores = adjusted_effects(trial(n=4000))

    assert effects.shape == (2,)
    assert abs(scores.sum(axis=0)) == pytest.approx(np.zeros(2), abs=1e-3)


def test_what_covariates_tell_of_differing_spreads_is_taken_off_as_well() -> None:
    """Advice steadies one half of pods and unsettles the other: over all of them both arms are spread alike."""
    rng, n = np.random.default_rng(3), 4000
    advised, kind = rng.random(n) < 0.5, rng.random(n) < 0.5
    outcome = 10.0 * kind + rng.standard_normal(n) * np.where(advised == kind, 3.0, 1.0)
    one = replace(trial(n=n), advised=advised, outcome=outcome, covariates=kind.astype(float)[:, None])
    blind = replace(one, covariates=np.zeros((n, 0)), outcome=outcome - 10.0 * kind)

    assert left_of_variance(adjusted_effects(blind)[1][:, 0], blind) > 0.97
    assert left_of_variance(adjusted_effects(one)[1][:, 0], one) == pytest.approx(0.8, abs=0.02)


def test_groups_of_alike_pods_do_not_depend_on_their_order() -> None:
    one = replace(trial(n=400), covariates=np.repeat([[0.0], [1.0]], 200, axis=0))
    turned = rows(one, np.random.default_rng(1).permutation(400))

    found = [left_of_variance(adjusted_effects(some)[1][:, 0], some) for some in (one, turned)]

    assert found[0] == pytest.approx(found[1])
