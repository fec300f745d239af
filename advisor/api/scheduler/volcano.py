"""Volcano's extender plugin: its own types, batch by batch, with scores that are added to those of other plugins.

TaskInfo and NodeInfo carry no JSON tags and change between releases, so only names, the task's pod and uids are read,
and the rest of the body, every task of every node, is skipped. An `errorMessage`, or a reply without `nodeScore`, is
an error to Volcano even if the extender is ignorable: neither ever leaves.
"""

from collections.abc import Iterable, Mapping

import msgspec
from fastapi import APIRouter
from starlette.routing import Route

from advisor.api.scheduler.extender import HostPriority
from advisor.api.scheduler.pod_types import Metadata, Object, offer_to
from advisor.api.scheduler.raw_http import ScoreRoute
from advisor.placement.offer import Offer, Reply
from advisor.placement.prioritizer import Prioritizer

POINT = 10.0
"""Volcano adds scores of 0 to 100 raw, where kube-scheduler multiplies 0 to 10 itself."""


class TaskInfo(msgspec.Struct):
    """The part of a task that is read; the name, namespace and uid are the pod's own."""

    UID: str | None = None
    Name: str | None = None
    Namespace: str | None = None
    Pod: Object | None = None


class Named(msgspec.Struct):
    """The part of a Node's metadata that is read."""

    name: str | None = None


class KubernetesNode(msgspec.Struct):
    """The part of Kubernetes' own Node that is read."""

    metadata: Named | None = None


class NodeInfo(msgspec.Struct):
    """The part of a node that is read."""

    Name: str | None = None
    Node: KubernetesNode | None = None


class PrioritizeRequest(msgspec.Struct):
    """Request of prioritize; nodes are a list, or a map by name where a release has them so."""

    task: TaskInfo | None = None
    nodes: list[NodeInfo | None] | dict[str, NodeInfo | None] | None = None


class PrioritizeResponse(msgspec.Struct):
    """Reply of prioritize."""

    nodeScore: dict[str, float]  # noqa: N815
    errorMessage: str = ""  # noqa: N815


_decode = msgspec.json.Decoder(PrioritizeRequest).decode
_entries = msgspec.json.Decoder(list[HostPriority]).decode
_encode = msgspec.json.Encoder().encode


def offer_of(request: PrioritizeRequest) -> Offer:
    """What a prioritize request asks: the task's pod and the offered nodes, each once."""
    task = request.task or TaskInfo()
    pod = task.Pod or Object(Metadata(name=task.Name or "", namespace=task.Namespace or "default"))
    return offer_to(pod, pod.metadata.uid or task.UID or "", list(dict.fromkeys(_named(request))))


def reply_to(answer: bytes) -> bytes:
    """PrioritizeResponse of a HostPriorityList, both as JSON; of a name that is there twice the last score."""
    return _encode(PrioritizeResponse({said.Host: POINT * said.Score for said in _entries(answer)}))


def _named(request: PrioritizeRequest) -> Iterable[str]:
    """Names of the offered nodes; a node without any name cannot get a score."""
    nodes = request.nodes or []
    pairs = nodes.items() if isinstance(nodes, Mapping) else (("", node) for node in nodes)
    return (name for key, node in pairs if (name := _name(node) or key))


def _name(node: NodeInfo | None) -> str:
    if node is None:
        return ""
    meta = node.Node.metadata if node.Node is not None else None
    return node.Name or (meta.name if meta is not None else None) or ""


class Prioritize(ScoreRoute[PrioritizeRequest]):
    """Scores 0 to 100 for the candidate nodes, by Volcano's extender protocol.

    PrioritizeResponse as JSON: `nodeScore` holds every offered node, all 0 when the answer is neutral, and
    `errorMessage` is empty. Scores are ten times the points that kube-scheduler gets.
    """

    what = "Volcano's PrioritizeRequest"
    asks, returns = PrioritizeRequest, PrioritizeResponse

    def __init__(self, prioritizer: Prioritizer) -> None:
        async def answer(offer: Offer) -> Reply:
            body, headers = await prioritizer.answer(offer)
            return Reply(reply_to(body), headers)

        super().__init__(_decode, offer_of, answer)


def volcano_routes(prioritizer: Prioritizer) -> APIRouter:
    """Routes for Volcano."""
    router = APIRouter()
    router.routes.append(Route("/volcano/prioritize", Prioritize(prioritizer), methods=["POST"]))
    return router
