"""Pricing scores: errors of quoted prices, rebates that are too large, and shares beside Shapley's, by the kernels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.billing.interference.transfers import alone_price, eligible, rebates
from advisor.billing.pricing.price_book import Policy
from benchmarks.pricing_methods import UNADJUSTED, Foretold
from benchmarks.pricing_shapley import exact
from benchmarks.runner import Result
from models.challengers.pair_model import Cells

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
BASE_MICROS = 1_000_000_000
"""What each victim is charged: so much that rounding to micro-units does not show."""
POLICY = Policy("benchmark")
PROPORTIONAL = "proportional"
FEWEST, MOST = 2, 6
"""Workloads on a node."""
CHEAPEST, DEAREST = 1.0, 10.0


@dataclass(frozen=True)
class Priced:
    """(m,) measured log slowdowns of pairs that a method did not learn from, and what it said of them."""

    truth: Floats
    said: Foretold


@dataclass(frozen=True)
class Node:
    """p workloads on a node.

    Args:
        base: (p,) what each costs alone.
        pair: (p, p) row of the file for each two of them; -1 on the diagonal: nobody is its own neighbour.
    """

    base: Floats
    pair: Ints


Nodes = Sequence[Node]


def scores(parts: Sequence[Mapping[str, Priced]], deviations: Sequence[Mapping[str, Floats]]) -> Result:
    """Figures by method, over all folds.

    Args:
        parts: folds.
        deviations: of shares, by fold; empty where none were judged.

    Returns:
        price_error (mean of |price - right price| / right price), price_bias (the same with its sign),
        over_rebated_frac (share of rebates that are larger than what was lost), rebated_share (of all losses);
        shapley_deviation.
    """
    found: dict[str, dict[str, float]] = {}
    for name in parts[0]:
        truth = np.concatenate([part[name].truth for part in parts])
        said = [part[name].said for part in parts]
        log_mean = np.concatenate([one.log_mean for one in said])
        found[name] = _quoted(truth, log_mean) | _settled(truth, np.concatenate([one.lower for one in said]))
    for name in deviations[0] if deviations else ():
        mean = float(np.concatenate([part[name] for part in deviations]).mean())
        found.setdefault(name, {})["shapley_deviation"] = mean
    return found


def _quoted(truth: Floats, log_mean: Floats) -> dict[str, float]:
    base = np.full(len(truth), BASE_MICROS)
    right, quoted = alone_price(base, np.exp(truth)), alone_price(base, np.exp(log_mean))
    error = (quoted - right) / right
    return {"price_error": float(np.abs(error).mean()), "price_bias": float(error.mean())}


def _settled(truth: Floats, lower: Floats) -> dict[str, float]:
    """Nothing where nobody gets anything."""
    base, low = np.full(len(truth), BASE_MICROS), np.exp(lower)
    paid = rebates(base, low, eligible(np.tile(low, (POLICY.windows, 1)), POLICY), POLICY)
    lost = base - alone_price(base, np.exp(truth))
    some = paid > 0
    over = float((paid > lost)[some].mean()) if some.any() else 0.0
    return {"over_rebated_frac": over, "rebated_share": float(paid.sum() / max(int(lost.sum()), 1))}


def nodes_of(cells: Cells, entities: int, count: int, rng: np.random.Generator) -> Nodes:
    """Nodes of 2 to 6 workloads, drawn from those with every pair measured, copies of a workload where that was.

    Args:
        cells: all pairs of the file.
        entities: how many workloads and platforms there are.
        count: how many nodes.
        rng: draws them, and what each workload costs.

    Returns:
        The nodes; fewer than asked for, perhaps none, where draws hold a pair that was not measured.
    """
    row = np.full((entities, entities), -1)
    row[cells.victim, cells.aggressor] = np.arange(len(cells.victim))
    found = []
    for _ in range(count):
        who = rng.integers(0, entities, rng.integers(FEWEST, MOST + 1))
        pair, alike = row[np.ix_(who, who)], np.eye(len(who), dtype=np.bool_)
        base = rng.uniform(CHEAPEST, DEAREST, len(who))
        if (pair[~alike] >= 0).all():
            found.append(Node(base, np.where(alike, -1, pair)))
    return found


def shapley_deviation(nodes: Nodes, seen: Flags, truth: Floats, said: Mapping[str, Foretold]) -> dict[str, Floats]:
    """How far each workload's share of its node's cost is from Shapley's, relative to it.

    Args:
        nodes: at least one, from `nodes_of`.
        seen: (n,) pairs that were learnt from: every method takes them as measured.
        truth: (n,) log slowdowns of all pairs.
        said: by method, of all pairs.

    Returns:
        (workloads of all nodes,) by method. Each shares out what the node costs by the Shapley values of what it says;
        proportional shares go by base charges.
    """
    right = [shares_of(node, np.exp(truth)) for node in nodes]
    found = {}
    for name, one in said.items():
        ratio = np.exp(np.where(seen, truth, one.log_mean))
        if name != UNADJUSTED:
            found[name] = [shares_of(node, ratio) for node in nodes]
    found[PROPORTIONAL] = [node.base for node in nodes]
    return {name: _apart(right, shares) for name, shares in found.items()}


def shares_of(node: Node, slowdown_ratio: Floats) -> Floats:
    """(p,) Shapley values where a set of workloads costs base x (1 + sum of others' slowdown - 1) for each of them."""
    added = np.where(node.pair >= 0, slowdown_ratio[node.pair] - 1, 0.0) * node.base[:, None]

    def worth(sets: Flags) -> Floats:
        flags = sets.astype(np.float64)
        total: Floats = flags @ node.base + ((flags @ added) * flags).sum(axis=1)
        return total

    return exact(worth, len(node.base))


def _apart(right: Sequence[Floats], shares: Sequence[Floats]) -> Floats:
    told = [share * (whole.sum() / share.sum()) for whole, share in zip(right, shares, strict=True)]
    return np.concatenate([np.abs(one - whole) / whole for whole, one in zip(right, told, strict=True)])
