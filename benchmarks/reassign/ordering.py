"""Ordering: moves from the start to an assignment, in rounds of which each can be carried out. NumPy only.

In a round all copies are created first, while the old containers still count; then these go. So a round is feasible
when every node has room for what comes, whatever leaves. Who breaks a rule where it is goes first, whatever that costs.
Otherwise the assignment costs less after every round than before, so that a plan may be broken off anywhere.
Where nobody fits because everybody waits for another, one container takes a hop over a third node, if that is allowed.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from advisor.errors import UnusableProblem
from advisor.optimizer.objective import cost
from advisor.optimizer.problem import NOWHERE, Ints, Problem
from advisor.optimizer.repair import leavers, mends
from benchmarks.reassign.cluster import Cluster, Move

MAX_HOPS = 2
"""Hops that one container takes at most."""
LEAST_GAIN = 1e-9
"""What moves gain at least that pay."""


@dataclass(frozen=True)
class Pace:
    """How fast a plan may be carried out.

    Args:
        rounds: how many there may be.
        per_node: containers that enter or leave one node in a round.
        per_app: containers of one app that move in a round: its disruption budget.
        per_round: containers that move in a round.
        hops: whether a container may go over a third node; it is restarted twice then, and after that round the
            assignment may cost more.
    """

    rounds: int = 1000
    per_node: int = 2**62
    per_app: int = 2**62
    per_round: int = 2**62
    hops: bool = False


@dataclass(frozen=True)
class Plan:
    """Rounds of moves.

    Args:
        rounds: one after the other; in each all copies are created before any old container goes.
        place: (k,) where everybody is after the last one.
        left: containers that are not where they should be, because there was no way or it did not pay.
    """

    rounds: tuple[tuple[Move, ...], ...]
    place: Ints
    left: tuple[int, ...]

    @property
    def moves(self) -> int:
        """How many there are."""
        return sum(len(each) for each in self.rounds)


def ordered(problem: Problem, target: Ints, pace: Pace) -> Plan:
    """Rounds that lead to an assignment.

    Args:
        problem: with the assignment to start from.
        target: (k,) where everybody should be.
        pace: how fast.

    Returns:
        A plan of which every round is feasible and, hops apart, costs less than the one before or has somebody leave
        where a rule is broken. Nothing is promised of how few rounds there are: who breaks a rule goes first, then who
        gains most, and as many as fit. Moves that pay together only, as those of a swap, go in one round.

    Raises:
        UnusableProblem: the target has no node for somebody, or one that is none.

    Source: ours; rounds as in the semifinal of Alibaba's scheduling contest of 2018.
    """
    _refuse(problem, target)
    cluster, broken = Cluster(problem, problem.start), len(leavers(problem, problem.start)) > 0
    waiting = np.flatnonzero((target != problem.start) & (target != NOWHERE))
    rounds, hopped = list[tuple[Move, ...]](), Counter[int]()
    while len(waiting) and len(rounds) < pace.rounds:
        moves = _mending(cluster, target, waiting, pace) if broken else []
        moves = _gaining(cluster, target, _away(cluster, target, waiting), pace, moves)
        if not moves and pace.hops:
            moves = _hop(cluster, target, waiting, hopped)
        if not moves:
            break
        cluster.release(moves)
        rounds.append(tuple(moves))
        waiting = _away(cluster, target, waiting)
    return Plan(tuple(rounds), cluster.place.copy(), tuple(waiting.tolist()))


def _refuse(problem: Problem, target: Ints) -> None:
    if target.shape != (problem.containers,) or target.dtype.kind not in "iu":
        raise UnusableProblem(
            f"the target has shape {target.shape} of {target.dtype}, not ({problem.containers},) of int64"
        )
    if target.size and not (target.min() >= NOWHERE and target.max() < problem.nodes):
        raise UnusableProblem(f"the target has a code outside {NOWHERE} to {problem.nodes - 1}")


def _away(cluster: Cluster, target: Ints, those: Ints) -> Ints:
    """Those who are not where they should be."""
    return np.asarray(those[cluster.place[those] != target[those]])


def in_order(problem: Problem, target: Ints) -> tuple[list[Move], list[int]]:
    """Moves one after the other that lead to an assignment, each leaving its node before it enters the next.

    Args:
        problem: with the assignment to start from.
        target: (k,) where everybody should be.

    Returns:
        Moves, of which one container may have several, and containers for which there was no way.

    Raises:
        UnusableProblem: the target has no node for somebody, or one that is none.

    Source: ours; the rule is that of the preliminary round of Alibaba's scheduling contest of 2018.
    """
    _refuse(problem, target)
    cluster, moves, hopped = Cluster(problem, problem.start), list[Move](), Counter[int]()
    waiting = np.flatnonzero((target != problem.start) & (target != NOWHERE))
    while len(waiting):
        before = len(moves)
        for who in waiting.tolist():
            if cluster.takes(who, int(target[who])):
                moves.append(cluster.copy(who, int(target[who])))
                cluster.release(moves[-1:])
        if len(moves) == before:
            moves += (hop := _hop(cluster, target, waiting, hopped))
            cluster.release(hop)
        if len(moves) == before:
            break
        waiting = _away(cluster, target, waiting)
    return moves, waiting.tolist()


def _mending(cluster: Cluster, target: Ints, waiting: Ints, pace: Pace) -> list[Move]:
    """Of who waits those who break a rule where they are, as many as there is room for."""
    waiting = waiting[mends(cluster.problem, cluster.place, waiting)]
    order = np.argsort(-cluster.gains(waiting, target[waiting]), kind="stable")
    return _round(cluster, target, waiting[order], pace, [])


def _gaining(cluster: Cluster, target: Ints, waiting: Ints, pace: Pace, before: list[Move]) -> list[Move]:
    """Moves before, and as many as there is room for and as pay together; of groups that do not, who pays alone."""
    least = cost(cluster.problem, cluster.place).total
    gain = cluster.gains(waiting, target[waiting])
    order = np.argsort(-gain, kind="stable")
    waiting, gain = waiting[order], gain[order]
    moves = _paying(cluster, _round(cluster, target, waiting, pace, before))
    alone = _away(cluster, target, waiting[gain > LEAST_GAIN])
    moves = _paying(cluster, moves + _round(cluster, target, alone, pace, before + moves))
    if cost(cluster.problem, cluster.place).total >= least:
        cluster.undo(moves)
        return before
    return before + moves


def _round(cluster: Cluster, target: Ints, waiting: Ints, pace: Pace, before: list[Move]) -> list[Move]:
    """As many moves as there is room for beside those before, in the order in which they wait."""
    moves, nodes, apps = list[Move](), Counter[int](), Counter[int]()
    for move in before:
        nodes.update([move.source, move.target])
        apps[int(cluster.problem.app[move.container])] += 1
    for who in waiting.tolist():
        source, node, app = int(cluster.place[who]), int(target[who]), int(cluster.problem.app[who])
        busy = nodes[node] >= pace.per_node or (source != NOWHERE and nodes[source] >= pace.per_node)
        full = len(before) + len(moves) >= pace.per_round
        if busy or full or apps[app] >= pace.per_app or not cluster.takes(who, node):
            continue
        moves.append(cluster.copy(who, node))
        nodes.update([node, source])
        apps[app] += 1
    return moves


def _paying(cluster: Cluster, moves: list[Move]) -> list[Move]:
    """Those of the moves that pay, groups of moves between the same nodes together; the others are undone."""
    group = _groups(moves)
    gain = cluster.gained(moves)
    paid = np.array([gain[nodes].sum() for nodes in group.values()])
    pays = {node for nodes, much in zip(group.values(), paid, strict=True) if much > LEAST_GAIN for node in nodes}
    cluster.undo([move for move in moves if move.target not in pays])
    return [move for move in moves if move.target in pays]


def _groups(moves: list[Move]) -> dict[int, list[int]]:
    """Nodes that moves link, by one of them."""
    root = dict[int, int]()

    def top(node: int) -> int:
        while root.setdefault(node, node) != node:
            root[node] = node = root[root[node]]
        return node

    for move in moves:
        root[top(move.target)] = top(move.target if move.source == NOWHERE else move.source)
    groups = dict[int, list[int]]()
    for node in root:
        groups.setdefault(top(node), []).append(node)
    return groups


def _hop(cluster: Cluster, target: Ints, waiting: Ints, hopped: Counter[int]) -> list[Move]:
    """One container that is in the way goes to a node where there is room."""
    wanted = set(target[waiting].tolist())
    for who in waiting.tolist():
        source = int(cluster.place[who])
        if source not in wanted or hopped[who] >= MAX_HOPS:
            continue
        for node in cluster.roomy(who):
            if node not in (source, int(target[who])) and cluster.takes(who, node):
                hopped[who] += 1
                return [cluster.copy(who, node)]
    return []


def costs_of(problem: Problem, plan: Plan) -> list[float]:
    """What the assignment costs after each round, the start first."""
    place = problem.start.copy()
    found = [cost(problem, place).total]
    for moves in plan.rounds:
        for move in moves:
            place[move.container] = move.target
        found.append(cost(problem, place).total)
    return found
