"""Policies: how schedulers without a model choose, each a plain function of what a scheduler sees. Kernel.

Every cost is lower for a better node. Each policy is a family with a few settings, of which the best is chosen on a
trace of its own before anything is judged: a baseline that was not tuned says nothing.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import beta as beta_distribution

from cohabit.backtest.sight import CPU, LLC, MEMBW, MEMORY, Floats, Ints, Policy, Sight
from models.challengers.optum import ByFullness

Family = Mapping[str, Policy]
"""Settings of one policy by name; all of them are tried."""


def random_policy() -> Policy:
    """Any feasible node."""

    def cost(_: Sight, _app: int, nodes: Ints) -> Floats:
        return np.zeros(len(nodes))

    return cost


def requested_after(sight: Sight, app: int, nodes: Ints) -> Floats:
    """(k, 2) share of cores and memory requested after the placement."""
    shares: Floats = (sight.requested[nodes] + sight.request[app]) / sight.capacity[nodes]
    return shares


def least_allocated(cpu: float) -> Policy:
    """The node with most left. Source: kube-scheduler's NodeResourcesFit, LeastAllocated; `cpu` weighs cores."""

    def cost(sight: Sight, app: int, nodes: Ints) -> Floats:
        return np.asarray(requested_after(sight, app, nodes) @ [cpu, 1.0 - cpu])

    return cost


def most_allocated(cpu: float) -> Policy:
    """The fullest node that takes it. Source: kube-scheduler's NodeResourcesFit, MostAllocated."""
    least = least_allocated(cpu)
    return lambda sight, app, nodes: -least(sight, app, nodes)


def balanced(weight: float) -> Policy:
    """Cores and memory as evenly used as possible, combined with the node with most left.

    Source: kube-scheduler's defaults, NodeResourcesBalancedAllocation and LeastAllocated, each of weight 1.
    """

    def cost(sight: Sight, app: int, nodes: Ints) -> Floats:
        shares = requested_after(sight, app, nodes)
        return np.asarray(weight * shares.std(axis=1) + shares.mean(axis=1))

    return cost


def target_load(target: float) -> Policy:
    """Fill nodes up to a target of cores in use, avoid those beyond it.

    Source: Trimaran's TargetLoadPacking, kubernetes-sigs/scheduler-plugins: score 100 target + (1 - target) / target *
    utilisation up to the target, then falling from 100 to 0 at full use; pods not measured yet are added.
    """

    def cost(sight: Sight, app: int, nodes: Ints) -> Floats:
        used = sight.used_with_pending(nodes)[:, CPU] + sight.expected_share(app, nodes)[:, CPU]
        below = target + (1.0 - target) / target * used
        above = target * (1.0 - used) / (1.0 - target)
        return -np.where(used <= target, below, np.where(used <= 1.0, above, 0.0))

    return cost


def load_variation(margin: float, sensitivity: float) -> Policy:
    """The node whose use of cores is low and steady.

    Source: Trimaran's LoadVariationRiskBalancing: (mean + margin * deviation ** (1 / sensitivity)) / 2.
    """

    def cost(sight: Sight, app: int, nodes: Ints) -> Floats:
        used = sight.used_with_pending(nodes)[:, CPU] + sight.expected_share(app, nodes)[:, CPU]
        spread = sight.past_cpu[nodes].std(axis=1) if sight.past_cpu.shape[1] else np.zeros(len(nodes))
        return np.asarray((used + margin * spread ** (1.0 / sensitivity)) / 2.0)

    return cost


def low_risk(weight: float) -> Policy:
    """The node least likely to need more than is requested of it.

    Source: Trimaran's LowRiskOverCommitment: weight * the part that limits exceed capacity by + (1 - weight) * the
    probability that a beta distribution of its use exceeds what is requested. Requests are limits here, so that the
    first part is what would be requested of it.
    """

    def cost(sight: Sight, app: int, nodes: Ints) -> Floats:
        asked = np.clip(requested_after(sight, app, nodes)[:, 0], 0.0, 1.0)
        mean = np.clip(sight.used_with_pending(nodes)[:, CPU], 1e-3, 1.0 - 1e-3)
        spread = sight.past_cpu[nodes].var(axis=1) if sight.past_cpu.shape[1] else np.zeros(len(nodes))
        size = mean * (1.0 - mean) / np.clip(spread, 1e-4, mean * (1.0 - mean) * 0.99) - 1.0
        above = beta_distribution.sf(asked, mean * size, (1.0 - mean) * size)
        return np.asarray(weight * asked + (1.0 - weight) * above)

    return cost


ANIMALS = np.array([[1.0, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 5.0], [2.0, 3.0, 4.0, 10.0], [2.0, 3.0, 6.0, 8.0]])
"""Slowdown of a turtle, sheep, rabbit or devil (rows) co-located with one (columns)."""
TURTLE, SHEEP, RABBIT, DEVIL = range(4)


def coco(weight: float) -> Policy:
    """Fixed penalties between four classes of apps, both ways, combined with requests.

    Source: the animal classes of Xie and Loh, CMP-MSI 2008, as Firmament's CoCo and Whare-Map cost models use them;
    devils press hard on cache and bandwidth, rabbits press and are latency-sensitive, turtles hardly use them. The
    scheduler draws the lines at thirds of what apps were measured to use.
    """

    def cost(sight: Sight, app: int, nodes: Ints) -> Floats:
        kind = animals(sight)
        both = ANIMALS[kind[app], kind] + ANIMALS[kind, kind[app]]
        return np.asarray(sight.counts[nodes] @ both + weight * requested_after(sight, app, nodes)[:, 0])

    return cost


def animals(sight: Sight) -> Ints:
    """(a,) class of each app, by its measured use of cache and memory bandwidth, and its class."""
    use = np.nan_to_num(sight.typical[:, [LLC, MEMBW]])
    loud = (use / np.maximum(use.max(axis=0), 1.0)).max(axis=1)
    low, high = np.quantile(loud, [1 / 3, 2 / 3])
    noisy = np.where(sight.best_effort, DEVIL, RABBIT)
    return np.where(loud >= high, noisy, np.where(loud >= low, SHEEP, TURTLE)).astype(np.int64)


def sum_of_pressure(weights: Sequence[float]) -> Policy:
    """The node on whose shared resources least is pressed, what those who came since use counted in.

    Source: the strongest of the plain heuristics in our evaluation, docs/evaluation.md; `weights` are of cores, cache,
    memory bandwidth and all others.
    """

    def cost(sight: Sight, _app: int, nodes: Ints) -> Floats:
        used = sight.used_with_pending(nodes)
        weight = np.full(used.shape[1], weights[3])
        weight[[CPU, LLC, MEMBW]] = weights[:3]
        return np.asarray(used @ weight)

    return cost


def optum(predicted: ByFullness, others: float) -> Policy:
    """Full nodes, minus the predicted slowdown there.

    Source: blinkbear/Optum: cpu utilisation * memory utilisation - 0.7 * predicted pressure stall of LS pods - 0.3 *
    predicted completion time of BE pods; predicted slowdown stands for both, `others` scales them.
    """

    def cost(sight: Sight, app: int, nodes: Ints) -> Floats:
        used = sight.used_with_pending(nodes) + sight.expected_share(app, nodes)
        cpu, memory = np.clip(used[:, CPU], 0.0, 1.0), np.clip(used[:, MEMORY], 0.0, 1.0)
        there = sight.counts[nodes].astype(np.float64)
        there[:, app] += 1.0
        weight = np.where(sight.best_effort, 0.3, 0.7)
        slowdown = (there * predicted.predict(cpu, memory)) @ weight
        return np.asarray(others * slowdown - cpu * memory)

    return cost


def optum_family(predicted: ByFullness) -> Family:
    """Optum with several weights of the slowdown of neighbours."""
    return {f"others={w}": optum(predicted, w) for w in (1.0, 0.3, 3.0, 10.0)}


FAMILIES: Mapping[str, Family] = {
    "random": {"": random_policy()},
    "least_allocated": {f"cpu={w}": least_allocated(w) for w in (0.5, 1.0, 0.8, 0.0)},
    "most_allocated": {f"cpu={w}": most_allocated(w) for w in (0.5, 1.0, 0.8, 0.0)},
    "balanced": {f"weight={w}": balanced(w) for w in (1.0, 0.3, 3.0, 10.0)},
    "target_load": {f"target={t}": target_load(t) for t in (0.4, 0.2, 0.3, 0.6)},
    "load_variation": {
        f"margin={m},sensitivity={s}": load_variation(m, s) for m, s in ((1.0, 1.0), (1.0, 2.0), (0.3, 1.0), (3.0, 1.0))
    },
    "low_risk": {f"weight={w}": low_risk(w) for w in (0.5, 0.2, 0.8, 1.0)},
    "coco": {f"weight={w}": coco(w) for w in (1.0, 10.0, 50.0, 200.0)},
    "sum_of_pressure": {
        f"weights={'/'.join(map(str, w))}": sum_of_pressure(w)
        for w in ((1.0, 1.0, 1.0, 1.0), (1.0, 1.0, 1.0, 0.0), (0.3, 1.0, 1.0, 0.3), (1.0, 0.5, 0.5, 0.5))
    },
}
"""Policies that need nothing but what a scheduler sees; the first setting of each is its usual one."""
DEFAULT = FAMILIES["balanced"]["weight=1.0"]
"""What kube-scheduler does."""
