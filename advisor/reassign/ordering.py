"""Ordering: moves from the start to an assignment, in rounds of which each can be carried out. NumPy only.

In a round all copies are created first, while the old containers still count; then these go. So a round is feasible
when every node has room for what comes, whatever leaves. Where nobody fits because everybody waits for another, one
container takes a hop over a third node.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np

from advisor.reassign.objective import cost
from advisor.reassign.problem import NOWHERE, SLACK, Ints, Problem

MOST_HOPS = 2
"""Hops that one container takes at most."""


@dataclass(frozen=True)
class Pace:
    """How fast a plan may be carried out.

    Args:
        rounds: how many there may be.
        per_node: containers that enter or leave one node in a round.
        per_app: containers of one app that move in a round: its disruption budget.
        per_round: containers that move in a round.
        hops: whether a container may go over a third node; it is restarted twice then.
    """

    rounds: int = 1000
    per_node: int = 2**62
    per_app: int = 2**62
    per_round: int = 2**62
    hops: bool = False


@dataclass(frozen=True)
class Move:
    """A container goes from one node to another; from NOWHERE when it is new."""

    container: int
    source: int
    target: int


@dataclass(frozen=True)
class Plan:
    """Rounds of moves.

    Args:
        rounds: one after the other; in each all copies are created before any old container goes.
        place: (k,) where everybody is after the last one.
        left: containers that are not where they should be, because there was no way.
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
        A plan of which every round is feasible. Nothing is promised of how few rounds there are: who gains most per
        container goes first, and as many as fit.

    Raises:
        Nothing.

    Source: ours; rounds as in the semifinal of Alibaba's scheduling contest of 2018.
    """
    cluster = Cluster(problem, problem.start)
    waiting = [int(who) for who in np.flatnonzero((target != problem.start) & (target != NOWHERE))]
    rounds, hopped = list[tuple[Move, ...]](), Counter[int]()
    while waiting and len(rounds) < pace.rounds:
        moves = _round(cluster, target, waiting, pace)
        if not moves and pace.hops:
            moves = _hop(cluster, target, waiting, hopped)
        if not moves:
            break
        cluster.release(moves)
        rounds.append(tuple(moves))
        waiting = [who for who in waiting if cluster.place[who] != target[who]]
    return Plan(tuple(rounds), cluster.place.copy(), tuple(waiting))


def in_order(problem: Problem, target: Ints) -> tuple[list[Move], list[int]]:
    """Moves one after the other that lead to an assignment, each leaving its node before it enters the next.

    Args:
        problem: with the assignment to start from.
        target: (k,) where everybody should be.

    Returns:
        Moves, of which one container may have several, and containers for which there was no way.

    Raises:
        Nothing.

    Source: ours; the rule is that of the preliminary round of Alibaba's scheduling contest of 2018.
    """
    cluster, moves, hopped = Cluster(problem, problem.start), list[Move](), Counter[int]()
    waiting = [int(who) for who in np.flatnonzero((target != problem.start) & (target != NOWHERE))]
    while waiting:
        before = len(moves)
        for who in waiting:
            if cluster.takes(who, int(target[who])):
                moves.append(Move(who, int(cluster.place[who]), int(target[who])))
                cluster.copy(who, int(target[who]))
                cluster.release(moves[-1:])
        if len(moves) == before:
            moves += (hop := _hop(cluster, target, waiting, hopped))
            cluster.release(hop)
        if len(moves) == before:
            break
        waiting = [who for who in waiting if cluster.place[who] != target[who]]
    return moves, waiting


def _round(cluster: "Cluster", target: Ints, waiting: list[int], pace: Pace) -> list[Move]:
    """As many moves as there is room for."""
    moves, nodes, apps = list[Move](), Counter[int](), Counter[int]()
    for who in waiting:
        source, node, app = int(cluster.place[who]), int(target[who]), int(cluster.problem.app[who])
        busy = nodes[node] >= pace.per_node or (source != NOWHERE and nodes[source] >= pace.per_node)
        if busy or apps[app] >= pace.per_app or len(moves) >= pace.per_round or not cluster.takes(who, node):
            continue
        cluster.copy(who, node)
        moves.append(Move(who, source, node))
        nodes.update([node, source])
        apps[app] += 1
    return moves


def _hop(cluster: "Cluster", target: Ints, waiting: list[int], hopped: Counter[int]) -> list[Move]:
    """One container that is in the way goes to a node where there is room."""
    wanted = {int(target[who]) for who in waiting}
    for who in waiting:
        source = int(cluster.place[who])
        if source not in wanted or hopped[who] >= MOST_HOPS:
            continue
        for node in cluster.roomy(who):
            if node not in (source, int(target[who])) and cluster.takes(who, node):
                hopped[who] += 1
                cluster.copy(who, node)
                return [Move(who, source, node)]
    return []


@dataclass
class Cluster:
    """Who takes what of each node, copies included.

    Args:
        problem: whose limits hold.
        start: (k,) where everybody is.
    """

    problem: Problem
    start: Ints
    place: Ints = field(init=False)

    def __post_init__(self) -> None:
        """Count everybody."""
        self.place = self.start.copy()
        self._load = np.zeros(self.problem.capacity.shape)
        self._apps: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self._pairs: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        limits = self.problem.limits
        for (first, second), most in zip(limits.pair.tolist(), limits.most.tolist(), strict=True):
            self._pairs[first].append((first, second, most))
            self._pairs[second].append((first, second, most))
        home = self.place != NOWHERE
        np.add.at(self._load, self.place[home], self.problem.use[home])
        for node, app in zip(self.place[home].tolist(), self.problem.app[home].tolist(), strict=True):
            self._apps[node][app] += 1

    def takes(self, who: int, node: int) -> bool:
        """Whether a node has room for a copy of a container, and may hold it."""
        if (self._load[node] + self.problem.use[who] > self.problem.capacity[node] + SLACK).any():
            return False
        app, apps = int(self.problem.app[who]), self._apps[node]
        if apps[app] >= self.problem.limits.alike[app]:
            return False
        for first, second, most in self._pairs.get(app, ()):
            one, other = apps[first] + (app == first), apps[second] + (app == second)
            if one and other > most:
                return False
        return True

    def roomy(self, who: int) -> list[int]:
        """Nodes with room for a container, the emptiest first."""
        free = self.problem.capacity + SLACK - self._load
        fits = np.flatnonzero((free >= self.problem.use[who]).all(axis=1))
        share = (self._load[fits] / np.maximum(self.problem.capacity[fits], SLACK)).max(axis=1)
        return [int(node) for node in fits[np.argsort(share, kind="stable")]]

    def copy(self, who: int, node: int) -> None:
        """Create a copy of a container; the old one still counts."""
        self._load[node] += self.problem.use[who]
        self._apps[node][int(self.problem.app[who])] += 1
        self.place[who] = node

    def release(self, moves: list[Move]) -> None:
        """Let old containers go."""
        for move in moves:
            if move.source != NOWHERE:
                self._load[move.source] -= self.problem.use[move.container]
                self._apps[move.source][int(self.problem.app[move.container])] -= 1


def costs_of(problem: Problem, plan: Plan) -> list[float]:
    """What the assignment costs after each round, the start first."""
    place = problem.start.copy()
    found = [cost(problem, place).total]
    for moves in plan.rounds:
        for move in moves:
            place[move.container] = move.target
        found.append(cost(problem, place).total)
    return found
