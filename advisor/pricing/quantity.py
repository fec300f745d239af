"""Quantity: what is billed of what a container requested and used, minute by minute. Kernel.

Quantities are integers, micro-unit-minutes: a core used for a minute is 1,000,000. So hours are sums of minutes to the
last unit, in whatever order they are read.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.pricing.errors import BadQuantities
from advisor.pricing.money import MICROS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LARGEST = 1e9
"""Units of a resource in one container, beyond which a quantity is a mistake and would not fit its integer."""


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
"""The larger of request and use, as others bill: whoever asks for nothing pays least."""
REQUEST_ONLY = Rule(1.0, 0.0)
USAGE_ONLY = Rule(0.0, 1.0)


def rule_for(quantile: float, kappa: float) -> Rule:
    """The rule under which it is cheapest to request a quantile of one's own demand.

    Args:
        quantile: of a container's use over time, in [0, 1).
        kappa: in (0, 1].

    Raises:
        BadQuantities: one of them is out of its range.

    Source: the newsvendor quantile, F(request) = (beta - 1) / (beta - 1 + kappa); ours, docs/decisions/0047-pricing.md.
    """
    if not (0 <= quantile < 1 and 0 < kappa <= 1):
        raise BadQuantities(f"quantile {quantile:g} must be in [0, 1) and kappa {kappa:g} in (0, 1]")
    return Rule(kappa, 1 + kappa * quantile / (1 - quantile))


def best_quantile(rule: Rule) -> float:
    """Which quantile of its own use it is cheapest for a container to request.

    Raises:
        BadQuantities: under this rule no request is cheaper than another, or only none at all.

    Source: as `rule_for`.
    """
    if rule.beta < 1 or not 0 < rule.kappa <= 1:
        raise BadQuantities(f"kappa {rule.kappa:g} and beta {rule.beta:g} give nobody a reason for a request")
    return (rule.beta - 1) / (rule.beta - 1 + rule.kappa)


def billable(request: Floats, use: Floats, rule: Rule) -> Floats:
    """What is billed of minutes of one resource.

    Args:
        request: (n,) units requested, >= 0; NaN where nobody told.
        use: (n,) units used, mean over the minute, >= 0; NaN where it was not measured.
        rule: how they count.

    Returns:
        (n,) units: kappa x request + (1 - kappa) x use up to the request, request + beta x (use - request) beyond it.
        Where one is missing the other one is billed; NaN where both are, for nobody knows what to bill.

    Raises:
        BadQuantities: the arrays differ in length, or hold what is negative or beyond LARGEST.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    if request.shape != use.shape:
        raise BadQuantities(f"{len(request)} requests and {len(use)} uses")
    for name, values in (("request", request), ("use", use)):
        if (values < 0).any() or (values > LARGEST).any():
            raise BadQuantities(f"a {name} is below 0 or beyond {LARGEST:g} units: look at what was metered")
    asked, used = np.where(np.isnan(request), use, request), np.where(np.isnan(use), request, use)
    within = rule.kappa * asked + (1 - rule.kappa) * used
    return np.where(used <= asked, within, asked + rule.beta * (used - asked))


@dataclass(frozen=True, slots=True)
class Hour:
    """Quantities of k containers in an hour, (k,) each.

    Args:
        known: micro-unit-minutes of the minutes of which request or use is known.
        gap: micro-unit-minutes of the others, each counted as the mean of the known ones of its container.
        gap_minutes: how many these are. A container of which no minute is known has a gap of 0 here, and every minute.
    """

    known: Ints
    gap: Ints
    gap_minutes: Ints


def by_hour(container: Ints, minute: Floats, containers: int) -> Hour:
    """Add minutes up.

    Args:
        container: (n,) which container each minute is of, from 0.
        minute: (n,) units from `billable`; NaN where nothing is known.
        containers: how many there are.

    Returns:
        Sums of minutes that were each rounded to micro-units, so that order and grouping make no difference. What is
        not known is never billed to the container, and never zero: it is a gap.

    Raises:
        BadQuantities: the arrays differ in length, or name a container that there is not.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    if len(container) != len(minute) or (len(container) and not 0 <= container.min() <= container.max() < containers):
        raise BadQuantities(
            f"{len(minute)} minutes of {len(container)} containers, numbered from 0 to {containers - 1}"
        )
    missing = np.isnan(minute)
    known, minutes, gaps = np.zeros((3, containers), np.int64)
    np.add.at(known, container, np.rint(np.where(missing, 0.0, minute) * MICROS).astype(np.int64))
    np.add.at(minutes, container, (~missing).astype(np.int64))
    np.add.at(gaps, container, missing.astype(np.int64))
    return Hour(known, known * gaps // np.maximum(minutes, 1), gaps)
