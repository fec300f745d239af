"""Money: whole micro-units, shared out so that nothing is lost or invented. Kernel.

A micro-unit is 10^-6 of a currency's major unit: 1.25 EUR are 1,250,000. Amounts are integers throughout, since sums of
rounded fractions miss their total.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from advisor.billing.lines.errors import UnknownCurrency
from advisor.errors import AdvisorError
from features.metering.currencies import BY_DIGITS, MEANT

Ints = NDArray[np.int64]

MICROS = 1_000_000
"""Micro-units of a major unit, and parts of a whole where a share is in parts per million (`_ppm`)."""
MAX_TOTAL = 2**50
MAX_WHOLE = 2**61
"""Up to these, doubles are near enough for `in_order_64`: a billion of a currency, by most price books' weights."""


def apportion(total: int, weights: Sequence[int], ids: Sequence[str]) -> Ints:
    """Share an amount out in proportion to weights, by largest remainder.

    Args:
        total: micro-units, of either sign; what is shared of -total is minus what is shared of total.
        weights: (n,) whole numbers >= 0, of any size; fractions are scaled up by the caller.
        ids: (n,) names of the lines, all different. Of equal remainders the smaller name gets the unit, so that the
            order of the lines makes no difference.

    Returns:
        (n,) micro-units that sum to `total` exactly, each less than one unit away from its exact share; 0 for a weight
        of 0. Missing weights are not allowed.

    Raises:
        AdvisorError: there is something to share, and all weights are 0, or there are none; a weight is negative, or
            names and weights differ in number.

    Source: Hamilton's method; Balinski and Young, "Fair representation", 1982.
    """
    shares = [int(weight) for weight in weights]
    if len(shares) != len(ids) or (shares and min(shares) < 0):
        raise AdvisorError(
            f"invalid apportionment weights: {len(shares)} weights, {len(ids)} names, smallest weight "
            f"{min(shares, default=0)}"
        )
    order = sorted(range(len(ids)), key=ids.__getitem__)
    found = np.zeros(len(shares), np.int64)
    found[order] = in_order(total, [shares[line] for line in order])
    return found


def in_order(total: int, weights: Sequence[int]) -> Ints:
    """As `apportion`, of lines that stand in their order: of equal remainders the first gets the unit.

    Args:
        total: micro-units, of either sign.
        weights: (n,) whole numbers >= 0, of any size.

    Returns:
        (n,) micro-units that sum to `total` exactly.

    Raises:
        AdvisorError: there is something to share, and all weights are 0, or there are none.

    Source: as `apportion`.
    """
    whole = sum(weights)
    if not whole:
        if total:
            raise AdvisorError(
                f"{total} micro-units cannot be apportioned, all weights are 0: bill them to `unattributed`"
            )
        return np.zeros(len(weights), np.int64)
    parts = [divmod(abs(total) * weight, whole) for weight in weights]
    found = np.array([amount for amount, _ in parts], np.int64)
    found[_largest([left for _, left in parts])[: abs(total) - int(found.sum())]] += 1
    return found if total >= 0 else -found


def in_order_64(total: int, weights: Ints) -> Ints:
    """`in_order`, column by column, where the numbers are small enough for it; the same to the last unit.

    Args:
        total: micro-units, of either sign.
        weights: (n,) whole numbers >= 0.

    Returns:
        (n,) micro-units, as `in_order`; from it, where total or weights are beyond MAX_TOTAL or MAX_WHOLE.

    Raises:
        AdvisorError: as `in_order`.

    Source: as `apportion`. A quotient of doubles is off by one at most here; what it leaves is exact modulo 2^64,
        lies within 2^63, and puts it right.
    """
    size, whole = abs(total), exact_total(weights)
    if not whole or size > MAX_TOTAL or whole > MAX_WHOLE:
        return in_order(total, weights.tolist())
    found: Ints = np.floor(weights.astype(np.float64) / float(whole) * float(size)).astype(np.int64)
    left = weights * np.int64(size) - found * np.int64(whole)  # wraps around, as it should
    off = left // whole
    found, left = found + off, left - off * whole
    more = size - int(found.sum())
    if more:
        least = np.partition(left, len(left) - more)[len(left) - more]
        first = left > least
        first[np.flatnonzero(left == least)[: more - int(first.sum())]] = True
        found += first
    return found if total >= 0 else -found


def exact_total(values: Ints) -> int:
    """Sum of whole numbers, however large."""
    low = (1 << 31) - 1
    return (int((values >> 31).sum()) << 31) + int((values & low).sum())


@dataclass(frozen=True, slots=True)
class Payable:
    """What accounts pay in the coins of their currency.

    Args:
        minor: (n,) whole minor units (cents, yen) by account.
        residue_micros: what no coin can pay, a line of its own: minor units and residue together are the micro-units.
    """

    minor: Ints
    residue_micros: int


def payable(micros: Sequence[int], ids: Sequence[str], exponent: int) -> Payable:
    """Turn the micro-units that accounts owe into minor units, by one more largest remainder.

    Args:
        micros: (n,) what accounts owe, of either sign.
        ids: (n,) their names, all different.
        exponent: digits behind the point that the currency is paid in, 0 to 6.

    Returns:
        Minor units, each less than one away from its account's exact amount; their sum is the total, rounded half up.
        The residue is at most half a minor unit.

    Raises:
        AdvisorError: names and amounts differ in number, or the exponent is outside its range.

    Source: as `apportion`.
    """
    if len(micros) != len(ids) or not 0 <= exponent <= 6:
        raise AdvisorError(
            f"invalid apportionment weights: {len(micros)} amounts, {len(ids)} names, exponent {exponent}"
        )
    coin = MICROS // 10**exponent
    owed = [int(amount) for amount in micros]
    minor, left = np.array([amount // coin for amount in owed], np.int64), [amount % coin for amount in owed]
    order = sorted(range(len(ids)), key=ids.__getitem__)
    chosen = _largest([left[line] for line in order])[: (2 * sum(left) + coin) // (2 * coin)]
    minor[[order[line] for line in chosen]] += 1
    return Payable(minor, sum(owed) - coin * int(minor.sum()))


def share_of(amount: int, share_ppm: int) -> int:
    """A share of an amount, in parts per million of any sign, rounded towards zero, so that no bound is passed."""
    size = abs(amount * share_ppm) // MICROS
    return size if (amount < 0) == (share_ppm < 0) else -size


def _largest(left: Sequence[int]) -> list[int]:
    """Which lines have something left, the most first, then as they stand."""
    return sorted((line for line, rest in enumerate(left) if rest), key=lambda line: -left[line])


def written(micros: int, currency: str = "") -> str:
    """An amount to the micro-unit, as people read it: 1.250001 EUR."""
    return f"{Decimal(micros) / MICROS:,.6f} {currency}".rstrip()


def in_coins(minor: int, exponent: int) -> str:
    """Whole coins in major units, as people read it: 724 of exponent 2 are 7.24; of 0, as yen are, 724."""
    return f"{Decimal(minor).scaleb(-exponent):,.{exponent}f}"


def exponent_of(code: str) -> int:
    """Digits behind the point that a currency is paid in: 0, 2 or 3.

    Raises:
        UnknownCurrency: it is none, or not one that is paid in.

    Source: ISO 4217:2015, list one.
    """
    for digits, codes in BY_DIGITS.items():
        if code in codes.split():
            return digits
    raise UnknownCurrency(code, MEANT.get(code.strip().upper(), ""))
