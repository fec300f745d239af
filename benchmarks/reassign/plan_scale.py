"""Plan scale: how long a plan takes for a cluster of the size that Cohabit is made for, and for a tenth of it."""

import resource
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from time import monotonic

import numpy as np

from advisor.optimizer.constraints import wrongs
from advisor.optimizer.objective import cost
from advisor.optimizer.problem import Excess, Limits, Moves, Problem
from advisor.optimizer.search.parameters import Tuning
from advisor.optimizer.search.search import compile_kernels, search
from benchmarks.reassign.ordering import Pace, Plan, ordered
from benchmarks.reassign.timed import seed, whole
from benchmarks.runner import OURS, Benchmark, Result

RESOURCES = 12
PER_NODE = 30
APPS_PER_NODE = 0.5
UTILISED = 0.55
SAFE = 0.7
GOOD = 0.1
"""A plan is good that leaves so much of what there was above safe levels, its own moves counted."""
MOVE = 0.002
"""Cost of a move, where a node's whole capacity above its safe level costs 1 for each resource."""
BUDGETS_S = tuple(round(0.05 * 1.15**turn, 3) for turn in range(50))
"""Times to search; the shortest one after which a plan is good counts."""
SHRUNK = 10


@dataclass(frozen=True)
class Planned:
    """A plan, how long it took from columns to rounds, and what it leaves of the cost."""

    plan: Plan
    took_s: float
    left: float


def drawn(nodes: int, rng: np.random.Generator) -> Problem:
    """A cluster of which some nodes are much fuller than others, as schedulers that look at requests leave it."""
    containers, apps = nodes * PER_NODE, round(nodes * APPS_PER_NODE)
    app = rng.integers(0, apps, containers)
    size = rng.lognormal(0.0, 0.8, (apps, 1)) * rng.lognormal(0.0, 0.5, (apps, RESOURCES))
    use = size[app] * rng.uniform(0.9, 1.1, (containers, 1))
    use *= UTILISED * nodes / use.sum(axis=0)
    weight = rng.lognormal(0.0, 0.25, nodes)
    start = rng.choice(nodes, containers, p=weight / weight.sum())
    load = np.stack([np.bincount(start, use[:, column], minlength=nodes) for column in range(RESOURCES)], axis=1)
    alike = np.bincount(np.unique(start * apps + app, return_counts=True)[0] % apps, minlength=apps)
    return Problem(
        use=use,
        capacity=np.maximum(load, 1.0),
        held=np.ones(RESOURCES, np.bool_),
        app=app,
        start=start,
        limits=Limits(alike=np.maximum(alike, 2)),
        excess=Excess(np.arange(RESOURCES), np.ones(RESOURCES), np.full((nodes, RESOURCES), SAFE)),
        moves=Moves(container=np.full(containers, MOVE)),
    )


def planned(problem: Problem, number: int, budget_s: float) -> Planned:
    """Search for so long, and put the moves into rounds."""
    begin = monotonic()
    found = search(problem, number, lambda _: (monotonic() - begin) / budget_s, Tuning())
    plan = ordered(problem, found.place, Pace())
    took = monotonic() - begin
    broken = wrongs(problem, plan.place)
    if broken:
        raise SystemExit(f"the plan broke a rule: {broken[0].text}")
    return Planned(plan, took, cost(problem, plan.place).total / cost(problem, problem.start).total)


def good(problem: Problem, number: int) -> Planned:
    """The plan of the shortest budget that is good."""
    for budget_s in BUDGETS_S:
        found = planned(problem, number, budget_s)
        told = f"{found.left:.3f} of the cost left, {found.plan.moves} moves in {found.took_s:.1f} s"
        print(f"{problem.nodes} nodes, {budget_s} s to search: {told}", file=sys.stderr)
        if found.left <= GOOD:
            return found
    raise SystemExit(f"no plan was good after {BUDGETS_S[-1]} s: {found.left:.0%} is left")


def run(arguments: Namespace, rng: np.random.Generator) -> Result:
    """A first plan, and a good one of both sizes."""
    compile_kernels()
    first_s = arguments.first_ms / 1000
    planned(drawn(arguments.nodes // SHRUNK, np.random.default_rng(0)), arguments.seed, first_s)
    small = good(drawn(arguments.nodes // SHRUNK, rng), arguments.seed)
    problem = drawn(arguments.nodes, rng)
    first = planned(problem, arguments.seed, first_s)
    if first.left >= 1.0 or not first.plan.moves:
        raise SystemExit("the first plan improves nothing")
    large = good(problem, arguments.seed)
    figures = {
        "first_plan_s": first.took_s,
        "good_plan_s": large.took_s,
        "growth_x10": large.took_s / small.took_s,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "first_left": first.left,
        "good_left": large.left,
        "good_moves": large.plan.moves,
        "good_rounds": len(large.plan.rounds),
    }
    return {OURS: figures}


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--nodes",
        type=whole(100, 100_000),
        default=10_000,
        help="of the larger cluster; 30 containers each (10,000)",
    )
    parser.add_argument("--seed", type=seed, default=1, help="of random moves (1)")
    parser.add_argument(
        "--first-ms", type=whole(10, 600_000), default=500, help="milliseconds to search for the first plan (500)"
    )


PLAN_SCALE = Benchmark("plan-scale", "how long a plan takes for 300,000 containers", run, 1, _arguments)
