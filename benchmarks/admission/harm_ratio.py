"""Harm ratio: true harm by pods advised at admission over that by the extender, under three laws."""

import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.admission.advisor_client import Advisor, advising
from benchmarks.admission.node_pools import Filled, Pools, with_requests
from benchmarks.admission.swarms_and_streams import (
    FORMS,
    STREAM,
    SWARM,
    ByAffinity,
    ByExtender,
    Landed,
    Load,
    Placing,
    Size,
    Unadvised,
    Way,
    drawn_loads,
    placed,
    show_pods,
)
from benchmarks.herd import drawn, published
from benchmarks.laws import simulated_world
from benchmarks.runner import OURS, TOP, Benchmark, Result
from ingest.simulator.laws import LAWS
from ingest.simulator.simulate import Plan

Floats = NDArray[np.float64]
EXTENDER, NONE = "extender", "unadvised"
ADVISED: Mapping[str, Callable[[Advisor], Way]] = {OURS: ByAffinity, EXTENDER: ByExtender}
DRAWS, LEVEL = 2000, 0.95
"""Of the interval: a paired bootstrap over loads."""
Cell = tuple[str, str]
"""Situation, form."""


class Harmed(NamedTuple):
    """Loads of one situation and form by one way.

    Args:
        harm: (loads,) true slowdown above 1 that pods added, summed over containers.
        landed: of each load.
    """

    harm: Floats
    landed: tuple[Landed, ...]


def run(arguments: Namespace, _: np.random.Generator) -> Result:
    """Harm by way, and ratios of ours to others with their intervals; at the top the worst ratio to the extender."""
    size = Size(
        arguments.swarms,
        arguments.swarm_pods,
        arguments.streams,
        arguments.stream_pods,
        arguments.intervals,
        arguments.per_s,
    )
    if min(size.swarms, size.streams, size.intervals, arguments.nodes) < 1 or size.per_s <= 0:
        raise SystemExit("at least one swarm, stream, interval and node are needed, and pods a second")
    found: dict[str, dict[str, float]] = {OURS: {}, EXTENDER: {}, NONE: {}}
    for law in arguments.law or LAWS:
        plan = Plan(12, 24, hours=arguments.hours, seed=arguments.seed, law=law)
        for way, figures in figures_of(law, harmed(plan, size, arguments.nodes)).items():
            found[way].update(figures)
    worst = max(value for name, value in found[OURS].items() if name.endswith("_admission_vs_extender"))
    return {TOP: {"worst_admission_vs_extender": worst}, **found}


def harmed(plan: Plan, size: Size, nodes: int) -> dict[str, dict[Cell, Harmed]]:
    """By way, situation and form what the pods of all loads did under a plan's law."""
    with tempfile.TemporaryDirectory(prefix="cohabit-admission-") as name:
        folder, began = Path(name), perf_counter()
        world, rng = simulated_world(folder, plan), np.random.default_rng([plan.seed, 11])
        cluster = drawn(world, nodes * size.pools, rng)
        published(folder, world, cluster)
        pools, loads = with_requests(cluster, nodes, rng), drawn_loads(size, plan.apps, rng)
        found = {}
        for way in (*ADVISED, NONE):
            _say(plan.law, f"{way} at {perf_counter() - began:.0f} s")
            found[way] = by_cell(_placed_by(way, folder, pools, loads, size), loads)
        return found


def _placed_by(way: str, folder: Path, pools: Pools, loads: list[Load], size: Size) -> Placing:
    """All pods by one way, with a server of its own where there is one."""
    if way == NONE:
        alone = Placing(Unadvised(), pools, 0)
        placed(alone, loads, float("inf"), lambda: None)
        return alone
    own, rng = folder / way, np.random.default_rng(12)
    own.mkdir()
    (own / "registry").symlink_to(folder / "registry")
    show_pods(Filled(pools), own / "snapshots", 1, rng)
    with advising(own) as advisor:
        advisor.until_known(pools.class_of(app) for app in range(len(pools.requests)))
        placing = Placing(ADVISED[way](advisor), pools, 0)
        versions = iter(range(2, 2 + size.intervals))

        def end_interval() -> None:
            as_of_us = show_pods(placing.filled, own / "snapshots", next(versions), rng)
            advisor.until_taken_up(as_of_us)

        placed(placing, loads, size.per_s, end_interval)
    return placing


def by_cell(placing: Placing, loads: list[Load]) -> dict[Cell, Harmed]:
    """What became of the loads, by situation and form."""
    found = {}
    for cell in product((SWARM, STREAM), FORMS):
        pools = [load.pool for load in loads if (load.situation, load.form) == cell]
        harm = np.array([placing.filled.harm(pool) for pool in pools])
        found[cell] = Harmed(harm, tuple(placing.landed[pool] for pool in pools))
    return found


def figures_of(law: str, found: Mapping[str, Mapping[Cell, Harmed]]) -> dict[str, dict[str, float]]:
    """Figures of one law by way; `{law}_admission_vs_extender` is the worst of situations and forms."""
    figures: dict[str, dict[str, float]] = {way: {} for way in found}
    for way, (cell, of) in ((way, one) for way, cells in found.items() for one in cells.items()):
        name = "_".join((law, *cell))
        pods = max(1, sum(one.pods for one in of.landed))
        figures[way] |= {
            f"{name}_harm": float(of.harm.sum()),
            f"{name}_top_share": sum(one.top for one in of.landed) / pods,
            f"{name}_neutral_share": sum(one.neutral for one in of.landed) / pods,
            f"{name}_pending": float(sum(one.pending for one in of.landed)),
        }
    ratios = dict[str, tuple[float, float, float]]()
    for cell, other in product(found[OURS], (EXTENDER, NONE)):
        ratio = harm_ratio(found[OURS][cell].harm, found[other][cell].harm)
        ratios["_".join((law, *cell, f"admission_vs_{other}"))] = ratio
    worst = max(ratio for name, ratio in ratios.items() if name.endswith(EXTENDER))
    for name, (middle, low, high) in {**ratios, f"{law}_admission_vs_extender": worst}.items():
        figures[OURS] |= {name: middle, f"{name}_lo": low, f"{name}_hi": high}
    return figures


def harm_ratio(ours: Floats, others: Floats) -> tuple[float, float, float]:
    """Harm over another way's, and the ends of its interval.

    Args:
        ours: (n,) by load.
        others: (n,) of the same loads, > 0 in sum.

    Returns:
        The ratio of sums, then the ends of the interval at LEVEL.

    Raises:
        Nothing.

    Source: paired percentile bootstrap, Efron and Tibshirani 1993.
    """
    rows = np.random.default_rng(0).integers(len(ours), size=(DRAWS, len(ours)))
    again = ours[rows].sum(axis=1) / others[rows].sum(axis=1)
    low, high = np.quantile(again, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(ours.sum() / others.sum()), float(low), float(high)


def _say(law: str, what: str) -> None:
    print(f"{law}: {what}", file=sys.stderr, flush=True)


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--law", action="append", choices=sorted(LAWS), help="repeatable; all when left out")
    parser.add_argument("--nodes", type=int, default=60, help="of the pool of each swarm or stream (60)")
    parser.add_argument("--swarms", type=int, default=10, help="of each form of the scheduler (10)")
    parser.add_argument("--swarm-pods", type=int, default=120, help="identical pods of each (120)")
    parser.add_argument("--streams", type=int, default=10, help="of each form of the scheduler (10)")
    parser.add_argument("--stream-pods", type=int, default=24, help="mixed pods of each and metric interval (24)")
    parser.add_argument("--intervals", type=int, default=3, help="metric intervals (3)")
    parser.add_argument("--per-s", type=float, default=100.0, help="pods a second over all pools (100)")
    parser.add_argument("--hours", type=float, default=12.0, help="simulated hours that are learnt from (12)")
    parser.add_argument("--seed", type=int, default=1, help="of the simulation (1)")


BENCHMARK = Benchmark(
    "admission",
    "true harm by pods advised at admission, next to the extender's and no advice, under three laws",
    run,
    runs=1,
    add_arguments=_arguments,
)
