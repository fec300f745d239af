"""Gangs in one rack: the joint choice against every placement there is and against the first member's best rack.

Residents and the gang's app slow each other down by ratios drawn at random; a node has up to two free slots.
"""

import gc
from argparse import Namespace
from collections.abc import Iterator, Sequence
from itertools import product
from time import perf_counter

import numpy as np

from advisor.admission.node_room import NodeRoom, Rooms
from advisor.cluster.pending_pod import PodClass
from advisor.gangs.gang_capacity import holds
from advisor.gangs.gang_columns import ClassCosts, Floats, GangColumns, Ints, class_costs
from advisor.gangs.gang_desk import GPU, Seen, placed_by
from advisor.gangs.gang_request import GangPlacement, GangRequest, MemberClass
from advisor.gangs.joint_placement import placed
from advisor.scoring.score_table import REFERENCE, ScoreTable
from benchmarks.gang import Line
from benchmarks.synthetic import PLATFORMS, cluster

SIZES = (4, 6, 8)
RACKS, PER_RACK, APPS = 8, 8, 10
SLOTS, SLOT_SHARES = (0, 1, 2), (0.4, 0.4, 0.2)
TRAIN = PodClass("train", False)


def lines(arguments: Namespace, rng: np.random.Generator) -> Iterator[Line]:
    """One class of each size, two classes with shares of devices, and times at full size."""
    for size in SIZES:
        yield Line({"members": size, "classes": 1}, _one_class(size, arguments.draws, rng))
    yield Line({"members": 5, "classes": 2}, _two_classes(arguments.draws, rng))
    for name, members in _timed_gangs().items():
        about = {"members": sum(one.count for one in members), "classes": len(members), "nodes": arguments.nodes}
        for level in ("rack", "set"):
            request = GangRequest("default", name, members, 64, level=level)
            yield Line(about | {"level": level}, _times(request, arguments.nodes, arguments.asked, rng))


def _one_class(size: int, draws: int, rng: np.random.Generator) -> dict[str, float]:
    """Shares of draws that a rule finds no rack for though there is one, and its cost over the least."""
    request = GangRequest("default", "g", (MemberClass("w", TRAIN, size, 1.0),), size, level="rack")
    vectors = np.array([v for v in product(SLOTS, repeat=PER_RACK) if sum(v) == size])
    feasible = joint_misses = greedy_misses = 0
    joint_cost, greedy_cost, both = 0.0, 0.0, np.zeros(2)
    for _ in range(draws):
        columns = _drawn(rng)
        best = [_least(columns, vectors, rack) for rack in range(RACKS)]
        if not np.isfinite(best).any():
            continue
        feasible += 1
        found = placed(request, columns)
        joint_misses += not isinstance(found, GangPlacement)
        joint_cost += found.cost if isinstance(found, GangPlacement) else 0.0
        greedy = best[int(columns.domain[np.where(columns.free[:, 0] > 0, columns.first[0], np.inf).argmin()])]
        greedy_misses += not np.isfinite(greedy)
        greedy_cost += greedy if np.isfinite(greedy) else 0.0
        both += min(best), min(best) if np.isfinite(greedy) else 0.0
    return {
        "joint_infeasible": joint_misses / feasible,
        "greedy_infeasible": greedy_misses / feasible,
        "cost_over_optimal": joint_cost / both[0] - 1.0,
        "greedy_cost_over_optimal": greedy_cost / both[1] - 1.0,
    }


def _drawn(rng: np.random.Generator) -> GangColumns:
    """Nodes with residents of random apps, and free slots."""
    n, slowed = RACKS * PER_RACK, rng.lognormal(np.log(0.15), 1.0, (APPS, APPS))
    there = rng.multinomial(3, np.full(APPS, 1 / APPS), n)
    app = int(rng.integers(APPS))
    slots = rng.choice(SLOTS, n, p=SLOT_SHARES).astype(float)
    return _columns(
        slots, np.zeros((n, 0), np.int64), [there @ (slowed[app] + slowed[:, app])], [[2 * slowed[app, app]]]
    )


def _columns(slots: Floats, room: Ints, first: Sequence[Floats], step: Sequence[Sequence[float]]) -> GangColumns:
    n = len(slots)
    return GangColumns(
        names=tuple(f"n{at}" for at in range(n)),
        domain=np.repeat(np.arange(RACKS), n // RACKS),
        domains=tuple(f"r{at}" for at in range(RACKS)),
        level="rack",
        free=np.column_stack([slots, np.full((n, 2), np.inf)]),
        room=room,
        first=np.array(first),
        step=np.repeat(np.array(step)[:, :, None], n, axis=2),
    )


def _least(columns: GangColumns, vectors: Ints, rack: int) -> float:
    """Least cost of all placements of one class in a rack; infinite without any."""
    rows = columns.domain == rack
    fits = vectors[(vectors <= columns.free[rows, 0]).all(axis=1)]
    costs = fits @ columns.first[0, rows] + columns.step[0, 0, 0] * (fits * (fits - 1) / 2).sum(axis=1)
    return float(costs.min(initial=np.inf))


def _two_classes(draws: int, rng: np.random.Generator) -> dict[str, float]:
    """Three workers with a device and two launchers with half of one, on racks of three nodes with devices in part."""
    members = (MemberClass("w", TRAIN, 3, 2.0, devices=1), MemberClass("l", PodClass("launch", False), 2, share=500))
    request = GangRequest("default", "g", members, 5, level="rack")
    feasible = misses = 0
    joint_cost = least_cost = 0.0
    for _ in range(draws):
        n, step = RACKS * 3, rng.uniform(0, 0.3, 3).tolist()
        room = rng.choice([0, 500, 1000], (n, 3), p=(0.3, 0.2, 0.5))
        columns = _columns(
            rng.integers(0, 7, n).astype(float),
            room,
            [rng.lognormal(-1.0, 0.7, n), rng.lognormal(-1.5, 0.7, n)],
            [step[:2], step[1:]],
        )
        best = min(_least_of_all(request, columns, rack) for rack in range(RACKS))
        found = placed(request, columns)
        if np.isfinite(best):
            feasible += 1
            misses += not isinstance(found, GangPlacement)
            joint_cost += found.cost if isinstance(found, GangPlacement) else 0.0
            least_cost += best
    return {"joint_infeasible": misses / feasible, "cost_over_optimal": joint_cost / least_cost - 1.0}


def _least_of_all(request: GangRequest, columns: GangColumns, rack: int) -> float:
    """Least cost of all placements of several classes in a rack; infinite without any."""
    rows, least = np.flatnonzero(columns.domain == rack).tolist(), np.inf
    ways = [[w for w in product(range(one.count + 1), repeat=3) if sum(w) == one.count] for one in request.members]
    for way in product(*ways):
        counts = np.array(way)
        cost = sum(_cost(columns, counts[:, at].astype(float), row) for at, row in enumerate(rows))
        if cost < least and all(
            holds(columns, row, [one for one, k in zip(request.members, counts[:, at], strict=True) for _ in range(k)])
            for at, row in enumerate(rows)
        ):
            least = cost
    return float(least)


def _cost(columns: GangColumns, there: Floats, row: int) -> float:
    step = columns.step[:, :, row]
    return float(columns.first[:, row] @ there + (there @ step @ there - np.diag(step) @ there) / 2)


def _timed_gangs() -> dict[str, tuple[MemberClass, ...]]:
    workers = MemberClass("w", TRAIN, 64, 4.0, 8e9, devices=1)
    launchers = MemberClass("l", PodClass("launch", False), 4, 2.0, 4e9)
    return {"one": (workers,), "two": (MemberClass("w", TRAIN, 60, 4.0, 8e9, devices=1), launchers)}


def _times(request: GangRequest, nodes: int, asked: int, rng: np.random.Generator) -> dict[str, float]:
    """Milliseconds of whole answers: costs from a table, room of all nodes, placement."""
    view = cluster(nodes, 1, rng)
    object.__setattr__(view, "racks", tuple(f"r{at // 32}" for at in range(nodes)))
    of = tuple(dict.fromkeys([REFERENCE, *(one.of for one in request.members)]))
    table = ScoreTable(
        version=1,
        as_of_us=view.as_of_us,
        bundle="",
        nodes=view.nodes,
        known=view.node_known,
        classes=of,
        points=np.full((len(of), nodes), 5, np.uint8),
        cost=rng.uniform(0, 3, (len(of), nodes)).astype(np.float32),
        platform=view.node_platform.astype(np.int16),
        steps=rng.uniform(0, 0.3, (3, len(of), len(PLATFORMS))).astype(np.float32),
    )

    def costs(classes: Sequence[PodClass], _held: object) -> ClassCosts:
        return class_costs(table, classes, table.cost[[of.index(one) for one in classes]].astype(np.float64))

    seconds = []
    for _ in range(asked):
        free = zip(view.nodes, *rng.integers(0, 9, (3, nodes)).tolist(), strict=True)
        rooms = Rooms(
            view.cluster,
            view.as_of_us,
            tuple(NodeRoom(name, None, (), None, 4.0 * c, 8e9 * m, 50.0, {GPU: float(g)}) for name, c, m, g in free),
        )
        gc.collect()  # of what the benchmark made
        began = perf_counter()
        placed_by(request, view, rooms, costs, Seen(0, recent=(8, 16, 64)))
        seconds.append(perf_counter() - began)
    return {"p50_ms": float(np.median(seconds)) * 1e3, "p99_ms": float(np.quantile(seconds, 0.99)) * 1e3}
