"""Misfits: what does not fit together in a problem, refused by name before a kernel reads beyond an array's end."""

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from advisor.errors import UnusableProblem

if TYPE_CHECKING:
    from advisor.optimizer.problem import Problem

KINDS = {"b": "flags", "iu": "whole numbers", "iuf": "numbers"}
"""Kinds of numpy.dtype, in words."""
DIMENSIONS = {
    "b": {"held": 1},
    "iu": {
        "app": 1,
        "start": 1,
        "limits.alike": 1,
        "limits.pair": 2,
        "limits.most": 1,
        "limits.location": 1,
        "limits.spread": 1,
        "limits.neighbourhood": 1,
        "limits.needs": 2,
        "excess.column": 1,
        "balance.first": 1,
        "balance.second": 1,
        "curve.column": 1,
        "harm.pressure": 1,
        "harm.sensitivity": 1,
        "harm.own": 1,
        "moves.site": 1,
    },
    "iuf": {
        "use": 2,
        "capacity": 2,
        "excess.weight": 1,
        "excess.safe": 2,
        "balance.ratio": 1,
        "balance.weight": 1,
        "harm.weight": 2,
        "moves.container": 1,
        "moves.trip": 2,
    },
}
"""Of each array, by the kinds it may have."""
NEEDED = {
    "limits.spread": "limits.location",
    "limits.needs": "limits.neighbourhood",
    "moves.trip": "moves.site",
}
"""What asks for a code of every node."""
AT_LEAST_ZERO = (
    "use",
    "capacity",
    "excess.weight",
    "balance.weight",
    "harm.weight",
    "moves.container",
    "moves.trip",
    "limits.alike",
    "limits.most",
    "limits.spread",
    "curve.knee",
    "curve.fixed",
    "curve.each",
    "curve.used",
    "moves.most_of_app",
    "homeless",
    "moves.most",
)


def refuse(problem: "Problem") -> None:
    """Refuse a problem whose parts do not fit together.

    Args:
        problem: any.

    Raises:
        UnusableProblem: kinds, shapes, codes or numbers do not fit, with the name of what does not.
    """
    for kinds, dimensions in DIMENSIONS.items():
        for name, wanted in dimensions.items():
            _refuse_kind(name, _of(problem, name), kinds, wanted)
    _refuse_shapes(problem)
    _refuse_codes(problem)
    _refuse_numbers(problem)


def _of(problem: "Problem", name: str) -> Any:
    return attrgetter(name)(problem)


def _refuse_kind(name: str, array: object, kinds: str, dimensions: int) -> None:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in kinds or array.ndim != dimensions:
        raise UnusableProblem(f"{name} is no array of {KINDS[kinds]} in {dimensions} dimensions")


def _refuse_shapes(problem: "Problem") -> None:
    n, k, c, a = problem.nodes, problem.containers, problem.columns, problem.apps
    if not (n and c):
        raise UnusableProblem(f"{n} nodes and {c} columns, where there is one of each at least")
    e, b, h, s = (len(_of(problem, name)) for name in ("excess.column", "balance.first", "harm.pressure", "moves.trip"))
    wanted: dict[str, tuple[int, ...]] = {
        "capacity": (n, c),
        "held": (c,),
        "app": (k,),
        "start": (k,),
        "excess.safe": (n, e) if e else (0, 0),
        "excess.weight": (e,),
        "balance.second": (b,),
        "balance.ratio": (b,),
        "balance.weight": (b,),
        "harm.sensitivity": (h,),
        "harm.own": (h,),
        "harm.weight": (n, h) if h else (0, 0),
        "moves.trip": (s, s),
        "limits.pair": (len(problem.limits.pair), 2),
        "limits.most": (len(problem.limits.pair),),
        "limits.needs": (len(problem.limits.needs), 2),
    }
    for name, shape in wanted.items():
        if _of(problem, name).shape != shape:
            raise UnusableProblem(f"{name} has shape {_of(problem, name).shape}, not {shape}")
    optional = {
        "limits.location": n,
        "limits.neighbourhood": n,
        "limits.spread": a,
        "moves.container": k,
        "moves.site": n,
    }
    for name, size in optional.items():
        if len(_of(problem, name)) not in (0, size):
            raise UnusableProblem(f"{name} has {len(_of(problem, name))} entries, not {size}")
    for name, asked in NEEDED.items():
        if len(_of(problem, name)) and not len(_of(problem, asked)):
            raise UnusableProblem(f"{name} asks for {asked} of every node")


def _refuse_codes(problem: "Problem") -> None:
    terms = [name for name in DIMENSIONS["iu"] if name.split(".")[0] in ("excess", "balance", "curve", "harm")]
    ends = {
        "app": problem.apps,
        "limits.pair": problem.apps,
        "limits.needs": problem.apps,
        "limits.location": problem.nodes,
        "limits.neighbourhood": problem.nodes,
        "moves.site": len(problem.moves.trip),
    } | dict.fromkeys(terms, problem.columns)
    for name, end in ends.items():
        _refuse_code(name, _of(problem, name), 0, end)
    _refuse_code("start", problem.start, -1, problem.nodes)
    if len(np.unique(problem.curve.column)) < len(problem.curve.column):
        raise UnusableProblem("a column stands in the profile twice")


def _refuse_code(name: str, codes: NDArray[Any], low: int, end: int) -> None:
    if codes.size and not (codes.min() >= low and codes.max() < end):
        raise UnusableProblem(f"{name} has a code outside {low} to {end - 1}")


def _refuse_numbers(problem: "Problem") -> None:
    for name in AT_LEAST_ZERO:
        numbers = np.asarray(_of(problem, name))
        fine = numbers >= 0 if name == "capacity" else (numbers >= 0) & (numbers < np.inf)
        if not fine.all():
            raise UnusableProblem(f"{name} has what is no number of at least 0")
    if not isinstance(problem.moves.most, int | np.integer) or problem.moves.most >= 2**63:
        raise UnusableProblem("moves.most is no whole number below 2^63")
    if not (problem.excess.safe > -np.inf).all():
        raise UnusableProblem("excess.safe has what is no number")
    if not np.isfinite(problem.balance.ratio).all():
        raise UnusableProblem("balance.ratio has what is no number")
    balanced = np.append(problem.balance.first, problem.balance.second)
    if not np.isfinite(problem.capacity[:, balanced]).all():
        raise UnusableProblem("a column that is balanced has no limit: what is left of it is no number")
    with np.errstate(over="ignore"):
        total = problem.use.sum()
    if not np.isfinite(total):
        raise UnusableProblem("use has numbers so large that their sum is none")
