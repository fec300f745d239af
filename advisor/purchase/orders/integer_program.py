"""A mixed-integer program that is written row by row, with a label per row, and solved by HiGHS."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import highspy
import numpy as np

from advisor.purchase.instance import Flags, Floats, Ints

EXACT = 1e-9
"""Relative gap up to which a solution counts as optimal."""
FEASIBLE_WITHIN = 1e-7
"""How far a variable may be from a whole number."""


class Label(NamedTuple):
    """What a row limits: a resource, and where or when; empty for rows that only connect variables."""

    resource: str = ""
    rack: int = -1
    period: int = -1
    item: int = -1


UNNAMED = Label()


class Solution(NamedTuple):
    """A solution and what is proved of it.

    Args:
        value: (v,) variables; empty where no solution was found.
        cost: of the solution; infinite without one.
        bound: no solution costs less.
        infeasible: whether it is proved that there is none.
    """

    value: Floats
    cost: float
    bound: float
    infeasible: bool


@dataclass
class Program:
    """Variables and rows; a minimum is sought."""

    cost: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    variables: list[Ints] = field(default_factory=list)
    factors: list[Floats] = field(default_factory=list)
    bounds: list[tuple[float, float]] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)

    def add(self, cost: Sequence[float] | Floats, high: float = np.inf, *, integer: bool = True) -> Ints:
        """New variables from 0 to `high`, by their index."""
        first = len(self.cost)
        self.cost += [float(one) for one in cost]
        self.low += [0.0] * len(cost)
        self.high += [high] * len(cost)
        self.integer += [integer] * len(cost)
        return np.arange(first, len(self.cost))

    def limit(self, variables: Ints, factors: Floats | float, low: float, high: float, label: Label = UNNAMED) -> None:
        """A sum of variables, each once, between two bounds."""
        self.variables.append(np.asarray(variables, np.int64).ravel())
        self.factors.append(np.broadcast_to(np.asarray(factors, np.float64), self.variables[-1].shape))
        self.bounds.append((low, high))
        self.labels.append(label)

    def solve(self, seconds: float, start: Floats | None = None) -> Solution:
        """The best solution within a time, by one thread and a fixed seed, perhaps from a solution that is known.

        Source: HiGHS; Huangfu and Hall, "Parallelizing the dual revised simplex method", 2018.
        """
        solver = self._solved(seconds, np.array(self.integer, bool), start)
        info = solver.getInfo()
        status = solver.getModelStatus()
        infeasible = status == highspy.HighsModelStatus.kInfeasible
        found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        if not found:
            bound = np.inf if infeasible else max(0.0, float(info.mip_dual_bound))
            return Solution(np.empty(0), np.inf, bound, infeasible)
        value = np.array(solver.getSolution().col_value)
        bound = float(info.mip_dual_bound) if any(self.integer) else float(info.objective_function_value)
        return Solution(value, float(info.objective_function_value), bound, infeasible=False)

    def shadow_prices(self, seconds: float) -> Floats:
        """(rows,) what one more of each row's bound costs, below 0 what it saves, when variables may be parts."""
        solver = self._solved(seconds, np.zeros(len(self.integer), bool))
        dual = np.array(solver.getSolution().row_dual)
        return dual if len(dual) == len(self.bounds) else np.zeros(len(self.bounds))

    def _solved(self, seconds: float, integer: Flags, start: Floats | None = None) -> highspy.Highs:
        solver = highspy.Highs()
        solver.silent()
        options = {"threads": 1, "random_seed": 1, "time_limit": max(seconds, 0.1), "mip_rel_gap": EXACT}
        for name, value in (options | {"mip_feasibility_tolerance": FEASIBLE_WITHIN}).items():
            solver.setOptionValue(name, value)
        solver.passModel(self._model(integer))
        if start is not None:
            known = highspy.HighsSolution()
            known.col_value = start.tolist()
            solver.setSolution(known)
        solver.run()
        return solver

    def _model(self, integer: Flags) -> highspy.HighsLp:
        model, kinds = highspy.HighsLp(), highspy.HighsVarType
        model.num_col_, model.num_row_ = len(self.cost), len(self.bounds)
        model.col_cost_, model.col_upper_ = np.array(self.cost), np.array(self.high)
        model.col_lower_ = np.array(self.low)
        bounds = np.array(self.bounds, np.float64).reshape(-1, 2)
        model.row_lower_, model.row_upper_ = bounds[:, 0], bounds[:, 1]
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.append(0, np.cumsum([len(row) for row in self.variables])).astype(np.int32)
        model.a_matrix_.index_ = np.concatenate(self.variables or [np.empty(0, np.int64)]).astype(np.int32)
        model.a_matrix_.value_ = np.concatenate(self.factors or [np.empty(0)])
        if integer.any():
            model.integrality_ = [kinds.kInteger if one else kinds.kContinuous for one in integer]
        return model
