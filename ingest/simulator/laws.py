"""Laws of other forms than the built-in one, for judging models on a truth that is not of their own form. Kernel."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ingest.simulator.law import HIDDEN, PLATFORMS, Apps, Floats, Ints, Law, SaturatingLaw, capacities_of

LLC, MEMBW = HIDDEN.index("llc"), HIDDEN.index("memory_bandwidth")


@dataclass(frozen=True, slots=True)
class QueueingLaw:
    """Each resource is a queue of few places that the victim's own load fills too; delays multiply.

    slowdown = prod_r (1 + gain * sensitivity_r * L(own_r + others_r)) / (1 + gain * sensitivity_r * L(own_r)), L the
    mean length of an M/M/1/K queue, which is rho / (1 - rho) for a small rho and ends at K.
    """

    apps: Apps
    places: int = 5
    gain: float = 0.2

    def slowdown(self, victim: Ints, neighbours: Floats, load: Floats, platform: Ints) -> Floats:
        """See Law."""
        capacity = capacities_of(PLATFORMS)[platform]
        own = self.apps.demand[victim] * load[:, None] / capacity
        others = neighbours @ self.apps.pressure / capacity
        weight = self.gain * self.apps.sensitivity[victim]
        delays = (1.0 + weight * queue_length(own + others, self.places)) / (
            1.0 + weight * queue_length(own, self.places)
        )
        ratio: Floats = np.maximum(delays.prod(axis=1), 1.0)
        return ratio


@dataclass(frozen=True, slots=True)
class ThresholdLaw:
    """Nothing happens up to a knee, which a busy victim reaches sooner; then the worst resource alone counts.

    slowdown = 1 + max_r harm_r + synergy * sqrt(harm_llc * harm_memory_bandwidth), harm_r = gain * sensitivity_r *
    (how far the
    pressure is past the knee): a cache that no longer holds two costs most where bandwidth is short as well.
    """

    apps: Apps
    knee: tuple[float, ...] = (0.35, 0.45, 0.3, 0.25, 0.2)
    gain: float = 1.0
    synergy: float = 0.5

    def slowdown(self, victim: Ints, neighbours: Floats, load: Floats, platform: Ints) -> Floats:
        """See Law."""
        share = neighbours @ self.apps.pressure / capacities_of(PLATFORMS)[platform]
        knee = np.array(self.knee) * (1.3 - 0.5 * load)[:, None]
        harm = self.gain * self.apps.sensitivity[victim] * past_knee(share, knee)
        together = np.sqrt(harm[:, LLC] * harm[:, MEMBW])
        ratio: Floats = 1.0 + harm.max(axis=1) + self.synergy * together
        return ratio


def queue_length(utilisation: Floats, places: int) -> Floats:
    """Mean number of customers in a queue that holds only so many.

    Args:
        utilisation: offered load over capacity, any shape, >= 0; above 1 is possible, as some are turned away.
        places: most customers there can be.

    Returns:
        The same shape, from 0 to `places`, rising. NaN in, NaN out.

    Raises:
        Nothing.

    Source: the M/M/1/K queue, Kleinrock, "Queueing Systems" I, 1975, section 3.6.
    """
    number = np.arange(places + 1)
    weight = utilisation[..., None] ** number
    length: Floats = (weight * number).sum(axis=-1) / weight.sum(axis=-1)
    return length


def past_knee(pressure: Floats, knee: Floats, width: float = 0.04) -> Floats:
    """How far a pressure lies past a knee, bent smoothly.

    Args:
        pressure: shares of the node, >= 0.
        knee: shares of the node, of a shape that goes with it.
        width: over which the bend happens.

    Returns:
        Softplus of the distance, 0 at no pressure, about pressure - knee far beyond it. NaN in, NaN out.

    Raises:
        Nothing.

    Source: softplus, Dugas et al., NIPS 2000.
    """
    bent: Floats = width * (np.logaddexp(0.0, (pressure - knee) / width) - np.logaddexp(0.0, -knee / width))
    return bent


LAWS: Mapping[str, Callable[[Apps], Law]] = {
    "saturating": SaturatingLaw,
    "queueing": QueueingLaw,
    "threshold": ThresholdLaw,
}
"""Laws by name; the first is the built-in one."""
