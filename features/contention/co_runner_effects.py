"""Together: what the apps on a node do to one container, each alone, put together by sums of powers. Kernel.

Each app there harms a container by the container's sensitivity times what the app's containers use. How the harm of
several adds up is not known beforehand: of order 1 they add up, the higher the order the more only the worst counts.
Which order holds is learnt, see models.training.fit_choice.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats, Ints, side_by_side
from features.schema.catalog import NAMES, ORDERS

MOST = 2.0
"""No app alone harms by more, slowdown - 1: a sensitivity seen at little pressure claims too much at a lot of it."""
PAIRS_AT_ONCE = 1 << 18
"""Pairs of victim and co-located app computed together, so that memory stays flat."""


@dataclass(frozen=True, slots=True)
class Company:
    """What apps use on node-times.

    Args:
        first: (g + 1,) the apps on node-time i are rows first[i] to first[i + 1].
        app: (k,) code of each, within a node-time in the order of its first containers: every runner adds up
            alike.
        share: (k, resources) what its containers use together, as shares of the node; finite.
        typical: (g, resources) mean share of one container; 0 where no container's is known.
        measured: (g,) whether any container was measured, or the node-time has no containers.
        rising: (k,) the rows by node-time, then app.
    """

    first: Ints
    app: Ints
    share: Floats
    typical: Floats
    measured: NDArray[np.bool_]
    rising: Ints

    def find(self, group: Ints, app: Ints) -> Ints:
        """(n,) row of each app on each node-time, -1 where it is not there."""
        size = max(self.app.max(initial=0), app.max(initial=0)) + 2
        code = np.repeat(np.arange(len(self.typical)), np.diff(self.first)) * size + self.app
        wanted = group * size + app
        at = np.searchsorted(code[self.rising], wanted)
        row = np.append(self.rising, -1)[at]
        return np.where((np.append(code, -1)[row] == wanted) & (app >= 0), row, -1)


@dataclass(frozen=True, slots=True)
class Victims:
    """Containers that are slowed down, n of them.

    Args:
        group: (n,) node-time each is on, or would be.
        app: (n,) code of its app as in the company; -1 of a pending pod whose app is not known.
        sensitivity: (n, resources) slowdown - 1 per share of the node; NaN where not known.
        own: (n, resources) what it uses itself where it is among the company, as a share of the node; NaN where not
            known, 0 where it is not among it.
    """

    group: Ints
    app: Ints
    sensitivity: Floats
    own: Floats


def apart(app: Ints, known: int) -> Ints:
    """(n,) codes of apps, those of unknown ones (-1) replaced: each is an app of its own, none of the `known` first."""
    return np.where(app >= 0, app, known + np.arange(len(app)))


def company_of(share: Floats, group: Ints, app: Ints, groups: int) -> Company:
    """The apps on node-times.

    Args:
        share: (n, resources) use of each container as a share of its node; NaN where not known: it counts as the mean
            of those known there, and as nothing where none is.
        group: (n,) node-time of each.
        app: (n,) code of its app, see `apart`.
        groups: number of node-times.

    Returns:
        The company.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0039-what-neighbours-do-together.md.
    """
    known = np.isfinite(share)
    counts, sums = _by(group, known, groups), _by(group, np.where(known, share, 0.0), groups)
    typical = sums / np.maximum(counts, 1.0)
    size = app.max(initial=0) + 1
    code, begins, kind = np.unique(group * size + app, return_index=True, return_inverse=True)
    seen = np.lexsort((begins, code // size))
    rank = np.empty(len(code), np.int64)
    rank[seen] = np.arange(len(code))
    total = _by(rank[kind], np.where(known, share, typical[group]), len(code))
    first = np.append(0, np.cumsum(np.bincount(code // size, minlength=groups)))
    measured = (counts > 0).any(axis=1) | (np.bincount(group, minlength=groups) == 0)
    return Company(first, (code % size)[seen], total, typical, measured, rank)


def _by(code: Ints, columns: Floats | NDArray[np.bool_], count: int) -> Floats:
    """(count, k) sums of (n, k) columns by (n,) code, row after row."""
    return side_by_side([np.bincount(code, column, count).astype(np.float64) for column in columns.T])


def power_sums(victims: Victims, company: Company) -> Floats:
    """Sums of the powers of what each app on a victim's node does to it, its own kind included.

    Args:
        victims: n of them, any order.
        company: who is there.

    Returns:
        (n, len(ORDERS)) sums of (slowdown - 1) to each order, >= 0. NaN where none of the victim's sensitivities is
        known, or nothing of anybody there.

    Source: ours, docs/decisions/0039-what-neighbours-do-together.md; sums of order p: Hardy et al., "Inequalities",
    1934, 2.10.
    """
    counts = np.diff(company.first)[victims.group]
    sums = np.zeros((len(counts), len(ORDERS)))
    ends = np.cumsum(counts)
    begin = 0
    while begin < len(counts):
        done = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + PAIRS_AT_ONCE, side="right")))
        sums[begin:end] = _sums_of(_taken(victims, slice(begin, end)), company, counts[begin:end])
        begin = end
    unknown = ~np.isfinite(victims.sensitivity).any(axis=1) | ~company.measured[victims.group]
    sums[unknown] = np.nan
    return sums


def joined_sums(sums: Floats, victims: Victims, company: Company, pending_pod: Victims) -> Floats:
    """`power_sums` of victims once a pending pod has come to their node.

    Args:
        sums: (n, len(ORDERS)) without it.
        victims: n of them.
        company: who is there without it.
        pending_pod: one on each node-time of the company, in order; `own` is what it uses, NaN where that is not known:
            it counts as the mean of the containers there.

    Returns:
        (n, len(ORDERS)), never less than before; NaN stays NaN.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0039-what-neighbours-do-together.md.
    """
    brought = np.where(np.isfinite(pending_pod.own), pending_pod.own, company.typical)[victims.group]
    row = company.find(victims.group, pending_pod.app[victims.group])
    there = np.zeros(victims.sensitivity.shape)
    there[row >= 0] = company.share[row[row >= 0]]
    own_kind = np.flatnonzero((row >= 0) & (pending_pod.app[victims.group] == victims.app))
    there[own_kind] = _without(there[own_kind], victims, own_kind, company)
    before, after = (_harm(victims.sensitivity, share) for share in (there, there + brought))
    return sums + np.maximum(_powers(after) - _powers(before), 0.0)


def roots(sums: Floats) -> Floats:
    """(n, len(ORDERS)) slowdown - 1 by each order, TOGETHER, from sums of powers."""
    return side_by_side([np.power(column, 1 / order) for column, order in zip(sums.T, ORDERS, strict=True)])


def _taken(victims: Victims, part: slice) -> Victims:
    return Victims(victims.group[part], victims.app[part], victims.sensitivity[part], victims.own[part])


def _sums_of(victims: Victims, company: Company, counts: Ints) -> Floats:
    """`power_sums` of a block of victims, each co-located with its count of apps."""
    victim = np.repeat(np.arange(len(counts)), counts)
    before = np.repeat(np.cumsum(counts) - counts, counts)
    co_runner = np.arange(len(victim)) - before + np.repeat(company.first[victims.group], counts)
    share = company.share[co_runner]
    own_kind = np.flatnonzero(company.app[co_runner] == victims.app[victim])
    share[own_kind] = _without(share[own_kind], victims, victim[own_kind], company)
    powers = _powers(_harm(victims.sensitivity[victim], share))
    return _by(victim, powers, len(counts))


def _without(share: Floats, victims: Victims, rows: Ints, company: Company) -> Floats:
    """(k, resources) use of a victim's kind without its own, for the given victims."""
    own = victims.own[rows]
    counted = np.where(np.isfinite(own), own, company.typical[victims.group[rows]])
    return np.maximum(share - counted, 0.0)


def _harm(sensitivity: Floats, share: Floats) -> Floats:
    """(n,) slowdown - 1 by so much use, resource after resource, at most MOST; an unknown sensitivity adds nothing."""
    harm = np.zeros(len(share))
    for column in range(len(NAMES)):
        harm += np.nan_to_num(sensitivity[:, column]) * share[:, column]
    return np.minimum(harm, MOST)


def _powers(harm: Floats) -> Floats:
    """(n, len(ORDERS))."""
    square = harm * harm
    return side_by_side([harm, square, square * square])
