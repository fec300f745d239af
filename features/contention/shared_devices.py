"""Shared devices: use of a GPU that several pods share, counted once. Kernel.

Where pods share a GPU by time slicing, MPS or virtual GPUs, dcgm-exporter repeats for each of them what the whole
device does. Without its option --kubernetes-virtual-gpus one of them has it all, and nothing shows that others use it.
HAMi measures what each container does, which stays as it is; copies of the whole device are then no pod's use.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.columnar.arrow_columns import Floats, Ints
from features.columnar.composite_keys import dense, joint, ranks
from features.contention.pod_metrics import AT
from features.contention.series_minutes import Bools, Cells, Sampled
from ingest.schema.tables import DCGM, HAMI

OF_DEVICES = ("gpu_sm_frac", "gpu_memory_bytes", "gpu_dram_frac", "pcie_bytes_s")
COMPUTE, OWN_USE = AT["gpu_sm_frac"], "gpu_util_frac"
PART = r"^[rt]x/"
"""In a series before the device: the direction."""
EQUAL = 1e-9


def shared_once(sampled: Sampled, cells: Cells) -> tuple[Cells, Cells]:
    """The cells, those of a device that several pods report alike divided among them.

    Args:
        sampled: what the cells' rows are of.
        cells: of one reporter for each pod, metric and minute; series name the device, perhaps after a direction.

    Returns:
        The cells in the same order, and those of COMPUTE among them that are equal shares: which pod did it is unknown.

        Equal values of one device, metric and minute in several pods are the device's: each pod has its share by
        OWN_USE where that differs between them, as dcgm-exporter reports processes', else an equal one. Values that
        differ are each pod's own, and stay. What dcgm-exporter says of pods on a node where HAMi measures the metric in
        that minute is left out: a pod that HAMi does not name has not used the GPU yet.

    Source: NVIDIA/dcgm-exporter, internal/pkg/transformation, issues 307, 582, 587 and 594.
    """
    cells = _measured(sampled, cells)
    metric = sampled.metric[cells.row]
    of_gpus = np.isin(metric, [AT[name] for name in (*OF_DEVICES, OWN_USE)])
    own_alone = np.asarray(pc.is_in(sampled.rows["exporter"], pa.array(HAMI)))[cells.row]
    chosen = np.flatnonzero(of_gpus & ~own_alone & np.isfinite(cells.value))
    if not len(chosen):
        return cells, _taken(cells, chosen)
    row, value = cells.row[chosen], cells.value[chosen]
    device = dense(joint([*_device(sampled, row), cells.minute[chosen]]))
    own = metric[chosen] == AT[OWN_USE]
    group = dense(joint([device, metric[chosen]]))
    pods, alike = _pods(group, sampled.pod[row]), _alike(group, value)
    weight = _weights(device, sampled.pod[row], own & ~alike, value)
    share = np.where(np.isfinite(weight), weight, 1 / pods)
    shared = ~own & alike & (pods > 1)
    values = cells.value.copy()
    values[chosen[shared]] = (value * share)[shared]
    divided = Cells(cells.row, cells.minute, values)
    guessed = shared & ~np.isfinite(weight) & (value > 0) & (metric[chosen] == COMPUTE)
    return divided, _taken(divided, chosen[guessed])


def _measured(sampled: Sampled, cells: Cells) -> Cells:
    """The cells without those that HAMi's stand for."""
    exporter = sampled.rows["exporter"].take(pa.array(cells.row))
    own = np.asarray(pc.is_in(exporter, pa.array(HAMI)))
    if not own.any():
        return cells
    rows = sampled.rows.take(pa.array(cells.row))
    place = dense(joint([ranks(rows["cluster"]), ranks(rows["node"]), sampled.metric[cells.row], cells.minute]))
    measured = np.bincount(place, own) > 0
    kept = ~(measured[place] & np.asarray(pc.is_in(exporter, pa.array(DCGM))))
    return _taken(cells, np.flatnonzero(kept))


def _taken(cells: Cells, which: Ints) -> Cells:
    return Cells(cells.row[which], cells.minute[which], cells.value[which])


def _device(sampled: Sampled, row: Ints) -> tuple[Ints, Ints, Ints]:
    """(n,) codes of cluster, node and device."""
    rows = sampled.rows.take(row)
    return ranks(rows["cluster"]), ranks(rows["node"]), ranks(pc.replace_substring_regex(rows["series"], PART, ""))


def _pods(group: Ints, pod: Ints) -> Ints:
    """(n,) how many pods are in each row's group."""
    pairs = np.unique(np.stack([group, dense(pod)]), axis=1)
    return np.bincount(pairs[0], minlength=int(group.max()) + 1)[group]


def _alike(group: Ints, value: Floats) -> Bools:
    """(n,) whether all values of each row's group are equal."""
    low, high = np.full(int(group.max()) + 1, np.inf), np.full(int(group.max()) + 1, -np.inf)
    np.minimum.at(low, group, value)
    np.maximum.at(high, group, value)
    alike: Bools = high - low <= EQUAL * np.abs(high)
    return alike[group]


def _weights(device: Ints, pod: Ints, counts: Bools, value: Floats) -> Floats:
    """(n,) share of each row's pod of its device by what `counts`; NaN where that says nothing."""
    key = dense(joint([device, dense(pod)]))
    size = int(key.max()) + 1
    there = np.bincount(key, counts, size) > 0
    own = np.where(there, np.bincount(key, np.where(counts, value, 0.0), size), np.nan)
    total = np.bincount(device, np.where(counts, value, 0.0))[device]
    return np.where(total > 0, own[key] / np.where(total > 0, total, 1.0), np.nan)
