"""Cluster: who takes what of each node while moves are carried out. NumPy only.

A container that moves is copied first: until it is released it counts on both nodes.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from advisor.optimizer.objective import counts, loads, move_costs, node_costs
from advisor.optimizer.problem import NOWHERE, SLACK, Floats, Ints, Problem


class Move(NamedTuple):
    """A container goes from one node to another; from NOWHERE when it is new."""

    container: int
    source: int
    target: int


@dataclass
class Cluster:
    """Who is where, and who may go where.

    Args:
        problem: whose limits hold.
        start: (k,) where everybody is.
    """

    problem: Problem
    start: Ints
    place: Ints = field(init=False)
    """(k,) where everybody is; copies count."""

    def __post_init__(self) -> None:
        """Count everybody."""
        self.place = self.start.copy()
        self._load = loads(self.problem, self.start)
        self._apps: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self._pairs: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        limits = self.problem.limits
        for (first, second), most in zip(limits.pair.tolist(), limits.most.tolist(), strict=True):
            self._pairs[first].append((first, second, most))
            self._pairs[second].append((first, second, most))
        home = self.place != NOWHERE
        for node, app in zip(self.place[home].tolist(), self.problem.app[home].tolist(), strict=True):
            self._apps[node][app] += 1
        self._locations = _Zones(limits.location, self.problem, self.start)
        self._hoods = _Zones(limits.neighbourhood, self.problem, self.start)
        self._needs, self._needed = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
        for first, second in limits.needs.tolist():
            self._needs[first].append(second)
            self._needed[second].append(first)

    def takes(self, who: int, node: int) -> bool:
        """Whether a node has room for a copy of a container, and all may be where they are then and afterwards."""
        if (self._load[node] + self.problem.use[who] > self.problem.capacity[node] + SLACK).any():
            return False
        app, apps = int(self.problem.app[who]), self._apps[node]
        if apps[app] >= self.problem.limits.alike[app]:
            return False
        for first, second, most in self._pairs.get(app, ()):
            one, other = apps[first] + (app == first), apps[second] + (app == second)
            if one and other > most:
                return False
        source = int(self.place[who])
        return self._stays_spread(app, source, node) and self._has_what_it_needs(app, source, node)

    def gains(self, who: Ints, target: Ints) -> Floats:
        """(m,) what each move alone would save, when nobody is copied."""
        source, use = self.place[who], self.problem.use[who]
        load, count = loads(self.problem, self.place), counts(self.problem, self.place)
        self._cost = node_costs(self.problem, np.arange(self.problem.nodes), load, count)
        more = load[target] + use, count[target] + 1
        less = load[source] - use, count[source] - 1
        entered = self._cost[target] - node_costs(self.problem, target, *more)
        left = self._cost[source] - node_costs(self.problem, source, *less)
        moved = move_costs(self.problem, who, source) - move_costs(self.problem, who, target)
        return np.asarray(entered + np.where(source == NOWHERE, self.problem.homeless, left) + moved)

    def gained(self, moves: list[Move]) -> Floats:
        """(n,) what copies save since gains were asked, by node; a move's own cost is its target's."""
        who, source, target = np.array(moves, np.int64).reshape(-1, 3).T
        load, count = loads(self.problem, self.place), counts(self.problem, self.place)
        now = node_costs(self.problem, np.arange(self.problem.nodes), load, count)
        moved = move_costs(self.problem, who, source) - move_costs(self.problem, who, target)
        moved += np.where(source == NOWHERE, self.problem.homeless, 0.0)
        return np.asarray(self._cost - now + np.bincount(target, moved, minlength=self.problem.nodes))

    def roomy(self, who: int) -> list[int]:
        """Nodes with room for a container, the emptiest first."""
        free = self.problem.capacity + SLACK - self._load
        fits = np.flatnonzero((free >= self.problem.use[who]).all(axis=1))
        share = (self._load[fits] / np.maximum(self.problem.capacity[fits], SLACK)).max(axis=1)
        return [int(node) for node in fits[np.argsort(share, kind="stable")]]

    def copy(self, who: int, node: int) -> Move:
        """Create a copy of a container; the old one still counts."""
        move = Move(who, int(self.place[who]), node)
        self._change(move, 1, node)
        self.place[who] = node
        return move

    def undo(self, moves: list[Move]) -> None:
        """Take copies back."""
        for move in moves:
            self._change(move, -1, move.target)
            self.place[move.container] = move.source

    def release(self, moves: list[Move]) -> None:
        """Let old containers go."""
        for move in moves:
            if move.source != NOWHERE:
                self._load[move.source] -= self.problem.use[move.container]
                self._apps[move.source][int(self.problem.app[move.container])] -= 1
            for zones in (self._locations, self._hoods):
                zones.settle(int(self.problem.app[move.container]), move)

    def _change(self, move: Move, sign: int, node: int) -> None:
        """Count a copy on a node, or no longer."""
        app = int(self.problem.app[move.container])
        self._load[node] += sign * self.problem.use[move.container]
        self._apps[node][app] += sign
        for zones in (self._locations, self._hoods):
            zones.change(app, move, sign)

    def _stays_spread(self, app: int, source: int, node: int) -> bool:
        """Whether a move takes its app from no location that it cannot spare."""
        spread, zones = self.problem.limits.spread, self._locations
        if source == NOWHERE or not len(spread) or not len(zones.zone):
            return True
        here, there, staying = zones.zone[source], zones.zone[node], zones.staying[app]
        if here == there or staying[here] > 1:
            return True
        locations = sum(number > 0 for number in staying.values())
        return locations - 1 + (staying[there] == 0) >= min(int(spread[app]), locations)

    def _has_what_it_needs(self, app: int, source: int, node: int) -> bool:
        """Whether a move takes nobody from the neighbourhood of what it needs."""
        zones = self._hoods
        if not len(zones.zone) or not (self._needs or self._needed):
            return True
        there = zones.zone[node]
        if any(zones.staying[other][there] <= 0 for other in self._needs.get(app, ()) if other != app):
            return False
        if source == NOWHERE or zones.zone[source] == there or zones.staying[app][zones.zone[source]] > 1:
            return True
        needed = (first for first in self._needed.get(app, ()) if first != app)
        return all(zones.coming[first][zones.zone[source]] <= 0 for first in needed)


class _Zones:
    """Containers of each app in each zone of nodes.

    Those who stay are counted without whoever leaves, those who come with whoever does not leave before the round ends:
    what is allowed by both stays allowed when other moves of the round are undone.
    """

    def __init__(self, zone: Ints, problem: Problem, start: Ints) -> None:
        self.zone = zone.tolist()
        self.staying: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self.coming: defaultdict[int, Counter[int]] = defaultdict(Counter)
        home = (start != NOWHERE) & bool(len(zone))
        where = zone[start[home]].tolist() if len(zone) else []
        for app, at in zip(problem.app[home].tolist(), where, strict=True):
            self.staying[app][at] += 1
            self.coming[app][at] += 1

    def change(self, app: int, move: Move, sign: int) -> None:
        """Count a move that is made, or undone."""
        if self.zone:
            self.coming[app][self.zone[move.target]] += sign
            if move.source != NOWHERE:
                self.staying[app][self.zone[move.source]] -= sign

    def settle(self, app: int, move: Move) -> None:
        """Count a move whose round is over."""
        if self.zone:
            self.staying[app][self.zone[move.target]] += 1
            if move.source != NOWHERE:
                self.coming[app][self.zone[move.source]] -= 1
