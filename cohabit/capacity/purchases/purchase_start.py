"""Files to plan a purchase from, as a lake knows a cluster: pods by shape, its machines and racks. An edge.

What a lake does not know, such as prices of new machines and delivery times, is left empty for the planner to fill in.
"""

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from io import StringIO
from itertools import pairwise
from math import ceil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from advisor.purchase.instance import DEVICE
from cohabit.capacity.demand_series import DemandSeries
from cohabit.config.errors import CohabitError
from features.columnar.arrow_columns import floats
from features.contention.node_state import is_best_effort, is_delete, standing
from features.demand.app_peaks import AppPeaks
from features.jobs.lake_facts import facts_between
from ingest.lake.row_filter import microseconds
from ingest.lake.tables import Lake
from models.demand.demand_forecast import forecast_demand
from models.demand.planner_inputs import growth_factors

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

STEPS = ((50, 64), (100, 256), (250, 512), (500, 1_024), (1_000, 4_096), (2_000, 16_384))
"""Milli-cores and MiB that requests are rounded up to; the first step that leaves few shapes counts."""
MOST_SHAPES = 60
MIB = 1 << 20
HOURS_A_MONTH, LIFE_MONTHS = 730, 36
MONTH_DAYS, YEAR_DAYS = 30.5, 365.25
TICK, DAY = timedelta(microseconds=1), timedelta(days=1)
USED = {"cpu": "demand_cpu", "memory": "demand_memory"}
ALLOCATABLE = {"cpu": ("allocatable_cores", "cores"), "memory": ("allocatable_memory_bytes", "memory_bytes")}
EVERYWHERE = "DaemonSet/"
"""Owners of pods that run on every node: their requests are taken off the nodes."""
FILES = {
    "skus.csv": ("sku", "cpu_milli", "memory_mib", "gpu", "ports", "port_gbps", "power_w", "units", "price",
                 "life_months", "lead_days", "lot"),
    "racks.csv": ("rack", "zone", "room", "kw", "units", "ports"),
    "fleet.csv": ("sku", "rack", "machines"),
    "apps.csv": ("shape", "app", "pods"),
    "demand.csv": ("path", "month", "shape", "cpu_milli", "memory_mib", "gpu", "gpu_milli", "prod", "pods"),
}  # fmt: skip
Rows = list[tuple[object, ...]]


@dataclass(frozen=True)
class PurchaseStart:
    """What a lake knows.

    Args:
        rows: lines of each of `FILES` below its header.
        pods: counted by what they request.
        by_use: counted by what their app's pods use, as they request nothing.
        by_few: of these, whose apps were measured in few minutes.
        unknown: pods that request nothing, of apps that were not measured; no shape counts them.
        everywhere: pods of DaemonSets, whose requests are taken off the nodes.
        nodes: counted with cores and memory.
        unknown_nodes: nodes without cores or memory, which are left out.
        derates: share of its cores that counts, by platform, where interference allows no more.
    """

    rows: dict[str, Rows]
    pods: int
    by_use: int
    by_few: int
    unknown: int
    everywhere: int
    nodes: int
    unknown_nodes: int
    derates: dict[str, float]


def next_months(day: date, count: int) -> list[date]:
    """First days of the months after a day."""
    first = [day.replace(day=1)]
    for _ in range(count):
        first.append((first[-1] + timedelta(days=32)).replace(day=1))
    return first[1:]


def certain_growth(day: date, months: Sequence[date], growth: float) -> Floats:
    """(1, t) demand at the end of each month as a multiple of today's, by yearly growth alone."""
    return np.array([[(1.0 + growth) ** (((month - day).days + MONTH_DAYS) / YEAR_DAYS) for month in months]])


def growth_paths(past: DemandSeries, months: Sequence[date], growth: float, paths: int) -> Floats:
    """Forecast demand of all pools for cores as a multiple of the newest known hour.

    Args:
        past: metered hours.
        months: first days, in order.
        growth: yearly, beyond what the past shows.
        paths: how many.

    Returns:
        (w, t) the largest hour of each path and month.

    Raises:
        ValueError: too little is metered for a forecast.

    Source: `forecast_demand`; the target is the month's largest hour, as machines are bought for it.
    """
    rows = [row for row, key in enumerate(past.keys) if key[2] == "cpu"]
    total = past.requests[rows].sum(axis=0)
    if not np.nansum(total) > 0:
        total = past.use[rows].sum(axis=0)
    known = total[np.isfinite(total)]
    if not len(known) or known[-1] <= 0:
        raise ValueError("no hour with requests or use of cores is metered")
    end = datetime.fromtimestamp(int(past.hours_us[-1]) / 1e6, UTC)
    edges = [*months, next_months(months[-1], 1)[0]]
    hour = [max(int((datetime(*edge.timetuple()[:3], tzinfo=UTC) - end).total_seconds() // 3600), 0) for edge in edges]
    found = forecast_demand(
        total[None], hour[-1], rng=np.random.default_rng(0), factors=growth_factors(hour[-1], growth)[None], paths=paths
    )
    largest = [found.paths[0][:, first:last].max(axis=1) for first, last in pairwise(hour)]
    return np.asarray(np.stack(largest, axis=1) / known[-1])


@dataclass(frozen=True)
class Bearable:
    """What interference allows.

    Args:
        share: of its cores that may be in use, by platform.
        used: cores in use now, by container.
    """

    share: Mapping[str, float]
    used: Mapping[str, float]


NOTHING_KNOWN = Bearable({}, {})


def purchase_start(
    lake: Lake,
    cluster: str,
    at: datetime,
    months: Sequence[date],
    growth: Floats,
    *,
    bearable: Bearable = NOTHING_KNOWN,
) -> PurchaseStart:
    """Pods, machines and racks of a cluster, and demand that grows from today's.

    Args:
        lake: with placements and nodes.
        cluster: whose.
        at: as known then.
        months: first days.
        growth: (w, t) by path and month, pods as a multiple of today's.
        bearable: cores of a machine are derated by it, at today's ratio of requests to use.

    Raises:
        CohabitError: the lake has no nodes, or no pods with requests, of this cluster.
        IngestError: the lake cannot be read.
    """
    facts = facts_between(lake, at + TICK, at + TICK, ahead=False)
    nodes = _standing(facts.nodes, cluster, ["cluster", "node"], at)
    pods = _standing(facts.placements, cluster, ["cluster", "container"], at)
    cores, memory = _node_sizes(nodes).values()
    known: Flags = np.isfinite(cores) & np.isfinite(memory)
    if not known.any():
        raise CohabitError(
            f"{nodes.num_rows} nodes of cluster {cluster} in {lake.uri}, none with cores and memory: bring topic nodes "
            "in, and check COHABIT_CLUSTER"
        )
    everywhere = np.array([str(owner or "").startswith(EVERYWHERE) for owner in pods["owner"].to_pylist()], bool)
    sizes = _pod_sizes(pods)
    asked: Flags = np.asarray(sizes.any(axis=1))
    used, few = _sizes_by_use(lake, at, pods, nodes)
    sizes += used * ~asked[:, None]
    own = sizes.any(axis=1) & ~everywhere
    if not own.any():
        raise CohabitError(
            f"{pods.num_rows} pods of cluster {cluster} in {lake.uri}, none with requests or measured use: bring topic "
            "placements in, and run `cohabit features`"
        )
    room = np.column_stack([cores * 1_000, memory / MIB, np.nan_to_num(floats(nodes["gpus"]))])[known]
    room[:, :2] -= sizes[everywhere, :2].sum(axis=0) / len(room)
    derates = _derates(bearable, pods["container"].filter(pa.array(own)).to_pylist(), sizes[own, 0] / 1_000)
    machines = _machines(
        nodes.filter(pa.array(known)), np.maximum(room, 0).astype(np.int64), derates, int(sizes[own, 0].max())
    )
    prod = ~is_best_effort(pods["qos"])
    return PurchaseStart(
        rows=machines | _demand(sizes[own], prod[own], np.array(pods["app"].to_pylist(), object)[own], months, growth),
        pods=int((own & asked).sum()),
        by_use=int((own & ~asked).sum()),
        by_few=int((own & ~asked & few).sum()),
        unknown=int((~own & ~everywhere).sum()),
        everywhere=int(everywhere.sum()),
        nodes=len(room),
        unknown_nodes=nodes.num_rows - len(room),
        derates=derates,
    )


def _derates(bearable: Bearable, containers: Sequence[str], cores: Floats) -> dict[str, float]:
    """Share of requestable cores by platform: what may be in use, over what pods use of a requested core; at most 1."""
    used = np.array([bearable.used.get(name, np.nan) for name in containers])
    known = np.isfinite(used)
    if not used[known].sum() > 0:
        return {}
    requested = cores[known].sum() / used[known].sum()
    return {platform: min(1.0, float(share * requested)) for platform, share in bearable.share.items()}


def write_start(folder: Path, start: PurchaseStart) -> list[Path]:
    """Write the files.

    Raises:
        CohabitError: one of them is there already.
    """
    paths = [folder / name for name in FILES]
    if there := [str(path) for path in paths if path.exists()]:
        raise CohabitError(f"{', '.join(there)} would be overwritten: name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        text = StringIO()
        csv.writer(text, lineterminator="\n").writerows([FILES[path.name], *start.rows[path.name]])
        path.write_text(text.getvalue(), encoding="utf-8")
    return paths


def _standing(events: pa.Table, cluster: str, keys: list[str], at: datetime) -> pa.Table:
    """The newest row of each node or pod that is there."""
    rows, _, until = standing(events.filter(pc.equal(events["cluster"], cluster)), keys)
    return rows.filter(pa.array((until > microseconds(at)) & ~is_delete(rows)))


def _pod_sizes(pods: pa.Table) -> Ints:
    """(k, 4) thousandths of a core, MiB, whole GPUs and thousandths of one; rounded up, 0 where none is requested."""
    cpu, memory, gpu = (
        np.nan_to_num(floats(pods[name])) for name in ("cpu_request_cores", "memory_request_bytes", "gpu_request")
    )
    part = np.where(gpu < 1, np.minimum(np.ceil(gpu * DEVICE), DEVICE - 1), 0)
    whole = np.where(gpu < 1, 0, np.ceil(gpu))
    return np.column_stack([np.ceil(cpu * 1_000 - 1e-6), np.ceil(memory / MIB), whole, part]).astype(np.int64)


def _sizes_by_use(lake: Lake, at: datetime, pods: pa.Table, nodes: pa.Table) -> tuple[Ints, Flags]:
    """(k, 4) what each one's app uses at most in 99 of 100 minutes of the day before, and (k,) where these are few.

    Of few minutes it is the most in any; 0 where none was measured.
    """
    rows = lake.read("node_state", at - DAY, at + TICK, ["cluster", "node", "app", *USED.values()])
    rows = rows.filter(pc.equal(rows["cluster"], nodes["cluster"][0]))
    node = pc.index_in(rows["node"], value_set=nodes["node"].combine_chunks())
    on = np.asarray(pc.fill_null(node, nodes.num_rows), np.int64)
    found, few = list[Floats](), np.zeros(pods.num_rows, bool)
    for (name, whole), scale in zip(_node_sizes(nodes).items(), (1_000, 1 / MIB), strict=True):
        peaks, apps = AppPeaks(), pods["app"].combine_chunks()
        peaks.add(rows["app"], rows[USED[name]], np.append(whole, np.nan)[on])
        rarely = peaks.of(apps)
        few |= ~np.isfinite(rarely) & np.isfinite(peaks.largest(apps))
        found.append(np.nan_to_num(np.ceil(scale * np.where(np.isfinite(rarely), rarely, peaks.largest(apps)))))
    return np.column_stack([*found, *np.zeros((2, pods.num_rows))]).astype(np.int64), few


def _shapes(sizes: Ints, prod: Flags) -> list[tuple[int, ...]]:
    """Of each pod its size, rounded up until shapes are few, and whether it is latency-sensitive."""
    for step in STEPS:
        rounded = sizes.copy()
        rounded[:, :2] = -(-sizes[:, :2] // step) * step
        found = list(map(tuple, np.column_stack([rounded, prod]).tolist()))
        if len(set(found)) <= MOST_SHAPES:
            break
    return found


def _demand(
    sizes: Ints, prod: Flags, apps: NDArray[np.object_], months: Sequence[date], growth: Floats
) -> dict[str, Rows]:
    """Lines of demand by path, month and shape, and of today's pods by shape and app."""
    keys, rows = _shapes(sizes, prod), list[tuple[object, ...]]()
    names, shapes = {key: _name(*key) for key in keys}, Counter(keys)
    of_apps = Counter((names[key], app or "") for key, app in zip(keys, apps, strict=True))
    for path, factors in enumerate(growth.tolist()):
        for month, factor in zip(months, factors, strict=True):
            for key, pods in sorted(shapes.items()):
                size = (*key[:4], "yes" if key[4] else "no")
                rows.append((f"p{path}", f"{month:%Y-%m}", names[key], *size, ceil(pods * factor - 1e-9)))
    return {"demand.csv": rows, "apps.csv": [(*key, pods) for key, pods in sorted(of_apps.items())]}


def _name(cpu: int, memory: int, gpu: int, part: int, prod: int) -> str:
    devices = f"-{gpu + part / DEVICE:g}gpu" if gpu or part else ""
    return f"{'ls' if prod else 'be'}-{cpu}m-{memory}Mi{devices}"


def _node_sizes(nodes: pa.Table) -> dict[str, Floats]:
    """(k,) cores and bytes that the scheduler may place, else all of the node; NaN where neither is known."""
    found = dict[str, Floats]()
    for name, (placeable, whole) in ALLOCATABLE.items():
        own = floats(nodes[placeable])
        found[name] = np.where(np.isfinite(own), own, floats(nodes[whole]))
    return found


def _machines(nodes: pa.Table, room: Ints, derates: Mapping[str, float], largest: int) -> dict[str, Rows]:
    """Lines of SKUs, racks and fleet; a SKU is named as it is bought, else by its platform and whole size.

    Derated cores are not below those of the largest pod, which runs on one of them.
    """
    names = ("sku", "platform", "zone", "rack", "cost_micros_per_hour")
    columns = zip(*(nodes[name].to_pylist() for name in names), room.tolist(), strict=True)
    skus, racks, fleet = dict[str, tuple[object, ...]](), dict[str, tuple[object, ...]](), Counter[tuple[str, str]]()
    for bought, platform, in_zone, in_rack, cost, size in columns:
        sku = f"{bought or platform or 'node'} {size[0] / 1_000:.0f}x{size[1] / 1_024:.0f}Gi"
        zone = in_zone or "zone"
        rack = f"{zone}-{in_rack or 'rack'}"
        price = "" if cost is None else round(cost * HOURS_A_MONTH * LIFE_MONTHS / 1e6, 2)
        cpu = min(size[0], max(int(size[0] * derates.get(platform, 1.0)), largest))
        skus.setdefault(sku, (sku, cpu, *size[1:], 0, 0, 0, 0, price, LIFE_MONTHS, "", 1))
        racks.setdefault(rack, (rack, zone, zone, "", "", ""))
        fleet[sku, rack] += 1
    return {
        "skus.csv": sorted(skus.values(), key=str),
        "racks.csv": sorted(racks.values(), key=str),
        "fleet.csv": [(*key, count) for key, count in sorted(fleet.items())],
    }
