"""Quantity: what is billed of what a container requested and used. Kernel.

Quantities are integers, micro-unit-minutes: a core used for a minute is 1,000,000. They are linear in what is metered,
sums over minutes, so hours are sums of minutes in whatever order they are read.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.billing.lines.money import MICROS
from advisor.errors import Conflict

Ints = NDArray[np.int64]

HOUR = 60 * MICROS
"""Micro-unit-minutes of a unit in an hour."""
LARGEST = 2**61
"""Micro-unit-minutes of a container's hour, beyond which a quantity is a mistake and would not fit its integer."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How request and use count.

    Args:
        kappa: of use below the request, by how much the request counts, 0 to 1; the rest of it is use.
        beta: what a unit used beyond the request costs, in units requested, >= 0.
    """

    kappa: float
    beta: float


LARGER = Rule(1.0, 1.0)
"""The larger of request and use, as others bill: containers without a request pay least."""
REQUEST_ONLY = Rule(1.0, 0.0)
USAGE_ONLY = Rule(0.0, 1.0)


def rule_for(quantile: float, kappa: float) -> Rule:
    """The rule under which it is cheapest to request a quantile of one's own demand.

    Args:
        quantile: of a container's use over time, in [0, 1).
        kappa: in (0, 1].

    Raises:
        Conflict: one of them is out of its range.

    Source: the newsvendor quantile, F(request) = (beta - 1) / (beta - 1 + kappa); ours, docs/decisions/0047-pricing.md.
    """
    if not (0 <= quantile < 1 and 0 < kappa <= 1):
        raise _bad_quantities(f"quantile {quantile:g} must be in [0, 1) and kappa {kappa:g} in (0, 1]")
    return Rule(kappa, 1 + kappa * quantile / (1 - quantile))


def best_quantile(rule: Rule) -> float:
    """Which quantile of its own use it is cheapest for a container to request.

    Raises:
        Conflict: under this rule no request is cheaper than another, or only none at all.

    Source: as `rule_for`.
    """
    if rule.beta < 1 or not 0 < rule.kappa <= 1:
        raise _bad_quantities(f"kappa {rule.kappa:g} and beta {rule.beta:g} make a request never cheaper")
    return (rule.beta - 1) / (rule.beta - 1 + rule.kappa)


def billed_quantity(requested: Ints, within: Ints, beyond: Ints, rule: Rule) -> Ints:
    """What is billed of hours of one resource.

    Args:
        requested: (n,) micro-unit-minutes, >= 0: as table `metered` has them, as the next two.
        within: (n,) of them used.
        beyond: (n,) used beyond them.
        rule: how they count; kappa and beta are rounded to millionths.

    Returns:
        (n,) micro-unit-minutes, rounded half up: kappa x requested + (1 - kappa) x within + beta x beyond. By minutes
        that is kappa x request + (1 - kappa) x use up to the request, request + beta x (use - request) beyond it: the
        rule is linear in these sums, so hours are sums of minutes.

    Raises:
        Conflict: the arrays differ in length, or hold what is negative or too large to be counted.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    if not len(requested) == len(within) == len(beyond):
        raise _bad_quantities(f"{len(requested)} sums requested, {len(within)} within, {len(beyond)} beyond")
    kappa, beta = round(rule.kappa * MICROS), round(rule.beta * MICROS)
    terms = ((kappa, requested), (MICROS - kappa, within), (beta, beyond))
    if len(requested) and min(int(sums.min()) for _, sums in terms) < 0:
        raise _bad_quantities("a sum is below 0: check the metered rows")
    most = sum(factor * (int(sums.max(initial=0)) // MICROS + 1) for factor, sums in terms)
    if max(most, beta * MICROS) > LARGEST:
        raise _bad_quantities(f"more than {LARGEST:g} micro-unit-minutes in an hour: check the metered rows")
    whole = sum((factor * (sums // MICROS) for factor, sums in terms), np.zeros(len(requested), np.int64))
    parts = sum((factor * (sums % MICROS) for factor, sums in terms), np.zeros(len(requested), np.int64))
    return whole + (parts + MICROS // 2) // MICROS


def gap_quantity(known: Ints, minutes: Ints, gap_minutes: Ints) -> Ints:
    """What minutes of which nothing is known count: each as the mean of the known ones of its container.

    Args:
        known: (n,) micro-unit-minutes of the known minutes.
        minutes: (n,) how many these are; of a container of which no minute is known gaps count 0.
        gap_minutes: (n,) how many the others are.

    Returns:
        (n,) micro-unit-minutes, rounded down. What is not known is never billed to the container, and never zero.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    of = np.maximum(minutes, 1)
    return known // of * gap_minutes + known % of * gap_minutes // of


def _bad_quantities(reason: str) -> Conflict:
    return Conflict(f"cannot compute the billed quantity: {reason}")
