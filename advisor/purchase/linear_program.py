"""Linear and mixed-integer programs as columns of numbers, solved by HiGHS without a word on standard output."""

from typing import NamedTuple

import highspy
import numpy as np

from advisor.purchase.instance import Flags, Floats, Ints

INFINITE = highspy.kHighsInf
GAP, WHOLE_WITHIN = 1e-9, 1e-7
"""Relative, between a mixed-integer program's value and its bound, where the search may end; and of whole numbers."""


class Terms(NamedTuple):
    """Entries of a matrix: each one's row, variable and factor; arrays of one length."""

    row: Ints
    variable: Ints
    factor: Floats


class Program(NamedTuple):
    """Least cost within bounds.

    Args:
        cost: (v,) per unit of each variable.
        most: (v,) upper bounds.
        low: (r,) lower bounds of rows.
        high: (r,) upper bounds of rows.
        terms: entries of the rows.
        least: (v,) lower bounds; None: 0.
    """

    cost: Floats
    most: Floats
    low: Floats
    high: Floats
    terms: Terms
    least: Floats | None = None


class Solution(NamedTuple):
    """What was found.

    Args:
        value: the cost; infinite where nothing was found.
        bound: what no solution can cost less than.
        variable: (v,) their values; empty where nothing was found.
        price: (r,) what one unit more in a row's bound costs; zeros of a mixed-integer program.
        reduced: (v,) what one unit more in a variable's bound costs; zeros of a mixed-integer program.
        optimal: whether the search ended by itself.
    """

    value: float
    bound: float
    variable: Floats
    price: Floats
    reduced: Floats
    optimal: bool


def terms(*parts: Terms) -> Terms:
    """The entries of several blocks."""
    return Terms(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def solved(
    program: Program, whole: Flags | None = None, seconds: float = 600.0, seed: int = 0, start: Floats | None = None
) -> Solution:
    """The least cost.

    Args:
        program: finite costs.
        whole: (v,) which variables are whole numbers; None: none.
        seconds: after which the search ends with its best.
        seed: of the search.
        start: (v,) a solution to begin from.

    Returns:
        What was found, never raised: an infinite value means no solution, or none in time.

    Raises:
        Nothing.

    Source: HiGHS, Huangfu and Hall, "Parallelizing the dual revised simplex method", 2018.
    """
    solver = quiet(seconds, seed)
    solver.passModel(model_of(program, whole))
    if start is not None:
        given = highspy.HighsSolution()
        given.col_value = start.tolist()
        solver.setSolution(given)
    solver.run()
    return read(solver, mixed=whole is not None and bool(whole.any()))


def quiet(seconds: float, seed: int) -> highspy.Highs:
    """A solver with one thread that prints nothing."""
    solver = highspy.Highs()
    solver.silent()
    options = (("threads", 1), ("random_seed", seed), ("time_limit", max(seconds, 0.01)), ("mip_rel_gap", GAP))
    solver.setOptionValue("mip_feasibility_tolerance", WHOLE_WITHIN)
    for name, value in options:
        solver.setOptionValue(name, value)
    return solver


def read(solver: highspy.Highs, *, mixed: bool) -> Solution:
    """What a solver that ran has found."""
    info, status = solver.getInfo(), solver.getModelStatus()
    found, optimal = solver.getSolution(), status == highspy.HighsModelStatus.kOptimal
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        impossible = status == highspy.HighsModelStatus.kInfeasible
        least = INFINITE if impossible else max(float(info.mip_dual_bound), 0.0) if mixed else 0.0
        return Solution(INFINITE, least, np.zeros(0), np.zeros(0), np.zeros(0), optimal)
    value = info.objective_function_value
    return Solution(
        value,
        info.mip_dual_bound if mixed else value,
        np.array(found.col_value),
        np.array(found.row_dual),
        np.array(found.col_dual),
        optimal,
    )


def model_of(program: Program, whole: Flags | None) -> highspy.HighsLp:
    """The program as HiGHS takes it."""
    found, of = highspy.HighsLp(), program.terms
    order = np.lexsort((of.variable, of.row))
    found.num_col_, found.num_row_ = len(program.cost), len(program.low)
    least = np.zeros(len(program.cost)) if program.least is None else program.least
    found.col_cost_, found.col_lower_, found.col_upper_ = program.cost, least, program.most
    found.row_lower_, found.row_upper_ = program.low, program.high
    found.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    found.a_matrix_.start_ = np.searchsorted(of.row[order], np.arange(len(program.low) + 1)).astype(np.int32)
    found.a_matrix_.index_, found.a_matrix_.value_ = of.variable[order].astype(np.int32), of.factor[order]
    if whole is not None and whole.any():
        kinds = highspy.HighsVarType
        found.integrality_ = [kinds.kInteger if one else kinds.kContinuous for one in whole.tolist()]
    return found
