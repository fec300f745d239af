"""Arrange: a problem's columns and rows as kernels read them fastest. NumPy only.

Columns of the profile come first and then others that cost something, so that what a move costs is computed of so many
neighbours in memory; rows that are alike are kept once, so that more of them are at hand.
"""

from dataclasses import replace

import numpy as np

from advisor.optimizer.problem import Floats, Ints, Problem


def priced(problem: Problem) -> Ints:
    """(p,) columns that terms ask for, those of the profile first and in its order."""
    of = problem
    asked = (of.curve.column, of.excess.column, of.balance.first, of.balance.second)
    columns = np.concatenate([*asked, of.harm.pressure, of.harm.sensitivity, of.harm.own])
    return np.array(list(dict.fromkeys(columns.tolist())), np.int64)


def arranged(problem: Problem) -> Problem:
    """The same problem with priced columns first."""
    first = priced(problem)
    order = np.append(first, np.setdiff1d(np.arange(problem.columns), first))
    if (order == np.arange(problem.columns)).all():
        return problem
    position = np.argsort(order)
    excess, balance, curve, harm = problem.excess, problem.balance, problem.curve, problem.harm
    return replace(
        problem,
        use=problem.use[:, order],
        capacity=problem.capacity[:, order],
        held=problem.held[order],
        excess=replace(excess, column=position[excess.column]),
        balance=replace(balance, first=position[balance.first], second=position[balance.second]),
        curve=replace(curve, column=position[curve.column]),
        harm=replace(
            harm,
            pressure=position[harm.pressure],
            sensitivity=position[harm.sensitivity],
            own=position[harm.own],
        ),
    )


def distinct(rows: Floats) -> tuple[Floats, Ints]:
    """(d, c) rows, each once, and (r,) which of them each is."""
    if not rows.size:
        return rows, np.zeros(len(rows), np.int64)
    whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, code = np.unique(whole, return_index=True, return_inverse=True)
    return rows[first], code.astype(np.int64)
