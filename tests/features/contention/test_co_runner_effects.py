"""What the apps on a node do to a container together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import features.contention.co_runner_effects
from features.contention.co_runner_effects import MOST, Victims, apart, company_of, joined_sums, power_sums, roots
from features.schema.catalog import NAMES, ORDERS

R = len(NAMES)
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
seeds = st.integers(0, 2**32 - 1)


def only_cpu(*values: float) -> Floats:
    """(n, resources), CPU alone."""
    columns = np.zeros((len(values), R))
    columns[:, 0] = values
    return columns


def harm(share: Floats, app: list[int], sensitivity: float = 1.0) -> list[float]:
    """What a newcomer of an app of its own suffers on one node, by each order."""
    company = company_of(share, np.zeros(len(app), np.int64), np.array(app, np.int64), 1)
    pending_pod = Victims(np.zeros(1, np.int64), np.array([-1]), only_cpu(sensitivity), np.zeros((1, R)))
    return [round(x, 12) for x in roots(power_sums(pending_pod, company))[0].tolist()]


def test_by_order_one_harm_adds_up_and_by_higher_orders_the_worst_app_counts_more() -> None:
    assert harm(only_cpu(0.3, 0.4), [0, 1]) == [0.7, 0.5, round((0.3**4 + 0.4**4) ** 0.25, 12)]


def test_containers_of_one_app_count_together() -> None:
    assert harm(only_cpu(0.3, 0.4), [7, 7]) == [0.7, 0.7, 0.7]


def test_containers_of_unknown_apps_are_apps_of_their_own() -> None:
    assert apart(np.array([2, -1, 0, -1]), 5).tolist() == [2, 6, 0, 8]


def test_no_app_alone_harms_beyond_what_a_sensitivity_can_tell() -> None:
    assert harm(only_cpu(0.5), [0], sensitivity=1e4)[0] == MOST


def test_use_that_is_not_known_counts_as_the_mean_of_those_known_there() -> None:
    assert harm(only_cpu(0.3, np.nan, 0.1), [0, 1, 2])[0] == pytest.approx(0.6)


def test_beside_nobody_there_is_no_harm_and_of_nothing_known_none_is_told() -> None:
    assert harm(only_cpu(), []) == [0.0, 0.0, 0.0]
    assert np.isnan(harm(np.full((2, R), np.nan), [0, 1])).all()


def test_who_is_among_them_does_not_harm_itself_but_its_kind_does() -> None:
    company = company_of(only_cpu(0.3, 0.2, 0.1), np.zeros(3, np.int64), np.array([0, 0, 1]), 1)
    first = Victims(np.zeros(1, np.int64), np.array([0]), only_cpu(1.0), only_cpu(0.3))

    assert roots(power_sums(first, company))[0].tolist()[0] == pytest.approx(0.3)
    assert roots(power_sums(first, company))[0].tolist()[1] == pytest.approx(np.hypot(0.2, 0.1))


def drawn(seed: int, groups: int = 4) -> tuple[Floats, Ints, Ints, Victims]:
    """Shares, groups, apps and the same containers as victims."""
    rng = np.random.default_rng(seed)
    group = np.sort(rng.integers(groups, size=rng.integers(1, 20)))
    share = rng.gamma(1.0, 0.1, (len(group), R))
    share[rng.random(share.shape) < 0.1] = np.nan
    app = apart(rng.integers(-1, 4, len(group)), 4)
    sensitivity = rng.gamma(1.0, 1.0, share.shape)
    sensitivity[rng.random(share.shape) < 0.1] = np.nan
    return share, group, app, Victims(group, app, sensitivity, share)


@given(seeds)
def test_sums_are_those_of_a_loop_over_apps(seed: int) -> None:
    share, group, app, victims = drawn(seed)

    found = power_sums(victims, company_of(share, group, app, 4))

    for i in range(len(group)):
        there = np.flatnonzero(group == group[i])
        known = np.isfinite(share[there])
        means = np.where(known, share[there], 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        filled = np.where(known, share[there], means)
        powers = np.zeros(len(ORDERS))
        for one in np.unique(app[there]):
            use = filled[(app[there] == one) & (there != i)].sum(axis=0)
            powers += min(MOST, np.nansum(victims.sensitivity[i] * use)) ** np.array(ORDERS)
        assert found[i] == pytest.approx(powers, abs=1e-9, nan_ok=True)


@given(seeds)
def test_a_newcomer_changes_sums_as_if_it_had_been_there_all_along(seed: int) -> None:
    share, group, app, victims = drawn(seed)
    share = np.nan_to_num(share)
    victims = Victims(group, app, victims.sensitivity, share)
    rng = np.random.default_rng(seed + 1)
    brought, kind = rng.gamma(1.0, 0.1, (4, R)), np.full(4, int(rng.integers(-1, 4)))
    company = company_of(share, group, app, 4)
    pending_pod = Victims(np.arange(4), kind, np.ones((4, R)), brought)

    found = joined_sums(power_sums(victims, company), victims, company, pending_pod)

    codes = np.where(kind < 0, app.max() + 1 + np.arange(4), kind)
    whole = company_of(np.vstack([share, brought]), np.append(group, np.arange(4)), np.append(app, codes), 4)
    assert found == pytest.approx(power_sums(victims, whole), abs=1e-9)


@given(seeds)
def test_nobody_is_better_off_for_a_newcomer_or_for_a_busier_neighbour(seed: int) -> None:
    share, group, app, victims = drawn(seed)
    company = company_of(share, group, app, 4)
    sums = power_sums(victims, company)
    pending_pod = Victims(np.arange(4), np.full(4, 1), np.ones((4, R)), np.full((4, R), np.nan))
    busier = share.copy()
    busier[0] *= 3

    others = np.flatnonzero(np.arange(len(group)) != 0)
    after = power_sums(victims, company_of(busier, group, app, 4))

    assert (joined_sums(sums, victims, company, pending_pod) >= sums)[~np.isnan(sums)].all()
    assert (after >= sums - 1e-12)[others][~np.isnan(sums[others])].all()


@given(seeds)
def test_order_of_containers_and_size_of_blocks_change_nothing(seed: int) -> None:
    share, group, app, victims = drawn(seed)
    shuffled = np.random.default_rng(seed).permutation(len(group))

    found = power_sums(victims, company_of(share, group, app, 4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(features.contention.co_runner_effects, "PAIRS_AT_ONCE", 3)
        other = power_sums(victims, company_of(share[shuffled], group[shuffled], app[shuffled], 4))

    assert found == pytest.approx(other, rel=1e-12, nan_ok=True)


@given(seeds)
def test_the_higher_the_order_the_less_all_do_together(seed: int) -> None:
    share, group, app, victims = drawn(seed)

    found = roots(power_sums(victims, company_of(share, group, app, 4)))

    known = ~np.isnan(found).any(axis=1)
    assert (np.diff(found[known], axis=1) <= 1e-12).all()
