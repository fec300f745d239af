"""Filter of kube-scheduler's HTTP extender: it returns a reserved pod's node, else all nodes, less refused ones."""

import msgspec
from fastapi import APIRouter
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from advisor.api.scheduler.pod_types import ExtenderArgs, extender_offer
from advisor.api.scheduler.raw_http import decoded, send_json, whole_body
from advisor.placement.offer import Offer
from advisor.placement.prioritizer import Prioritizer

WHY = "cohabit: score 0, the pod or its neighbours would be too slow on this node"


class _RawList(msgspec.Struct):
    """Whole nodes, each as it was sent: those that pass are sent back."""

    items: list[msgspec.Raw] | None = None


class _AsSent(msgspec.Struct):
    Nodes: _RawList | None = None
    NodeNames: list[str] | None = None


class FilterResult(msgspec.Struct):
    """ExtenderFilterResult: neither NodeNames nor Nodes would mean that no node is feasible."""

    NodeNames: list[str] | None = None
    Nodes: _RawList | None = None
    FailedNodes: dict[str, str] = {}
    FailedAndUnresolvableNodes: dict[str, str] = {}
    Error: str = ""


_decode = msgspec.json.Decoder(ExtenderArgs).decode
_as_sent = msgspec.json.Decoder(_AsSent).decode
_encode = msgspec.json.Encoder().encode


class Filter:
    """Feasible candidate nodes, by kube-scheduler's HTTP extender protocol.

    ExtenderFilterResult as JSON. For a pod with a reservation only the reserved node passes; all pass if it is not a
    candidate. For other pods all nodes pass if the filter is off, the default. Otherwise nodes with score 0 are
    filtered out for latency-sensitive pods of seen apps, by measurements only: without guesses and assumed pods. If
    no node would pass, all do.
    """

    roles = ("scheduler",)
    asks, returns = ExtenderArgs, FilterResult

    def __init__(self, prioritizer: Prioritizer, *, refusing: bool) -> None:
        self.prioritizer, self.refusing = prioritizer, refusing

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        body = await whole_body(receive)
        offer = extender_offer(decoded(_decode, body, "ExtenderArgs"))
        failed = self._failed(offer)
        result = FilterResult(FailedNodes=failed)
        nodes = _whole_nodes(body)
        if nodes is None:
            result.NodeNames = [name for name in offer.names if name not in failed]
        else:
            result.Nodes = _RawList([n for name, n in zip(offer.names, nodes, strict=True) if name not in failed])
        await send_json(send, _encode(result), self.prioritizer.headers())

    def _failed(self, offer: Offer) -> dict[str, str]:
        """Nodes that do not pass, each with the reason. For a pod with a reservation only that counts."""
        if (reserved := self.prioritizer.reserved(offer)) is not None:
            return reserved.failed(offer.names)
        refused = self.prioritizer.from_table.refused(offer) if self.refusing else frozenset()
        return {name: WHY for name in offer.names if name in refused}


def _whole_nodes(body: bytes) -> list[msgspec.Raw] | None:
    """The offered nodes as they were sent; None where names were."""
    sent = _as_sent(body)
    return (sent.Nodes.items or []) if sent.NodeNames is None and sent.Nodes is not None else None


def filter_routes(prioritizer: Prioritizer, *, refusing: bool) -> APIRouter:
    """The route of the filter."""
    router = APIRouter()
    router.routes.append(Route("/extender/filter", Filter(prioritizer, refusing=refusing), methods=["POST"]))
    return router
