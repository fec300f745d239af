"""Relief: what is saved when a share of what a neighbour does goes away."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from advisor.remediation.benefit import NOTHING, Amount, Hurt, degradation, measured_degradation, relief, sufficient
from advisor.remediation.throttles import KEPT, THROTTLES, Throttled, throttle
from advisor.scoring.score_scale import LIMIT_SLOWDOWN
from features.schema.catalog import NAMES

hurts = st.builds(
    Hurt,
    slowdown=st.floats(1.0, 5.0),
    added=st.floats(0.0, 4.0),
    spread=st.floats(0.01, 0.5),
)
shares = st.floats(0.0, 1.0)


def throttled(resource: str, *hurt: Hurt, used: float = 4.0) -> Throttled:
    return Throttled("batch-1", resource, used=used, capacity=32.0, hurt=hurt or (Hurt(1.6, 0.5, 0.05),))


def test_a_container_at_twice_its_normal_costs_two_an_hour() -> None:
    assert np.isclose(degradation(np.array([2.0]))[0], 2.0, atol=1e-3)
    assert degradation(np.array([1.0]))[0] < 0.03


@given(of=hurts)
def test_nothing_is_saved_where_nothing_goes_away(of: Hurt) -> None:
    assert relief(of, 0.0).mean == 0.0
    assert relief(of, 0.0).variance == 0.0


@given(of=hurts, some=shares, more=shares)
def test_the_more_goes_away_the_more_is_saved(of: Hurt, some: float, more: float) -> None:
    less, most = sorted((some, more))
    assert relief(of, less).mean <= relief(of, most).mean + 1e-12


@given(of=hurts, share=shares)
def test_never_more_is_saved_than_it_suffers(of: Hurt, share: float) -> None:
    whole = float(degradation(np.array([of.slowdown]))[0] - degradation(np.array([1.0]))[0])
    found = relief(of, share)
    assert -1e-12 <= found.mean <= whole + 1e-9
    assert found.variance >= 0.0


@given(slowdown=st.floats(1.0, 6.0))
def test_what_is_suffered_has_an_interval_about_it(slowdown: float) -> None:
    found = measured_degradation(slowdown)
    assert found.low <= found.mean <= found.high
    assert found.mean >= 0.0


@given(of=hurts, some=shares, more=shares)
def test_a_larger_share_is_no_less_likely_to_suffice_when_what_is_left_is_likely_below_the_limit(
    of: Hurt, some: float, more: float
) -> None:
    less, most = sorted((some, more))
    if of.slowdown - less * of.added > LIMIT_SLOWDOWN and of.slowdown - most * of.added <= LIMIT_SLOWDOWN:
        assert sufficient(of, less) <= 0.5 <= sufficient(of, most) + 1e-12


@given(amounts=st.lists(st.builds(Amount, st.floats(-5, 5), st.floats(0, 4)), max_size=5))
def test_amounts_add_up_whatever_their_order(amounts: list[Amount]) -> None:
    forward, backward = sum(amounts, NOTHING), sum(reversed(amounts), NOTHING)
    assert np.isclose(forward.mean, backward.mean)
    assert np.isclose(forward.variance, backward.variance)


def test_the_mildest_throttle_that_suffices_is_taken() -> None:
    mild = throttle(throttled("memory_bandwidth", Hurt(1.3, 0.3, 0.01)), 2.0)
    hard = throttle(throttled("memory_bandwidth", Hurt(1.6, 0.7, 0.02)), 2.0)
    never = throttle(throttled("memory_bandwidth", Hurt(3.0, 0.3, 0.02)), 2.0)

    assert mild is not None
    assert hard is not None
    assert never is not None
    assert (mild.kept, mild.suffices) == (KEPT[0], True)
    assert KEPT[-1] < hard.kept < KEPT[0]
    assert hard.suffices
    assert (never.kept, never.suffices) == (KEPT[-1], False)
    assert mild.cost < hard.cost < never.cost


def test_a_throttle_helps_everybody_that_it_slows_down() -> None:
    one = throttle(throttled("disk", Hurt(1.6, 0.45, 0.02)), 2.0)
    two = throttle(throttled("disk", Hurt(1.6, 0.45, 0.02), Hurt(1.4, 0.2, 0.02)), 2.0)

    assert one is not None
    assert two is not None
    assert two.gain > one.gain
    assert two.cost == one.cost


def test_throttles_are_told_in_the_words_of_who_sets_them() -> None:
    told = {}
    for resource in THROTTLES:
        found = throttle(throttled(resource, Hurt(1.6, 0.45, 0.02), used=4e9 if resource != "cpu" else 4.0), 2.0)
        assert found is not None
        told[resource] = [(field.where, field.name) for field in found.fields]
        assert all(field.value for field in found.fields)
    assert ("cgroup", "cpu.max") in told["cpu"]
    assert ("resctrl", "schemata") in told["llc"]
    assert ("resctrl", "schemata") in told["memory_bandwidth"]
    assert told["memory"] == [("cgroup", "memory.high")]
    assert ("pod", "metadata.annotations[kubernetes.io/egress-bandwidth]") in told["net"]


def test_the_quota_is_the_share_of_the_cores_that_are_used() -> None:
    found = throttle(throttled("cpu", Hurt(1.3, 0.3, 0.01), used=4.0), 2.0)

    assert found is not None
    assert [(field.name, field.value) for field in found.fields] == [
        ("cpu.max", "320000 100000"),
        ("cpu.weight", "1"),
        ("resources.limits.cpu", "3200m"),
    ]


def test_nothing_is_proposed_for_what_cannot_be_held_back_or_is_not_known() -> None:
    for resource in sorted({*NAMES, "cpu elsewhere"} - set(THROTTLES)):
        assert throttle(throttled(resource), 2.0) is None
    assert throttle(throttled("cpu", used=0.0), 2.0) is None
    assert throttle(throttled("cpu", used=float("nan")), 2.0) is None
