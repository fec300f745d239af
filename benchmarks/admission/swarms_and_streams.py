"""Swarms and streams: which pods come to which pool, and what becomes of them by each way of advising. An edge.

A swarm is of one app within one metric interval. A stream is of all apps, mixed, over all intervals; at the end of each
interval metrics show the pods.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep, time_ns
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from advisor.admission.room_file import write_rooms
from advisor.cluster.snapshot import publish
from benchmarks.admission.advisor_client import Advisor
from benchmarks.admission.kube_scheduler import (
    AFFINITY_WEIGHT,
    EXTENDER_SCALE,
    affinity_scores,
    preferred_terms,
    resource_scores,
    taken,
)
from benchmarks.admission.node_pools import Bound, Filled, Pod, Pools
from ingest.schema.workload_identity import ADVICE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SWARM, STREAM = "swarm", "stream"
ALONE, WITH_RESOURCES = "advice_alone", "with_resources"
FORMS = (ALONE, WITH_RESOURCES)
"""Of the scheduler: without other plugins, and with those of requested resources."""


class Load(NamedTuple):
    """Pods of one pool.

    Args:
        situation: SWARM or STREAM.
        form: of the scheduler.
        pool: where all of them go.
        intervals: apps of the pods of each metric interval.
    """

    situation: str
    form: str
    pool: int
    intervals: Sequence[Ints]


@dataclass(frozen=True)
class Size:
    """How much comes.

    Args:
        swarms: of each form.
        swarm_pods: of each.
        streams: of each form.
        stream_pods: of each and interval.
        intervals: of metrics.
        per_s: pods a second.
    """

    swarms: int
    swarm_pods: int
    streams: int
    stream_pods: int
    intervals: int
    per_s: float

    @property
    def pools(self) -> int:
        """One for each load."""
        return len(FORMS) * (self.swarms + self.streams)


def drawn_loads(size: Size, apps: int, rng: np.random.Generator) -> list[Load]:
    """All loads; swarms take turns in being within one of the intervals, and no two of a form are of the same app."""
    found = list[Load]()
    none = np.zeros(0, np.int64)
    for form in FORMS:
        chosen = rng.permutation(apps)
        for number in range(size.swarms):
            swarm = np.full(size.swarm_pods, chosen[number % apps])
            when = number % size.intervals
            found.append(Load(SWARM, form, 0, [swarm if i == when else none for i in range(size.intervals)]))
        found += [
            Load(STREAM, form, 0, list(rng.integers(apps, size=(size.intervals, size.stream_pods))))
            for _ in range(size.streams)
        ]
    return [load._replace(pool=pool) for pool, load in enumerate(found)]


class Way(Protocol):
    """How advice reaches the scheduler."""

    def created(self, pod: Pod) -> Pod:
        """The pod as kube-apiserver keeps it."""

    def scores(self, pod: Pod, uid: str, filled: Filled, rows: Ints) -> Ints:
        """(k,) what feasible nodes get by advice, weighted."""


@dataclass(frozen=True)
class ByExtender:
    """The extender at its documented weight of 1."""

    advisor: Advisor

    def created(self, pod: Pod) -> Pod:
        """Unchanged."""
        return pod

    def scores(self, pod: Pod, uid: str, filled: Filled, rows: Ints) -> Ints:
        """See Way."""
        return EXTENDER_SCALE * self.advisor.points(pod, uid, [filled.pools.nodes[row].name for row in rows.tolist()])


@dataclass(frozen=True)
class ByAffinity:
    """Preferred node affinity from the webhook."""

    advisor: Advisor

    def created(self, pod: Pod) -> Pod:
        """With the patch."""
        return self.advisor.admitted(pod)

    def scores(self, pod: Pod, uid: str, filled: Filled, rows: Ints) -> Ints:  # noqa: ARG002 - see Way
        """See Way."""
        nodes = [filled.pools.nodes[row] for row in rows.tolist()]
        return AFFINITY_WEIGHT * affinity_scores(preferred_terms(pod), nodes)


class Unadvised:
    """The scheduler alone."""

    def created(self, pod: Pod) -> Pod:
        """Unchanged."""
        return pod

    def scores(self, pod: Pod, uid: str, filled: Filled, rows: Ints) -> Ints:  # noqa: ARG002 - see Way
        """See Way."""
        return np.zeros(len(rows), np.int64)


@dataclass
class Landed:
    """What is known of the pods of a load that had several nodes to go to.

    Args:
        pods: with a node.
        top: of these, on a node of the highest score by advice.
        neutral: with the same score by advice everywhere.
        pending: without a feasible node.
    """

    pods: int = 0
    top: int = 0
    neutral: int = 0
    pending: int = 0


@dataclass
class Placing:
    """Places the pods of all loads by one way.

    Args:
        way: of advising.
        pools: before any pod.
        seed: of the scheduler's draws; each load has its own.
    """

    way: Way
    pools: Pools
    seed: int
    filled: Filled = field(init=False)
    landed: dict[int, Landed] = field(default_factory=dict)
    _draws: dict[int, np.random.Generator] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.filled = Filled(self.pools)

    def place(self, load: Load, app: int) -> None:
        """Create a pod and bind it to the node that the scheduler takes."""
        landed = self.landed.setdefault(load.pool, Landed())
        uid = f"pod-{load.pool}-{landed.pods + landed.pending}"
        pod = self.way.created(self.pools.pod(uid, app, load.pool))
        rows = self.filled.feasible(app, load.pool)
        if not len(rows):
            landed.pending += 1
            return
        advised = self.way.scores(pod, uid, self.filled, rows)
        rng = self._draws.setdefault(load.pool, np.random.default_rng([self.seed, load.pool]))
        at = taken(advised + self._own(load, app, rows), rng)
        landed.pods += 1
        landed.top += bool(advised[at] == advised.max() > advised.min())
        landed.neutral += bool(advised.max() == advised.min())
        advice = pod["metadata"].get("annotations", {}).get(ADVICE, "")
        self.filled.bind(Bound(uid, app, int(rows[at]), advice))

    def _own(self, load: Load, app: int, rows: Ints) -> Ints:
        """(k,) scores of the scheduler's own plugins."""
        if load.form == ALONE:
            return np.zeros(len(rows), np.int64)
        after = self.filled.requested[rows] + self.pools.requests[app]
        return resource_scores(after, self.pools.allocatable[rows])


def placed(placing: Placing, loads: Sequence[Load], per_s: float, end_interval: Callable[[], None]) -> None:
    """Let all pods come at a rate, interval by interval: each swarm by itself, then streams in turns."""
    for interval in range(len(loads[0].intervals)):
        due_s = monotonic()
        for load, app in _in_order(loads, interval):
            sleep(max(0.0, due_s - monotonic()))
            placing.place(load, app)
            due_s = max(due_s + 1.0 / per_s, monotonic() - 1.0)
        end_interval()


def _in_order(loads: Sequence[Load], interval: int) -> Iterator[tuple[Load, int]]:
    for load in loads:
        if load.situation == SWARM:
            yield from ((load, app) for app in load.intervals[interval].tolist())
    streams = [load for load in loads if load.situation == STREAM]
    for apps in zip(*(load.intervals[interval].tolist() for load in streams), strict=True):
        yield from zip(streams, apps, strict=True)


def show_pods(filled: Filled, snapshots: Path, version: int, rng: np.random.Generator) -> int:
    """Publish what metrics and watches show by now; when, in microseconds since 1970."""
    as_of_us = time_ns() // 1000
    publish(snapshots, filled.view(version, as_of_us, rng))
    write_rooms(snapshots, filled.rooms(as_of_us))
    return as_of_us
