"""A law from a measured matrix: how much each app slows down next to each other one, combined for many. Kernel."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ingest.simulator.law import Apps, Floats, Ints

WHOLE_MACHINE = 2.0
"""Workloads that filled a machine together when a pair was measured."""
LIMIT = 2.0
"""Where saturating harm ends, times the largest measured."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What the measured matrix says of sizes of harm.

    Args:
        limit: what saturating harm cannot exceed.
        knee: the median; under a threshold law there is no slowdown below it.
    """

    limit: float
    knee: float


@dataclass(frozen=True, slots=True)
class PairLaw:
    """Slowdown next to several neighbours, from what was measured next to one.

    slowdown = 1 + (0.6 + 0.4 load) * together_a(excess[victim, a] * size[a, platform] * load of a's containers)

    Args:
        apps: what counters show of them.
        excess: (p, apps, apps) measured slowdown - 1 of each victim next to each aggressor, >= 0, 0 where nothing was
            measured; platform k of a node takes matrix k modulo p.
        scale: what the whole matrix says of sizes of harm.
        size: (apps, platforms) how much of a measured co-runner a container of each app is on each platform.
        compose: how the harm of several adds up, a name in COMPOSED.
    """

    apps: Apps
    excess: Floats
    scale: Scale
    size: Floats
    compose: str = "additive"

    def slowdown(self, victim: Ints, neighbours: Floats, load: Floats, platform: Ints) -> Floats:
        """See Law."""
        pressing = neighbours * self.size.T[platform]
        harm = self.excess[platform % len(self.excess), victim] * pressing
        together = COMPOSED[self.compose](harm, self.scale)
        return np.asarray(1.0 + (0.6 + 0.4 * load) * together, np.float64)


def scale_of(measured: Floats) -> Scale:
    """Sizes of harm among measured slowdowns - 1, any shape, NaN where nothing was measured; zeros without any."""
    scales = np.maximum(measured[np.isfinite(measured)], 0.0)
    return Scale(LIMIT * float(scales.max(initial=0.0)), float(np.median(scales)) if len(scales) else 0.0)


def additive(harm: Floats, _: Scale) -> Floats:
    """(n,) sum over neighbours of (n, apps) harm."""
    return np.asarray(harm.sum(axis=1))


def worst(harm: Floats, _: Scale) -> Floats:
    """(n,) the worst app alone; containers of one app count together."""
    return np.asarray(harm.max(axis=1, initial=0.0))


def saturating(harm: Floats, scale: Scale) -> Floats:
    """(n,) a sum that levels off at the scale's limit."""
    limit = max(scale.limit, float(np.finfo(np.float64).tiny))
    return np.asarray(limit * -np.expm1(-harm.sum(axis=1) / limit), np.float64)


def threshold(harm: Floats, scale: Scale) -> Floats:
    """(n,) what of a sum lies above the scale's knee."""
    return np.asarray(np.maximum(harm.sum(axis=1) - scale.knee, 0.0), np.float64)


COMPOSED: Mapping[str, Callable[[Floats, Scale], Floats]] = {
    "additive": additive,
    "max": worst,
    "saturating": saturating,
    "threshold": threshold,
}
"""Ways to put pairs together, by name."""
