"""Base: a pool's cost, shared out by what everybody took, and what nobody took by its cause. Kernel.

A quantity counts its resource's price and its tier. Either everybody together pays all of the cost (full recovery), or
the pool's capacity sells for its cost and what is not sold is idle, named by its cause.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.pricing.book import PriceBook, UnitPrice
from advisor.pricing.errors import BadQuantities
from advisor.pricing.lines import PLATFORM, UNATTRIBUTED, Billed, Fact, Kind, Line, Stamp, Subject, line_id, line_of
from advisor.pricing.money import MICROS, apportion

Ints = NDArray[np.int64]
HOUR = 60 * MICROS
"""Micro-unit-minutes of a unit in an hour."""


@dataclass(frozen=True, slots=True)
class Taken:
    """n quantities of an hour, one for each container and resource, (n,) each.

    Args:
        account: team of each; UNATTRIBUTED where nobody told.
        container: its uid.
        tier: its class, as the price book names it.
        resource: the same.
        known: micro-unit-minutes, from advisor.pricing.quantity.
        gap: micro-unit-minutes of minutes of which nothing is known, which nobody in particular pays.
        gap_minutes: how many these are.
    """

    account: Sequence[str]
    container: Sequence[str]
    tier: Sequence[str]
    resource: Sequence[str]
    known: Ints
    gap: Ints
    gap_minutes: Ints


@dataclass(frozen=True, slots=True)
class Idle:
    """A cause for which a pool has more than is taken.

    Args:
        kind: headroom that the policy wants, capacity that no pending shape fits, bought ahead, or failed.
        weight: of this cause beside the others, any whole number >= 0.
        keys: accounts that pay for it, each with a whole number >= 0.
    """

    kind: Kind
    weight: int
    keys: tuple[tuple[str, int], ...] = ((PLATFORM, 1),)


@dataclass(frozen=True, slots=True)
class Pool:
    """What a pool cost in an hour, and what there was of it.

    Args:
        cost_micros: micro-units of currency; negative for a credit.
        capacity: micro-unit-minutes by resource.
        idle: causes; without any, the platform pays for what nobody took.
    """

    cost_micros: int
    capacity: Mapping[str, int]
    idle: tuple[Idle, ...] = ()


def base_lines(pool: Pool, taken: Taken, book: PriceBook, stamp: Stamp) -> tuple[Line, ...]:
    """Lines of one pool and hour that sum to its cost.

    Args:
        pool: cost, capacity and causes.
        taken: quantities; where they are worth more than the capacity, the price falls until they cost what the pool
            does. Nobody pays for more than there was.
        book: prices, tiers, and who pays for the remainder.
        stamp: of all lines.

    Returns:
        One line a quantity, one a gap (to UNATTRIBUTED), one for each cause and account. With nothing at all to share
        by, the cost is one line to UNATTRIBUTED.

    Raises:
        BadQuantities: columns differ in length, quantities are below 0, or a resource or tier is not in the book.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    weights = _weights(taken, book)
    charges = [_charge(taken, row, stamp) for row in range(len(weights))]
    gaps = [(row, _gap(taken, row, stamp)) for row in np.flatnonzero(taken.gap_minutes).tolist()]
    shares = [weight * quantity for weight, quantity in zip(weights, taken.known.tolist(), strict=True)]
    shares += [weights[row] * int(taken.gap[row]) for row, _ in gaps]
    rest = _rest(pool, book, sum(shares))
    whole = sum(shares) + rest
    lines = [*charges, *(line for _, line in gaps)]
    if not whole:
        return (line_of(stamp, Subject(UNATTRIBUTED), "unattributed", pool.cost_micros), *lines)
    amounts = apportion(pool.cost_micros, [*shares, rest], [*(line.id for line in lines), "~"]).tolist()
    units = {price.resource: price.unit for price in book.prices}
    rows = [*range(len(charges)), *(row for row, _ in gaps)]
    quantities = [*taken.known.tolist(), *(int(taken.gap[row]) for row, _ in gaps)]
    priced = tuple(
        replace(
            line,
            amount_micros=amount,
            billed=Billed(quantity, units[taken.resource[row]], pool.cost_micros * weights[row] * HOUR / whole),
        )
        for line, amount, row, quantity in zip(lines, amounts[:-1], rows, quantities, strict=True)
    )
    return (*priced, *idle_lines(amounts[-1], pool.idle, stamp))


def idle_lines(amount_micros: int, causes: Sequence[Idle], stamp: Stamp) -> tuple[Line, ...]:
    """What nobody took, by cause, and each cause by its own key.

    Args:
        amount_micros: of all causes together.
        causes: each at most once; with weights of 0 throughout the platform pays.
        stamp: of all lines.

    Returns:
        Lines that sum to the amount, those of 0 left out; a cause whose key names nobody is UNATTRIBUTED.

    Raises:
        BadWeights: a weight is negative.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    if not any(cause.weight for cause in causes):
        causes = (Idle("idle_headroom", 1),)
    parts = apportion(amount_micros, [cause.weight for cause in causes], [cause.kind for cause in causes]).tolist()
    lines = []
    for cause, part in zip(causes, parts, strict=True):
        keys = cause.keys if any(weight for _, weight in cause.keys) else ((UNATTRIBUTED, 1),)
        names = [line_id(stamp, Subject(account), cause.kind) for account, _ in keys]
        shares = apportion(part, [weight for _, weight in keys], names).tolist()
        lines += [line_of(stamp, Subject(keys[i][0]), cause.kind, share) for i, share in enumerate(shares) if share]
    return tuple(lines)


def _weights(taken: Taken, book: PriceBook) -> list[int]:
    """(n,) what a micro-unit-minute of each row counts."""
    prices = {price.resource: price.weight_micros for price in book.prices}
    tiers = {tier.name: tier.ppm for tier in book.tiers}
    columns = (taken.account, taken.container, taken.tier, taken.resource, taken.known, taken.gap, taken.gap_minutes)
    if len({len(column) for column in columns}) != 1:
        raise BadQuantities(f"columns of {sorted({len(column) for column in columns})} rows")
    if len(taken.known) and min(taken.known.min(), taken.gap.min()) < 0:
        raise BadQuantities("a quantity is below 0: look at what was metered")
    strange = {*taken.resource} - prices.keys() | {*taken.tier} - tiers.keys()
    if strange:
        raise BadQuantities(f"{', '.join(sorted(strange)[:5])} not in price book {book.version!r}: name it there")
    return [prices[resource] * tiers[tier] for resource, tier in zip(taken.resource, taken.tier, strict=True)]


def _rest(pool: Pool, book: PriceBook, sold: int) -> int:
    """What of the capacity is left to sell, weighed as the shares are."""
    if book.policy.recovery == "full" and sold:
        return 0
    return max(0, sum(_worth(price, pool) for price in book.prices) - sold)


def _worth(price: UnitPrice, pool: Pool) -> int:
    return price.weight_micros * MICROS * pool.capacity.get(price.resource, 0)


def _charge(taken: Taken, row: int, stamp: Stamp) -> Line:
    subject = Subject(taken.account[row], taken.container[row], None, taken.resource[row])
    return line_of(stamp, subject, "base", 0, (Fact("tier", taken.tier[row]),))


def _gap(taken: Taken, row: int, stamp: Stamp) -> Line:
    subject = Subject(UNATTRIBUTED, taken.container[row], None, taken.resource[row])
    about = (Fact("team", taken.account[row]), Fact("minutes_not_known", int(taken.gap_minutes[row])))
    return line_of(stamp, subject, "unattributed", 0, about)
