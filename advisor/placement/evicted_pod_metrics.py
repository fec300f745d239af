"""Evicted pod metrics: counts replacements of evicted pods by where they were placed. An edge.

Cohabit evicts nothing itself; an exported plan opens a reservation for the replacement of each pod that it evicts.
"""

from dataclasses import dataclass, field
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter

T = TypeVar("T")

MAX_COUNTED = 10_000
"""Pods of which it is remembered that they were counted."""
OUTCOMES = ("pinned", "target_not_offered", "scheduled", "elsewhere")
"""Label `outcome`: sent to the reserved node, or not offered by the scheduler; observed there, or elsewhere."""


@dataclass
class EvictedPodMetrics:
    """Counter `cohabit_pinned_pods_total` of replacements of evicted pods, by label `outcome`; each pod counts once.

    Args:
        metrics: registry of the counter.
    """

    metrics: CollectorRegistry
    _pinned: dict[str, None] = field(default_factory=dict, init=False)
    """Pods that this process sent to a reserved node and that are not observed yet."""
    _missed: dict[str, None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._pods = Counter(
            "cohabit_pinned_pods", "Pods with an open reservation, by outcome.", ["outcome"], registry=self.metrics
        )
        for outcome in OUTCOMES:
            self._pods.labels(outcome)

    def pinned(self, uid: str) -> None:
        """Count a pod that was sent to its reserved node."""
        self._count(uid, self._pinned, "pinned")

    def target_not_offered(self, uid: str) -> None:
        """Count a pod whose reserved node the scheduler did not offer."""
        self._count(uid, self._missed, "target_not_offered")

    def observed(self, uid: str, *, scheduled: bool) -> None:
        """Count where a pinned pod was placed: on its reserved node or elsewhere."""
        if uid in self._pinned:
            del self._pinned[uid]
            self._pods.labels("scheduled" if scheduled else "elsewhere").inc()

    def _count(self, uid: str, counted: dict[str, None], outcome: str) -> None:
        if uid not in counted:
            self._pods.labels(outcome).inc()
            remember(counted, uid, None, MAX_COUNTED)


def remember(where: dict[str, T], key: str, value: T, most: int) -> None:
    """Put it last, and forget the first where there are too many."""
    where[key] = value
    if len(where) > most:
        del where[next(iter(where))]
