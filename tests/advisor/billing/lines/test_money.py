"""Money: nothing is lost, nothing invented, and the order of lines makes no difference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.billing.lines.errors import UnknownCurrency
from advisor.billing.lines.money import (
    MICROS,
    apportion,
    exact_total,
    exponent_of,
    in_coins,
    in_order,
    in_order_64,
    payable,
    share_of,
)
from advisor.errors import AdvisorError

TOTALS = st.integers(-(10**15), 10**15)
WEIGHTS = st.lists(st.integers(0, 10**24), min_size=1, max_size=40).filter(any)
OWED = st.lists(st.integers(-(10**13), 10**13), min_size=1, max_size=40)


def names(count: int) -> list[str]:
    return [f"line-{i:03d}" for i in range(count)]


@given(total=TOTALS, weights=WEIGHTS)
def test_shares_sum_to_the_total_to_the_last_unit(total: int, weights: list[int]) -> None:
    assert sum(apportion(total, weights, names(len(weights))).tolist()) == total


@given(total=TOTALS, weights=WEIGHTS)
def test_every_share_is_less_than_a_unit_from_the_exact_one(total: int, weights: list[int]) -> None:
    shares = apportion(total, weights, names(len(weights))).tolist()

    whole = sum(weights)
    assert all(abs(share * whole - total * weight) < whole for share, weight in zip(shares, weights, strict=True))


@given(total=TOTALS, weights=WEIGHTS, seed=st.integers(0, 99))
def test_the_order_of_lines_makes_no_difference(total: int, weights: list[int], seed: int) -> None:
    """I3, of the kernel that all amounts come from."""
    ids, order = names(len(weights)), np.random.default_rng(seed).permutation(len(weights))

    shuffled = apportion(total, [weights[i] for i in order], [ids[i] for i in order])

    assert shuffled.tolist() == apportion(total, weights, ids)[order].tolist()


@given(
    total=st.integers(-(2**51), 2**51),
    weights=st.lists(st.one_of(st.integers(0, 9), st.integers(0, 2**58)), min_size=1, max_size=40).filter(any),
)
def test_column_by_column_shares_are_the_same_to_the_last_unit(total: int, weights: list[int]) -> None:
    found = in_order_64(total, np.array(weights, np.int64))

    assert (
        found.tolist() == in_order(total, weights).tolist() == apportion(total, weights, names(len(weights))).tolist()
    )


@given(values=st.lists(st.integers(-(2**62), 2**62), max_size=20))
def test_a_sum_is_exact_however_large(values: list[int]) -> None:
    assert exact_total(np.array(values, np.int64)) == sum(values)


@given(total=TOTALS, weights=WEIGHTS)
def test_taking_back_what_was_shared_leaves_nothing(total: int, weights: list[int]) -> None:
    ids = names(len(weights))

    assert not (apportion(total, weights, ids) + apportion(-total, weights, ids)).any()


def test_of_equal_remainders_the_smaller_name_gets_the_unit() -> None:
    assert apportion(2, [1, 1, 1], ["c", "a", "b"]).tolist() == [0, 1, 1]
    assert apportion(100, [3, 3, 3, 0], ["c", "b", "a", "0"]).tolist() == [33, 33, 34, 0]


def test_nothing_is_shared_by_weights_of_nothing() -> None:
    """I12, of the kernel: whoever shares has to say where the cost goes instead."""
    with pytest.raises(AdvisorError, match="bill them to `unattributed`"):
        apportion(7, [0, 0], ["a", "b"])
    with pytest.raises(AdvisorError, match="micro-units cannot be apportioned, all weights"):
        apportion(-7, [], [])
    assert apportion(0, [0, 0], ["a", "b"]).tolist() == [0, 0]


@pytest.mark.parametrize(("weights", "ids"), [([1, -1], ["a", "b"]), ([1], ["a", "b"])])
def test_weights_that_make_no_sense_are_refused(weights: list[int], ids: list[str]) -> None:
    with pytest.raises(AdvisorError, match="invalid apportionment weights"):
        apportion(7, weights, ids)


def test_of_three_hundred_thousand_lines_none_is_a_unit_off() -> None:
    weights = np.random.default_rng(0).integers(0, 2**62, 300_000).tolist()
    ids = [f"{i:06d}" for i in range(300_000)]
    total, whole = 10**13 + 7, sum(weights)

    shares = apportion(total, weights, ids).tolist()

    assert sum(shares) == total
    assert all(abs(share * whole - total * weight) < whole for share, weight in zip(shares, weights, strict=True))


@given(owed=OWED, exponent=st.sampled_from([0, 2, 3]))
def test_coins_and_residue_are_all_that_is_owed(owed: list[int], exponent: int) -> None:
    found = payable(owed, names(len(owed)), exponent)

    coin = MICROS // 10**exponent
    assert coin * sum(found.minor.tolist()) + found.residue_micros == sum(owed)
    assert abs(2 * found.residue_micros) <= coin
    assert all(abs(coin * paid - due) < coin for paid, due in zip(found.minor.tolist(), owed, strict=True))


def test_a_total_of_cents_is_paid_to_the_cent() -> None:
    found = payable([3_333_333, 3_333_333, 3_333_334], ["a", "b", "c"], exponent_of("EUR"))

    assert (found.minor.tolist(), found.residue_micros) == ([333, 333, 334], 0)


def test_yen_have_no_hundredths_and_dinars_have_thousandths() -> None:
    owed, ids = [1_400_000, 1_400_000], ["a", "b"]

    assert payable(owed, ids, exponent_of("JPY")).minor.tolist() == [2, 1]
    assert payable(owed, ids, exponent_of("JPY")).residue_micros == -200_000
    assert payable(owed, ids, exponent_of("KWD")).minor.tolist() == [1400, 1400]


@pytest.mark.parametrize(("code", "says"), [("RMB", "write CNY"), ("usd", "three capital letters"), ("XAU", "USD")])
def test_a_currency_that_nobody_pays_in_is_refused(code: str, says: str) -> None:
    with pytest.raises(UnknownCurrency, match=says):
        exponent_of(code)


def test_a_share_never_passes_its_bound() -> None:
    assert (share_of(999_999, 200_000), share_of(-999_999, 200_000)) == (199_999, -199_999)


@pytest.mark.parametrize(
    ("minor", "code", "told"),
    [
        (724, "EUR", "7.24"),
        (-5, "EUR", "-0.05"),
        (1_234_567, "EUR", "12,345.67"),
        (724, "JPY", "724"),
        (1, "KWD", "0.001"),
    ],
)
def test_coins_are_written_in_major_units(minor: int, code: str, told: str) -> None:
    assert in_coins(minor, exponent_of(code)) == told
