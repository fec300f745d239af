"""Filter of kube-scheduler's HTTP extender: every node passes, unless it is told to refuse, and then never all."""

import msgspec
from fastapi import APIRouter
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from advisor.api.groups import group_of
from advisor.api.pods import Metadata, Object, newcomer_of
from advisor.api.raw import decoded, send_json, whole_body
from advisor.prioritizing import Offer, Prioritizer

WHY = "cohabit: score 0, it or its neighbours would become too slow here"


class _RawList(msgspec.Struct):
    """Whole nodes, each as it was sent: those that pass are sent back."""

    items: list[msgspec.Raw] | None = None


class FilterArgs(msgspec.Struct):
    """ExtenderArgs, of which nodes are kept as they are."""

    Pod: Object | None = None
    Nodes: _RawList | None = None
    NodeNames: list[str] | None = None


class FilterResult(msgspec.Struct):
    """ExtenderFilterResult: neither NodeNames nor Nodes would mean that no node is feasible."""

    NodeNames: list[str] | None = None
    Nodes: _RawList | None = None
    FailedNodes: dict[str, str] = {}
    FailedAndUnresolvableNodes: dict[str, str] = {}
    Error: str = ""


class _Named(msgspec.Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)


_decode = msgspec.json.Decoder(FilterArgs).decode
_decode_node = msgspec.json.Decoder(_Named).decode
_encode = msgspec.json.Encoder().encode


class Filter:
    """Which of the offered nodes pass, as kube-scheduler's HTTP extender protocol has it.

    ExtenderFilterResult as JSON. Off, the default, all pass. Otherwise a latency-sensitive pod of a known app does not
    go where its score is 0, by measurements alone: not by guesses, nor by pods on their way. If no node would pass,
    all do.
    """

    roles = ("scheduler",)

    def __init__(self, prioritizer: Prioritizer, *, refusing: bool) -> None:
        self.prioritizer, self.refusing = prioritizer, refusing

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        args = decoded(_decode, await whole_body(receive), "ExtenderArgs")
        whole = args.Nodes.items or [] if args.NodeNames is None and args.Nodes is not None else None
        names = [_name(node) for node in whole] if whole is not None else args.NodeNames or []
        pod = args.Pod or Object()
        offer = Offer(newcomer_of(pod), pod.metadata.uid, names, group_of(pod))
        refused = self.prioritizer.refused(offer) if self.refusing else frozenset()
        result = FilterResult(FailedNodes={name: WHY for name in names if name in refused})
        if whole is None:
            result.NodeNames = [name for name in names if name not in refused]
        else:
            result.Nodes = _RawList([node for name, node in zip(names, whole, strict=True) if name not in refused])
        await send_json(send, _encode(result), self.prioritizer.headers())


def _name(node: msgspec.Raw) -> str:
    return decoded(_decode_node, bytes(node), "a node").metadata.name


def filter_routes(prioritizer: Prioritizer, *, refusing: bool) -> APIRouter:
    """The route of the filter."""
    router = APIRouter()
    router.routes.append(Route("/extender/filter", Filter(prioritizer, refusing=refusing), methods=["POST"]))
    return router
