"""Feature catalogue of the placement model: names, units, monotone signs, order. The contract with models.

`RAW` is what the feature jobs and the live refresher compute; an unmeasured value is NaN. `complete` in
`features.training.model_input` fills what is missing and appends the interactions; `FEATURES` is that final order,
which the training table, the ONNX graphs and the scorer share.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Resource:
    """Something containers on a node share: what one uses of it, and how much the node has."""

    name: str
    usage: tuple[str, ...]
    capacity: str


RESOURCES = (
    Resource("cpu", ("cpu_cores",), "cores"),
    Resource("llc", ("llc_occupancy_bytes",), "llc_bytes"),
    Resource("memory_bandwidth", ("memory_bandwidth_bytes_s",), "memory_bandwidth_bytes_s"),
    Resource("memory", ("memory_bytes",), "memory_bytes"),
    Resource("disk", ("disk_read_bytes_s", "disk_write_bytes_s"), "disk_bytes_s"),
    Resource("disk_ios", ("disk_ios_s",), "disk_ios_s"),
    Resource("net", ("net_rx_bytes_s", "net_tx_bytes_s"), "nic_bytes_s"),
    Resource("gpu", ("gpu_sm_frac",), "gpus"),
    Resource("pcie", ("pcie_bytes_s",), "pcie_bytes_s"),
    Resource("rdma", ("rdma_bytes_s",), "rdma_bytes_s"),
)
NAMES = tuple(r.name for r in RESOURCES)


Known = Literal["profile", "residents", "node", "during"]
"""When a value is known: from the app's profile, from the residents' newest minutes or from the node's description, as
these had arrived by the decision; or only while the container runs, which is after it."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One column of a model's input.

    Args:
        name: column name.
        unit: unit of the value.
        sign: +1 where more of it may never lower the predicted slowdown, 0 where it may do either.
        base: whether the additive base model weighs it.
        known: when it is known; of an interaction, when the last of its parts is.
    """

    name: str
    unit: str
    sign: int = 0
    base: bool = False
    known: Known = field(kw_only=True)


PRESSURES = (*(f"pressure_{name}" for name in NAMES), "pressure_cpu_elsewhere")
"""Neighbours' use as a share of the node: of the container's own cores for cpu, of the other cores for the last."""
SENSITIVITIES = tuple(f"sensitivity_{name}" for name in NAMES)
DEMANDS = tuple(f"demand_{name}" for name in NAMES)
EXPECTED = (*SENSITIVITIES, *DEMANDS)
"""What is expected of an app of which it is not known, see features.profiles.cold_start_prior."""

RAW = (
    *(Feature(name, "share of the node", sign=1, base=True, known="residents") for name in PRESSURES),
    Feature("neighbours", "containers", sign=1, known="residents"),
    Feature("neighbours_be", "containers", sign=1, known="residents"),
    Feature("max_neighbour_cpu", "share of the node", sign=1, known="residents"),
    *(Feature(name, "slowdown - 1 per share of the node", known="profile") for name in SENSITIVITIES),
    *(Feature(name, "share of the node", known="profile") for name in DEMANDS),
    Feature("profile_cpi", "cycles/instruction", known="profile"),
    Feature("profile_llc_mpki", "1/1000 instructions", known="profile"),
    Feature("profile_qps", "1/s", known="profile"),
    Feature("profile_windows", "windows", known="profile"),
    Feature("node_cores", "cores", known="node"),
    Feature("node_frequency_ghz", "GHz", known="node"),
    Feature("node_llc_bytes_per_core", "bytes", known="node"),
    Feature("node_memory_bandwidth_bytes_s_per_core", "bytes/s", known="node"),
)
KNEE = 0.3
"""Share of the node up to which pressure is early, and beyond which late: harm may rise faster in either part."""
INTERACTIONS = (
    *(Feature(f"sensitive_{name}", "slowdown - 1", sign=1, base=True, known="residents") for name in NAMES),
    *(Feature(f"intense_{name}", "share of the node, squared", sign=1, base=True, known="residents") for name in NAMES),
    *(Feature(f"sensitive_early_{name}", "slowdown - 1", sign=1, base=True, known="residents") for name in NAMES),
    *(Feature(f"sensitive_late_{name}", "slowdown - 1", sign=1, base=True, known="residents") for name in NAMES),
)
"""Resource by resource: sensitivity and own demand x pressure; sensitivity x pressure up to KNEE, and beyond it."""
COMPOSITION = (
    *(f"max_neighbour_{name}" for name in NAMES if name != "cpu"),
    *(f"burst_{name}" for name in NAMES),
    *(f"pressure_be_{name}" for name in NAMES),
    "pressure_cpu_smt",
    "pressure_memory_bandwidth_numa",
    "neighbour_run_delay_frac",
)
"""Columns of features.contention.neighbour_mix; the busiest neighbour's CPU is among the pressures already."""
ORDERS = (1, 2, 4)
TOGETHER = tuple(f"harm_{order}" for order in ORDERS)
"""Columns of features.contention.co_runner_effects, one an order."""

MISSING = tuple(Feature(f"missing_{name}", "0 or 1", known="residents") for name in PRESSURES)
FEATURES = (*RAW, *INTERACTIONS, *MISSING)

RAW_NAMES = tuple(f.name for f in RAW)
FEATURE_NAMES = tuple(f.name for f in FEATURES)


def expected_name(name: str) -> str:
    """Column of table `training` with what would be expected of an app that never ran."""
    return f"expected_{name}"


def catalogue_hash() -> str:
    """Fingerprint of the catalogue; a bundle trained on another one is refused."""
    text = "\n".join(f"{f.name} {f.unit} {f.sign} {f.base}" for f in FEATURES)
    return hashlib.sha256(text.encode()).hexdigest()
