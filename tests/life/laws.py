"""Laws: what must hold of tables that were computed from the records of timelines, whatever the format.

Each law takes lives and the computed tables, and returns its violations, one readable line each.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.columnar.arrow_columns import floats
from features.schema.catalog import NAMES, RESOURCES, Resource
from tests.life.lake import LATENESS_S, Life, World, at_second
from tests.life.truth import END_S, START_S, Node, Pod, Stretch, Timeline

MINUTE_S = 60.0
SHARE = 0.02
"""Core-minutes may be off by so much, or by INTERVALS of scraping of the use of each run of a container."""
INTERVALS = 2
NODE_SILENCE_S = 600.0
"""A node of which nothing was heard for so long is no capacity."""
CONTAINER_SILENCE_S = 900.0
"""A container that was measured, and then was not for so long on a node that is, has ended at its last sample."""
LATE_DELETION_S = 180.0
"""The same of one whose deletion was heard late."""
SETTLED_S = 240.0
CLOCK_S = 10.0
"""Clocks of exporters differ by less."""
EDGES = 3
"""Minutes at the ends of a pod in which its request stands in for use: bound, started, read, scraped."""
BY_NAME = ("telegraf-json",)
"""Formats that know pods by namespace and name alone."""
CPU = NAMES.index("cpu")
ROUNDED = 60e-6
"""Each minute of an hour is metered in whole micro-units."""
Violations = list[str]
T = TypeVar("T")


class Minute(NamedTuple):
    """A container's minute: its node, its end, mean cores, 0 where not measured, and of each resource its mean use."""

    container: str
    node: str
    end: float
    used: float
    use: tuple[float, ...]


class Hour(NamedTuple):
    """What was metered of a container on a node in an hour, core-minutes, in how many minutes of which CPU is known."""

    container: str
    node: str
    start: float
    taken: float
    known: int


class PoolHour(NamedTuple):
    """Capacity of a pool in an hour, core-minutes."""

    pool: str
    start: float
    capacity: float


@dataclass(frozen=True)
class Computed:
    """Tables of a lake, as the jobs wrote them, by cluster."""

    world: World

    @cached_property
    def minutes(self) -> Mapping[str, list[Minute]]:
        """Table `node_state`."""
        rows = self.world.lake.read("node_state")
        columns = (rows[name].to_pylist() for name in ("container", "node"))
        ends = [at_second(moment) for moment in rows["window_end"].to_pylist()]
        cores = pc.fill_null(rows["cpu_cores"], 0.0).to_pylist()
        return _by_cluster(rows, map(Minute, *columns, ends, cores, zip(*map(_use_of(rows), RESOURCES), strict=True)))

    @cached_property
    def metered(self) -> Mapping[str, list[Hour]]:
        """Table `metered`, of CPU."""
        found = self.world.lake.read("metered")
        rows = found.filter(pc.equal(found["resource"], "cpu"))
        columns = (rows[name].to_pylist() for name in ("container", "node"))
        taken = pc.divide(pc.cast(pc.add(rows["within"], rows["beyond"]), pa.float64()), 1e6).to_pylist()
        hours = map(at_second, rows["hour"].to_pylist())
        return _by_cluster(rows, map(Hour, *columns, hours, taken, rows["minutes"].to_pylist()))

    @cached_property
    def pool_hours(self) -> Mapping[str, list[PoolHour]]:
        """Table `pool_hours`, of CPU."""
        rows = self.world.lake.read("pool_hours")
        pools = [pool.partition("@")[0] for pool in rows["pool"].to_pylist()]
        cores = [dict(had).get("cpu", 0) / 1e6 for had in rows["capacity"].to_pylist()]
        return _by_cluster(rows, map(PoolHour, pools, map(at_second, rows["hour"].to_pylist()), cores))


def _use_of(rows: pa.Table) -> Callable[[Resource], list[float]]:
    """Means of a resource; NaN where it was not measured."""

    def values(resource: Resource) -> list[float]:
        parts = [floats(rows[name]) for name in resource.usage]
        return np.sum(parts, axis=0).tolist()  # type: ignore[no-any-return]

    return values


def _by_cluster(rows: pa.Table, found: Iterable[T]) -> Mapping[str, list[T]]:
    by_cluster: dict[str, list[T]] = defaultdict(list)
    for cluster, row in zip(rows["cluster"].to_pylist(), found, strict=True):
        by_cluster[cluster].append(row)
    return by_cluster


Law = Callable[[Life, Computed], Violations]


@dataclass(frozen=True)
class Use:
    """What a container really used, core-minutes: in all, what reports show at least and at most, and may be off."""

    whole: float
    shown: float
    most: float
    allowed: float
    unseen_minutes: float
    request_cores: float

    @staticmethod
    def of(timeline: Timeline, pods: Sequence[Pod], *, late: bool) -> "Use":
        """Of all pods with one container id; where `late` records count, only outages hide use.

        A counter read before an outage and after it says nothing of the time between: that is up to an interval longer
        at each end. The minute in which an outage begins has the mean of what was seen of it.
        """
        whole = shown = filled = unseen = 0.0
        for pod in pods:
            at, around = np.arange(pod.start, min(pod.end, END_S) + 1), timeline.interval_s
            outages = [out for name, out in timeline.outages if name == pod.node.name]
            filled += sum(
                max(run.levels) for out in outages for run in pod.instances if run.start <= out.start < run.end
            )
            late_ends = () if late else [Stretch(held.start, held.end - LATENESS_S) for held in timeline.held]
            hidden = np.zeros(len(at), np.bool_)
            for out in (*outages, *late_ends):
                hidden |= (at >= out.start - around) & (at < out.end + around)
            used = np.diff(pod.used(at), append=pod.used(np.array([min(pod.end, END_S)]))) / MINUTE_S
            whole, shown = whole + float(used.sum()), shown + float(used[~hidden].sum())
            unseen += float(hidden.sum()) / MINUTE_S
        edges = sum(max(run.levels) for pod in pods for run in pod.instances)
        unplaced = any(timeline.learnt(pod.start) != pod.start for pod in pods)  # else the first interval is known
        scrapes = ((INTERVALS + unplaced) * timeline.interval_s + CLOCK_S) / MINUTE_S * edges
        request = max(pod.request_cores for pod in pods)
        return Use(whole, shown, whole + filled, max(SHARE * whole, scrapes), unseen, request)


def pods_by_container(timeline: Timeline) -> dict[str, list[Pod]]:
    """Pods by the container id that they should have."""
    found: dict[str, list[Pod]] = defaultdict(list)
    for pod in timeline.pods:
        found[pod.container].append(pod)
    return found


def named(timeline: Timeline, container: str, at: float, node: str | None = None) -> str:
    """The id of a container on a node that is called namespace/name, since no placement of it was ever heard."""
    if "/" not in container:
        return container
    called = [pod for pod in timeline.pods if f"{pod.namespace}/{pod.name}" == container]
    there = [pod for pod in called if pod.start - MINUTE_S <= at <= pod.end + 2 * MINUTE_S]
    here = [pod for pod in there if pod.node.name == node] or there
    return here[-1].container if here else container


def _confused(life: Life) -> set[str]:
    """Containers that a format of names alone cannot distinguish from one of their name that came unheard."""
    truth = life.truth
    if life.format not in BY_NAME:
        return set()
    anew = {pod.name for pod in truth.pods if truth.learnt(pod.start) != pod.start}
    return {pod.container for pod in truth.pods if pod.name in anew and len(_of_name(truth, pod)) > 1}


def _of_name(truth: Timeline, pod: Pod) -> set[str]:
    return {other.container for other in truth.pods if (other.namespace, other.name) == (pod.namespace, pod.name)}


def everything_is_decoded(life: Life, _computed: Computed) -> Violations:
    """No record that an exporter sends is a dead letter."""
    return [f"{_who(life)}: {row['reason']}, {row['detail']}" for row in life.rejected().slice(0, 3).to_pylist()]


def core_minutes(life: Life, computed: Computed) -> Violations:
    """Minutes of each container add up to what it used, within 2 % or two scrape intervals of its use."""
    truth = life.truth
    found: dict[str, float] = defaultdict(float)
    known = pods_by_container(truth)
    for container, node, end, cpu, _ in computed.minutes[truth.cluster]:
        name = named(truth, container, end - MINUTE_S / 2, node)
        found[name] += cpu * _ran(known.get(name, []), end)
    strange = [
        f"{_who(life)}: no such container {name} ({value:.2f})" for name, value in found.items() if name not in known
    ]
    confused = _confused(life)
    uses = ((name, Use.of(truth, pods, late=False)) for name, pods in known.items())
    return strange + [
        f"{_who(life)} {name}: {found[name]:.2f} min, used {use.shown:.2f} to {use.most:.2f} +-{use.allowed:.2f}"
        for name, use in uses
        if name not in confused and not use.shown - use.allowed <= found[name] <= use.most + use.allowed
    ]


def _ran(pods: Sequence[Pod], end: float) -> float:
    """Part of a minute that pods ran in, more or less a clock's error: a table of minutes has means of what ran."""
    ran = sum(max(0.0, min(pod.end, END_S, end) - max(pod.start, end - MINUTE_S)) for pod in pods)
    return min(1.0, ran / MINUTE_S) if pods else 1.0


def billed_core_minutes(life: Life, computed: Computed) -> Violations:
    """Metered CPU is what was used, and the request where nothing was measured."""
    truth = life.truth
    found: dict[str, float] = defaultdict(float)
    for container, node, hour, taken, _ in computed.metered[truth.cluster]:
        found[_in_hour(truth, container, hour, node)] += taken
    wrong, confused = [], _confused(life)
    for name, pods in pods_by_container(truth).items():
        use = Use.of(truth, pods, late=True)
        gone = [pod.node for pod in pods if pod.ending == "orphaned" and truth.heard(pod.node.end) != pod.node.end]
        spare = use.unseen_minutes + EDGES * len(pods) + sum(_silence_s(truth, node) for node in gone) / MINUTE_S
        spare += sum(_stands_on_s(truth, pod) / MINUTE_S for pod in pods)
        highest = use.most + use.allowed + use.request_cores * spare
        if name not in confused and not use.shown - use.allowed <= found[name] <= highest:
            wrong.append(f"{_who(life)} {name}: {found[name]:.2f} metered, used {use.shown:.2f} to {highest:.2f}")
    return wrong


def _silence_s(truth: Timeline, node: Node) -> float:
    """After how long silence shows that pods of a node are gone: their own where its name is in use again."""
    again = any(other.name == node.name and other.start >= node.end for other in truth.nodes)
    return CONTAINER_SILENCE_S if again else NODE_SILENCE_S


def _stands_on_s(truth: Timeline, pod: Pod) -> float:
    """How long a pod that ended without a record in time may count as there: until silence, of a minute more, shows it.

    That is in vain where its node, or the timeline, ends before.
    """
    heard = truth.heard(pod.deleted)
    silence = 0.0 if truth.heard(pod.node.end) == pod.node.end else NODE_SILENCE_S
    shown = pod.end + (CONTAINER_SILENCE_S if heard == inf else LATE_DELETION_S)
    unheard = pod.end < min(END_S, pod.node.end) <= shown + MINUTE_S and heard > pod.deleted
    return min(END_S, pod.node.end + silence, heard) - pod.end if unheard else 0.0


def _in_hour(timeline: Timeline, container: str, hour: float, node: str) -> str:
    """The id of a container at the first minute of an hour at which it has one."""
    ids = (named(timeline, container, at, node) for at in np.arange(hour, hour + 3600, MINUTE_S).tolist())
    return next((name for name in ids if name != container), container)


def one_node_at_a_time(life: Life, computed: Computed) -> Violations:
    """A container is on one node in each minute, and only on nodes that it ran on."""
    truth = life.truth
    ran = {(pod.container, pod.node.name) for pod in truth.pods}
    where: dict[tuple[str, float], set[str]] = defaultdict(set)
    for container, node, end, *_ in computed.minutes[truth.cluster]:
        where[named(truth, container, end - MINUTE_S / 2, node), end].add(node)
    wrong = [
        f"{_who(life)} {name} at {end:.0f}: on {sorted(nodes)}"
        for (name, end), nodes in where.items()
        if len(nodes) > 1
    ]
    placed = {(hour.container, hour.node) for hour in computed.metered[truth.cluster]}
    known = {name for name, _ in ran}
    wrong += [f"{_who(life)} {name}: metered on {node}" for name, node in sorted(placed - ran) if name in known]
    return wrong


def node_hours(life: Life, computed: Computed) -> Violations:
    """Capacity of each node and hour is that of its minutes there, to the minute where both ends were heard."""
    truth = life.truth
    found: dict[tuple[str, float], float] = defaultdict(float)
    for pool, start, capacity in computed.pool_hours[truth.cluster]:
        found[pool, start] += capacity
    wrong = []
    for name in sorted({node.name for node in truth.nodes}):
        for hour in np.arange(0, END_S, 3600).tolist():
            lives = [node for node in truth.nodes if node.name == name]
            had = sum(node.allocatable_cores * _minutes(node, hour) for node in lives)
            slack = sum(node.allocatable_cores * _slack(truth, node, hour) for node in lives)
            if abs(found[name, hour] - had) > slack:
                shown = f"{found[name, hour]:.1f} core-minutes, had {had:.1f} +-{slack:.1f}"
                wrong.append(f"{_who(life)} {name} hour {hour:.0f}: {shown}")
    return wrong


def _minutes(node: Node, hour: float) -> float:
    return max(0.0, min(node.end, hour + 3600) - max(node.start, hour)) / MINUTE_S


def _slack(truth: Timeline, node: Node, hour: float) -> float:
    """Minutes that the node's coming and going may be off in an hour."""
    slack = 1e-6
    for edge in (node.start, node.end):
        heard = truth.heard(edge) == edge
        late = NODE_SILENCE_S + MINUTE_S
        if hour - (0 if heard else late) - MINUTE_S <= edge <= hour + 3600:
            slack += 1.0 if heard else late / MINUTE_S
    return slack


def nothing_ended_is_computed(life: Life, computed: Computed) -> Violations:
    """No minute of a container, as victim or neighbour, later than one window after its end."""
    last = {name: max(min(pod.end, END_S) for pod in pods) for name, pods in pods_by_container(life.truth).items()}
    latest: dict[str, float] = {}
    confused = _confused(life)
    for container, node, end, *_ in computed.minutes[life.truth.cluster]:
        name = named(life.truth, container, end - MINUTE_S / 2, node)
        latest[name] = max(latest.get(name, 0.0), end)
    return [
        f"{_who(life)} {name}: a minute that ends at {end:.0f}, ended at {last[name]:.0f}"
        for name, end in latest.items()
        if name in last and name not in confused and end > (ceil((last[name] + CLOCK_S) / MINUTE_S) + 1) * MINUTE_S
    ]


def nothing_ended_is_advised_on(life: Life, _computed: Computed) -> Violations:
    """A snapshot has neither nodes nor residents that ended more than a window, and a silence if unheard, before.

    Samples are held until `minute`: what falls silent is seen by them.
    """
    truth, snapshot, confused = life.truth, life.snapshot, _confused(life)
    at = min(snapshot.as_of_us / 1e6 - START_S, life.minute)
    wrong = [
        f"{_who(life)} at {at:.0f}: node {name} is there"
        for name in snapshot.nodes
        if at > max(_known_until(truth, node) for node in truth.nodes if node.name == name)
    ]
    last = {name: max(_kept_until(truth, pod) for pod in pods) for name, pods in pods_by_container(truth).items()}
    for container in snapshot.containers:
        name = named(truth, container, at)
        if name not in confused and at > last.get(name, inf):
            wrong.append(f"{_who(life)} at {at:.0f}: {name} is a resident, until {last[name]:.0f}")
    return wrong


def who_runs_is_advised_on(life: Life, _computed: Computed) -> Violations:
    """A snapshot has each node that is there, with its cores, and each pod that has been measured for a while."""
    truth, snapshot = life.truth, life.snapshot
    at = snapshot.as_of_us / 1e6 - START_S
    cores = dict(zip(snapshot.nodes, snapshot.node_capacity[:, CPU].tolist(), strict=True))
    there = {named(truth, container, at) for container in snapshot.containers}
    wrong = [
        f"{_who(life)} at {at:.0f}: {node.name} has {cores.get(node.name)} cores, not {node.cores}"
        for node in truth.nodes
        if truth.learnt(node.start) + MINUTE_S < at < node.end and cores.get(node.name) != node.cores
    ]
    return wrong + [
        f"{_who(life)} at {at:.0f}: {pod.container} is no resident"
        for pod in truth.pods
        if _measured(truth, pod, at) and pod.container not in there
    ]


def _measured(truth: Timeline, pod: Pod, at: float) -> bool:
    """Whether a pod has run, and was reported in time, for some minutes, and its placement was heard.

    Where a node has placements, they list its containers: docs/decisions/0007-point-in-time.md.
    """
    moments = np.arange(at - SETTLED_S, at)
    held = any(lost.start - 1 <= moment < lost.end for lost in truth.held for moment in (moments[0], at))
    runs = max(pod.start + SETTLED_S, truth.learnt(pod.start), truth.learnt(pod.node.start)) < at < pod.end - CLOCK_S
    return runs and not held and bool(truth.up(pod.node.name, moments).all())


def _known_until(truth: Timeline, node: Node) -> float:
    """The last second at which a node may still be taken for there."""
    return min(truth.heard(node.end), node.end + NODE_SILENCE_S) + MINUTE_S + CLOCK_S


def _kept_until(truth: Timeline, pod: Pod) -> float:
    """The last second at which a pod may still be taken for running: its deletion may be heard later than it ended.

    What was never heard of while it ran is not heard of when it is deleted; a node's name that is heard of again within
    a node's silence does not fall silent; and a silent pod has ended only if its node is measured for as long.
    """
    heard = truth.heard(pod.end) if pod.ending == "evicted" else truth.heard(pod.deleted)
    heard = heard if truth.learnt(pod.start) <= pod.end else inf
    gone = pod.node.end
    anew = any(node.name == pod.node.name and gone < node.start < gone + NODE_SILENCE_S for node in truth.nodes)
    known = truth.heard(gone) if anew else _known_until(truth, pod.node)
    silent, named = pod.end + CONTAINER_SILENCE_S, [node for node in truth.nodes if node.name == pod.node.name]
    measured = any(node.start < silent < node.end - MINUTE_S for node in named)
    return min(heard, silent if measured else inf, known) + MINUTE_S + CLOCK_S


def live_is_batch(life: Life, computed: Computed) -> Violations:
    """Use of residents in a snapshot is, to the last bit, that of the newest minute in the batch job's table."""
    newest: dict[str, tuple[float, tuple[float, ...]]] = {}
    growing = (life.snapshot.as_of_us / 1e6 - START_S) // MINUTE_S * MINUTE_S + MINUTE_S
    for container, _, end, _, use in computed.minutes[life.truth.cluster]:
        if end <= min(life.minute, growing):
            newest[container] = max(newest.get(container, (0.0, ())), (end, use))
    learnt = _learnt_later(life) if life.format in BY_NAME else set()
    return [
        f"{_who(life)} at {life.minute:.0f} {name}: live {use}, batch {newest.get(name)}"
        for name, use in zip(life.snapshot.containers, life.snapshot.resident_use, strict=True)
        if np.isfinite(use).any() and name not in learnt
        if not np.array_equal(use, newest.get(name, (0.0, ()))[1], equal_nan=True)
    ]


def _learnt_later(life: Life) -> set[str]:
    """Containers of a name of which a placement was heard after the snapshot: then, the name meant another pod."""
    rows, cut_us = life.rows("placements"), life.snapshot.as_of_us
    late = rows.filter(pc.greater(pc.cast(rows["arrived_at"], pa.int64()), cut_us))
    names = {row["name"] for row in late.to_pylist() if at_second(row["ts"]) <= life.minute}
    meant = [pod for pod in life.truth.pods if pod.name in names]
    return {pod.container for pod in meant} | {f"{pod.namespace}/{pod.name}" for pod in meant}


def billing_is_batch(life: Life, computed: Computed) -> Violations:
    """Metered CPU is that of the batch job's minutes, and the request in minutes without; where no record is late.

    Of the first and the last measured minute of a run a part may count.
    """
    if any(held.end - held.start > LATENESS_S for held in life.truth.held):
        return []
    minutes: dict[tuple[str, str, float], dict[float, float]] = defaultdict(dict)
    for container, node, end, used, use in computed.minutes[life.truth.cluster]:
        if np.isfinite(use[CPU]):
            minutes[container, node, (end - 1) // 3600 * 3600][end] = used
    requests = {name: [pod.request_cores for pod in pods] for name, pods in pods_by_container(life.truth).items()}
    wrong = []
    for hour in computed.metered[life.truth.cluster]:
        if hour.container not in requests:  # known by name alone
            continue
        found = minutes[hour.container, hour.node, hour.start]
        rest = hour.known - len(found)
        asked = requests[hour.container]
        inner = sum(used for end, used in found.items() if {end - MINUTE_S, end + MINUTE_S} <= found.keys())
        low, high = inner + rest * min(asked), sum(found.values()) + rest * max(asked)
        if not low - ROUNDED <= hour.taken <= high + ROUNDED:
            wrong.append(f"{_who(life)} {hour.container}: {hour.taken} metered, {low} to {high} by its minutes")
    return wrong


def _who(life: Life) -> str:
    return f"{life.format} seed {life.truth.seed}"
