"""kube-scheduler's HTTP extender: its exact keys in, its exact keys out.

Keys are Go field names because the Go types carry no JSON tags. A score must be a JSON integer: a float does not
decode into int64, and the scheduler then drops the whole reply in silence.
"""

import msgspec
from fastapi import APIRouter
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from advisor.api.scheduler.pod_types import Object, offer_to
from advisor.api.scheduler.raw_http import decoded, send_json, whole_body
from advisor.placement.prioritizer import Offer, Prioritizer


class NodeList(msgspec.Struct):
    """Whole nodes, as sent with nodeCacheCapable: false."""

    items: list[Object] | None = None


class ExtenderArgs(msgspec.Struct):
    """Request of filter and prioritize."""

    Pod: Object | None = None
    Nodes: NodeList | None = None
    NodeNames: list[str] | None = None


class HostPriority(msgspec.Struct):
    """One entry of the reply."""

    Host: str
    Score: int


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
    args = decoded(_decode, body, "ExtenderArgs")
    pod = args.Pod or Object()
    return offer_to(pod, pod.metadata.uid, offered(args))


def offered(args: ExtenderArgs) -> list[str]:
    """Names of the candidate nodes, in either mode of the protocol."""
    if args.NodeNames is not None:
        return args.NodeNames
    return [node.metadata.name for node in (args.Nodes.items if args.Nodes else None) or []]


class Prioritize:
    """Scores 0 to 10 for the candidate nodes, by kube-scheduler's HTTP extender protocol.

    HostPriorityList as JSON: one entry for each offered node in the order offered, integer scores; all 0 when the
    answer is neutral. An application of its own, since the framework's routing takes longer than the answer.
    """

    roles = ("scheduler",)
    asks, returns = ExtenderArgs, list[HostPriority]

    def __init__(self, prioritizer: Prioritizer) -> None:
        self.prioritizer = prioritizer

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        reply = await self.prioritizer.answer(offer_of(await whole_body(receive)))
        await send_json(send, reply, self.prioritizer.headers())


def extender_routes(prioritizer: Prioritizer) -> APIRouter:
    """Routes for kube-scheduler."""
    router = APIRouter()
    router.routes.append(Route("/extender/prioritize", Prioritize(prioritizer), methods=["POST"]))
    return router
