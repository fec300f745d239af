"""Assignment cost: slowdown of residents on any assigned nodes, exactly by the model, and in factors. Kernel.

A search tries a million assignments a second; the model cannot be asked about each. Its factors can: how hard each
container presses on each resource, and what one more unit of that costs each container, as the model says of it where
it is. The result of a search by factors is then computed exactly.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.cluster.snapshot import Snapshot
from advisor.errors import UnusableProblem
from advisor.optimizer.problem import Harm, Problem
from advisor.scoring.candidates import Crowd, home_of
from advisor.scoring.score_scale import cost_of_residents
from advisor.scoring.scorer import ModelScorer
from features.contention.pressure import Members
from features.schema.catalog import NAMES
from features.training.model_input import PROFILE_COLUMNS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
AT_ONCE = 250
"""Nodes computed together: some 10,000 residents, so that memory stays flat."""


@dataclass(frozen=True)
class Factors:
    """What containers do to each other on a node: sum over resources of weight x sensitivity x others' pressure.

    Args:
        pressure: (k, h) what each uses of a resource, as a share of a typical node; 1 each in the last column, which
            counts neighbours.
        sensitivity: (k, h) cost of each such share that others use, >= 0.
        weight: (n, h) typical node over this one; 0 where a node's capacity is not known.
    """

    pressure: Floats
    sensitivity: Floats
    weight: Floats


def rearranged(snapshot: Snapshot, place: Ints) -> Snapshot:
    """The snapshot with its residents elsewhere, sorted by node, else in the order they had.

    Args:
        snapshot: a cluster.
        place: (m,) row of each resident's node. A moved resident is pinned to no cores on its new node.

    Returns:
        The snapshot; its resident i is that of `np.argsort(place, kind="stable")[i]`.

    Raises:
        IndexError: a place is no row of a node.
    """
    order, stays = np.argsort(place, kind="stable"), place == homes(snapshot)
    return replace(
        snapshot,
        containers=tuple(snapshot.containers[row] for row in order),
        cpusets=tuple(snapshot.cpusets[row] if stays[row] else None for row in order),
        first=np.append(0, np.cumsum(np.bincount(place, minlength=len(snapshot.nodes)))),
        resident_app=snapshot.resident_app[order],
        resident_best_effort=snapshot.resident_best_effort[order],
        resident_use=snapshot.resident_use[order],
    )


def homes(snapshot: Snapshot) -> Ints:
    """(m,) row of each resident's node."""
    return np.repeat(np.arange(len(snapshot.nodes)), np.diff(snapshot.first))


def slowdown_costs(scorer: ModelScorer, place: Ints) -> Floats:
    """What each resident's slowdown costs when all are where they are assigned.

    Args:
        scorer: scores over a snapshot of m residents.
        place: (m,) row of each one's node.

    Returns:
        (m,) cost of each, in the snapshot's order, as advisor.scoring.score_scale counts it.

    Raises:
        IndexError: a place is no row of a node.

    Source: ours; the same arithmetic as for pending pods.
    """
    view, found = replace(scorer, snapshot=rearranged(scorer.snapshot, place)), np.empty(len(place))
    order, begin = np.argsort(place, kind="stable"), 0
    for nodes in _some(view.snapshot):
        home = home_of(view.snapshot, nodes)
        end = begin + len(home.resident)
        found[order[begin:end]] = _costs(view, home, len(nodes), [None])[0]
        begin = end
    return found


def factors_of(scorer: ModelScorer, place: Ints) -> Factors:
    """Factors of the residents' effect on each other, from the model where they are assigned.

    A pending pod that uses one resource only, by the mean share of containers, is tried on every node. Its cost to
    each resident, over its share, is the sensitivity there. A pod without use gives the cost of the mere presence of
    a neighbour.

    Args:
        scorer: scores over a snapshot of m residents and n nodes.
        place: (m,) row of each resident's node.

    Returns:
        Factors with len(NAMES) + 1 columns. A container of unknown use of a resource adds no pressure on it. A
        container on a node of unknown capacity is not slowed down by it.

    Raises:
        IndexError: a place is no row of a node.

    Source: sensitivity times pressure as of Mars et al., "Bubble-Up", MICRO 2011; the probe is ours.
    """
    view = replace(scorer, snapshot=rearranged(scorer.snapshot, place))
    order, capacity = np.argsort(place, kind="stable"), view.snapshot.node_capacity
    typical = _means(capacity, np.ones(len(NAMES)))
    everybody = home_of(view.snapshot, np.arange(len(capacity), dtype=np.int32))
    share = everybody.members.use / typical
    steps = _means(share, np.ones(len(NAMES)))
    sensitivity, begin = np.empty((len(place), len(NAMES) + 1)), 0
    for nodes in _some(view.snapshot):
        home = home_of(view.snapshot, nodes)
        probes = [_probe(view.snapshot, nodes, probe) for probe in (*np.diag(steps), np.zeros(len(NAMES)))]
        costs = _costs(view, home, len(nodes), [None, *probes])
        end = begin + len(home.resident)
        sensitivity[order[begin:end], :-1] = (costs[1:-1] - costs[-1]).T / steps
        sensitivity[order[begin:end], -1] = costs[-1] - costs[0]
        begin = end
    pressure = np.empty_like(sensitivity)
    pressure[order] = np.column_stack([np.nan_to_num(share), np.ones(len(place))])
    weight = np.column_stack([np.nan_to_num(typical / capacity), np.ones(len(capacity))])
    return Factors(pressure, np.maximum(np.nan_to_num(sensitivity), 0.0), weight)


def with_harm(problem: Problem, factors: Factors, worth: float) -> Problem:
    """A problem whose containers also harm each other.

    Args:
        problem: of the snapshot's residents and nodes, in its order; without harm.
        factors: of them.
        worth: what one unit of advisor.scoring.score_scale's cost is worth in the problem's.

    Returns:
        The problem with three columns more, without limits, for each factor that differs between nodes.

    Raises:
        UnusableProblem: it has other containers or nodes, or harm already.
    """
    if (problem.containers, problem.nodes) != (len(factors.pressure), len(factors.weight)):
        raise UnusableProblem(
            f"it has {problem.containers} containers on {problem.nodes} nodes, the snapshot {len(factors.pressure)} "
            f"residents on {len(factors.weight)}"
        )
    if len(problem.harm.pressure):
        raise UnusableProblem("it has harm already")
    telling = (factors.pressure.max(axis=0, initial=0.0) > 0) & (factors.sensitivity.max(axis=0, initial=0.0) > 0)
    pressure, sensitivity = factors.pressure[:, telling], factors.sensitivity[:, telling]
    more, c = pressure.shape[1], problem.columns
    columns = c + np.arange(3 * more).reshape(3, more)
    return replace(
        problem,
        use=np.hstack([problem.use, pressure, sensitivity, pressure * sensitivity]),
        capacity=np.hstack([problem.capacity, np.full((problem.nodes, 3 * more), np.inf)]),
        held=np.append(problem.held, np.zeros(3 * more, np.bool_)),
        harm=Harm(columns[0], columns[1], columns[2], worth * factors.weight[:, telling]),
    )


def _some(snapshot: Snapshot) -> Iterator[NDArray[np.int32]]:
    """Rows of nodes, few at once."""
    for begin in range(0, len(snapshot.nodes), AT_ONCE):
        yield np.arange(begin, min(begin + AT_ONCE, len(snapshot.nodes)), dtype=np.int32)


def _means(columns: Floats, otherwise: Floats) -> Floats:
    """(c,) means of what is known in each column, positive."""
    known = np.isfinite(columns)
    mean = np.where(known, columns, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.where(mean > 0, mean, otherwise)


def _probe(snapshot: Snapshot, nodes: NDArray[np.int32], share: Floats) -> Crowd:
    """A pending pod of no app on each node, that uses such a share of each resource."""
    count, capacity = len(nodes), snapshot.node_capacity[nodes]
    members = Members(
        group=np.arange(count),
        use=share * capacity,
        capacity=capacity,
        best_effort=np.zeros(count, np.bool_),
        cpuset=[None] * count,
    )
    unknown = np.full(count, -1)
    return Crowd(members, unknown, unknown, np.full((count, len(PROFILE_COLUMNS)), np.nan), snapshot.node_facts[nodes])


def _costs(scorer: ModelScorer, home: Crowd, nodes: int, joining: list[Crowd | None]) -> Floats:
    """(b, k) cost of residents of so many nodes co-located with each pending pod, or with none."""
    harms, calm = scorer.harms(home, nodes), scorer.snapshot.resident_best_effort[home.resident]
    outcomes = (scorer.expected(home, harms, seats) for seats in joining)
    return np.array([cost_of_residents(expected, best_effort=calm) for expected in outcomes])
