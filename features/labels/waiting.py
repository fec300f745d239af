"""Waiting: how much longer a container took for its own work, where it reports no latency. Kernel.

A stall is set against the container's own busy time, not against wall time: who works 8 % of the time and waits 2 % is
slowed down by a quarter. It sees what the kernel can see: queues for CPU, memory and disk. Harm through caches, memory
bandwidth, a sibling thread or the network stalls no task, and is not seen.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats, floats, micros
from features.columnar.group_means import group_codes

STALLS = ("psi_cpu_some_frac", "run_delay_frac", "psi_memory_full_frac", "psi_io_full_frac")
"""Columns that the signal is made of, apart from own CPU and throttling."""
WAITED = ("cpu", "memory", "disk")
"""What is waited for."""
MIN_CORES = 0.05
"""With less CPU than this a stall is mostly the app's own rhythm."""
MAX_THROTTLED = 0.0
"""Throttled longer than this, what is left of a stall says nothing: pressure counts the own limit too."""
CALM_PRESSURE = 0.15
"""CPU that neighbours use of a node in an app's calm windows, at which half of the stall there is theirs."""
MAX_STALLED = 0.9
"""Of memory and disk; beyond it the loss is without bound."""
MEASURED = ""
NODE_CPU = ("pressure_cpu", "pressure_cpu_elsewhere")
"""What others use of a node's CPU."""
BUSY_SHARE = 0.3
"""CPU use of a node, from which a container that works is stalled for some microseconds of an hour."""
HOUR_US = 3_600_000_000
Texts = NDArray[np.object_]
Flags = NDArray[np.bool_]


def waiting(windows: pa.Table, limited: Flags, cpus: float = 1.0) -> Floats:
    """Slowdown through waiting, before it is compared with the app's own calm.

    Args:
        windows: label windows, see features.labels.slowdown; null where not measured.
        limited: (n,) containers with a CPU limit.
        cpus: see `waits`.

    Returns:
        (n,) (1 + stall / CPU used) / ((1 - memory stall) (1 - disk stall)), >= 1. The stall is the larger of pressure
        on CPU and run delay: pressure counts several waiting threads once, and run delay of some exporters is that of
        one thread. Pressure is a mean over the CPUs that the container runs on. Where memory or disk is not measured,
        it counts as none. NaN where `unmeasured` has a reason.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0063-waiting.md; pressure counts own throttling (kernel/sched/psi.c).
    """
    seen = unmeasured(windows, limited) == MEASURED
    return np.where(seen, np.prod(waits(windows, cpus), axis=1), np.nan)


def waits(windows: pa.Table, cpus: Floats | float = 1.0) -> Floats:
    """By how much waiting for each of WAITED makes work longer.

    Args:
        windows: see `waiting`.
        cpus: over how many the app waits, (n,) or one, see features.labels.waited_cpus; its cores in use, rounded up,
            where these are more or it is NaN.

    Returns:
        (n, len(WAITED)) ratios >= 1, whose product is `waiting`; 1 where it is not measured.

    Raises:
        Nothing.

    Source: see `waiting`.
    """
    use, pressure = floats(windows["cpu_cores"]), floats(windows["psi_cpu_some_frac"])
    stall = np.fmax(pressure * np.maximum(np.fmax(np.ceil(use), cpus), 1.0), floats(windows["run_delay_frac"]))
    working = np.where(use >= MIN_CORES, use, np.inf)
    return np.column_stack(
        [
            1.0 + np.nan_to_num(stall) / working,
            1.0 / _left(windows, "psi_memory_full_frac"),
            1.0 / _left(windows, "psi_io_full_frac"),
        ]
    )


def against_calm(signal: Floats, log_ratio: Floats, windows: pa.Table, calm: Flags) -> Floats:
    """The slowdown through waiting, of which the app's own part is taken off.

    Args:
        signal: (n,) see `waiting`.
        log_ratio: (n,) log of the signal over what it reads in calm windows.
        windows: see `waiting`.
        calm: (n,) windows with the least pressure.

    Returns:
        (n,) log ratios. What an app waits in calm windows is its own where no neighbour uses CPU then. Where some do,
        a part of it is theirs: a half at CALM_PRESSURE, as stall alone says how long was waited and not for whom.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0063-waiting.md.
    """
    used = np.nansum([floats(windows[name]) for name in NODE_CPU], axis=0)[calm]
    share = 1.0 / (1.0 + (used.mean() if len(used) else 0.0) / CALM_PRESSURE)
    whole = np.log(signal)
    return whole - share * (whole - log_ratio)


def unmeasured(windows: pa.Table, limited: Flags) -> Texts:
    """Why waiting says nothing of each window.

    Args:
        windows: see `waiting`.
        limited: see `waiting`.

    Returns:
        (n,) `own_limit` (throttled for more than MAX_THROTTLED of the time), `throttling_not_reported` (there is a
        limit, and its effect is not known), `not_reported` (neither pressure nor run delay, or no CPU use),
        `pressure_all_zero` (the kernel does not count pressure), `idle` (less than MIN_CORES); empty where it is
        measured.

    Raises:
        Nothing.

    Source: ours; kubelets before 1.36 report 0 where the kernel has no pressure (kubernetes/kubernetes#136333).
    """
    use, throttled = floats(windows["cpu_cores"]), floats(windows["cpu_throttled_frac"])
    reported = np.isfinite(floats(windows["psi_cpu_some_frac"])) | np.isfinite(floats(windows["run_delay_frac"]))
    found: Texts = np.full(windows.num_rows, MEASURED, object)
    found[_all_zero(windows)] = "pressure_all_zero"
    found[use < MIN_CORES] = "idle"  # who sleeps is not stalled, whatever the kernel counts
    found[~(reported & np.isfinite(use))] = "not_reported"
    found[limited & np.isnan(throttled)] = "throttling_not_reported"
    found[throttled > MAX_THROTTLED] = "own_limit"
    return found


def _all_zero(windows: pa.Table) -> Flags:
    """(n,) windows of hours in which all pressure on a container was exactly 0 though its node was busy."""
    pressure = np.column_stack([floats(windows[name]) for name in STALLS if name.startswith("psi_")])
    delay = floats(windows["run_delay_frac"])
    hours = windows.select(["cluster", "node", "container"]).append_column(
        "hour", pa.array((micros(windows["window_end"]) - 1) // HOUR_US)
    )
    hour, count = group_codes(hours, hours.column_names), windows.num_rows
    busy = floats(windows["demand_cpu"]) + np.nansum([floats(windows[name]) for name in NODE_CPU], axis=0)
    some = (np.nan_to_num(pressure) > 0).any(axis=1) | (np.nan_to_num(delay) > 0)
    stalled = np.bincount(hour, some, minlength=count)[hour] > 0
    mean = np.bincount(hour, np.nan_to_num(busy), minlength=count)[hour] / np.bincount(hour, minlength=count)[hour]
    reported: Flags = np.isfinite(pressure[:, 0])
    return reported & ~stalled & (mean > BUSY_SHARE)


def _left(windows: pa.Table, column: str) -> Floats:
    """(n,) share of time in which the container was not stalled as a whole."""
    return 1.0 - np.minimum(np.nan_to_num(floats(windows[column])), MAX_STALLED)
