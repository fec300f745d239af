"""kube-scheduler's HTTP extender: its exact keys in, its exact keys out.

Keys are Go field names because the Go types carry no JSON tags. A score must be a JSON integer: a float does not
decode into int64, and the scheduler then drops the whole reply in silence.
"""

import msgspec
from fastapi import APIRouter
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from advisor.errors import BadRequest
from advisor.newcomers import Newcomer
from advisor.prioritizing import Offer, Prioritizer
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
    uid: str = ""
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


_decode = msgspec.json.Decoder(ExtenderArgs).decode


def offer_of(body: bytes) -> Offer:
    """What a prioritize request asks.

    Args:
        body: ExtenderArgs as JSON.

    Returns:
        The pod and the offered nodes.

    Raises:
        BadRequest: the body is not ExtenderArgs.
    """
    args = _arguments(body)
    pod = args.Pod or Object()
    return Offer(newcomer_of(pod), pod.metadata.uid, offered(args))


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


class Prioritize:
    """Scores 0 to 10 for the offered nodes, as kube-scheduler's HTTP extender protocol has it.

    HostPriorityList as JSON: one entry for each offered node in the order offered, integer scores; all 0 when the
    answer is neutral. An application of its own, since the framework's routing takes longer than the answer.
    """

    roles = ("scheduler",)

    def __init__(self, prioritizer: Prioritizer) -> None:
        self.prioritizer = prioritizer

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        reply = await self.prioritizer.answer(offer_of(await whole_body(receive)))
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(reply))]
        headers += self.prioritizer.headers()
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": reply})


async def whole_body(receive: Receive) -> bytes:
    """The body of a request, read to its end."""
    message = await receive()
    if not message.get("more_body"):
        return bytes(message.get("body", b""))
    parts = [message.get("body", b"")]
    while message.get("more_body"):
        message = await receive()
        parts.append(message.get("body", b""))
    return b"".join(parts)


def extender_routes(prioritizer: Prioritizer) -> APIRouter:
    """Routes for kube-scheduler."""
    router = APIRouter()
    router.routes.append(Route("/extender/prioritize", Prioritize(prioritizer), methods=["POST"]))
    return router
