"""A Kubernetes node as a row of `nodes`. Kernel: no clock; every time is the node's own."""

from datetime import datetime
from fractions import Fraction

from ingest.kube.api_types import Metadata, Node, Record, Taint
from ingest.kube.gpus import gpus_in
from ingest.kube.quantity import extended

PLATFORM = ("cohabit.io/platform",)
CPU_MODEL = tuple(f"feature.node.kubernetes.io/cpu-model.{part}" for part in ("vendor_id", "family", "id"))
"""Labels of Node Feature Discovery."""
SKU = ("cohabit.io/sku", "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
ZONE = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
RACK = ("cohabit.io/rack", "topology.kubernetes.io/rack", "rack")
POOL = (
    *("cohabit.io/pool", "karpenter.sh/nodepool", "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup"),
    *("kubernetes.azure.com/agentpool", "alibabacloud.com/nodepool-id"),
)


def node_facts(node: Node, cluster: str) -> Record:
    """What the node says of itself, without the time.

    Out: columns of `nodes`; what it does not say is left out.
    """
    meta = node.metadata
    record: Record = {
        "cluster": cluster,
        "node": meta.name,
        "platform": platform_of(node),
        "cores": _amount(node.capacity.get("cpu")),
        "memory_bytes": _amount(node.capacity.get("memory")),
        "allocatable_cores": _amount(node.allocatable.get("cpu")),
        "allocatable_memory_bytes": _amount(node.allocatable.get("memory")),
        "allocatable_pods": _amount(node.allocatable.get("pods")),
        "allocatable_extended": extended(node.allocatable) if node.allocatable else None,
        "gpus": float(gpus_in(node.capacity)) if node.capacity else None,
        "zone": meta.first(ZONE),
        "rack": meta.first(RACK),
        "pool": meta.first(POOL),
        "sku": meta.first(SKU),
        "labels": meta.labels,
        "taints": [taint_text(taint) for taint in node.taints],
    }
    return {name: value for name, value in record.items() if value is not None}


def platform_of(node: Node) -> str | None:
    """CPU model, as closely as the node shows: our label, Node Feature Discovery, what is bought, the architecture."""
    meta = node.metadata
    model = [meta.labels.get(label, "") for label in CPU_MODEL]
    discovered = "-".join(model) if all(model) else None
    return meta.first(PLATFORM) or discovered or meta.first(SKU) or node.architecture or None


def taint_text(taint: Taint) -> str:
    """key=value:effect, without = where there is no value."""
    return f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}"


def reported_at(meta: Metadata) -> datetime | None:
    """When the node last said something of itself or was written to, else when it came; None where it says neither."""
    return max((field.time for field in meta.managed_fields if field.time), default=meta.creation_timestamp)


def _amount(amount: Fraction | None) -> float | None:
    return None if amount is None else float(amount)
