"""kube-scheduler's HTTP extender: its exact keys in, its exact keys out.

Keys are Go field names because the Go types carry no JSON tags. A score must be a JSON integer: a float does not
decode into int64, and the scheduler then drops the whole reply in silence.
"""

from asyncio import to_thread

import msgspec
from fastapi import APIRouter, Request, Response

from advisor.api.roles import allowed
from advisor.errors import BadRequest
from advisor.scoring import Newcomer
from advisor.serving import Serving
from ingest.identity import Owner, PodFacts, identify


class OwnerReference(msgspec.Struct):
    """The part of a pod's owner reference that is read."""

    kind: str = ""
    name: str = ""
    controller: bool | None = None
    apiVersion: str = ""  # noqa: N815


class Metadata(msgspec.Struct):
    """The part of an object's metadata that is read; Go writes nil maps and slices as null."""

    name: str = ""
    namespace: str = "default"
    labels: dict[str, str] | None = None
    ownerReferences: list[OwnerReference] | None = None  # noqa: N815


class Object(msgspec.Struct):
    """A pod or node, of which only the metadata is read."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)


class NodeList(msgspec.Struct):
    """Whole nodes, as sent with nodeCacheCapable: false."""

    items: list[Object] | None = None


class ExtenderArgs(msgspec.Struct):
    """Request of filter and prioritize."""

    Pod: Object | None = None
    Nodes: NodeList | None = None
    NodeNames: list[str] | None = None


class HostPriority(msgspec.Struct):
    """One entry of the reply to prioritize."""

    Host: str
    Score: int


_decode = msgspec.json.Decoder(ExtenderArgs).decode
_encode = msgspec.json.Encoder().encode


def prioritize(body: bytes, serving: Serving) -> bytes:
    """Answer one prioritize request.

    Args:
        body: ExtenderArgs as JSON.
        serving: what to answer from.

    Returns:
        HostPriorityList as JSON: one entry for each offered node in the order offered, integer scores 0 to 10; all 0
        when the answer is neutral.

    Raises:
        BadRequest: the body is not ExtenderArgs.
    """
    args = _arguments(body)
    names = offered(args)
    unique = list(dict.fromkeys(names))
    answer = serving.answer_anyway(newcomer_of(args.Pod or Object()), unique)
    score = dict(zip(unique, answer.points.tolist(), strict=True))
    return _encode([HostPriority(name, score[name]) for name in names])


def _arguments(body: bytes) -> ExtenderArgs:
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"not ExtenderArgs ({error})") from error


def offered(args: ExtenderArgs) -> list[str]:
    """Names of the candidate nodes, in either mode of the protocol."""
    if args.NodeNames is not None:
        return args.NodeNames
    return [node.metadata.name for node in (args.Nodes.items if args.Nodes else None) or []]


def newcomer_of(pod: Object) -> Newcomer:
    """Who the pod is."""
    meta = pod.metadata
    owners = [Owner(o.kind, o.name, bool(o.controller), o.apiVersion) for o in meta.ownerReferences or []]
    identity = identify(PodFacts(meta.name, meta.namespace, meta.labels or {}, owners))
    return Newcomer(identity.app, identity.team, identity.best_effort)


def extender_routes(serving: Serving) -> APIRouter:
    """Routes for kube-scheduler."""
    router = APIRouter()

    @router.post("/extender/prioritize", response_class=Response)
    @allowed("scheduler")
    async def prioritize_route(request: Request) -> Response:
        """Scores 0 to 10 for the offered nodes, as kube-scheduler's HTTP extender protocol has it."""
        body = await request.body()
        return Response(await to_thread(prioritize, body, serving), media_type="application/json")

    return router
