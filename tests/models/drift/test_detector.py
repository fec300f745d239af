"""Drift: what is found in labels, and how far a model is believed after it: one step at a time, and back."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.drift.detector import (
    BLIND_WIDENING,
    CALM,
    DriftContext,
    Evidence,
    Labels,
    evidence,
    first_change,
    next_status,
    widening_for,
)
from models.drift.drift_status import STATES, WIDEST, DriftStatus
from models.evaluation.served_replay import AsServed

N, NODES, APPS, WINDOWS = 960, 12, 8, 10
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
END_US = round(NOW.timestamp() * 1e6)
NOTHING = DriftContext({}, timedelta(days=1), timedelta(days=14), None)


def labels(until_us: int = END_US) -> Labels:
    row = np.arange(N)
    app, node, window = row % APPS, (row // APPS) % NODES, row // (APPS * NODES)
    time = until_us - (WINDOWS - 1 - window) * 300_000_000
    return Labels(time, app * NODES + node, app, window * APPS + app, node)


def said(noise: float = 0.1, bias: float = 0.0, seed: int = 0) -> AsServed:
    """Truth around what is expected; bounds right for a noise of 0.1."""
    rng = np.random.default_rng(seed)
    mean = np.abs(rng.normal(0.2, 0.15, N))
    truth = mean + bias + noise * rng.normal(size=N)
    return AsServed(truth, mean, mean, np.full(N, 0.128), np.ones(N), np.zeros(N, np.int8), mean)


def found(one: AsServed, told: DriftContext = NOTHING, *, widening: float = 1.0, until_us: int = END_US) -> Evidence:
    by_load = np.random.default_rng(9).normal(size=N)
    rng = np.random.default_rng(0)
    return evidence(one, by_load, labels(until_us), told, level=0.9, widening=widening, rng=rng)


def fresh() -> DriftStatus:
    return DriftStatus(bundle="a", checked_at=NOW - timedelta(hours=1))


def later(hours: int) -> int:
    return END_US + hours * 3_600_000_000


def without_order(one: AsServed) -> AsServed:
    """Expected at random: nodes are told apart no better than by load."""
    rng = np.random.default_rng(4)
    return replace(one, choice=rng.normal(size=N))


def test_a_model_that_labels_bear_out_is_served_as_it_is() -> None:
    after = next_status(fresh(), found(said()), NOW)
    assert (after.state, after.widening, after.changes) == ("fine", 1.0, ())
    assert {one.name for one in after.signals} == {"coverage", "residual", "ranking", "stability", "age", "skew"}
    assert not any(one.alarm for one in after.signals)


def test_missed_bounds_widen_by_what_would_have_been_needed() -> None:
    one = said(noise=0.2)
    after = next_status(fresh(), found(one), NOW)
    assert after.state == "widened"
    assert after.widening == widening_for(one, 0.9)
    assert 1.6 < after.widening < 2.5
    [change] = after.changes
    assert "lie below their bounds" in change.why


def test_a_bias_is_told_with_the_window_since_which_it_holds() -> None:
    one, of = said(noise=0.02), labels()
    since = np.unique(of.time)[4]
    moved = replace(one, truth=one.truth + np.where(of.time >= since, 0.3, 0.0))
    [signal] = [s for s in found(moved).signals if s.name == "residual"]
    assert signal.alarm
    assert f"since the window that ended {datetime.fromtimestamp(since / 1e6, UTC):%Y-%m-%d %H:%M}" in signal.message


def test_widened_bounds_that_later_labels_miss_too_fall_back_to_load() -> None:
    widened = next_status(fresh(), found(said(noise=0.2)), NOW)
    worse = without_order(said(noise=1.5))
    after = next_status(widened, found(worse, widening=widened.widening, until_us=later(1)), NOW + timedelta(hours=1))
    assert after.state == "fallen_back"


def test_widened_bounds_that_hold_stay_widened() -> None:
    widened = next_status(fresh(), found(said(noise=0.2)), NOW)
    same = found(said(noise=0.2, seed=1), widening=widened.widening, until_us=later(1))
    after = next_status(widened, same, NOW + timedelta(hours=1))
    assert after.state == "widened"
    assert after.widening >= widened.widening


def test_a_model_that_still_tells_better_nodes_from_worse_is_not_given_up() -> None:
    widened = next_status(fresh(), found(said(noise=0.2)), NOW)
    biased = replace(said(), truth=said().truth + 2.0)  # all bounds miss, the order of nodes is right
    after = next_status(widened, found(biased, widening=widened.widening, until_us=later(1)), NOW)
    assert (after.state, after.widening) == ("widened", WIDEST)


def test_a_model_that_chooses_worse_nodes_than_the_load_is_left_at_the_second_sight_though_its_bounds_hold() -> None:
    one = said()
    worse = replace(one, choice=-one.truth)
    first = next_status(fresh(), found(worse), NOW)
    second = next_status(first, found(worse, widening=first.widening, until_us=later(1)), NOW + timedelta(hours=1))
    assert (first.state, second.state) == ("widened", "fallen_back")
    assert "choosing by it costs" in first.changes[0].why


def test_the_same_labels_change_nothing_twice() -> None:
    once = next_status(fresh(), found(said(noise=0.2)), NOW)
    again = next_status(once, found(said(noise=0.2), widening=once.widening), NOW + timedelta(minutes=5))
    assert (again.state, again.widening, again.changes, again.calm) == (once.state, once.widening, once.changes, 0)
    assert (once.checked_at, again.checked_at) == (NOW, NOW)


@pytest.mark.parametrize("state", ["widened", "fallen_back"])
def test_a_model_is_believed_again_after_some_calm_checks_of_newer_labels(state: str) -> None:
    now = DriftStatus.model_validate(
        {**fresh().model_dump(), "state": state, "widening": 2.0, "labels_until": NOW - timedelta(hours=9)}
    )
    for hour in range(CALM):
        assert now.state == state
        now = next_status(now, found(said(seed=hour), until_us=later(hour)), NOW + timedelta(hours=hour))
        now = next_status(now, found(said(seed=hour), until_us=later(hour)), NOW + timedelta(hours=hour))  # once each
    assert (now.state, now.widening) == ("fine", 1.0)
    assert now.changes[-1].why == "labels agree with it again"


def test_without_labels_age_moved_features_and_skew_widen() -> None:
    few = replace(labels(), **{name: getattr(labels(), name)[:5] for name in vars(labels())})
    first = said().take(np.arange(N) < 5)
    for told in (
        DriftContext({"pressure_cpu": 0.4}, timedelta(days=1), timedelta(days=14), None),
        DriftContext({}, timedelta(days=15), timedelta(days=14), None),
        DriftContext({}, timedelta(days=1), timedelta(days=14), 0.99),
    ):
        rng = np.random.default_rng(0)
        blind = evidence(first, first.mean, few, told, level=0.9, widening=1.0, rng=rng)
        after = next_status(fresh(), blind, NOW)
        assert (blind.judged, after.state, after.widening) == (False, "widened", BLIND_WIDENING)


def test_labels_vouch_for_an_old_model_whose_features_moved_but_not_for_skew() -> None:
    old = DriftContext({"pressure_cpu": 0.4}, timedelta(days=99), timedelta(days=14), None)
    assert next_status(fresh(), found(said(), old), NOW).state == "fine"
    assert next_status(fresh(), found(said(), replace(NOTHING, equal=0.99)), NOW).state == "widened"


def test_scores_that_are_made_of_something_else_fall_back() -> None:
    broken = replace(NOTHING, equal=0.5)
    widened = next_status(fresh(), found(said(), broken), NOW)
    after = next_status(widened, found(said(), broken, until_us=later(1)), NOW)
    assert (widened.state, after.state) == ("widened", "fallen_back")


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 1.5), st.floats(-0.5, 0.5), st.sampled_from(STATES))
def test_a_check_goes_one_step_at_most_and_never_narrows_what_is_in_trouble(
    seed: int, noise: float, bias: float, state: str
) -> None:
    before = DriftStatus.model_validate(
        {**fresh().model_dump(), "state": state, "widening": 1.0 if state == "fine" else 1.7}
    )
    after = next_status(before, found(said(noise, bias, seed), widening=before.widening), NOW)
    assert STATES.index(after.state) <= STATES.index(before.state) + 1
    assert 1.0 <= after.widening <= WIDEST
    assert after.state == "fine" or after.widening >= before.widening


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 3.0), st.floats(0.5, 0.95))
def test_the_widening_would_have_kept_the_promise_and_a_smaller_one_would_not(
    seed: int, noise: float, level: float
) -> None:
    one = said(noise, seed=seed)
    factor = widening_for(one, level)
    assert (one.truth <= one.mean + factor * one.margin).mean() >= level
    assert factor == 1.0 or (one.truth <= one.mean + (factor - 0.02) * one.margin).mean() < level + 2 / N


def test_rows_without_a_margin_cannot_be_covered_by_widening() -> None:
    assert widening_for(replace(said(), margin=np.zeros(N)), 0.9) == float("inf")


def test_a_change_is_dated_by_the_window_since_which_residuals_are_off() -> None:
    assert first_change(np.array([0.0, 0.02, -0.01, 0.3, 0.3, 0.3])) == 3
    assert first_change(np.array([0.0, 0.0, -0.4, -0.4])) == 2
    assert first_change(np.zeros(50)) is None
