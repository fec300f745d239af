"""Pods: what the containers of a pod amount to in a minute: sums, the largest, weighted means, ratios. Kernel."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats, Ints
from features.columnar.group_means import group_starts
from ingest.schema.tables import INGREDIENTS, JITTERED, SIGNALS

Bools = NDArray[np.bool_]
METRICS = tuple(c.name for c in (*SIGNALS, *INGREDIENTS))
AT = {name: i for i, name in enumerate(METRICS)}
LIMITS = np.array([[c.low, c.high] for c in (*SIGNALS, *INGREDIENTS)])
LARGEST = frozenset(
    {"cpu_throttled_frac", "run_delay_frac", "run_queue_frac", "rt_p95_ms", "rt_p99_ms"}
    | {m for m in METRICS if m.startswith("psi_")}
)
"""Of several containers of a pod the largest counts; the others of METRICS add up, but for WEIGHTED."""
THROTTLED = AT["cpu_throttled_frac"]
WEIGHTED = {
    "cpi": "instructions_s",
    "llc_mpki": "instructions_s",
    "rt_mean_ms": "qps",
    "cpu_us_per_request": "qps",
    "disk_await_ms": "disk_ios_s",
}
"""Means: of several containers weighted by this, and not known where that is not."""
RATIOS = (
    ("cpi", 1.0, "cycles_s", "instructions_s"),
    ("llc_mpki", 1e3, "llc_misses_s", "instructions_s"),
    ("rt_mean_ms", 1e3, "rt_s", "timed_s"),
    ("disk_await_ms", 1e3, "disk_io_s", "disk_ios_s"),
    ("cpu_us_per_request", 1e6, "cpu_cores", "qps"),
)
FEWEST_TIMED_PER_S = 1 / 30
"""Ten in five minutes."""
CLIPPED = tuple(AT[c.name] for c in SIGNALS if c.unit == "s/s" and c.high <= JITTERED)
"""Shares of time, that sums over threads and jitter push above what they can be."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Containers by minute, metrics side by side; rows sorted by pod and minute.

    Args:
        row: (n,) a row of the samples that stands for the container.
        minute: (n,) minutes since the first one.
        pod: (n,) code of pod and minute, 0..p-1, rising.
        own: (n,) whether the row is the pod's own cgroup.
        value: (n, metrics) NaN where not known.
        sampled: (n, metrics) whether there was a sample, be it without a value.
    """

    row: Ints
    minute: Ints
    pod: Ints
    own: Bools
    value: Floats
    sampled: Bools


def pods(grid: Grid) -> Floats:
    """(p, metrics) values of pods: their own cgroup's where it was sampled, else their containers' together.

    A cgroup counts the time that its own quota throttled it, not what its containers' quotas did: of both the larger.
    """
    starts = group_starts(grid.pod)
    own = grid.sampled & grid.own[:, None]
    of_pod = np.add.reduceat(np.where(own, grid.value, 0.0), starts)
    counted = grid.sampled & ~grid.own[:, None]
    of_parts = _together(counted, np.where(counted, grid.value, 0.0), starts)
    values = np.where(np.logical_or.reduceat(own, starts), of_pod, of_parts)
    values[:, THROTTLED] = np.fmax(values[:, THROTTLED], of_parts[:, THROTTLED])
    return values


def _together(counted: Bools, value: Floats, starts: Ints) -> Floats:
    """(p, metrics) of the containers that count, 0.0 elsewhere: sums, the largest, or weighted means."""
    together = np.add.reduceat(value, starts)
    for name in LARGEST:
        together[:, AT[name]] = np.maximum.reduceat(value[:, AT[name]], starts)
    count = np.add.reduceat(counted.astype(np.int64), starts)
    for name, by in WEIGHTED.items():
        weight = np.where(counted[:, AT[by]], value[:, AT[by]], np.nan)
        weighed = np.add.reduceat(np.where(counted[:, AT[name]], value[:, AT[name]] * weight, 0.0), starts)
        total = np.add.reduceat(np.where(counted[:, AT[name]], weight, 0.0), starts)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(total > 0, weighed / total, np.nan)
        together[:, AT[name]] = np.where(count[:, AT[name]] > 1, mean, together[:, AT[name]])
    return np.where(count > 0, together, np.nan)


def with_ratios(values: Floats) -> Floats:
    """(n, metrics) with CPI and the like from their ingredients where they were not measured as such.

    A ratio to zero is missing, and so is the mean time of fewer than FEWEST_TIMED_PER_S requests. Run delay is the time
    in the run queue less the time throttled, none without a limit.
    """
    result, known = values.copy(), values.copy()
    timed = values[:, AT["timed_s"]]
    few = np.where(timed < FEWEST_TIMED_PER_S, 0.0, timed)
    known[:, AT["timed_s"]] = np.where(np.isnan(timed), values[:, AT["qps"]], few)
    for name, scale, above, below in RATIOS:
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(known[:, AT[below]] > 0, scale * known[:, AT[above]] / known[:, AT[below]], np.nan)
        result[:, AT[name]] = np.where(np.isnan(values[:, AT[name]]), ratio, values[:, AT[name]])
    waited = np.maximum(values[:, AT["run_queue_frac"]] - np.nan_to_num(values[:, AT["cpu_throttled_frac"]]), 0.0)
    delay = values[:, AT["run_delay_frac"]]
    result[:, AT["run_delay_frac"]] = np.where(np.isnan(delay), waited, delay)
    return result


def within_range(values: Floats) -> tuple[Floats, Ints]:
    """Values within the catalogue's range, NaN elsewhere, and (n,) how many those were; shares of time end at theirs.

    A reading's age makes one minute's pressure too large and the next one's too small: both are kept, up to JITTERED.
    """
    clipped = values.copy()
    clipped[:, CLIPPED] = np.minimum(clipped[:, CLIPPED], LIMITS[CLIPPED, 1])
    outside = (clipped < LIMITS[:, 0]) | (clipped > LIMITS[:, 1])
    return np.where(outside, np.nan, clipped), outside.sum(axis=1)
