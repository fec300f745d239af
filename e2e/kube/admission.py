"""Admission: the unmodified kube-scheduler and kube-apiserver with the webhook, alive and dead. An edge."""

import base64
import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, time_ns
from typing import Any

import msgspec
import numpy as np
import yaml

from advisor.admission.preference import PREFERRED, WOULD_ADVISE
from benchmarks.serving import CLASSES
from cohabit.server.webhook_certificate import WebhookFiles, write_webhook_files
from e2e.kube.advisor import advisor
from e2e.kube.api import PODS, THREADS, Api, numbered
from e2e.kube.control_plane import scheduler_of
from e2e.kube.cpu_times import CpuTimes
from e2e.kube.errors import Refused
from e2e.kube.processes import Running, free_ports
from e2e.kube.runs import Outcome, Plan, create_pods, outcome_of, until_bound
from e2e.kube.scheduler_log import SchedulerLog
from ingest.schema.workload_identity import ADVICE

MANIFEST = Path(__file__).parents[2] / "deploy" / "kubernetes" / "admission" / "admission.yaml"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
NAME = "localhost"
MIN_LISTED, MIN_TOP, MAX_CREATE_S = 0.7, 0.25, 1.1
"""Shares of advised pods on a listed node and on the best one, and p99 of a create with the webhook dead."""
DEAD_PODS = 200


@dataclass(frozen=True)
class Followed:
    """Where pods went whose best nodes were known at their creation.

    Args:
        mode: `advise`, or `annotate` where pods carry no terms.
        bound: pods with a node.
        named: of these, pods with a list.
        listed: on a listed node.
        top: on the best one.
    """

    mode: str
    bound: int
    named: int
    listed: int
    top: int


@dataclass(frozen=True)
class Creates:
    """Pods that were created while the webhook did not answer."""

    failed: int
    seconds: Sequence[float]

    @property
    def p99_s(self) -> float:
        """NaN without any."""
        return float(np.quantile(self.seconds, 0.99)) if self.seconds else float("nan")


def followed(plan: Plan, mode: str, pair: int = 0) -> tuple[Outcome, Followed, Creates]:
    """All pods with the webhook in a mode; then it is killed, and some more are created."""
    [port, webhook] = free_ports(2)
    files = write_webhook_files(
        plan.folder / f"{mode}-{pair}-tls", [NAME], 1, datetime.fromtimestamp(time_ns() / 1e9, UTC)
    )
    with (
        plan.plane(f"admission-{mode}-{pair}") as plane,
        _advised(plan, mode, pair, (port, webhook), files) as process,
    ):
        plane.api.ask(plane.api.connection(), "POST", WEBHOOKS, configuration(MANIFEST.read_text(), webhook, files.ca))
        process.until(lambda: _is_asked(plane.api), 60.0)
        create_pods(plane, "pod", plan.pods)
        before = CpuTimes.now()
        with plane.scheduler_by(scheduler_of([], plane.kubeconfig)) as scheduler:
            log = SchedulerLog(scheduler.log)
            until_bound(log, plan.pods)
            cpu_s = CpuTimes.now().since(before)
        outcome = outcome_of(f"at admission, {mode}", plane, log, plan.pods, cpu_s=cpu_s)
        found = tally(mode, plane.api.ask(plane.api.connection(), "GET", PODS))
        process.kill()
        return outcome, found, timed_creates(plane.api, DEAD_PODS)


def configuration(manifest: str, port: int, ca: Path) -> bytes:
    """The MutatingWebhookConfiguration of the manifests, for a listener on loopback."""
    [made] = (one for one in yaml.safe_load_all(manifest) if one["kind"] == "MutatingWebhookConfiguration")
    bundle = base64.b64encode(ca.read_bytes()).decode()
    made["webhooks"][0]["clientConfig"] = {"url": f"https://{NAME}:{port}/admission", "caBundle": bundle}
    return json.dumps(made).encode()


def timed_creates(api: Api, count: int) -> Creates:
    """Create pods, several at a time, and measure each."""

    def create(body: bytes) -> float | None:
        began = perf_counter()
        try:
            api.ask(api.connection(), "POST", PODS, body)
        except (OSError, Refused):
            return None
        return perf_counter() - began

    with ThreadPoolExecutor(THREADS) as pool:
        took = list(pool.map(create, numbered("dead", count, lambda i: CLASSES[i % len(CLASSES)])))
    return Creates(took.count(None), [one for one in took if one is not None])


class _Metadata(msgspec.Struct):
    annotations: dict[str, str] = {}


class _Spec(msgspec.Struct):
    nodeName: str = ""  # noqa: N815
    affinity: dict[str, Any] = {}


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class _Pods(msgspec.Struct):
    items: list[_Pod]


def tally(mode: str, pods: bytes) -> Followed:
    """Where the pods of a PodList are, by what they were advised or would have been."""
    bound = [pod for pod in msgspec.json.decode(pods, type=_Pods).items if pod.spec.nodeName]
    named = [(pod.spec.nodeName, nodes) for pod in bound if (nodes := _nodes(pod))]
    listed, top = sum(node in nodes for node, nodes in named), sum(node == nodes[0] for node, nodes in named)
    return Followed(mode, len(bound), len(named), listed, top)


def _nodes(pod: _Pod) -> list[str]:
    """Preferred nodes, the best first; none without advice."""
    notes = pod.metadata.annotations
    if ADVICE not in notes:
        return re.findall(r"(?:^| )([^ !=]+)=\d+", notes.get(WOULD_ADVISE, ""))
    terms = pod.spec.affinity["nodeAffinity"][PREFERRED]
    weight_of = {
        field["values"][0]: term["weight"]
        for term in terms
        for field in term["preference"].get("matchFields", ())
        if field["operator"] == "In"
    }
    return sorted(weight_of, key=lambda name: -weight_of[name])


@contextmanager
def _advised(plan: Plan, mode: str, pair: int, ports: tuple[int, int], files: WebhookFiles) -> Iterator[Running]:
    """`cohabit serve` with the webhook and a table of all apps; on ports for schedulers and for the webhook."""
    port, webhook = ports
    wished = {"": mode, "_PORT": str(webhook), "_CERTIFICATE": str(files.certificate), "_KEY": str(files.key)}
    settings = {f"COHABIT_ADVISOR__ADMISSION{name}": value for name, value in wished.items()}
    with advisor(plan.folder, port, f"advisor-{mode}-{pair}", settings) as one:
        one.warm(plan.nodes)
        yield one.process


def _is_asked(api: Api) -> bool:
    """Whether kube-apiserver asks the webhook by now: a dry run says so."""
    [body] = numbered("probe", 1, lambda _: CLASSES[0])
    made = api.ask(api.connection(), "POST", f"{PODS}?dryRun=All", body)
    return b"cohabit.io/" in made


def holds(advised: Followed, creates: Creates) -> bool:
    """Whether advice is followed, and a dead webhook delays no pod."""
    enough = advised.listed >= MIN_LISTED * advised.named > 0 and advised.top >= MIN_TOP * advised.named
    return enough and creates.failed == 0 and creates.p99_s <= MAX_CREATE_S
