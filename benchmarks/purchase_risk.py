"""Purchase risk: how often a plan is short on paths that it was not made from, against the risk that it states.

The plan is made from 200 paths of one seed and judged on 200 of another. Regret is what it costs more than the plan
that knew the path, as a share of what it costs, over the first 40 held-out paths that it covers.
"""

import sys
from argparse import ArgumentParser, Namespace

import numpy as np

from advisor.purchase.instance import Floats, Ints
from advisor.purchase.orders.order_plan import OrderPlan, patterns_of, planned
from advisor.purchase.orders.order_problem import OrderProblem
from advisor.purchase.orders.path_risk import covered_paths, planned_at_risk
from advisor.purchase.orders.plan_check import plan_faults
from benchmarks.demand_paths import multipliers, pods_of, site
from benchmarks.runner import OURS, Benchmark, Result

REGRETS = 40
SECONDS = 2.0
"""For the plan of one known path."""


def _run(arguments: Namespace, _: np.random.Generator) -> Result:
    seeds = np.random.default_rng([arguments.seed, 0]), np.random.default_rng([arguments.seed, 1])
    seen, unseen = (pods_of(multipliers(rng, arguments.paths, arguments.periods)) for rng in seeds)
    problem = site(seen)
    found = planned_at_risk(problem, arguments.risk, arguments.seconds, _print)
    pairs = sorted({(one.case.path, one.case.period) for one in found.plan.cases})
    faults = plan_faults(problem, found.plan, pairs)
    judged = site(unseen)
    everywhere = [(path, period) for path in range(len(unseen)) for period in range(arguments.periods)]
    covered = covered_paths(judged, found.plan, range(len(unseen)), patterns_of(judged, everywhere))
    regret = regrets(judged, found.plan, np.flatnonzero(covered)[:REGRETS])
    risk_seen = float((~covered).mean())
    return {
        OURS: {
            "risk_asked": arguments.risk,
            "risk_stated": found.risk,
            "risk_seen": risk_seen,
            "off_points": 100 * abs(risk_seen - found.risk),
            "risk_in_sample": float(found.short.mean()),
            "worst_short": found.worst_short,
            "cost": found.plan.cost,
            "gap": found.plan.gap,
            "faults": float(len(faults)),
            "regret_p50": float(np.median(regret)),
            "regret_p90": float(np.quantile(regret, 0.9)),
        }
    }


def regrets(judged: OrderProblem, plan: OrderPlan, paths: Ints) -> Floats:
    """(k,) share of the cost of the plan that a plan for each path alone saves."""
    cost = np.array([planned(_alone(judged, path), _pairs(judged), SECONDS).cost for path in paths.tolist()])
    found: Floats = 1.0 - cost / max(plan.cost, 1.0)
    return found


def _alone(judged: OrderProblem, path: int) -> OrderProblem:
    return judged._replace(demand=judged.demand._replace(pods=judged.demand.pods[[path]]))


def _pairs(judged: OrderProblem) -> list[tuple[int, int]]:
    return [(0, period) for period in range(judged.periods)]


def _print(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--paths", type=int, default=200)
    parser.add_argument("--periods", type=int, default=6)
    parser.add_argument("--risk", type=float, default=0.05)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--seed", type=int, default=1)


BENCHMARK = Benchmark("purchase-risk", "shortage on held-out paths against the stated risk", _run, 1, _arguments)
