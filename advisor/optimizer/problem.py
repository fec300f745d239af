"""Problem: who is where, who may be where, and what each place costs. Facts, in columns.

What is optimised is a sum of terms over nodes, each a function of what the containers of a node take together of each
column, and of terms over moves. A term that is not wanted has no columns or no weight.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from advisor.optimizer.validation import refuse

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
NOWHERE = -1
"""In place of a node: the container is not placed."""
STEEPEST = 20.0
"""Of a curve: capacities of load above the knee from which more costs no more."""
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
    """Of each node that holds a container, `used` and a convex curve of its load profile.

    The mean over the profile's columns of (fixed + each * containers) * (exp(max(0, load / capacity - knee)) - 1). What
    is more than STEEPEST above the knee counts as that: no load that fits reaches it, and one that does not, as on a
    node that is drained, still costs a number.

    Args:
        column: (t,) the profile, for example cores at so many times of a day.
        knee: share of the capacity from which load costs.
        fixed: height of the curve.
        each: height that each container on the node adds.
        used: cost of a node that holds a container.
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
        sensitivity: (h,) column: its slowdown for each unit of pressure by others there.
        own: (h,) column: its own pressure times its own sensitivity, which slows no container down.
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
        location: (n,) of each node, 0..n-1.
        spread: (a,) least number of locations that an app's containers are at.
        neighbourhood: (n,) of each node, 0..n-1.
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
        capacity: (n, c) what there is, >= 0; inf where a column has no limit, which cannot be balanced.
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
        """Refuse what does not fit together."""
        refuse(self)

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
