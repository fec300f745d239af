"""Problem: who is where, who may be where, and what each place costs. Facts, in columns.

What is optimised is a sum of terms over nodes, each a function of what the containers of a node take together of each
column, and of terms over moves. A term that is not wanted has no columns or no weight.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.errors import UnusableProblem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
NOWHERE = -1
"""In place of a node: the container is not placed."""
SLACK = 1e-9
"""A sum may exceed a capacity by that much: sums of decimals do."""


def _no_codes() -> Ints:
    return np.zeros(0, np.int64)


def _no_pairs() -> Ints:
    return np.zeros((0, 2), np.int64)


def _nothing() -> Floats:
    return np.zeros(0)


def _no_table() -> Floats:
    return np.zeros((0, 0))


@dataclass(frozen=True)
class Excess:
    """Weight times what a node's sum lies above a level.

    Args:
        column: (e,) which.
        weight: (e,) cost of one unit above.
        safe: (n, e) level of each node.
    """

    column: Ints = field(default_factory=_no_codes)
    weight: Floats = field(default_factory=_nothing)
    safe: Floats = field(default_factory=_no_table)


@dataclass(frozen=True)
class Balance:
    """Weight times what is missing, for so much left of one column, of another one: max(0, ratio * left - left).

    Args:
        first: (b,) column of which much is left.
        second: (b,) column of which as much times ratio should be.
        ratio: (b,) of second to first.
        weight: (b,) cost of one unit missing.
    """

    first: Ints = field(default_factory=_no_codes)
    second: Ints = field(default_factory=_no_codes)
    ratio: Floats = field(default_factory=_nothing)
    weight: Floats = field(default_factory=_nothing)


@dataclass(frozen=True)
class Curve:
    """Of each node that holds somebody, `used` and a convex curve of its load profile.

    The mean over the profile's columns of (fixed + each * containers) * (exp(max(0, load / capacity - knee)) - 1).

    Args:
        column: (t,) the profile, for example cores at so many times of a day.
        knee: share of the capacity from which load costs.
        fixed: height of the curve.
        each: height that each container on the node adds.
        used: cost of a node that holds somebody.
    """

    column: Ints = field(default_factory=_no_codes)
    knee: float = 0.5
    fixed: float = 0.0
    each: float = 0.0
    used: float = 0.0


@dataclass(frozen=True)
class Harm:
    """What containers of a node add to each other's slowdown: sum of sensitivity times what the others press.

    Args:
        pressure: (h,) column: how hard a container presses on a resource.
        sensitivity: (h,) column: how much it suffers for each unit that others press there.
        own: (h,) column: its own pressure times its own sensitivity, which harms nobody.
        weight: (n, h) of each node, for example one over what it has of the resource.
    """

    pressure: Ints = field(default_factory=_no_codes)
    sensitivity: Ints = field(default_factory=_no_codes)
    own: Ints = field(default_factory=_no_codes)
    weight: Floats = field(default_factory=_no_table)


@dataclass(frozen=True)
class Moves:
    """What moves cost, and how many there may be.

    Args:
        container: (k,) cost of moving each.
        most_of_app: cost of each move of the app of which most containers move.
        site: (n,) of each node.
        trip: (s, s) cost of a move from one site to another.
        most: how many containers may be elsewhere than at the start; those placed nowhere at the start do not count.
    """

    container: Floats = field(default_factory=_nothing)
    most_of_app: float = 0.0
    site: Ints = field(default_factory=_no_codes)
    trip: Floats = field(default_factory=_no_table)
    most: int = 2**62


@dataclass(frozen=True)
class Limits:
    """Who may be together, and who has to be apart.

    Args:
        alike: (a,) most containers of an app on one node.
        pair: (q, 2) apps: a node with one of the first holds at most `most` of the second.
        most: (q,) of each pair.
        location: (n,) of each node.
        spread: (a,) least number of locations that an app's containers are at.
        neighbourhood: (n,) of each node.
        needs: (d, 2) apps: a neighbourhood with one of the first holds one of the second.
    """

    alike: Ints
    pair: Ints = field(default_factory=_no_pairs)
    most: Ints = field(default_factory=_no_codes)
    location: Ints = field(default_factory=_no_codes)
    spread: Ints = field(default_factory=_no_codes)
    neighbourhood: Ints = field(default_factory=_no_codes)
    needs: Ints = field(default_factory=_no_pairs)


@dataclass(frozen=True)
class Problem:
    """Containers 0..k-1 of apps 0..a-1 on nodes 0..n-1, in c columns.

    Args:
        use: (k, c) what each container takes of each column, >= 0.
        capacity: (n, c) what there is; inf where a column has no limit.
        held: (c,) columns that a moved container takes on its old node too, until all moves are done, as in the ROADEF
            challenge: the search counts them so. Rounds of a plan count every column on both nodes, each round anew.
        app: (k,) of each container.
        start: (k,) node of each container, NOWHERE where it has none.
        limits: who may be together.
        excess: see Excess.
        balance: see Balance.
        curve: see Curve.
        harm: see Harm.
        moves: see Moves.
        homeless: cost of a container that is placed nowhere.

    Raises:
        UnusableProblem: shapes, codes or numbers do not fit together.
    """

    use: Floats
    capacity: Floats
    held: Flags
    app: Ints
    start: Ints
    limits: Limits
    excess: Excess = field(default_factory=Excess)
    balance: Balance = field(default_factory=Balance)
    curve: Curve = field(default_factory=Curve)
    harm: Harm = field(default_factory=Harm)
    moves: Moves = field(default_factory=Moves)
    homeless: float = 1e9

    def __post_init__(self) -> None:
        """Refuse what does not fit together, before anything reads beyond an array's end."""
        n, k, c, a = self.nodes, self.containers, self.columns, self.apps
        wanted: dict[str, tuple[NDArray[Any], tuple[int, ...]]] = {
            "capacity": (self.capacity, (n, c)),
            "held": (self.held, (c,)),
            "app": (self.app, (k,)),
            "start": (self.start, (k,)),
            "excess.safe": (self.excess.safe, (n, len(self.excess.column)) if len(self.excess.column) else (0, 0)),
            "harm.sensitivity": (self.harm.sensitivity, self.harm.pressure.shape),
            "harm.own": (self.harm.own, self.harm.pressure.shape),
            "harm.weight": (self.harm.weight, (n, len(self.harm.pressure)) if len(self.harm.pressure) else (0, 0)),
            "excess.weight": (self.excess.weight, self.excess.column.shape),
            "balance.second": (self.balance.second, self.balance.first.shape),
            "balance.ratio": (self.balance.ratio, self.balance.first.shape),
            "balance.weight": (self.balance.weight, self.balance.first.shape),
            "moves.trip": (self.moves.trip, (len(self.moves.trip), len(self.moves.trip))),
            "limits.most": (self.limits.most, (len(self.limits.pair),)),
        }
        for name, (array, shape) in wanted.items():
            if array.shape != shape:
                raise UnusableProblem(f"{name} has shape {array.shape}, not {shape}")
        optional: dict[str, tuple[NDArray[Any], int]] = {
            "limits.location": (self.limits.location, n),
            "limits.neighbourhood": (self.limits.neighbourhood, n),
            "limits.spread": (self.limits.spread, a),
            "moves.container": (self.moves.container, k),
            "moves.site": (self.moves.site, n),
        }
        for name, (array, size) in optional.items():
            if len(array) not in (0, size):
                raise UnusableProblem(f"{name} has {len(array)} entries, not {size}")
        needed: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {
            "limits.spread asks for limits.location": (self.limits.spread, self.limits.location),
            "limits.needs asks for limits.neighbourhood": (self.limits.needs, self.limits.neighbourhood),
            "moves.trip asks for moves.site": (self.moves.trip, self.moves.site),
        }
        for what, (given, asked) in needed.items():
            if len(given) and len(asked) != n:
                raise UnusableProblem(f"{what} of every node")
        self._refuse_codes()
        self._refuse_numbers()
        if len(np.unique(self.curve.column)) < len(self.curve.column):
            raise UnusableProblem("a column stands in the profile twice")

    def _refuse_numbers(self) -> None:
        if not (np.isfinite(self.use).all() and (self.use >= 0).all() and not np.isnan(self.capacity).any()):
            raise UnusableProblem("a use is no number of at least 0, or a capacity no number")
        weights: dict[str, NDArray[Any]] = {
            "excess.weight": self.excess.weight,
            "balance.weight": self.balance.weight,
            "harm.weight": self.harm.weight,
            "moves.container": self.moves.container,
            "moves.trip": self.moves.trip,
        }
        for name, array in weights.items():
            if not (np.isfinite(array).all() and (array >= 0).all()):
                raise UnusableProblem(f"{name} has what is no number of at least 0")
        if np.isnan(self.excess.safe).any() or not np.isfinite(self.balance.ratio).all():
            raise UnusableProblem("excess.safe or balance.ratio has what is no number")

    def _refuse_codes(self) -> None:
        sites = len(self.moves.trip)
        codes: dict[str, tuple[NDArray[Any], int, int]] = {
            "app": (self.app, 0, self.apps),
            "start": (self.start, NOWHERE, self.nodes),
            "limits.pair": (self.limits.pair, 0, self.apps),
            "limits.needs": (self.limits.needs, 0, self.apps),
            "limits.location": (self.limits.location, 0, 2**31),
            "limits.neighbourhood": (self.limits.neighbourhood, 0, 2**31),
            "moves.site": (self.moves.site, 0, sites),
        }
        terms = {
            "excess.column": self.excess.column,
            "balance.first": self.balance.first,
            "balance.second": self.balance.second,
            "curve.column": self.curve.column,
            "harm.pressure": self.harm.pressure,
            "harm.sensitivity": self.harm.sensitivity,
            "harm.own": self.harm.own,
        }
        codes |= {name: (column, 0, self.columns) for name, column in terms.items()}
        for name, (array, low, high) in codes.items():
            if array.size and not (array.min() >= low and array.max() < high):
                raise UnusableProblem(f"{name} has a code outside {low} to {high - 1}")

    @property
    def containers(self) -> int:
        """How many there are."""
        return len(self.use)

    @property
    def nodes(self) -> int:
        """How many there are."""
        return len(self.capacity)

    @property
    def columns(self) -> int:
        """How many there are."""
        return int(self.use.shape[1])

    @property
    def apps(self) -> int:
        """How many there are."""
        return len(self.limits.alike)
