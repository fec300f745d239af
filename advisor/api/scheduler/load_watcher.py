"""load-watcher: `GET /watcher` in its exact keys, so that plugins made for it (Trimaran's) read our utilisation.

Such a plugin keeps its last numbers when it gets an error, and gives its lowest score to a node it has no numbers of.
So a snapshot that may not be believed is answered 200 without nodes, which no plugin takes for idle ones.
"""

from dataclasses import dataclass, field

import msgspec
import numpy as np
from fastapi import APIRouter, HTTPException, Response

from advisor.api.http.openapi import refusals, telling
from advisor.api.http.roles import allowed
from advisor.cluster.snapshot import Snapshot
from advisor.cluster.utilisation import utilisation_percent
from advisor.placement.model_state import Serving

SOURCE = "Cohabit"
LATEST = "Latest"
"""load-watcher's operator for the newest value; the others are AVG and STD."""
ROLLUP, ROLLUP_S = "1m", 60
MEASURED = (("cpu_cores", "CPU", "cpu"), ("memory_bytes", "Memory", "memory"))
"""Our name, load-watcher's type, and the resource."""
DECIMALS = 3
"""Few, since load-watcher's own JSON reader is particular about long numbers and exponents."""


class Window(msgspec.Struct):
    """The stretch of time that values are of, in seconds since 1970."""

    duration: str
    start: int
    end: int


class Metric(msgspec.Struct):
    """One value of a node, in percent of its capacity."""

    name: str
    type: str
    operator: str
    rollup: str
    value: float


class NodeMetrics(msgspec.Struct):
    """All values of a node."""

    metrics: list[Metric]
    tags: dict[str, str] = msgspec.field(default_factory=dict)
    metadata: dict[str, str] = msgspec.field(default_factory=dict)


class Data(msgspec.Struct):
    """Values by node name."""

    NodeMetricsMap: dict[str, NodeMetrics]


class WatcherMetrics(msgspec.Struct):
    """The reply."""

    timestamp: int
    window: Window
    source: str
    data: Data


def metrics_of(snapshot: Snapshot) -> dict[str, NodeMetrics]:
    """CPU and memory of each node; what is not known is left out, and so is a node of which nothing is."""
    found: dict[str, list[Metric]] = {}
    for name, kind, resource in MEASURED:
        percent = utilisation_percent(snapshot, resource)
        for row in np.flatnonzero(np.isfinite(percent)).tolist():
            metric = Metric(name, kind, LATEST, ROLLUP, round(float(percent[row]), DECIMALS))
            found.setdefault(snapshot.nodes[row], []).append(metric)
    return {node: NodeMetrics(metrics) for node, metrics in found.items()}


def _reply(as_of_us: int, nodes: dict[str, NodeMetrics]) -> bytes:
    end = as_of_us // 1_000_000
    return msgspec.json.encode(WatcherMetrics(end, Window(ROLLUP, end - ROLLUP_S, end), SOURCE, Data(nodes)))


@dataclass(frozen=True, slots=True)
class CachedReplies:
    """The published part of a snapshot."""

    snapshot: Snapshot
    nodes: dict[str, NodeMetrics]
    whole: bytes


@dataclass
class Watcher:
    """Keeps what was made of the newest snapshot: it is computed once, however many ask."""

    serving: Serving
    _last: CachedReplies | None = field(default=None, init=False)

    def whole(self) -> bytes:
        """All nodes; none while the snapshot is stale."""
        cached = self._cached()
        return _reply(self.serving.now_us(), {}) if cached is None else cached.whole

    def alone(self, node: str) -> bytes | None:
        """One node; None where nothing is known of it."""
        cached = self._cached()
        if cached is None or node not in cached.nodes:
            return None
        return _reply(cached.snapshot.as_of_us, {node: cached.nodes[node]})

    def _cached(self) -> CachedReplies | None:
        scorer, last = self.serving.scorer, self._last
        if scorer is None or self.serving.problem():
            return None
        if last is None or last.snapshot is not scorer.snapshot:
            nodes = metrics_of(scorer.snapshot)
            last = self._last = CachedReplies(scorer.snapshot, nodes, _reply(scorer.snapshot.as_of_us, nodes))
        return last


def watcher_routes(serving: Serving) -> APIRouter:
    """Routes for whatever reads load-watcher."""
    router, watcher = APIRouter(), Watcher(serving)

    @router.get("/watcher", responses=refusals(404, 422))
    @allowed("scheduler")
    @telling(WatcherMetrics)
    def watch(host: str = "") -> Response:
        """CPU and memory utilisation of each node in percent, as load-watcher reports it; of one node with `host`.

        Values that are not known are left out; no node at all while answers are neutral.
        """
        reply = watcher.alone(host) if host else watcher.whole()
        if reply is None:
            raise HTTPException(404, f"node {host!r} is unknown")
        return Response(reply, media_type="application/json")

    return router
