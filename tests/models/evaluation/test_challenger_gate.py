"""Gate: a challenger passes that is no worse, and none that is worse at anything that counts."""

from dataclasses import replace

import numpy as np
import pytest

from models.evaluation.promotion_gate import ALLOWED, FEWEST_HIGH, Judged, check_all
from models.evaluation.served_replay import AsServed
from models.registry.gate_result import Check, Range, Verdict

N, NODES, APPS = 1200, 12, 8


def judged() -> Judged:
    """Rows of eight apps on twelve nodes, window by window; each app is on several nodes at once."""
    row = np.arange(N)
    app, node, window = row % APPS, (row // APPS) % NODES, row // (APPS * NODES)
    return Judged(group=app * NODES + node, app=app, decision=window * APPS + app, node=node)


def champion(noise: float = 0.1, seed: int = 0) -> AsServed:
    rng = np.random.default_rng(seed)
    truth = np.abs(rng.normal(0.2, 0.15, N))
    mean = truth + noise * rng.normal(size=N)
    margin = np.full(N, 1.2816 * noise)
    return AsServed(truth, mean, mean, margin, np.ones(N), np.zeros(N, np.int8), mean)


def checks(challenger: AsServed, beside: AsServed) -> dict[str, Check]:
    return {check.name: check for check in check_all(challenger, beside, judged(), np.random.default_rng(0))}


def failed(challenger: AsServed, beside: AsServed) -> set[str]:
    return {name for name, check in checks(challenger, beside).items() if not check.passed}


def test_the_same_model_passes_every_gate() -> None:
    one = champion()
    found = checks(one, one)
    assert set(found) == {"tomorrow", "slowed", "unseen", "bound", "coverage", "nothing", "regret"}
    assert all(check.passed and check.worse.value == 0 for name, check in found.items() if name != "nothing")


def test_a_better_model_passes() -> None:
    assert failed(champion(noise=0.05), champion()) == set()


def test_a_model_that_errs_more_is_refused_by_error_and_bound_and_choice() -> None:
    worse = champion(noise=0.3)
    worse = replace(worse, margin=np.full(N, 1.2816 * 0.3))
    assert {"tomorrow", "slowed", "unseen", "bound", "regret"} <= failed(worse, champion())


def test_a_model_that_is_worse_for_new_apps_alone_is_refused() -> None:
    one = champion()
    rng = np.random.default_rng(3)
    assert failed(replace(one, unseen=one.mean + 0.2 * rng.normal(size=N)), one) == {"unseen"}


def test_a_model_that_chooses_worse_nodes_alone_is_refused() -> None:
    one = champion()
    assert failed(replace(one, choice=-one.truth), one) == {"regret"}


def test_bounds_that_are_too_low_are_refused_and_wider_ones_are_by_their_loss() -> None:
    one = champion()
    assert failed(replace(one, margin=one.margin * 0.3), one) == {"bound", "coverage"}
    assert failed(replace(one, margin=one.margin * 5), one) == {"bound"}


def test_a_model_that_is_worse_than_saying_nothing_is_refused_even_where_the_champion_is_worse_still() -> None:
    inverted = champion()
    inverted = replace(inverted, mean=-inverted.mean, unseen=-inverted.unseen)
    assert "nothing" in failed(inverted, replace(inverted, mean=2 * inverted.mean, unseen=2 * inverted.unseen))


def test_looking_worse_by_more_than_a_tenth_is_refused_even_if_that_may_be_luck() -> None:
    one = champion()
    unlucky = one.mean.copy()
    unlucky[judged().group == 5] += 4.0  # one app on one node: an interval that reaches zero
    found = checks(replace(one, mean=unlucky), one)["tomorrow"]
    assert found.worse.low <= 0 < ALLOWED * found.champion < found.worse.value
    assert not found.passed


def test_slowed_rows_are_judged_only_where_there_are_enough() -> None:
    one = champion()
    calm = replace(one, truth=np.where(np.arange(N) < FEWEST_HIGH - 1, 0.5, 0.0))
    assert "slowed" not in checks(calm, calm)


def test_a_verdict_cannot_pass_what_a_check_refused() -> None:
    bad = Check(name="tomorrow", challenger=2, champion=1, worse=Range(value=1, low=0.5, high=1.5), passed=False)
    with pytest.raises(ValueError, match="refuses"):
        Verdict.model_validate(
            {"challenger": "b", "champion": "a", "judged_at": "2026-03-01T00:00:00Z", "checks": [bad.model_dump()]}
        )
