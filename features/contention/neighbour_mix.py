"""Composition: which kind of neighbours press, how unevenly, and through which part of the node. Kernel.

In addition to the sums of `features.contention.pressure`: the busiest neighbour, bursts, the best-effort part, and what
comes through shared cores and NUMA nodes where those are known.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats, Ints, side_by_side
from features.contention.neighbour_sums import neighbour_maxima, neighbour_sum, neighbour_sums
from features.contention.pressure import CPU, Members
from features.schema.catalog import NAMES
from ingest.schema.cpuset import membership

MEMBW = NAMES.index("memory_bandwidth")


@dataclass(frozen=True, slots=True)
class Details:
    """What is known of members besides their use.

    Args:
        peak: (n, resources) largest use in the window, absolute; NaN where not known.
        run_delay: (n,) s/s waited for a core; NaN where not measured.
        smt: (n,) hardware threads per core of the member's node; NaN where not known.
        numa_nodes: (n,) NUMA nodes of the member's node; NaN where not known.
        numa_node: (n,) NUMA node the member is bound to; NaN where it is not, or not known.
    """

    peak: Floats
    run_delay: Floats
    smt: Floats
    numa_nodes: Floats
    numa_node: Floats


def composition(members: Members, pressure: Floats, details: Details) -> Floats:
    """Maxima, bursts, best-effort parts and topology.

    Args:
        members: sorted by group.
        pressure: (n, resources) sums of features.contention.pressure, as shares.
        details: see Details.

    Returns:
        (n, len(COMPOSITION)). The best-effort part never exceeds the whole; what is not known is NaN.

    Source: ours. Burst is the sum of the neighbours' peaks above their means: what they would add if all peaked at
    once, an upper bound, since samples of different containers are not taken at the same instant.
    """
    use, capacity = members.use.T, members.capacity.T
    busiest = neighbour_maxima(np.delete(use, CPU, axis=0), members.group) / np.delete(capacity, CPU, axis=0)
    bursts = neighbour_sums(np.maximum(details.peak.T - use, 0.0), members.group) / capacity
    be = [_best_effort_share(own, members) * whole for own, whole in zip(use, pressure.T, strict=True)]
    waits = neighbour_sum(details.run_delay, members.group)
    topology = smt_pressure(members, details.smt), _numa(members, details)
    return side_by_side([*busiest, *bursts, *be, *topology, waits])


def _best_effort_share(use: Floats, members: Members) -> Floats:
    """(n,) part of the measured neighbours' use that is best effort; 0 where they use nothing."""
    known = np.where(np.isfinite(use), use, 0.0)
    own_be = np.where(members.best_effort, known, 0.0)
    total = np.bincount(members.group, known)[members.group] - known
    best_effort = np.bincount(members.group, own_be)[members.group] - own_be
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, np.clip(best_effort / total, 0.0, 1.0), 0.0)


def smt_pressure(members: Members, smt: Floats) -> Floats:
    """CPU use of neighbours on the hardware threads that share a core with a pinned container's own.

    Args:
        members: see features.contention.pressure; only groups with a pinned member are looked at.
        smt: (n,) hardware threads per core; NaN where not known.

    Returns:
        (n,) share of those threads in use; NaN for containers that are not pinned, and where SMT is not known.

    Source: ours; Linux on x86 servers numbers the threads of core i as i, i + cores, i + 2 cores, ...
    """
    result = np.full(len(members.group), np.nan)
    pinned = np.array([cpuset is not None for cpuset in members.cpuset], np.bool_)
    for rows in _groups(members.group, pinned):
        threads, per_core = members.capacity[rows[0], CPU], smt[rows[0]]
        if np.isfinite(threads) and per_core >= 2:
            allowed = membership([members.cpuset[row] for row in rows], max(1, int(threads)))
            shares = _sibling_use(members.use[rows, CPU], allowed, int(per_core))
            result[rows] = np.where(pinned[rows], shares, np.nan)
    return result


def _sibling_use(cpu_cores: Floats, allowed: NDArray[np.bool_], smt: int) -> Floats:
    """(k,) mean use by others of the sibling threads of each member's own; 0 where it holds whole cores."""
    threads = allowed.shape[1]
    cores = max(1, threads // smt)
    core_of = np.arange(threads) % cores
    core_held = np.zeros((len(allowed), cores), np.bool_)
    np.logical_or.at(core_held.T, core_of, allowed.T)
    siblings = core_held[:, core_of] & ~allowed
    spread = np.where(np.isfinite(cpu_cores), cpu_cores, 0.0) / allowed.sum(axis=1)
    by_thread = spread @ allowed
    count = siblings.sum(axis=1)
    return np.asarray((siblings * by_thread).sum(axis=1) / np.maximum(count, 1), np.float64)


def _groups(group: Ints, wanted: NDArray[np.bool_]) -> Sequence[Ints]:
    """Rows of each group in which some row is wanted; groups rise."""
    codes = np.unique(group[wanted])
    starts, ends = np.searchsorted(group, codes), np.searchsorted(group, codes, side="right")
    return [np.arange(start, end) for start, end in zip(starts, ends, strict=True)]


def _numa(members: Members, details: Details) -> Floats:
    """(n,) neighbours' memory traffic on a bound container's own NUMA node, as a share of that node's bandwidth.

    Neighbours that are not bound spread theirs evenly. NaN for containers that are not bound.
    """
    bound = np.isfinite(details.numa_node) & np.isfinite(details.numa_nodes)
    if not bound.any():
        return np.full(len(members.group), np.nan)
    use = members.use[:, MEMBW]
    spread = neighbour_sum(np.where(bound, 0.0, use / details.numa_nodes), members.group)
    own_node = np.where(bound, details.numa_node, -1.0).astype(np.int64)
    near = neighbour_sum(use, np.unique(members.group * (own_node.max() + 2) + own_node + 1, return_inverse=True)[1])
    return np.where(bound, (near + spread) / (members.capacity[:, MEMBW] / details.numa_nodes), np.nan)
