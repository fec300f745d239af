"""Report: ratios at equal violations, and their intervals."""

import numpy as np
import pytest

from benchmarks.best_effort.best_effort_loop import Outcome
from benchmarks.best_effort.compared_offers import BATCH_USAGE, N_SIGMA, OURS
from benchmarks.best_effort.offer_report import figures, most_at
from benchmarks.best_effort.offer_study import NONE, OFFERS_ALONE, SCALES, Filled, Key


def outcome(work: float, harm: float) -> Outcome:
    return Outcome(np.array([0.0, work]), violation_minutes=harm, ls_minutes=1e4, intervals=10)


def seed_of(number: int) -> Filled:
    """Ours does 120 at 40 violations; N-sigma 100 at 60 and Koordinator 50 at 50, in proportion to their offers."""
    more = 1.0 + 0.1 * (number % 3)
    outcomes: dict[Key, Outcome] = {(NONE, 1.0): outcome(0.0, 0.0), (OFFERS_ALONE, 1.0): outcome(100.0, 60.0)}
    outcomes[OURS, 1.0] = outcome(120.0 * more, 40.0)
    for scale in SCALES:
        outcomes[N_SIGMA, scale] = outcome(100.0 * scale, 60.0 * scale)
        outcomes[BATCH_USAGE, scale] = outcome(50.0 * scale, 50.0 * scale)
    exceeded = dict.fromkeys((OURS, BATCH_USAGE, N_SIGMA), 0.05)
    return Filled("queueing", number, outcomes, outcomes, np.array([0.5]), (1, 50), 3.0, 24, exceeded, 0.2)


def test_ours_is_compared_with_the_better_one_as_it_is_and_at_no_more_violations() -> None:
    found = figures([seed_of(0)])

    assert found["be_ratio"] == pytest.approx(1.2)
    assert found["violation_ratio"] == pytest.approx(40 / 60)
    assert found["be_ratio_equal"] == pytest.approx(120 / (100 * 40 / 60))
    assert found["beyond_requests_share"] == pytest.approx(0.02)


def test_intervals_hold_the_ratio_and_are_the_same_again() -> None:
    done = [seed_of(number) for number in range(9)]

    found = figures(done)

    for name in ("be_ratio", "violation_ratio", "be_ratio_equal", "be_ratio_equal_in_turn"):
        assert found[f"{name}_lo"] <= found[name] <= found[f"{name}_hi"]
    assert found["be_ratio_lo"] < found["be_ratio_hi"]
    assert figures(done) == found


@pytest.mark.parametrize(("limit", "work"), [(-1.0, 0.0), (0.0, 0.0), (10.0, 50.0), (20.0, 100.0), (99.0, 100.0)])
def test_most_work_lies_on_the_line_between_scales_and_never_beyond_the_last(limit: float, work: float) -> None:
    assert most_at(limit, np.array([0.0, 20.0]), np.array([0.0, 100.0])) == pytest.approx(work)
