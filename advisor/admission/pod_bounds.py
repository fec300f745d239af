"""Pod bounds: how much of a pod is read before it is created. Kernel.

kube-apiserver waits, and one event loop answers: what no real pod has is refused before it is validated.
"""

from collections.abc import Iterator, Mapping

from advisor.errors import BadRequest

MAX_POD_BYTES = 1 << 20
"""JSON of a pod: annotations may hold a quarter of that, and escapes make text longer."""
MAX_CONTAINERS = 256
"""With init containers."""
MAX_AMOUNTS = 4096
"""Requests and limits of all containers."""
MAX_ENTRIES = 512
"""Each of tolerations, volumes, owner references, and other lists that are read."""
MAX_RULES = 1000
"""Values in affinity, node selector and spread constraints together."""
MAX_LABELS = 2000
LISTS = ("tolerations", "volumes", "schedulingGates")
RULES = ("affinity", "nodeSelector", "topologySpreadConstraints")


def check_bounds(pod: Mapping[str, object]) -> None:
    """Refuse a pod that would take long to read.

    Args:
        pod: its JSON, not yet validated.

    Raises:
        BadRequest: something is more than any real pod has.

    Source: ours.
    """
    meta, spec, status = (_object(pod.get(name)) for name in ("metadata", "spec", "status"))
    for what, count, most in _counted(meta, spec, status):
        if count > most:
            raise BadRequest(f"cannot read the pod: it has more than {most} {what}; no advice for it")


def _counted(
    meta: Mapping[str, object], spec: Mapping[str, object], status: Mapping[str, object]
) -> Iterator[tuple[str, int, int]]:
    """What is counted, how much there is of it, and the most of it; cheap counts first."""
    found = [one for name in ("containers", "initContainers") for one in _list(spec.get(name))]
    yield "containers", len(found), MAX_CONTAINERS
    yield "requests and limits", sum(map(_amounts, [*found, spec])), MAX_AMOUNTS
    for name in LISTS:
        yield name, len(_list(spec.get(name))), MAX_ENTRIES
    for name in ("ownerReferences", "managedFields"):
        yield name, len(_list(meta.get(name))), MAX_ENTRIES
    for name, of in status.items():
        yield name[:40], len(_list(of)), MAX_ENTRIES
    yield "labels", len(_object(meta.get("labels"))), MAX_LABELS
    yield "values in affinity and selectors", _values([spec.get(name) for name in RULES], MAX_RULES), MAX_RULES


def _amounts(of: object) -> int:
    """Number of requests and limits; a pod's own and its overhead count too."""
    known = _object(of)
    resources = _object(known.get("resources"))
    return sum(len(_object(one)) for one in (resources.get("requests"), resources.get("limits"), known.get("overhead")))


def _values(of: object, enough: int) -> int:
    """Number of plain values and empty objects or lists inside; counting ends beyond `enough`."""
    waiting, count = [of], 0
    while waiting and count <= enough:
        one = waiting.pop()
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        count += not inner
        waiting.extend(inner)
    return count


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
