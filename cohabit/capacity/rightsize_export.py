"""Right-sizing export: recommendations as JSON, VPA objects and in-place resizes, for review; nothing is applied."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from math import isfinite

import orjson

from advisor.billing.pricing.price_book import PriceBook
from advisor.capacity.rightsize import MIB, Amount, Recommendation
from cohabit.capacity.rightsize_apps import Pod, Sized
from cohabit.capacity.tables import monthly_micros, why
from cohabit.config.errors import CohabitError

Object = dict[str, object]
OWNERS = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "ReplicaSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
}
"""API versions of workloads that a VerticalPodAutoscaler may target."""
ABOUT_NAMES = """\
# Amounts are of whole pods. The container has the app's name here: change it where yours has another one, and divide
# the amounts where a pod has several containers.
"""
ABOUT_VPA = f"""\
# Recommendations of Cohabit, for review. They are not applied: updateMode is Off, and a status is published by the
# recommender of the cluster alone. Read `target`, and change the requests of the workload.
{ABOUT_NAMES}"""
ABOUT_RESIZE = f"""\
# In-place resizes of Cohabit, for review. They change nothing until someone applies them, Kubernetes 1.33 or later:
#   kubectl apply --server-side --subresource resize -f FILE
# or pod by pod: kubectl patch pod NAME --subresource resize --patch '{{"spec": ...}}'
# A memory limit goes down in place only where the container's resizePolicy restarts it.
# The workload's own template keeps its requests: change it too, or new pods have the old ones.
{ABOUT_NAMES}"""


def as_json(sized: Sized, book: PriceBook | None) -> bytes:
    """All recommendations with what they rest on; null where something is not known."""
    apps = [
        asdict(one)
        | {"saved_cpu_share": one.cpu.saved_share, "saved_memory_share": one.memory.saved_share, "why": why(one)}
        | ({} if book is None else {"saved_micros_a_month": monthly_micros(one, book), "currency": book.currency})
        for one in sized.found
    ]
    looked = {name: getattr(sized, name) for name in ("start", "until", "minutes", "containers", "unnamed", "labelled")}
    return orjson.dumps({**looked, "apps": apps}, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def as_vpa(sized: Sized) -> tuple[str, int]:
    """VerticalPodAutoscalers with a recommendation in their status, and how many they are."""
    sized_apps = {one.app: one for one in sized.found if not one.reason}
    targets = dict.fromkeys((pod.app, pod.namespace, pod.owner) for pod in sized.pods if pod.app in sized_apps)
    objects = [_vpa(sized_apps[app], namespace, owner) for app, namespace, owner in targets if _kind(owner) in OWNERS]
    return _yaml(ABOUT_VPA, objects), len(objects)


def _kind(owner: str) -> str:
    return owner.partition("/")[0]


def _vpa(one: Recommendation, namespace: str, owner: str) -> Object:
    kind, _, name = owner.partition("/")
    container: Object = {"containerName": _container(one.app)}
    for bound, of in (("target", _target), ("lowerBound", _low), ("upperBound", _high)):
        container[bound] = _quantities(of(one.cpu), of(one.memory))
    where = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": where | {"annotations": _annotations(one)},
        "spec": {
            "targetRef": {"apiVersion": OWNERS[kind], "kind": kind, "name": name},
            "updatePolicy": {"updateMode": "Off"},
        },
        "status": {"recommendation": {"containerRecommendations": [container]}},
    }


def _annotations(one: Recommendation) -> Mapping[str, str]:
    return {
        "cohabit.io/risk": f"{one.risk:g}",
        "cohabit.io/minutes": f"{one.cpu.windows}",
        "cohabit.io/days": f"{one.days}",
        "cohabit.io/why": why(one),
    }


def as_resizes(sized: Sized) -> tuple[str, int]:
    """Pods with the requests to resize them to, and how many they are."""
    sized_apps = {one.app: one for one in sized.found if not one.reason}
    objects = [_resize(sized_apps[pod.app], pod) for pod in sized.pods if pod.app in sized_apps and pod.name]
    return _yaml(ABOUT_RESIZE, objects), len(objects)


def _resize(one: Recommendation, pod: Pod) -> Object:
    resources: Object = {"requests": _quantities(one.cpu.recommended, one.memory.recommended)}
    limits = _quantities(*(a.recommended if _binds(a) else float("nan") for a in (one.cpu, one.memory)))
    if limits:
        resources["limits"] = limits
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod.name} | ({"namespace": pod.namespace} if pod.namespace else {}),
        "spec": {"containers": [{"name": _container(one.app), "resources": resources}]},
    }


def _binds(amount: Amount) -> bool:
    """Whether the limit changes with the request: it would lie below it, or is the same now (class Guaranteed)."""
    return isfinite(amount.limit) and (amount.recommended > amount.limit or amount.request == amount.limit)


def _container(app: str) -> str:
    return app.rpartition("/")[2]


def _target(amount: Amount) -> float:
    return amount.recommended


def _low(amount: Amount) -> float:
    return min(amount.low, amount.recommended)


def _high(amount: Amount) -> float:
    return max(amount.high, amount.recommended)


def _quantities(cores: float, amount_bytes: float) -> dict[str, str]:
    """Kubernetes quantities, rounded up; what is not known is left out."""
    found = {}
    if isfinite(cores):
        found["cpu"] = f"{-int(-cores * 1000 // 1)}m"
    if isfinite(amount_bytes):
        found["memory"] = f"{-int(-amount_bytes / MIB // 1)}Mi"
    return found


def _yaml(about: str, objects: Iterable[Object]) -> str:
    """Documents of YAML under a comment.

    Raises:
        CohabitError: PyYAML is missing.
    """
    try:
        import yaml
    except ImportError as error:
        raise CohabitError(
            "--export writes YAML with PyYAML, which the serve extra brings: pip install pyyaml"
        ) from error
    return about + "".join(_documents(yaml.safe_dump(one, sort_keys=False, width=1000) for one in objects))


def _documents(texts: Iterator[str]) -> Iterator[str]:
    return (f"---\n{text}" for text in texts)
