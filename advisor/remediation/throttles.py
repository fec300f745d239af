"""Throttles: how a best-effort container is held back in one resource, in the words of who does it. Kernel.

Held to a share of what it uses of a resource a container does that share of its work, at worst; that is what a throttle
costs, and the share of its doing through that resource goes away with the rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from advisor.remediation.action import SUFFICES, Field, Kind, Remedy, remedy_of
from advisor.remediation.benefit import NOTHING, Amount, Hurt, relief, sufficient
from advisor.scoring.score_scale import BE_WEIGHT

KEPT = (0.8, 0.6, 0.4, 0.2, 0.1)
"""Shares of its use that a container is left, tried from mild to hard."""
CPU_PERIOD_US = 100_000
WAYS = 20
"""Of a last-level cache, about; the mask of a class has to have one at least."""
LEAST_BANDWIDTH_PERCENT = 10
"""Of Intel's memory bandwidth allocation."""


@dataclass(frozen=True, slots=True)
class Throttled:
    """A container that may be held back.

    Args:
        container: it.
        resource: through which it presses on its neighbours.
        used: in units of the resource: cores, bytes, bytes a second, operations a second.
        capacity: what the node has of it.
        hurt: whom it slows down; of each only what goes through the resource.
    """

    container: str
    resource: str
    used: float
    capacity: float
    hurt: Sequence[Hurt]


def _cpu(limit: float, _share: float) -> tuple[Field, ...]:
    quota = max(1000, round(limit * CPU_PERIOD_US))
    return (
        Field("cgroup", "cpu.max", f"{quota} {CPU_PERIOD_US}"),
        Field("cgroup", "cpu.weight", "1"),
        Field("pod", "resources.limits.cpu", f"{max(1, round(limit * 1000))}m"),
    )


def _cache(_limit: float, share: float) -> tuple[Field, ...]:
    ways = max(1, min(WAYS, round(share * WAYS)))
    return (
        Field("resctrl", "schemata", f"L3:0={(1 << ways) - 1:x}"),
        Field("NodeSLO", "resourceQOSStrategy.beClass.resctrlQOS.catRangeEndPercent", f"{100 * ways // WAYS}"),
    )


def _bandwidth(_limit: float, share: float) -> tuple[Field, ...]:
    percent = max(LEAST_BANDWIDTH_PERCENT, round(share * 10) * 10)
    return (
        Field("resctrl", "schemata", f"MB:0={percent}"),
        Field("NodeSLO", "resourceQOSStrategy.beClass.resctrlQOS.mbaPercent", f"{percent}"),
    )


def _memory(limit: float, _share: float) -> tuple[Field, ...]:
    return (Field("cgroup", "memory.high", f"{round(limit)}"),)


def _disk(limit: float, _share: float) -> tuple[Field, ...]:
    each = max(1, round(limit / 2))
    return (Field("cgroup", "io.max", f"MAJ:MIN rbps={each} wbps={each}"), Field("cgroup", "io.weight", "default 1"))


def _disk_ios(limit: float, _share: float) -> tuple[Field, ...]:
    each = max(1, round(limit / 2))
    return (Field("cgroup", "io.max", f"MAJ:MIN riops={each} wiops={each}"), Field("cgroup", "io.weight", "default 1"))


def _network(limit: float, _share: float) -> tuple[Field, ...]:
    megabits = f"{max(1, round(8 * limit / 2 / 1e6))}M"
    return tuple(
        Field("pod", f"metadata.annotations[kubernetes.io/{way}-bandwidth]", megabits) for way in ("ingress", "egress")
    )


THROTTLES: dict[str, tuple[Kind, Callable[[float, float], tuple[Field, ...]]]] = {
    "cpu": ("cpu.max", _cpu),
    "cpu elsewhere": ("cpu.max", _cpu),
    "llc": ("cache class", _cache),
    "memory_bandwidth": ("bandwidth class", _bandwidth),
    "memory": ("memory.high", _memory),
    "disk": ("io.max", _disk),
    "disk_ios": ("io.max", _disk_ios),
    "net": ("network limit", _network),
}
"""By resource what it is held back with; of the others, GPU, PCIe and RDMA, a container is held back with nothing."""


def throttle(of: Throttled, hours: float) -> Remedy | None:
    """The mildest throttle that is sufficient for the first one it slows down; the hardest if none is.

    Args:
        of: a best-effort container, its first victim being the one that is to be helped.
        hours: for how long it would be held back.

    Returns:
        The remedy; None where nothing holds back that resource, or it is not known how much is used.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0043-rescheduling.md.
    """
    if of.resource not in THROTTLES or not of.used > 0:
        return None
    kept = next((k for k in KEPT if sufficient(of.hurt[0], 1.0 - k) >= SUFFICES), KEPT[-1])
    kind, fields = THROTTLES[of.resource]
    gain: Amount = sum((relief(one, 1.0 - kept) for one in of.hurt), NOTHING)
    share = kept * of.used / of.capacity if of.capacity > 0 else kept
    return remedy_of(
        kind,
        of.container,
        gain,
        cost=BE_WEIGHT * (1.0 / kept - 1.0) * hours,
        sufficient=sufficient(of.hurt[0], 1.0 - kept),
        why=f"limits it to {kept:.0%} of the {of.resource} it uses; its work takes up to {1 / kept:.2g} times as long",
        fields=fields(kept * of.used, share),
        kept=kept,
    )
