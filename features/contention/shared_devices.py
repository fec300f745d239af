"""Shared devices: use of a GPU that several containers share, counted once. Kernel.

Where containers share a GPU by time slicing, MPS or virtual GPUs, dcgm-exporter repeats for each of them what the whole
device does. Without its option --kubernetes-virtual-gpus one of them has it all, and nothing shows that others use it.
HAMi measures what each container does, which stays as it is; copies of the whole device are then no container's use.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.columnar.arrow_columns import Floats, Ints, floats, numbers
from features.columnar.composite_keys import dense, joint, ranks
from features.contention.pod_metrics import AT
from features.contention.series_minutes import OF_DEVICES, Bools, Sampled
from ingest.schema.tables import DCGM, HAMI

COMPUTE, MEMORY, OWN_USE = AT["gpu_sm_frac"], AT["gpu_memory_bytes"], AT["gpu_util_frac"]
COPIED = np.array([AT[name] for name in OF_DEVICES])
PART = r"^[rt]x/"
"""In a series before the device: the direction."""
UUID = r"(?P<uuid>GPU-[0-9A-Za-z-]+)"
"""In a series: which GPU of all."""
EQUAL = 1e-9


def shared_once(sampled: Sampled) -> tuple[Sampled, Bools]:
    """The samples, those of a device that several containers report alike divided among them.

    Returns:
        The samples in the same order, and (n,) which of them are equal shares of COMPUTE: who did it is unknown.

        Equal values of one device, metric and time in several containers are the device's: each has its share by
        OWN_USE where that differs between them, as dcgm-exporter reports processes', and no value if it alone lacks
        that; else each has an equal one. Values that differ are each container's own, and stay, and so does memory
        where use is by process. What dcgm-exporter says of a device that HAMi measures in that minute is left out: a
        pod that HAMi does not name has not used the GPU yet.

    Source: NVIDIA/dcgm-exporter, internal/pkg/transformation, issues 307, 582, 587 and 594.
    """
    if not np.isin(sampled.metric, COPIED).any():
        return sampled, np.zeros(sampled.rows.num_rows, np.bool_)
    sampled = _measured(sampled)
    exporter = sampled.rows["exporter"]
    value = floats(sampled.rows["value"]).copy()
    of_gpus = np.isin(sampled.metric, [*COPIED, OWN_USE]) & np.isfinite(value)
    chosen = np.flatnonzero(of_gpus & ~np.asarray(pc.is_in(exporter, pa.array(HAMI))))
    guessed = np.zeros(len(value), np.bool_)
    if not len(chosen):
        return sampled, guessed
    metric, holder, own_value = sampled.metric[chosen], dense(sampled.container[chosen]), value[chosen]
    moment = dense(joint([_device(sampled, chosen), ranks(sampled.rows["ts"].take(pa.array(chosen)))]))
    group = dense(joint([moment, metric, ranks(exporter.take(pa.array(chosen)))]))
    own, alike, holders = metric == OWN_USE, _alike(group, own_value), _holders(group, holder)
    weight, is_reported = _weights(moment, holder, own & ~alike, own_value)
    divided = ~own & alike & (holders > 1) & ~((metric == MEMORY) & is_reported)
    value[chosen[divided]] = (own_value * np.where(is_reported, weight, 1 / holders))[divided]
    guessed[chosen[divided & ~is_reported & (own_value > 0) & (metric == COMPUTE)]] = True
    place = sampled.rows.schema.get_field_index("value")
    return Sampled(sampled.rows.set_column(place, "value", numbers(value))), guessed


def uuids(series: pa.ChunkedArray) -> pa.ChunkedArray:
    """(n,) UUID of the GPU in each series; null where it has none."""
    return pc.struct_field(pc.extract_regex(series, UUID), "uuid")


def _measured(sampled: Sampled) -> Sampled:
    """The samples without those of devices that HAMi's stand for."""
    exporter = sampled.rows["exporter"]
    hami, dcgm = (np.asarray(pc.is_in(exporter, pa.array(names))) for names in (HAMI, DCGM))
    if not hami.any() or not dcgm.any():
        return sampled
    uuid = uuids(sampled.rows["series"])
    place = dense(joint([ranks(sampled.rows["cluster"]), ranks(uuid), sampled.metric, sampled.minute]))
    measured = np.bincount(place, hami & np.asarray(pc.is_valid(uuid))) > 0
    return Sampled(sampled.rows.filter(pa.array(~(measured[place] & dcgm))))


def _device(sampled: Sampled, row: Ints) -> Ints:
    """(n,) codes of devices: by their UUID, where the series has it, whatever the node is called."""
    rows = sampled.rows.take(pa.array(row))
    device = pc.replace_substring_regex(rows["series"], PART, "")
    is_named = np.asarray(pc.fill_null(pc.match_substring_regex(device, UUID), fill_value=False))
    node = np.where(is_named, 0, ranks(rows["node"]) + 1)
    return joint([ranks(rows["cluster"]), node, ranks(device)])


def _holders(group: Ints, holder: Ints) -> Ints:
    """(n,) how many containers are in each row's group."""
    pairs = np.unique(np.stack([group, holder]), axis=1)
    return np.bincount(pairs[0], minlength=int(group.max()) + 1)[group]


def _alike(group: Ints, value: Floats) -> Bools:
    """(n,) whether all values of each row's group are equal."""
    low, high = np.full(int(group.max()) + 1, np.inf), np.full(int(group.max()) + 1, -np.inf)
    np.minimum.at(low, group, value)
    np.maximum.at(high, group, value)
    alike: Bools = high - low <= EQUAL * np.abs(high)
    return alike[group]


def _weights(moment: Ints, holder: Ints, counts: Bools, value: Floats) -> tuple[Floats, Bools]:
    """(n,) share of each row's container of its device by what `counts`, and whether any of the device's has one."""
    key = dense(joint([moment, holder]))
    size = int(key.max()) + 1
    there = np.bincount(key, counts, size) > 0
    own = np.where(there, np.bincount(key, np.where(counts, value, 0.0), size), np.nan)
    total = np.bincount(moment, np.where(counts, value, 0.0))[moment]
    return own[key] / np.where(total > 0, total, np.nan), total > 0
