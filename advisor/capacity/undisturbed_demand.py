"""Undisturbed demand: the CPU that one app would have used without neighbours and without its own limit. Kernel.

Use is not demand. Throttling and a CPU queue that never empties hide demand; slower caches and memory bandwidth add CPU
time to every request. Each is corrected by what was measured of it, and by nothing where nothing was measured.
"""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats
from features.labels.waiting import MIN_CORES
from features.schema.errors import refuse_other_lengths

Flags = NDArray[np.bool_]
QUEUED = 0.5
"""Share of the time in which a task waits for CPU, from which work may be left over at the end of a window."""
MAX_THROTTLED = 0.9
"""A container that is throttled longer shows too little of its demand to be scaled by it: tenfold is the most."""
CALM, SLOWED = 1.05, 1.1
"""Slowdown up to which a window shows an app's own CPU time per request, and from which neighbours add to it."""
MIN_BIN = 20
"""Calm windows at similar load, from which the app's own CPU time per request is known there."""
MAX_BINS = 8
HIGH_COST, LOW_TIME = 0.9, 0.1
"""Quantiles of calm windows that stand for an app's own CPU time per request and response time: demand is rather too
large than too small by them."""
NOTABLE = 0.01
"""Corrections by a smaller share are not counted."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured in n one-minute windows of one app's containers, any order; NaN where it was not.

    Args:
        cpu_cores: (n,) CPU used.
        throttled_frac: (n,) share of the time throttled by the container's own limit.
        run_delay_frac: (n,) time that tasks waited for a CPU, s/s, throttled time subtracted.
        queued_frac: (n,) share of the time in which some task waited for a CPU (PSI, some).
        qps: (n,) requests served, 1/s.
        rt_mean_ms: (n,) mean response time.
        slowdown_ratio: (n,) label of the window; 1.0 is the app's baseline.
        is_waiting: (n,) whether that label is made of waiting.
    """

    cpu_cores: Floats
    throttled_frac: Floats
    run_delay_frac: Floats
    queued_frac: Floats
    qps: Floats
    rt_mean_ms: Floats
    slowdown_ratio: Floats
    is_waiting: Flags

    def where(self, rows: NDArray[np.int64] | Flags | slice) -> "Measured":
        """Those of some windows."""
        return Measured(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True, slots=True)
class Demand:
    """CPU demand at undisturbed speed.

    Args:
        cores: (n,) NaN where use was not measured.
        raised: (n,) windows whose use was hidden by a limit or a queue.
        lowered: (n,) windows whose use held CPU time that neighbours added.
    """

    cores: Floats
    raised: Flags
    lowered: Flags


def undisturbed(of: Measured) -> Demand:
    """CPU that one app would have used in each window at undisturbed speed.

    Args:
        of: its windows.

    Returns:
        (n,) cores. Use U, throttled share t, run delay r, slowdown s, requests q:

        - throttled: U / (1 - t). It ran at that rate while it was allowed to; an upper bound of its demand.
        - queue that may not have emptied: the smaller of (U / (1 - t) + r) / (1 + r0), all that could run, with r0 the
          median of r / U in calm windows, and U w / (1 - t), with w the response time over the LOW_TIME quantile of
          windows of similar load that are not slowed, else s where it is a label of waiting: clients that wait send at
          most w times as many requests without neighbours (Little's law). A queue counts only where a task waited for
          QUEUED of the time: as many tasks wait on average as the share of time in which one does, or more, so that
          with r or PSI below it the queue was empty half of the time, and use is all that came.
        - slowed from SLOWED on, neither throttled nor queued: min(U, q c), c the HIGH_COST quantile of U / q in calm
          windows of similar load. Without requests nothing is lowered: CPI rises with another mix of requests too.

        Never below U but by the last rule. NaN where U is not measured; a correction whose input is missing is left
        out, and no missing value counts as zero.

    Raises:
        FeaturesError: the arrays differ in length.

    Source: ours, docs/rightsizing.md; q c is the utilisation law (Denning and Buzen, 1978), the bound on queues is
    Markov's inequality.
    """
    refuse_other_lengths(**{field.name: getattr(of, field.name) for field in fields(of)})
    throttled = np.clip(np.nan_to_num(of.throttled_frac), 0.0, MAX_THROTTLED)
    allowed = of.cpu_cores / (1.0 - throttled)
    queued = np.fmin(of.queued_frac, of.run_delay_frac) >= QUEUED
    calm = (of.slowdown_ratio <= CALM) & ~queued & (throttled == 0.0)
    cores = np.where(queued, np.fmax(allowed, _runnable(of, allowed, calm)), allowed)
    raised = cores > of.cpu_cores * (1.0 + NOTABLE)
    slowed = (of.slowdown_ratio >= SLOWED) & (throttled == 0.0) & ~queued
    cost = _ratio(of.cpu_cores, of.qps)
    own = np.where(slowed, of.qps * _at_load(of.qps, cost, calm, HIGH_COST), np.nan)
    undisturbed_cores = np.fmin(cores, np.where(own > 0.0, own, np.nan))
    cores = np.where(np.isnan(of.cpu_cores), np.nan, undisturbed_cores)
    return Demand(cores, raised, cores < of.cpu_cores * (1.0 - NOTABLE))


def _runnable(of: Measured, allowed: Floats, calm: Flags) -> Floats:
    """(n,) the least that bounds demand behind a queue, cores; NaN where nothing does."""
    ratios = (of.run_delay_frac / np.maximum(of.cpu_cores, MIN_CORES))[calm]
    known = ratios[np.isfinite(ratios)]
    usual = float(np.median(known)) if len(known) >= MIN_BIN else 0.0
    usual_time = _at_load(of.qps, of.rt_mean_ms, of.slowdown_ratio <= CALM, LOW_TIME)
    longer = _ratio(of.rt_mean_ms, usual_time)
    longer = np.where(np.isnan(longer) & of.is_waiting, of.slowdown_ratio, longer)
    return np.fmin((allowed + of.run_delay_frac) / (1.0 + usual), allowed * longer)


def _ratio(above: Floats, below: Floats) -> Floats:
    """(n,) quotients; NaN where the divisor is not above 0, or so small that the quotient is no number."""
    with np.errstate(over="ignore", invalid="ignore"):
        quotient = above / np.where(below > 0.0, below, np.nan)
    return np.where(np.isfinite(quotient), quotient, np.nan)


def _at_load(load: Floats, value: Floats, rows: Flags, share: float) -> Floats:
    """(n,) quantile of a value in some rows of similar load; NaN at loads of which too few are known."""
    known = np.flatnonzero(rows & np.isfinite(value) & np.isfinite(load))
    bins = min(MAX_BINS, len(known) // MIN_BIN)
    if not bins:
        return np.full(len(value), np.nan)
    edges = np.quantile(load[known], np.linspace(0.0, 1.0, bins + 1))

    def bin_of(loads: Floats) -> NDArray[np.int64]:
        return np.clip(np.searchsorted(edges, loads, side="right") - 1, 0, bins - 1)

    own = bin_of(load[known])
    parts = [value[known[own == b]] for b in range(bins)]
    of_bin = np.array([np.quantile(part, share) if len(part) >= MIN_BIN // 2 else np.nan for part in parts])
    return np.where((load >= edges[0]) & (load <= edges[-1]), of_bin[bin_of(load)], np.nan)
