"""The bound: below every packing, and above what sums of resources say."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from advisor.purchase.device_bound import device_bound, device_counts, device_patterns
from advisor.purchase.first_fit import cost_of, first_fit
from advisor.purchase.instance import DEVICE, NO_LIMIT
from benchmarks.purchase import trace_instance
from tests.advisor.purchase.drawn_instances import Machine, Pod, machines, made, pods

GPU = ("gpu", 100, 100, 2, 10.0, NO_LIMIT)


@given(pods(), machines())
def test_no_packing_costs_less(pods: list[Pod], machines: list[Machine]) -> None:
    wanted = made(pods, machines)

    assert device_bound(wanted).cost <= cost_of(wanted, first_fit(wanted)) + 1e-6


def test_shares_that_cannot_be_together_need_a_device_each() -> None:
    wanted = made([(1, 1, 0, 600, 4)], [GPU])

    assert device_bound(wanted).cost == pytest.approx(20.0)


def test_whole_devices_and_shares_are_counted_together() -> None:
    wanted = made([(1, 1, 1, 0, 2), (1, 1, 0, 500, 4)], [GPU])

    assert device_bound(wanted).cost == pytest.approx(20.0)


def test_a_pod_more_costs_what_its_worth_says() -> None:
    fewer, more = (made([(1, 1, 0, 500, n)], [GPU]) for n in (40, 41))

    assert device_bound(more).cost - device_bound(fewer).cost == pytest.approx(device_bound(fewer).worth[0])


def test_a_machine_more_of_what_is_there_saves_what_scarcity_says() -> None:
    few, more = (
        made([(10, 1, 0, 0, 20)], [("old", 10, 10, 0, 0.0, n), ("new", 20, 20, 0, 3.0, NO_LIMIT)]) for n in (4, 5)
    )

    assert device_bound(few).cost - device_bound(more).cost == pytest.approx(device_bound(few).scarce[0])


def test_too_few_machines_have_no_bound() -> None:
    assert device_bound(made([(10, 1, 0, 0, 2)], [("old", 10, 10, 0, 1.0, 1)])).cost == float("inf")


def test_too_few_machines_cannot_be_counted() -> None:
    with pytest.raises(ValueError, match="no whole numbers of machines"):
        device_counts(made([(10, 1, 0, 0, 2)], [("old", 10, 10, 0, 1.0, 1)]), 5.0)


def test_patterns_are_full_and_no_more_than_full() -> None:
    sizes = np.array([150, 300, 450])

    held = device_patterns(sizes) @ sizes

    assert (held <= DEVICE).all()
    assert (held + sizes[0] > DEVICE).all()
    assert len(np.unique(device_patterns(sizes), axis=0)) == len(held)


def test_many_sizes_are_rounded_down_and_stay_a_bound() -> None:
    shares = np.arange(20, 320, 3).tolist()
    wanted = made([(1, 1, 0, share, 2) for share in shares], [GPU])

    found = device_bound(wanted).cost

    assert sum(shares) * 2 / DEVICE * 5.0 <= found + 1e-6 <= cost_of(wanted, first_fit(wanted))


@pytest.mark.public_data
@pytest.mark.skipif("BENCH_DATA" not in os.environ, reason="BENCH_DATA names no folder with public data")
@pytest.mark.parametrize(("fleet", "demand", "bound"), [("none", 1.0, 10_699.62), ("openb", 1.2, 2_299.33)])
def test_the_public_trace_has_the_known_bound(fleet: str, demand: float, bound: float) -> None:
    wanted = trace_instance(Path(os.environ["BENCH_DATA"]) / "purchase", fleet, demand)

    assert device_bound(wanted).cost == pytest.approx(bound, abs=0.01)
