"""Purchase orders: plans of drawn problems against the exhaustive optimum; every plan is checked.

Lots, racks, lead times, windows, budgets, spread and the loss of any domain are drawn. `equal` is the share of problems
whose cost is the optimum; `worst_excess` counts cheapest machines above it. `refused` are problems that have a plan and
got none, `wrong` plans with a fault, or without a pod short where no plan exists.
"""

import sys
from argparse import ArgumentParser, Namespace
from time import monotonic
from typing import NamedTuple

import numpy as np

from advisor.purchase.orders.order_plan import planned
from advisor.purchase.orders.order_problem import OrderProblem
from advisor.purchase.orders.plan_check import plan_faults
from benchmarks.order_search import drawn_problem, least_cost
from benchmarks.runner import OURS, Benchmark, Result

SECONDS = 10.0


class Compared(NamedTuple):
    """A plan against the optimum.

    Args:
        cost: of the plan.
        least: optimum by search; None where no set of orders packs.
        excess: cheapest machines above it.
        short: pods that the plan leaves short.
        gap: that the plan states.
        faults: of the check.
        seconds: that the plan took.
    """

    cost: float
    least: float | None
    excess: float
    short: int
    gap: float
    faults: list[str]
    seconds: float


def compared(problem: OrderProblem) -> Compared:
    """A problem planned, checked and searched."""
    wanted = [(0, period) for period in range(problem.periods)]
    began = monotonic()
    plan = planned(problem, wanted, SECONDS)
    seconds = monotonic() - began
    least = least_cost(problem)
    cheapest = float(problem.of.types.price[problem.of.types.most > 0].min())
    excess = 0.0 if least is None else (plan.cost - least) / cheapest
    return Compared(plan.cost, least, excess, plan.short, plan.gap, plan_faults(problem, plan, wanted), seconds)


def _run(arguments: Namespace, _: np.random.Generator) -> Result:
    found, seed = list[Compared](), 0
    while sum(one.least is not None for one in found) < arguments.instances:
        found.append(compared(drawn_problem(np.random.default_rng([arguments.seed, seed]))))
        seed += 1
        if seed % 100 == 0:
            print(f"{seed} problems", file=sys.stderr, flush=True)
    there = [one for one in found if one.least is not None]
    return {
        OURS: {
            "instances": float(len(there)),
            "without_plan": float(len(found) - len(there)),
            "ordering": float(np.mean([one.cost > 0 for one in there])),
            "equal": float(np.mean([abs(one.excess) < 1e-6 for one in there])),
            "worst_excess": max(one.excess for one in there),
            "refused": float(sum(one.short > 0 for one in there)),
            "wrong": float(sum(bool(one.faults) or (one.least is None and one.short == 0) for one in found)),
            "worst_gap": max(one.gap for one in there),
            "seconds_p50": float(np.median([one.seconds for one in there])),
            "seconds_max": max(one.seconds for one in found),
        }
    }


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--instances", type=int, default=300, help="problems that have a plan")
    parser.add_argument("--seed", type=int, default=1)


BENCHMARK = Benchmark(
    "purchase-orders", "orders with racks, lead times and domains against the exhaustive optimum", _run, 1, _arguments
)
