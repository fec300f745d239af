"""Orders under uncertain demand: the cheapest that serve all but a share of the paths, and what that share truly is."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from time import monotonic
from typing import NamedTuple

import numpy as np

from advisor.purchase.instance import Flags, Floats, Ints
from advisor.purchase.orders.case_packing import best_completed, least_short, nothing_packed, packed_alone
from advisor.purchase.orders.order_plan import OrderPlan, Patterns, patterns_of, planned, with_orders
from advisor.purchase.orders.order_problem import Case, OrderProblem, cases_of
from advisor.purchase.orders.order_program import Packing, choices_of, packs_by, written

LEAST_SECONDS, FOR_SHARE_S = 1.0, 0.2
ROUNDS = 60
"""Plans for one set of paths at most, each with more of their periods than the one before."""
Pair = tuple[int, int]
"""Path and period."""


class RiskPlan(NamedTuple):
    """A plan for many paths.

    Args:
        plan: orders; its cases are those that it rests on.
        short: (w,) whether the path is short in any case of any period.
        risk: probability that a path that was not seen is short, by leaving out one path at a time.
        worst_short: share of pods short in the worst case, the mean over the worst paths (conditional value at risk).
    """

    plan: OrderPlan
    short: Flags
    risk: float
    worst_short: float


def planned_at_risk(
    problem: OrderProblem,
    risk: float,
    seconds: float,
    progress: Callable[[str], None] = lambda _: None,
    *,
    patterns: Patterns | None = None,
) -> RiskPlan:
    """Orders of which the probability of a shortage is at most a risk.

    Args:
        problem: with (w, t, n) pods of equally likely paths.
        risk: probability of a pod short in any case of any period, from 0 to 1.
        seconds: time at most, about.
        progress: is called with what is being done.
        patterns: of all paths and periods, see `patterns_of`; None: made here.

    Returns:
        The plan. Its risk exceeds the one asked for where no order cures it, where time ends, or where paths are too
        few: with w of them and d that the plan rests on, about d / w is the least.

    Raises:
        NoOrdersInTime: none was found.

    Source: scenario approach with discarded paths; Campi and Garatti, "A sampling-and-discarding approach to
    chance-constrained optimization", 2011. The stated risk counts paths that are short once they are left out.
    """
    until = monotonic() + seconds
    paths = len(problem.demand.pods)
    if patterns is None:
        patterns = patterns_of(problem, [(path, period) for path in range(paths) for period in range(problem.periods)])
    search = _Search(problem, patterns, until)
    easiest_first = np.argsort(search.hardness.max(axis=1), kind="stable")
    dropped, step, before = int(risk * (paths + 1)), 1, list[RiskPlan]()
    while True:
        progress(f"planning for {paths - dropped:,} of {paths:,} paths")
        kept = easiest_first[: paths - dropped]
        plan, pairs = search.plan_for(kept, [])
        short = ~covered_paths(problem, plan, range(paths), patterns)
        progress(f"leaving out each of {len({path for path, _ in pairs}):,} paths that the plan rests on")
        stated = float(short.sum() + search.short_when_left_out(kept, pairs, short)) / paths
        found = RiskPlan(plan, short, stated, 0.0)
        over = monotonic() > until
        if stated <= risk or dropped == 0 or over:
            found = before[-1] if over and before else found
            return found._replace(worst_short=_worst_short(problem, found, patterns, risk))
        before.append(found)
        dropped -= min(dropped, max(step, int((stated - risk) * paths)))
        step *= 2


class _Search:
    """Plans for sets of paths, one pair of path and period after the other."""

    def __init__(self, problem: OrderProblem, patterns: Patterns, until: float) -> None:
        self.problem, self.patterns, self.until = problem, patterns, until
        self.hardness = hardness(problem)
        self.earliest = min((one.serves for one in choices_of(problem)), default=problem.periods)

    def plan_for(self, kept: Ints, pairs: list[Pair]) -> tuple[OrderPlan, list[Pair]]:
        """The cheapest plan for all kept paths, and the pairs that it was made from, given ones first.

        Pairs are added until every kept path is covered: of each period the hardest that is short. Before the first
        delivery nothing can be cured, so that no pair is added.
        """
        pairs = pairs or [(int(kept[at]), t) for t, at in enumerate(self.hardness[kept].argmax(axis=0))]
        for _ in range(ROUNDS):
            plan = planned(self.problem, pairs, max(self.until - monotonic(), LEAST_SECONDS), self.patterns)
            short = short_pairs(self.problem, plan, kept, self.patterns)
            new = dict[int, Pair]()
            for pair in sorted(set(short) - set(pairs), key=lambda one: self.hardness[one]):
                if pair[1] >= self.earliest:
                    new[pair[1]] = pair
            if not new or monotonic() > self.until:
                break
            pairs = [*pairs, *new.values()]
        return plan, pairs

    def short_when_left_out(self, kept: Ints, pairs: list[Pair], short: Flags) -> int:
        """Paths that are covered, and short once the plan is made without them; all others are covered then too.

        Without a dropped path that is covered by chance, the hardest of the kept is dropped in its place.
        """
        resting = sorted({path for path, _ in pairs if not short[path]})
        if len(kept) < 2:
            return len(resting)
        count = 0
        for path in resting:
            out_of_time = monotonic() > self.until
            others = [pair for pair in pairs if pair[0] != path]
            count += int(out_of_time or self._short_without(path, kept[kept != path], others))
        by_chance = np.setdiff1d(np.flatnonzero(~short), kept).tolist()
        if not by_chance or monotonic() > self.until:
            return count + len(by_chance)
        plan, _ = self.plan_for(kept[:-1], [pair for pair in pairs if pair[0] != kept[-1]])
        return count + int((~covered_paths(self.problem, plan, by_chance, self.patterns)).sum())

    def _short_without(self, path: int, kept: Ints, pairs: list[Pair]) -> bool:
        """Whether a path is short by the plan for the others; more pairs are added only where it is."""
        if pairs:
            plan = planned(self.problem, pairs, max(self.until - monotonic(), LEAST_SECONDS), self.patterns)
            if covered_paths(self.problem, plan, [path], self.patterns)[0]:
                return False
        plan, _ = self.plan_for(kept, pairs)
        return not covered_paths(self.problem, plan, [path], self.patterns)[0]


def hardness(problem: OrderProblem) -> Floats:
    """(w, t) what pods of each path and period need: shares of their cheapest machine, at its price.

    Source: ours; it ranks paths, and prices nothing.
    """
    shapes, types = problem.of.shapes, problem.of.types
    price = np.where(types.price > 0, types.price, types.price.max(initial=0.0))
    sizes = [
        (shapes.cpu, types.cpu),
        (shapes.memory, types.memory),
        (shapes.devices + shapes.share / 1e3, types.devices),
    ]
    share = np.max([size[:, None] / np.maximum(room, 1) for size, room in sizes], axis=0)
    cheapest = np.where(problem.of.allowed, share * price, np.inf).min(axis=1, initial=np.inf)
    return np.asarray(problem.demand.pods @ np.where(np.isfinite(cheapest), cheapest, 0.0), np.float64)


def covered_paths(problem: OrderProblem, plan: OrderPlan, paths: Sequence[int], patterns: Patterns) -> Flags:
    """(k,) whether every case of each path packs on the machines of a plan.

    Args:
        problem: whose demand has the paths.
        plan: orders; demand may be of other paths than the plan's.
        paths: k of them.
        patterns: of the demand, see `patterns_of`.

    Returns:
        Flags; a case that was not decided in time counts as one that does not pack.

    Raises:
        Nothing.

    Source: ours; a case packs where one that asks for no less does.
    """
    short = {path for path, _ in short_pairs(problem, plan, paths, patterns)}
    return np.array([path not in short for path in paths])


def short_pairs(problem: OrderProblem, plan: OrderPlan, paths: Sequence[int] | Ints, patterns: Patterns) -> list[Pair]:
    """Pairs of path and period of which a case does not pack on the machines of a plan."""
    standing = with_orders(problem, plan.lines)
    packs = _Packs(standing, packs_by(patterns.by_type))
    pairs = [(int(path), period) for path in paths for period in range(problem.periods)]
    total = problem.demand.pods.sum(axis=2)
    largest_first = sorted(pairs, key=lambda one: -total[one])
    return [pair for pair in largest_first if not all(packs(case) for case in cases_of(standing, [pair]))]


class _Packs:
    """Whether cases pack, by the ones of their period and lost domain that were tried before where they decide it."""

    def __init__(self, standing: OrderProblem, packing: Packing) -> None:
        self.standing, self.packing = standing, packing
        self.fitting = defaultdict[Pair, list[Ints]](list)
        self.other = defaultdict[Pair, list[Ints]](list)

    def __call__(self, case: Case) -> bool:
        where = case.period, case.lost
        if any((case.pods <= one).all() for one in self.fitting[where]):
            return True
        if any((case.pods >= one).all() for one in self.other[where]):
            return False
        fits = not best_completed(self.standing, nothing_packed(case)).short.any() or (
            not least_short(self.standing, case, LEAST_SECONDS) and self._by_program(case)
        )
        (self.fitting if fits else self.other)[where].append(case.pods)
        return fits

    def _by_program(self, case: Case) -> bool:
        return bool(len(written(self.standing, [case], self.packing).program.solve(LEAST_SECONDS).value))


def _worst_short(problem: OrderProblem, found: RiskPlan, patterns: Patterns, risk: float) -> float:
    """Share of pods short in the worst case of a path, the mean over the worst paths."""
    standing, packing = with_orders(problem, found.plan.lines), packs_by(patterns.by_type)
    shares = np.zeros(len(found.short))
    for path in np.flatnonzero(found.short).tolist():
        cases = cases_of(problem, [(path, period) for period in range(problem.periods)])
        packed = (packed_alone(standing, case, packing, FOR_SHARE_S, exact=patterns.complete) for case in cases)
        shares[path] = max(float(one.short.sum() / max(one.case.pods.sum(), 1)) for one in packed)
    worst = max(1, round(risk * len(shares)))
    return float(np.sort(shares)[-worst:].mean())
