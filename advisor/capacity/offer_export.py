"""Offer export: offers in the forms that schedulers and autoscalers read. Kernel; nothing is applied."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from advisor.capacity.offers import NodeOffer

HOUR_S, DAY_S = 3600, 86_400
Patch = Mapping[str, Any]
"""`node`, the `type` of the patch as kubectl calls it, `subresource` or "", and the `patch`."""
KOORDINATOR = {("cpu", HOUR_S): "batch-cpu", ("memory", HOUR_S): "batch-memory"} | {
    ("cpu", DAY_S): "mid-cpu",
    ("memory", DAY_S): "mid-memory",
}
"""Names under kubernetes.io/; batch is for an hour, mid for a day."""
EXTENDED = {("cpu", HOUR_S): "revocable-cpu", ("memory", HOUR_S): "revocable-memory"}
"""Names under cohabit.io/, where Koordinator's manager does not run."""


def quantity(one: NodeOffer) -> str:
    """A node's whole offer as Koordinator writes it: milli-cores or bytes, rounded down.

    What best-effort containers hold is part of it, since schedulers subtract their requests.
    """
    return str(int(one.total * 1000) if one.resource == "cpu" else int(one.total))


def koordinator(offers: Sequence[NodeOffer]) -> list[Patch]:
    """JSON patches of node status: batch-cpu and batch-memory of an hour, mid-cpu and mid-memory of a day.

    Source: Koordinator, apis/extension/resource.go; batch-cpu counts milli-cores.
    """
    return _status(offers, "kubernetes.io", KOORDINATOR)


def extended(offers: Sequence[NodeOffer]) -> list[Patch]:
    """JSON patches of node status, of an hour: cohabit.io/revocable-cpu in milli-cores, revocable-memory in bytes."""
    return _status(offers, "cohabit.io", EXTENDED)


def annotations(offers: Sequence[NodeOffer]) -> list[Patch]:
    """Merge patches of node annotations for autoscalers: cohabit.io/headroom-cpu-3600s and alike, in cores or bytes."""

    def metadata(some: Sequence[NodeOffer]) -> object:
        named = {f"cohabit.io/headroom-{one.resource}-{one.horizon_s}s": _rounded_down(one) for one in some}
        return {"metadata": {"annotations": named}}

    return [
        {"node": node, "type": "merge", "subresource": "", "patch": metadata(some)} for node, some in _by_node(offers)
    ]


def prometheus_text(cluster: str, at_us: int, offers: Sequence[NodeOffer]) -> str:
    """Metrics in Prometheus' text format, for a textfile collector: sums and nodes by pool, without names of nodes."""
    lines = list[str]()
    for name, kind, value in (
        ("cohabit_headroom_offered", "cores or bytes that best-effort containers may request in addition", _total),
        ("cohabit_headroom_nodes", "nodes that offer something", _some),
        ("cohabit_headroom_nodes_unknown", "nodes without an offer: closed, or too little is known", _unknown),
    ):
        lines += [f"# HELP {name} {kind}", f"# TYPE {name} gauge"]
        for (pool, resource, horizon_s), some in _by_pool(offers):
            labels = {"cluster": cluster, "pool": pool, "resource": resource, "horizon_s": str(horizon_s)}
            shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
            lines.append(f"{name}{{{shown}}} {value(some):.10g}")
    name = "cohabit_headroom_measured_timestamp_seconds"
    lines += [f"# HELP {name} time of the newest measurement behind the offers", f"# TYPE {name} gauge"]
    lines.append(f'{name}{{cluster="{_escaped(cluster)}"}} {at_us / 1e6:.3f}')
    return "\n".join([*lines, ""])


EXPORTS: Mapping[str, Callable[[Sequence[NodeOffer]], list[Patch]]] = {
    "koordinator": koordinator,
    "extended": extended,
    "annotations": annotations,
}


def _status(offers: Sequence[NodeOffer], prefix: str, names: Mapping[tuple[str, int], str]) -> list[Patch]:
    def operations(some: Sequence[NodeOffer]) -> list[Mapping[str, str]]:
        return [
            {"op": "add", "path": f"/status/{where}/{prefix}~1{names[key]}", "value": quantity(one)}
            for one in some
            if (key := (one.resource, one.horizon_s)) in names
            for where in ("capacity", "allocatable")
        ]

    found = [(node, operations(some)) for node, some in _by_node(offers)]
    return [{"node": node, "type": "json", "subresource": "status", "patch": patch} for node, patch in found if patch]


def _rounded_down(one: NodeOffer) -> str:
    """Cores to the milli-core, or whole bytes."""
    return f"{int(one.offered * 1000) / 1000:.3f}" if one.resource == "cpu" else str(int(one.offered))


def _by_node(offers: Iterable[NodeOffer]) -> list[tuple[str, list[NodeOffer]]]:
    ordered = sorted(offers, key=lambda one: (one.node, one.resource, one.horizon_s))
    return [(node, list(some)) for node, some in groupby(ordered, key=lambda one: one.node)]


def _by_pool(offers: Iterable[NodeOffer]) -> list[tuple[tuple[str, str, int], list[NodeOffer]]]:
    def key(one: NodeOffer) -> tuple[str, str, int]:
        return one.pool, one.resource, one.horizon_s

    return [(of, list(some)) for of, some in groupby(sorted(offers, key=key), key=key)]


def _total(some: Sequence[NodeOffer]) -> float:
    return sum(one.offered for one in some)


def _some(some: Sequence[NodeOffer]) -> float:
    return sum(one.offered > 0 for one in some)


def _unknown(some: Sequence[NodeOffer]) -> float:
    return sum(one.peak is None for one in some)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
