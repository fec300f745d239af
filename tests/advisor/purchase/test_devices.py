"""Shares on devices: placed where a way exists, and refused only where none does."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from advisor.purchase.devices import placed_on_devices
from advisor.purchase.instance import DEVICE


def fits(shares: list[int], devices: int) -> bool:
    """By trying everything."""
    ways = product(range(devices), repeat=len(shares))
    return any(
        all(sum(s for s, at in zip(shares, way, strict=True) if at == on) <= DEVICE for on in range(devices))
        for way in ways
    )


@given(st.lists(st.integers(1, DEVICE), max_size=6), st.integers(0, 3))
def test_shares_are_placed_exactly_where_some_way_exists(shares: list[int], devices: int) -> None:
    assert (placed_on_devices(shares, devices) is not None) == fits(shares, devices)


@given(st.lists(st.integers(1, DEVICE), max_size=14), st.integers(0, 8))
def test_no_device_holds_more_than_a_whole(shares: list[int], devices: int) -> None:
    found = placed_on_devices(shares, devices)

    held = [0] * devices
    for share, on in zip(shares if found else (), found or (), strict=True):
        held[on] += share
    assert all(one <= DEVICE for one in held)


def test_a_sum_that_fits_is_not_enough() -> None:
    assert placed_on_devices([600, 600, 800], 2) is None


def test_fullest_first_is_not_enough() -> None:
    shares = [460, 440, 340, 300, 260, 200]

    assert placed_on_devices(shares, 2) is not None
