"""Exact: how the containers of a few nodes are best divided among them, by a mixed-integer program.

Of the neighbourhoods of an assignment the largest: many containers change places at once, which no sequence of moves
that each pay leads to. Terms that are not linear have none.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import highspy
import numpy as np

from advisor.optimizer.constraints import wrongs
from advisor.optimizer.objective import cost, counts, loads, move_costs, moved, node_costs
from advisor.optimizer.problem import NOWHERE, SLACK, Flags, Floats, Ints, Problem

FEWEST, PATIENCE = 3, 12
"""Nodes to begin with, and divisions without a saving after which one more node is looked at."""
MAX_CHOICES = 1200
"""Containers times nodes: more take too long."""
MAX_BRANCHES = 200
ACCURACY = 1e-6


class Divided(NamedTuple):
    """An assignment, and whether the nodes' containers cannot be divided better."""

    place: Ints
    proven: bool


class Row(NamedTuple):
    """A sum of variables between two bounds."""

    variable: Ints
    factor: Floats
    low: float
    high: float


def is_linear(problem: Problem) -> bool:
    """Whether every term is one of a mixed-integer program."""
    return not len(problem.curve.column) and problem.curve.used == 0.0 and not len(problem.harm.pressure)


def refined(problem: Problem, place: Ints, rng: np.random.Generator, over: Callable[[int], bool]) -> Ints:
    """The assignment after costly nodes were divided anew, a few at a time, and more at a time once that saves nothing.

    Args:
        problem: one that is linear.
        place: (k,) a feasible assignment of all containers.
        rng: draws nodes.
        over: whether to end; gets the number of divisions tried.

    Returns:
        A legal assignment that costs no more.

    Raises:
        Nothing.

    Source: large neighbourhood search, Shaw, CP 1998; of machines in this problem: Jaśkowski, Szubert and Gawron, "A
    hybrid MIP-based large neighborhood search heuristic for solving the machine reassignment problem", 2016.
    """
    best, least, size, since, tried = place, cost(problem, place).total, FEWEST, 0, 0
    while not over(tried):
        found = divided(problem, best, _costly(problem, best, size, rng))
        tried, since = tried + 1, since + 1
        reached = cost(problem, found.place).total
        if reached < least and not wrongs(problem, found.place):
            best, least, since = found.place, reached, 0
        if not found.proven:
            size = max(size - 1, 2)
        elif since >= PATIENCE:
            size, since = min(size + 1, problem.nodes), 0
    return best


def _costly(problem: Problem, place: Ints, size: int, rng: np.random.Generator) -> Ints:
    """A few nodes, the likelier the more they cost, of not too many containers."""
    load, count = loads(problem, place), counts(problem, place)
    costs = np.maximum(node_costs(problem, np.arange(problem.nodes), load, count), 0.0)
    likely = costs + max(costs.mean(), 1e-9)
    nodes = rng.choice(problem.nodes, min(size, problem.nodes), replace=False, p=likely / likely.sum())
    enough = np.cumsum(count[nodes]) * np.arange(1, len(nodes) + 1) <= MAX_CHOICES
    return np.sort(nodes[: max(2, int(enough.sum()))])


def divided(problem: Problem, place: Ints, nodes: Ints) -> Divided:
    """The containers of some nodes divided among them at least cost.

    Args:
        problem: one that is linear; the most moved app is not counted.
        place: (k,) a feasible assignment of all containers.
        nodes: (m,) ascending.

    Returns:
        The assignment, the given one where none is found. A container stays if its move might break a spread, a need
        or a limit of two apps.

    Raises:
        Nothing.

    Source: ours; solved by HiGHS, Huangfu and Hall, "Parallelizing the dual revised simplex method", 2018.
    """
    few = _Few(problem, place, nodes)
    solver = highspy.Highs()
    solver.silent()
    for name, value in (("threads", 1), ("mip_max_nodes", MAX_BRANCHES), ("mip_rel_gap", ACCURACY)):
        solver.setOptionValue(name, value)
    solver.passModel(_program(few))
    solver.run()
    chosen = np.array(solver.getSolution().col_value)[: few.choices]
    if len(chosen) < few.choices or not np.isclose(chosen.reshape(few.shape).max(axis=1), 1.0, atol=1e-3).all():
        return Divided(place, proven=False)
    found = place.copy()
    found[few.who] = nodes[chosen.reshape(few.shape).argmax(axis=1)]
    return Divided(found, solver.getModelStatus() == highspy.HighsModelStatus.kOptimal)


@dataclass(frozen=True)
class _Few:
    """Some nodes and who is on them. Variable i * m + j is whether container i goes to node j."""

    problem: Problem
    place: Ints
    nodes: Ints

    @cached_property
    def who(self) -> Ints:
        """(i,) containers on the nodes."""
        return np.flatnonzero(np.isin(self.place, self.nodes))

    @cached_property
    def outside(self) -> Flags:
        """(k,) whether each container is on none of them."""
        return ~np.isin(self.place, self.nodes)

    @cached_property
    def use(self) -> Floats:
        """(i, c) what they take."""
        return self.problem.use[self.who]

    @cached_property
    def stays(self) -> Flags:
        """(i, m) the node that each is on."""
        return np.asarray(self.place[self.who][:, None] == self.nodes)

    @cached_property
    def home(self) -> Flags:
        """(i, m) the node that each started on."""
        return np.asarray(self.problem.start[self.who][:, None] == self.nodes)

    @property
    def shape(self) -> tuple[int, int]:
        """Containers and nodes."""
        return len(self.who), len(self.nodes)

    @property
    def choices(self) -> int:
        """Variables of who goes where; those of terms come behind."""
        return self.shape[0] * self.shape[1]

    def to(self, node: int) -> Ints:
        """(i,) variables of going to a node."""
        return np.arange(self.shape[0]) * self.shape[1] + node


def _program(few: _Few) -> highspy.HighsLp:
    """The program: variables of who goes where, then of what each node's terms exceed 0 by."""
    of, (i, m), problem = few.choices, few.shape, few.problem
    weights = np.concatenate([problem.excess.weight, problem.balance.weight])
    rows = [*_homes(few), *_room(few), *_alike(few), *_terms(few), *_budget(few)]
    found, infinite = highspy.HighsLp(), np.full(m * len(weights), highspy.kHighsInf)
    found.num_col_, found.num_row_ = of + len(infinite), len(rows)
    trips = move_costs(problem, np.repeat(few.who, m), np.tile(few.nodes, i))
    found.col_cost_ = np.concatenate([trips, np.tile(weights, m)])
    found.col_lower_ = np.zeros(of + len(infinite))
    found.col_upper_ = np.concatenate([_may_go(few).ravel().astype(np.float64), infinite])
    found.row_lower_, found.row_upper_ = np.array([row.low for row in rows]), np.array([row.high for row in rows])
    found.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    found.a_matrix_.start_ = np.append(0, np.cumsum([len(row.variable) for row in rows]))
    found.a_matrix_.index_ = np.concatenate([row.variable for row in rows])
    found.a_matrix_.value_ = np.concatenate([row.factor for row in rows])
    kinds = highspy.HighsVarType
    found.integrality_ = [kinds.kInteger] * of + [kinds.kContinuous] * len(infinite)
    return found


def _homes(few: _Few) -> Iterator[Row]:
    """Each container is on one node."""
    i, m = few.shape
    for container in range(i):
        yield Row(container * m + np.arange(m), np.ones(m), 1.0, 1.0)


def _room(few: _Few) -> Iterator[Row]:
    """What containers take of a node; of held columns those who started there take it wherever they are."""
    problem = few.problem
    for j, node in enumerate(few.nodes.tolist()):
        away = problem.use[few.outside & (problem.start == node)].sum(axis=0)
        at_home = few.use[few.home[:, j]].sum(axis=0)
        room = problem.capacity[node] + SLACK - np.where(problem.held, away + at_home, 0.0)
        for column in np.flatnonzero(np.isfinite(room)).tolist():
            new = np.where(few.home[:, j], 0.0, few.use[:, column]) if problem.held[column] else few.use[:, column]
            yield Row(few.to(j), new, -highspy.kHighsInf, room[column])


def _alike(few: _Few) -> Iterator[Row]:
    """Containers of an app on a node."""
    app = few.problem.app[few.who]
    for one in np.flatnonzero(np.bincount(app) > 1).tolist():
        same = app == one
        for j in range(few.shape[1]):
            most = float(few.problem.limits.alike[one])
            yield Row(few.to(j)[same], np.ones(same.sum()), -highspy.kHighsInf, most)


def _terms(few: _Few) -> Iterator[Row]:
    """What each term of each node exceeds 0 by is at least its sum over containers, less what it may be."""
    problem, of = few.problem, few.choices
    excess, balance = problem.excess, problem.balance
    for j, node in enumerate(few.nodes.tolist()):
        for e, column in enumerate(excess.column.tolist()):
            yield _above(few.to(j), few.use[:, column], of, excess.safe[node, e])
            of += 1
        for first, second, ratio in zip(balance.first, balance.second, balance.ratio, strict=True):
            more = few.use[:, second] - ratio * few.use[:, first]
            yield _above(few.to(j), more, of, problem.capacity[node, second] - ratio * problem.capacity[node, first])
            of += 1


def _above(to: Ints, use: Floats, variable: int, safe: float) -> Row:
    return Row(np.append(to, variable), np.append(use, -1.0), -highspy.kHighsInf, safe)


def _budget(few: _Few) -> Iterator[Row]:
    """Containers elsewhere than at the start."""
    problem = few.problem
    left = problem.moves.most - int((moved(problem, few.place) & few.outside).sum())
    if left < few.shape[0]:
        started = problem.start[few.who] != NOWHERE
        gone = ~few.home & started[:, None]
        yield Row(np.arange(few.choices), gone.ravel().astype(np.float64), -highspy.kHighsInf, float(left))


def _may_go(few: _Few) -> Flags:
    """(i, m) where each may be so that no spread, need or limit of two apps can break, for any other moves."""
    limits, app = few.problem.limits, few.problem.app[few.who]
    bound = np.isin(app, limits.pair)
    if len(limits.spread):
        seats = np.unique(np.column_stack([few.problem.app, limits.location[few.place]])[few.outside], axis=0)
        bound |= np.bincount(seats[:, 0], minlength=few.problem.apps)[app] < limits.spread[app]
    free = np.repeat(~bound[:, None], few.shape[1], axis=1)
    if len(limits.needs):
        free &= _keeps_needs(few)
    return free | few.stays


def _keeps_needs(few: _Few) -> Flags:
    """(i, m) whether those outside alone have what a container needs there, and stand in for it where it is."""
    limits, app, problem = few.problem.limits, few.problem.app[few.who], few.problem
    there = np.zeros((problem.apps, int(limits.neighbourhood.max()) + 1), np.bool_)
    there[problem.app[few.outside], limits.neighbourhood[few.place[few.outside]]] = True
    lacks = np.zeros_like(there)
    np.logical_or.at(lacks, limits.needs[:, 0], ~there[limits.needs[:, 1]])
    here, goal = limits.neighbourhood[few.place[few.who]], limits.neighbourhood[few.nodes]
    spared = ~np.isin(app, limits.needs[:, 1]) | there[app, here]
    moves = ~lacks[app][:, goal] & spared[:, None]
    return np.asarray(moves | (here[:, None] == goal))
