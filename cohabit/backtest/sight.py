"""Sight: the input of a policy: requests, placements and measurements. Kernel."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.schema.catalog import RESOURCES
from ingest.simulator.law import PLATFORMS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
REMEMBERED = 12
"""Intervals of node utilisation that are remembered."""
SHARED = len(RESOURCES)
CAPACITY = np.array([[getattr(p, r.capacity, np.nan) for r in RESOURCES] for p in PLATFORMS], np.float64)
"""(platforms, resources) what nodes have; NaN where they have none."""
CPU, LLC, MEMBW, MEMORY = (
    next(i for i, r in enumerate(RESOURCES) if r.name == n) for n in ("cpu", "llc", "memory_bandwidth", "memory")
)


@dataclass(frozen=True)
class Measured:
    """Containers that were there when last measured and still are.

    Args:
        node: (m,) of each.
        app: (m,) of each.
        use: (m, resources) in absolute units, NaN where not measured.
    """

    node: Ints
    app: Ints
    use: Floats


@dataclass
class Sight:
    """The cluster as a scheduler knows it; placements at once, measurements as of the last interval.

    Args:
        time_s: seconds since 1970.
        residents: see Measured; the same object for a whole interval.
        queue: apps of the containers that wait to be placed, in order, each as often as it waits.
        capacity: (n, 2) cores and memory of each node.
        platform: (n,) of each node.
        best_effort: (a,) class of each app.
        request: (a, 2) of each app.
        requested: (n, 2) by containers that are there.
        counts: (n, a) containers that are there.
        measured: (n, a) those of the residents.
        used: (n, resources) share of the node used when last measured, NaN where not measured.
        past_cpu: (n, k) share of cores used in the last intervals.
        typical: (a, resources) what a container of each app was measured to use, in absolute units, NaN before it was.
    """

    time_s: float
    residents: Measured
    queue: tuple[int, ...]
    capacity: Floats
    platform: Ints
    best_effort: NDArray[np.bool_]
    request: Floats
    requested: Floats
    counts: Ints
    measured: Ints
    used: Floats
    past_cpu: Floats
    typical: Floats

    def pending(self, nodes: Ints) -> Ints:
        """(k, a) containers placed on nodes since the last measurement."""
        coming: Ints = self.counts[nodes] - self.measured[nodes]
        return coming

    def expected_share(self, app: int, nodes: Ints) -> Floats:
        """(k, resources) what a container of an app would use of each node; 0 where it is not known."""
        share: Floats = np.nan_to_num(self.typical[app] / CAPACITY[self.platform[nodes]])
        return share

    def used_with_pending(self, nodes: Ints) -> Floats:
        """(k, resources) measured shares, plus what those who came since are known to use."""
        coming = self.pending(nodes) @ np.nan_to_num(self.typical) / CAPACITY[self.platform[nodes]]
        return np.maximum(np.nan_to_num(self.used[nodes]) + np.nan_to_num(coming), 0.0)


Policy = Callable[[Sight, int, Ints], Floats]
"""(k,) cost of placing a container of an app on each candidate node, lower is better; ties are drawn among."""


def empty_sight(platform: Ints, best_effort: NDArray[np.bool_], request: Floats) -> Sight:
    """Of a cluster without containers."""
    n, a = len(platform), len(best_effort)
    capacity = CAPACITY[platform][:, [CPU, MEMORY]]
    return Sight(
        time_s=0.0,
        residents=Measured(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, SHARED))),
        queue=(),
        capacity=capacity,
        platform=platform,
        best_effort=best_effort,
        request=request,
        requested=np.zeros((n, 2)),
        counts=np.zeros((n, a), np.int64),
        measured=np.zeros((n, a), np.int64),
        used=np.zeros((n, SHARED)),
        past_cpu=np.zeros((n, 0)),
        typical=np.full((a, SHARED), np.nan),
    )
