"""Scarcity: base charges weighed by how scarce a resource was said to be; all together pay the same. Kernel.

How scarce an hour will be, and the mean of a period, are published before it begins, and settled as published. What
that misses by is a true-up line for each account, in proportion to its base.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.pricing.lines import Fact, Line, Stamp, Subject, line_id, line_of
from advisor.pricing.money import MICROS, apportion, share_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_PPM, MOST_PPM = MICROS // 2, 2 * MICROS
"""A price is halved or doubled at most."""
BEND = 4
"""Power of the forecast utilisation: at half of it hardly anything is scarce."""


def scarcity_ppm(utilisation: Floats) -> Ints:
    """What is published of an hour: how scarce a resource will be.

    Args:
        utilisation: (n,) forecast share of the capacity that is taken, >= 0, 1 is all of it; NaN where there is none.

    Returns:
        (n,) millionths, 0 to 1,000,000, rising ever faster; 0 where nothing was forecast, so that nobody pays for it.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    return np.rint(np.clip(np.nan_to_num(utilisation), 0.0, 1.0) ** BEND * MICROS).astype(np.int64)


def factors_ppm(scarcity: Ints, mean_ppm: int, gamma_ppm: int) -> Ints:
    """By what a base charge is multiplied.

    Args:
        scarcity: (n,) millionths as published, at most 10^9.
        mean_ppm: of the period, as published before it.
        gamma_ppm: how strongly scarcity moves prices, at most 10^9.

    Returns:
        (n,) millionths: 1 + gamma x (scarcity - mean), within LEAST_PPM and MOST_PPM.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    return np.clip(MICROS + gamma_ppm * (scarcity - mean_ppm) // MICROS, LEAST_PPM, MOST_PPM)


def scarcity_lines(base: Sequence[Line], factor_ppm: Mapping[str, int]) -> tuple[Line, ...]:
    """What scarcity adds to or takes off the base charges of one hour.

    Args:
        base: lines of kind `base`; others are passed over.
        factor_ppm: by resource, from `factors_ppm`; 1,000,000 where nothing was published.

    Returns:
        One line for each base line that changes, rounded towards zero.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    lines = []
    for line in base:
        factor = factor_ppm.get(line.subject.resource or "", MICROS)
        added = share_of(line.amount_micros, factor - MICROS)
        if line.kind == "base" and added:
            about = (Fact("factor_ppm", factor), Fact("base_micros", line.amount_micros))
            lines.append(line_of(line.stamp, line.subject, "scarcity", added, about))
    return tuple(lines)


def true_up_lines(base: Sequence[Line], scarcity: Sequence[Line], stamp: Stamp) -> tuple[Line, ...]:
    """What brings a period's scarcity back to nothing, for each account in proportion to its base.

    Args:
        base: all lines of kind `base` of a pool and period; others are passed over.
        scarcity: all lines from `scarcity_lines` of them.
        stamp: of the period, without an hour.

    Returns:
        Lines that sum to minus the scarcity lines, to the last unit, those of 0 left out.

    Raises:
        NothingToShareBy: there is scarcity without any base.
        BadWeights: accounts have a base below 0, that is, the pool's cost was a credit.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    bases: dict[str, int] = defaultdict(int)
    for line in base:
        if line.kind == "base":
            bases[line.subject.account] += line.amount_micros
    left = -sum(line.amount_micros for line in scarcity)
    names = [line_id(stamp, Subject(account), "scarcity_true_up") for account in bases]
    shares = apportion(left, list(bases.values()), names).tolist()
    return tuple(
        line_of(stamp, Subject(account), "scarcity_true_up", share, (Fact("base_micros", bases[account]),))
        for account, share in zip(bases, shares, strict=True)
        if share
    )
