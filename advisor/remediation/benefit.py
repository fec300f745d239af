"""Relief: what less slowdown is worth, in the cost that placements are scored by. Kernel.

All gains and costs are of one scale: a latency-sensitive container slowed to twice its normal costs 2 in an hour, see
advisor.scoring.score_scale. So a throttle, a move and a harmed neighbour can be compared.
"""

from dataclasses import dataclass
from math import erfc, sqrt

import numpy as np
from numpy.typing import NDArray

from advisor.diagnosis.slowdown_causes import TWO_SIDED_90
from advisor.scoring.score_scale import LIMIT_SLOWDOWN, LS_WEIGHT, VIOLATION_WEIGHT, violation

Floats = NDArray[np.float64]

NODES, WEIGHTS = (values.astype(np.float64) for values in np.polynomial.hermite_e.hermegauss(9))
"""Of the quadrature over a normal distribution."""
SHARES: Floats = WEIGHTS / WEIGHTS.sum()

CHANGES = 0.1
"""Standard deviation of a container's slowdown from one half hour to the next, as a share of it."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A cost an hour that is not known exactly.

    Args:
        mean: what is expected.
        variance: of it.
    """

    mean: float
    variance: float

    def __add__(self, other: "Amount") -> "Amount":
        """Of both together; their errors are taken for independent."""
        return Amount(self.mean + other.mean, self.variance + other.variance)

    def scaled(self, by: float) -> "Amount":
        """So many times it."""
        return Amount(by * self.mean, by * by * self.variance)

    @property
    def low(self) -> float:
        """Of a 90 % interval."""
        return self.mean - TWO_SIDED_90 * sqrt(self.variance)

    @property
    def high(self) -> float:
        """Of it."""
        return self.mean + TWO_SIDED_90 * sqrt(self.variance)


NOTHING = Amount(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Hurt:
    """What one neighbour does to a latency-sensitive container.

    Args:
        slowdown: of the victim, ratio to its baseline.
        added: slowdown - 1 that goes away without the neighbour.
        spread: standard deviation of that.
    """

    slowdown: float
    added: float
    spread: float


def degradation(slowdown: Floats) -> Floats:
    """Cost an hour of latency-sensitive containers.

    Args:
        slowdown: (n,) ratios to their normal.

    Returns:
        (n,) as advisor.scoring.score_scale counts it; NaN in, NaN out.

    Raises:
        Nothing.
    """
    cost: Floats = LS_WEIGHT * np.maximum(slowdown - 1.0, 0.0) + VIOLATION_WEIGHT * violation(slowdown)
    return cost


def relief(hurt: Hurt, share: float) -> Amount:
    """What is saved in an hour when a share of what the neighbour does goes away.

    Args:
        hurt: the victims, and that neighbour's share of each slowdown.
        share: 0 to 1.

    Returns:
        The gain: its mean and variance over what the neighbour may really add.

    Raises:
        Nothing.

    Source: Gauss-Hermite quadrature, Abramowitz and Stegun 25.4.46.
    """
    gains = degradation(np.array([hurt.slowdown])) - degradation(_after(hurt, share))
    mean = float(SHARES @ gains)
    return Amount(mean, float(SHARES @ (gains - mean) ** 2))


def measured_degradation(slowdown: float) -> Amount:
    """Cost an hour of a latency-sensitive container that was measured to be so slow; it will not stay just so."""
    costs = degradation(np.maximum(slowdown * (1.0 + CHANGES * NODES), 1.0))
    mean = float(SHARES @ costs)
    return Amount(mean, float(SHARES @ (costs - mean) ** 2))


def sufficient(hurt: Hurt, share: float) -> float:
    """Probability that the victim is within the limit once a share of the neighbour's effect is removed."""
    left = hurt.slowdown - share * hurt.added
    spread = max(share * hurt.spread, 1e-9)
    return _normal((LIMIT_SLOWDOWN - left) / spread)


def _after(hurt: Hurt, share: float) -> Floats:
    """Slowdown at the nodes of the quadrature; a neighbour adds nothing below 0, and not more than there is."""
    added = np.clip(hurt.added + hurt.spread * NODES, 0.0, max(hurt.slowdown - 1.0, 0.0))
    after: Floats = hurt.slowdown - share * added
    return after


def _normal(score: float) -> float:
    return 0.5 * erfc(-score / sqrt(2.0))
