"""Joint placement: the domain in which a whole gang starts at the least harm, or why there is none. Kernel.

Costs are those of the score table: a member costs what its class costs on a node with its residents, and a step more
for each member that is already there. So a placement's cost depends on how many members of each class a node gets.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import chain, islice, permutations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.gangs.gang_capacity import capacity, holds, in_domains, shortage
from advisor.gangs.gang_columns import GangColumns
from advisor.gangs.gang_request import GangPlacement, GangRequest, Infeasible, MemberClass, Seat

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
BREAK_COST = 0.01
"""Cost per member of a recent gang that no longer fits the domain: a hundredth of a container at twice its baseline."""
CROSSING_COST = 0.5
"""Cost of each further domain of a gang that would rather have one."""
EXCHANGES = 300
"""Moves and exchanges that are tried for one placement of several classes."""
ORDERS = 6
"""Orders of classes that are tried where the cheapest members first leave some without a place."""
MANY = 4
"""Nodes of a domain per member from which only the cheapest ones are looked at first."""
IMPROVED = 4
"""Domains of which the best placements of several classes are improved; they share the tries."""
MAX_FILLED = 12
"""Domains that are filled for one gang of several classes; of one class the first is the best."""
HALVINGS, DECIMALS, SAME = 40, 9, 1e-12
"""Steps of the search for a level of marginal costs, digits of costs that are compared, and their error."""


def placed(request: GangRequest, columns: GangColumns, recent: Sequence[int] = ()) -> GangPlacement | Infeasible:
    """The best placement of a gang.

    Args:
        request: the gang.
        columns: its candidate nodes.
        recent: sizes of recent gangs, in members.

    Returns:
        At least min_count members in the domain of the least cost and break cost, ties in the domain that has least
        left; all members where a domain holds them. Of preferred domains: the fewest that hold the gang, where no one
        does. Infeasible where fewer than min_count fit.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0077-gangs.md. One class is exact: marginal costs of a node never fall, so the
        cheapest first are the optimum. Several classes: cheapest first, then moves and exchanges of two.
    """
    if request.min_count > request.count:
        return Infeasible({}, f"min_count {request.min_count} exceeds its {request.count} members")
    members = request.members
    most = [capacity(columns, one) for one in members]
    held = np.array([in_domains(columns, each) for each in most]).reshape(len(members), len(columns.domains))
    for wanted in dict.fromkeys((request.count, request.min_count)):
        asked = _Asked(request, columns, most, held, wanted)
        if (found := _in_one(asked, recent)) is not None:
            return found
        if request.mode == "preferred" and (found := _across(asked)) is not None:
            return found
    return _infeasible(request, columns, held)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A gang, members of each class that each node and each domain hold alone, and how many must find a place."""

    request: GangRequest
    columns: GangColumns
    most: Sequence[Ints]
    held: Floats
    wanted: int


def _in_one(asked: _Asked, recent: Sequence[int]) -> GangPlacement | None:
    """The best domain for so many members, by the lowest bound first until no other can be better."""
    request, columns, held = asked.request, asked.columns, asked.held
    counts = np.array([one.count for one in request.members])
    reach = np.minimum(held, counts[:, None]).sum(axis=0)
    largest = _largest(request.members)
    breaks = break_costs(held[largest], request.members[largest].count, recent)
    bound, left = np.round(_bounds(asked) + breaks, DECIMALS), held[largest] - counts[largest]
    found = list[_Candidate]()
    for at in np.lexsort((left, bound, -reach)).tolist():
        if reach[at] < asked.wanted or len(found) == MAX_FILLED:
            break
        if found and (-reach[at], bound[at], left[at]) >= min(one.key() for one in found):
            break
        if (filled := _filled(asked, np.flatnonzero(columns.domain == at))) is not None:
            found.append(_Candidate(*filled, float(breaks[at]), float(left[at])))
    tries = EXCHANGES if len(request.members) > 1 else 0
    best = sorted(found, key=_Candidate.key)[:IMPROVED]
    for one in best:
        tries = one.filling.exchange(tries)
    chosen = min(best, key=_Candidate.key, default=None)
    return None if chosen is None else _placement(columns, chosen.rows, chosen.filling, chosen.break_cost)


class _Candidate(NamedTuple):
    """A domain: its nodes, members on them, its break cost and room that is left."""

    rows: Ints
    filling: "Filling"
    break_cost: float
    left: float

    def key(self) -> tuple[float, float, float]:
        """By which domains are compared, the smallest is the best."""
        return -float(self.filling.number), round(self.filling.cost() + self.break_cost, DECIMALS), self.left


def _filled(asked: _Asked, rows: Ints) -> "tuple[Ints, Filling] | None":
    """The nodes of a domain that are looked at, and members on them; None where fewer than wanted find a place."""
    request, columns = asked.request, asked.columns
    if len(rows) > MANY * request.count and asked.wanted == request.count:
        cheapest = _cheapest(asked, rows)
        if (filling := fill(columns.only(cheapest), request.members, request.count)) is not None:
            return cheapest, filling
    filling = fill(columns.only(rows), request.members, asked.wanted)
    return None if filling is None else (rows, filling)


def _cheapest(asked: _Asked, rows: Ints) -> Ints:
    """Of many nodes those of the least cost for each class; of one class members go nowhere else."""
    found = []
    for first, most in zip(asked.columns.first, asked.most, strict=True):
        able = rows[most[rows] > 0]
        found.append(able[np.argsort(first[able], kind="stable")[: asked.request.count]])
    return np.unique(np.concatenate(found))


def _bounds(asked: _Asked) -> Floats:
    """(d,) cost that members have at least in each domain, as many as it holds: of each class alone, domains at once.

    The cheapest marginal costs up to a common level; the level is found by halving.
    """
    columns, held = asked.columns, asked.held
    total = np.zeros(len(columns.domains))
    for at, (one, cap) in enumerate(zip(asked.request.members, asked.most, strict=True)):
        first, step = columns.first[at], np.maximum(columns.step[at, at], 1e-12)
        number = np.minimum(one.count, held[at])
        low = np.full(len(total), first.min(initial=0.0) - 1.0)
        high = np.full(len(total), (first + step * np.maximum(cap - 1, 0)).max(initial=0.0))
        for _ in range(HALVINGS):
            level = (low + high) / 2
            reached = in_domains(columns, _up_to(level[columns.domain], first, step, cap)) >= number
            low, high = np.where(reached, low, level), np.where(reached, level, high)
        counts = _up_to(high[columns.domain], first, step, cap)
        cost = in_domains(columns, counts * first + step * counts * (counts - 1) / 2)
        total += cost - (in_domains(columns, counts) - number) * high
    return total


def _up_to(level: Floats, first: Floats, step: Floats, cap: Ints) -> Floats:
    """(n,) members of a class on each node whose marginal cost is at most a level."""
    return np.clip(np.floor((level - first) / step) + 1.0, 0.0, np.minimum(cap, 1e6))


def break_costs(held: Floats, members: int, recent: Sequence[int]) -> Floats:
    """Cost of what a gang's room would have been good for.

    Args:
        held: (d,) members that each domain holds.
        members: that the gang takes of it.
        recent: sizes of recent gangs.

    Returns:
        (d,) BREAK_COST times the largest recent size that a domain holds before the gang and not after it; 0 without.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0077-gangs.md.
    """
    broken = np.zeros(len(held))
    for size in sorted(set(recent)):
        broken = np.where((held >= size) & (held - members < size), size, broken)
    return BREAK_COST * broken


def _across(asked: _Asked) -> GangPlacement | None:
    """So many members over the fewest domains, the roomiest first; nodes without a domain come last.

    Of one class the fewest domains that have room for all are enough; of several, twice as many are tried each time.
    """
    request, columns, held = asked.request, asked.columns, asked.held
    order = np.argsort(-held[_largest(request.members)], kind="stable")
    counts = np.array([one.count for one in request.members])[:, None]
    reach = np.minimum(np.cumsum(held[:, order], axis=1), counts).sum(axis=0)
    number = int(np.searchsorted(reach, asked.wanted)) + 1
    while True:
        among = [*order[:number], *([-1] if number > len(order) else [])]
        if (filled := _filled(asked, np.flatnonzero(np.isin(columns.domain, among)))) is not None:
            return _placement(columns, *filled, 0.0)
        if number > len(order):
            return None
        number *= 2


def fill(columns: GangColumns, members: Sequence[MemberClass], wanted: int) -> "Filling | None":
    """Members on the nodes of one domain, the cheapest first; None where fewer than wanted find a place.

    Args:
        columns: the nodes.
        members: classes.
        wanted: members that must find a place.

    Raises:
        Nothing.

    Source: see `placed`. Where some find no place, classes are tried one after the other, the largest first.
    """
    every, count = tuple(range(len(members))), sum(one.count for one in members)
    largest_first = sorted(every, key=lambda at: (-members[at].devices, -members[at].share, -members[at].cores))
    single = (tuple((at,) for at in order) for order in permutations(largest_first))
    best = None
    for phases in islice(chain([(every,)], single), ORDERS if len(members) > 1 else 1):
        made = Filling(columns, members)
        for phase in phases:
            made.put(phase)
        if made.number >= wanted and (best is None or made.number > best.number):
            best = made
        if best is not None and best.number == count:
            break
    return best


@dataclass
class Filling:
    """Members on nodes so far.

    Args:
        columns: n nodes.
        members: c classes.
    """

    columns: GangColumns
    members: Sequence[MemberClass]
    number: int = field(default=0, init=False)
    """Members that have a place."""

    def __post_init__(self) -> None:
        self._most = [capacity(self.columns, one).tolist() for one in self.members]
        self._first: list[list[float]] = self.columns.first.T.tolist()
        self._step: list[list[list[float]]] = self.columns.step.transpose(2, 0, 1).tolist()
        self._at = [[0] * len(self.members) for _ in self.columns.names]

    @property
    def counts(self) -> Ints:
        """(c, n) members of each class on each node."""
        return np.array(self._at, np.int64).reshape(-1, len(self.members)).T

    def marginal(self, at: int, row: int) -> float:
        """Cost of one more member of a class on a node."""
        return self._first[row][at] + _dot(self._step[row][at], self._at[row])

    def able(self, row: int) -> bool:
        """Whether a node holds its members."""
        there = self._at[row]
        if any(n > most[row] for n, most in zip(there, self._most, strict=True)):
            return False
        if sum(map(bool, there)) < 2:
            return True
        return holds(self.columns, row, [one for one, n in zip(self.members, there, strict=True) for _ in range(n)])

    def put(self, classes: Sequence[int]) -> None:
        """All members of some classes, the cheapest next one first, as far as there is room."""
        left = {at: self.members[at].count for at in classes}
        rows = range(len(self._at))
        heap = [(self.marginal(at, row), row, at) for at in classes for row in rows if self._most[at][row]]
        heapify(heap)
        while heap and any(left.values()):
            cost, row, at = heappop(heap)
            if not left[at]:
                continue
            if (now := self.marginal(at, row)) > cost + SAME:
                heappush(heap, (now, row, at))
                continue
            self._at[row][at] += 1
            if self.able(row):
                left[at] -= 1
                self.number += 1
                heappush(heap, (self.marginal(at, row), row, at))
            else:
                self._at[row][at] -= 1

    def exchange(self, tries: int) -> int:
        """Move members to other nodes, and exchange two of different classes, while that lowers the cost.

        Returns how many of the tries are left.
        """
        improved = True
        while improved and tries > 0:
            improved = False
            for move in self._moves():
                improved |= self._made(*move)
                if (tries := tries - 1) <= 0:
                    return 0
        return tries

    def _moves(self) -> Iterator[tuple[int, int, int, int]]:
        """A member's class and node, and a target node with a class there to exchange with, or -1 for none."""
        nodes = [row for row in range(len(self._at)) if any(most[row] for most in self._most)]
        for row, target in product(nodes, nodes):
            for at, other in product(range(len(self.members)), range(-1, len(self.members))):
                if row != target and at != other and self._at[row][at] and (other < 0 or self._at[target][other]):
                    yield at, row, other, target

    def _made(self, at: int, row: int, other: int, target: int) -> bool:
        """Make a move or an exchange if it lowers the cost and is possible."""
        before = self.cost_at(row) + self.cost_at(target)
        self._shift(at, row, other, target)
        if self.cost_at(row) + self.cost_at(target) < before - SAME and self.able(row) and self.able(target):
            return True
        self._shift(at, target, other, row)
        return False

    def _shift(self, at: int, row: int, other: int, target: int) -> None:
        self._at[row][at] -= 1
        self._at[target][at] += 1
        if other >= 0:
            self._at[target][other] -= 1
            self._at[row][other] += 1

    def among(self, row: int) -> float:
        """Cost of pairs of members on a node."""
        there, step = self._at[row], self._step[row]
        twice = sum(n * (_dot(step[at], there) - step[at][at]) for at, n in enumerate(there) if n)
        return twice / 2

    def cost_at(self, row: int) -> float:
        """Of the members on a node."""
        return _dot(self._first[row], self._at[row]) + self.among(row)

    def cost(self) -> float:
        """Of all members."""
        return sum(self.cost_at(row) for row in self.used())

    def seats(self) -> Iterator[tuple[int, int]]:
        """Class and node of each member."""
        for row, there in enumerate(self._at):
            yield from ((at, row) for at, n in enumerate(there) for _ in range(n))

    def used(self) -> list[int]:
        """Nodes with members."""
        return [row for row, there in enumerate(self._at) if any(there)]


def _dot(values: Sequence[float], counts: Sequence[int]) -> float:
    """Of short rows; faster than an array's."""
    return sum([value * n for value, n in zip(values, counts, strict=True) if n], 0.0)


def _placement(columns: GangColumns, rows: Ints, filling: Filling, break_cost: float) -> GangPlacement:
    """The answer, from members on some rows of all columns."""
    part, used = columns.only(rows), filling.used()
    codes = dict.fromkeys(part.domain[used].tolist())
    names = [columns.domains[code] for code in codes if code >= 0] + ["none"] * (-1 in codes)
    return GangPlacement(
        level=columns.level,
        domain=", ".join(names),
        seats=tuple(Seat(at, part.names[row]) for at, row in filling.seats()),
        cost=filling.cost() + (CROSSING_COST * (len(codes) - 1)),
        among_members=sum(map(filling.among, used)),
        break_cost=break_cost,
        domains=len(codes),
    )


def _infeasible(request: GangRequest, columns: GangColumns, held: Floats) -> Infeasible:
    """The domain that holds most of the gang, and what runs short there."""
    counts = np.array([one.count for one in request.members])
    if not len(columns.domains):
        return Infeasible({one.name: one.count for one in request.members}, "no candidate node with known room")
    if request.mode == "preferred":
        best, rows, name = 0, np.arange(len(columns.names)), "all domains"
    else:
        best = int(np.minimum(held, counts[:, None]).sum(axis=0).argmax())
        rows = np.flatnonzero(columns.domain == best)
        name = f"{columns.level} {columns.domains[best]}" if columns.level != "set" else columns.domains[best]
    part = columns.only(rows)
    found = fill(part, request.members, 0)
    there = np.zeros(len(counts), np.int64) if found is None else found.counts.sum(axis=1)
    missing = Counter[str]()
    for one, n in zip(request.members, (counts - there).tolist(), strict=True):
        missing[one.name] += n
    short = next((one for one, n in zip(request.members, counts - there, strict=True) if n > 0), request.members[0])
    taken = [] if found is None else list(found.seats())
    what = shortage(part.without((request.members[at], part.names[row]) for at, row in taken), short)
    return Infeasible(dict(+missing), f"{name}: {int(there.sum())} of {request.count}; {what}")


def _largest(members: Sequence[MemberClass]) -> int:
    """The class whose members need most: by it domains are compared."""
    return max(range(len(members)), key=lambda at: (members[at].devices, members[at].share, members[at].cores, -at))
