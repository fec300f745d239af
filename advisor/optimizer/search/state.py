"""State: a problem and an assignment, packed into one array of numbers and one of whole numbers. Kernel.

Compiled moves read and change them. Every array of its own would be counted in and out wherever a kernel passes it on,
which takes longer than what kernels do; three arrays, one of them of positions, are passed in registers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.optimizer.constraints import occupied
from advisor.optimizer.objective import cost, loads, moved
from advisor.optimizer.problem import NOWHERE, SLACK, Floats, Ints, Problem
from advisor.optimizer.search import array_layout as slots
from advisor.optimizer.search.arrays import arranged, distinct, priced

NO_LIMIT = 2**31 - 1
SPARE_SEATS = 64
TRIES = 8  # no constant to the compiler, which would write every try out: twice the time to compile
ROWS = 3
"""Nodes that one move changes at most."""
TOTAL, BEST = 0, 1
"""Positions in `number`."""
MOVED, MAX_MOVED, CHANGED = 0, 1, 2
"""Positions in `info`."""
KNEE, FIXED, EACH, USED, MAX_OF_APP, HOMELESS = range(6)
"""Positions in `constant`."""


@dataclass(frozen=True)
class State:
    """The assignment, its derived sums, and the constraints.

    Args:
        at: where what is.
        whole: whole numbers; codes and counts.
        real: numbers; uses, sums and costs.
    """

    at: Ints
    whole: Ints
    real: Floats

    def best(self) -> Ints:
        """(k,) a copy of the best assignment."""
        return self._whole(int(self.at[slots.BEST]), int(self.at[slots.CONTAINERS]))

    def place(self) -> Ints:
        """(k,) a copy of the present assignment."""
        return self._whole(int(self.at[slots.PLACE]), int(self.at[slots.CONTAINERS]))

    def best_cost(self) -> float:
        """What the best assignment costs."""
        return float(self.real[int(self.at[slots.NUMBER]) + BEST])

    def total(self) -> float:
        """What the present one costs."""
        return float(self.real[int(self.at[slots.NUMBER]) + TOTAL])

    def _whole(self, begin: int, size: int) -> Ints:
        return self.whole[begin : begin + size].copy()


def state_of(given: Problem, place: Ints, node_costs: Floats) -> State:
    """The state of an assignment, legal or not.

    Args:
        given: what is to be placed; its columns are arranged, see advisor.optimizer.search.arrays.
        place: (k,) node of each container.
        node_costs: (n,) of each node's terms.
    """
    problem = arranged(given)
    width = _width(problem, place)
    sizes = {
        "nodes": problem.nodes,
        "containers": problem.containers,
        "columns": problem.columns,
        "priced": len(priced(problem)),
        "apps": problem.apps,
        "seats": width,
        "locations": int(problem.limits.location.max(initial=-1)) + 1,
        "hoods": int(problem.limits.neighbourhood.max(initial=-1)) + 1,
        "sites": len(problem.moves.trip),
        "excesses": len(problem.excess.column),
        "balances": len(problem.balance.first),
        "curves": len(problem.curve.column),
        "harms": len(problem.harm.pressure),
        "max_moves": problem.moves.most,
        "tries": TRIES,
        "none": NOWHERE,
    }
    use, kind = distinct(problem.use)
    nodes, shape = distinct(_by_node(problem))
    numbers = _asked_numbers(problem, use, nodes) | _numbers(problem, place, node_costs)
    wholes = {"kind": kind, "shape": shape} | _asked_wholes(problem) | _wholes(problem, place, width)
    at = np.zeros(slots.SIZE, np.int64)
    for name, value in (sizes | _begins(numbers) | _begins(wholes)).items():
        at[getattr(slots, name.upper())] = value
    return State(at, _packed(wholes, np.int64), _packed(numbers, np.float64))


def _by_node(problem: Problem) -> Floats:
    """(n, c + e + h) capacity, safe levels and weights of harm."""
    tables = (problem.excess.safe, problem.harm.weight)
    return np.hstack([problem.capacity, *(table.reshape(problem.nodes, -1) for table in tables)])


def _asked_numbers(problem: Problem, use: Floats, nodes: Floats) -> dict[str, Floats]:
    ends = np.cumsum([problem.columns, len(problem.excess.column)])
    capacity, safe, weight = np.split(nodes, ends, axis=1)
    curve = problem.curve
    constant = [curve.knee, curve.fixed, curve.each, curve.used, problem.moves.most_of_app, problem.homeless]
    return {
        "use": use,
        "limit": capacity + SLACK,
        "capacity": capacity,
        "excess_weight": problem.excess.weight,
        "safe": safe,
        "ratio": problem.balance.ratio,
        "balance_weight": problem.balance.weight,
        "constant": np.array(constant),
        "harm_weight": weight,
        "move_cost": _or_zero(problem.moves.container, problem.containers),
        "trip": problem.moves.trip,
    }


def _numbers(problem: Problem, place: Ints, node_costs: Floats) -> dict[str, Floats]:
    total = cost(problem, place).total
    return {
        "load": loads(problem, place),
        "taken": occupied(problem, place),
        "cost": node_costs,
        "number": np.array([total, total]),
        "row": np.zeros((ROWS, problem.columns)),
    }


def _asked_wholes(problem: Problem) -> dict[str, NDArray[Any]]:
    limits, a = problem.limits, problem.apps
    pair_at, pair_other, most_other, most_self = _pairs(problem)
    needs_at, needs = _grouped(limits.needs[:, 0], limits.needs[:, 1], a)
    needed_at, needed = _grouped(limits.needs[:, 1], limits.needs[:, 0], a)
    return {
        "held": problem.held,
        "app": problem.app,
        "start": problem.start,
        "alike": limits.alike,
        "pair_at": pair_at,
        "pair_other": pair_other,
        "pair_most_other": most_other,
        "pair_most_self": most_self,
        "location": limits.location,
        "spread": _or_zero(limits.spread, a),
        "neighbourhood": limits.neighbourhood,
        "needs_at": needs_at,
        "needs": needs,
        "needed_at": needed_at,
        "needed": needed,
        "excess_column": problem.excess.column,
        "first": problem.balance.first,
        "second": problem.balance.second,
        "pressure": problem.harm.pressure,
        "sensitivity": problem.harm.sensitivity,
        "own": problem.harm.own,
        "site": problem.moves.site,
    }


def _wholes(problem: Problem, place: Ints, width: int) -> dict[str, NDArray[Any]]:
    k, a, gone = problem.containers, problem.apps, moved(problem, place)
    seat, position, count = _seats(problem, place, width)
    locations = _counted(problem, place, problem.limits.location)
    app_moved = np.bincount(problem.app[gone], minlength=a)
    return {
        "place": place,
        "seat": seat,
        "seat_app": problem.app[seat],
        "position": position,
        "count": count,
        "at_location": locations,
        "spread_now": (locations > 0).sum(axis=1),
        "in_hood": _counted(problem, place, problem.limits.neighbourhood),
        "app_moved": app_moved,
        "with_moved": np.bincount(app_moved, minlength=k + 1),
        "info": np.array([gone.sum(), app_moved.max(initial=0), 0]),
        "best": place,
        "changed": np.zeros(k, np.int64),
        "is_changed": np.zeros(k, np.int64),
    }


def _begins(arrays: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    ends = np.cumsum([array.size for array in arrays.values()])
    return {name: int(end) - array.size for (name, array), end in zip(arrays.items(), ends, strict=True)}


def _packed(arrays: Mapping[str, NDArray[Any]], of: type) -> NDArray[Any]:
    return np.concatenate([np.asarray(array, of).ravel() for array in arrays.values()])


def _or_zero(array: NDArray[Any], size: int) -> NDArray[Any]:
    return array if len(array) else np.zeros(size, array.dtype)


def _width(problem: Problem, place: Ints) -> int:
    """Seats of a node: what there is at most, or four times as many as on average, and some more."""
    n, k = problem.nodes, problem.containers
    most = np.bincount(place[place != NOWHERE], minlength=n).max(initial=0)
    return min(k, max(int(most), 4 * -(-k // max(n, 1))) + SPARE_SEATS)


def _seats(problem: Problem, place: Ints, width: int) -> tuple[Ints, Ints, Ints]:
    count = np.bincount(place[place != NOWHERE], minlength=problem.nodes)
    order = np.argsort(place, kind="stable")
    order = order[place[order] != NOWHERE]
    position = np.zeros(problem.containers, np.int64)
    position[order] = np.arange(len(order)) - (np.cumsum(count) - count)[place[order]]
    seat = np.zeros((problem.nodes, width), np.int64)
    seat[place[order], position[order]] = order
    return seat, position, count


def _counted(problem: Problem, place: Ints, zone: Ints) -> Ints:
    """(a, z) containers of each app in each zone of nodes; no columns without zones."""
    width = int(zone.max(initial=-1)) + 1
    home = place != NOWHERE
    found = np.zeros((problem.apps, width), np.int64)
    if width:
        np.add.at(found, (problem.app[home], zone[place[home]]), 1)
    return found


def _pairs(problem: Problem) -> tuple[Ints, Ints, Ints, Ints]:
    """By app: apps limited on its node, how many of them, and how many of its own next to one of them."""
    (first, second), most = problem.limits.pair.T, problem.limits.most
    free = np.full(len(most), NO_LIMIT)
    app, other = np.append(first, second), np.append(second, first)
    others, itself = np.append(most, free), np.append(free, most)
    order = np.argsort(app, kind="stable")
    at = np.append(0, np.cumsum(np.bincount(app, minlength=problem.apps)))
    return at, other[order], others[order], itself[order]


def _grouped(key: Ints, value: Ints, groups: int) -> tuple[Ints, Ints]:
    """(g + 1,) where each group's values begin, and the values."""
    return np.append(0, np.cumsum(np.bincount(key, minlength=groups))), value[np.argsort(key, kind="stable")]
