"""Peers: assumed pods that another server of the same cluster publishes, or the plugin of kube-scheduler.

The plugin also asks for scores of nodes with their assumed pods, see docs/scheduler-plugin.md.
"""

from typing import Annotated

import msgspec
from fastapi import APIRouter
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from advisor.api.scheduler.raw_http import decoded, send_json, whole_body
from advisor.cluster.assumed_pod_load import Booked
from advisor.cluster.pending_pod import PodClass
from advisor.cluster.worker_bus import Gone
from advisor.placement.assumed_pod_sync import LONGEST_GROUP, LONGEST_UID
from advisor.placement.encoded_scores import Column
from advisor.placement.prioritizer import Prioritizer

MAX_AT_ONCE = 1000
LONGEST_US = 3_600_000_000
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_UID)]


class BookingMessage(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One assumed pod and its age: clocks of two machines differ. With `left` it will not arrive.

    What is empty is left out, so that a server that does not know a field yet takes the rest.
    """

    uid: Name
    node: Name
    app: Annotated[str, msgspec.Meta(max_length=LONGEST_UID)]
    best_effort: bool
    age_us: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_US)] = 0
    group: Annotated[str, msgspec.Meta(max_length=LONGEST_GROUP)] = ""
    team: Annotated[str, msgspec.Meta(max_length=LONGEST_UID)] = ""
    reservation: Annotated[str, msgspec.Meta(max_length=LONGEST_UID)] = ""
    left: bool = False

    def news(self, now_us: int) -> Booked | Gone:
        """The same facts, as the domain names them."""
        if self.left:
            return Gone(self.uid, "")
        of, at_us = PodClass(self.app, self.best_effort, self.team), now_us - int(self.age_us)
        return Booked(self.uid, self.node, of, at_us, group=self.group, reservation=self.reservation)


class AssumedReply(msgspec.Struct):
    """Scores of nodes with their assumed pods, by the table of a snapshot's version and a bundle; -1 before the first.

    `classes` are those of the table, as app, best effort and team, and `assumed` are the assumed pods of each.
    """

    version: int
    bundle: str
    classes: tuple[PodClass, ...]
    assumed: list[int]
    nodes: list[Column]


Bookings = Annotated[list[BookingMessage], msgspec.Meta(max_length=MAX_AT_ONCE)]
Nodes = Annotated[list[Name], msgspec.Meta(max_length=MAX_AT_ONCE)]
_decode = msgspec.json.Decoder(Bookings).decode
_decode_nodes = msgspec.json.Decoder(Nodes).decode
_encode = msgspec.json.Encoder().encode


def booking_message(booked: Booked, now_us: int) -> BookingMessage:
    """An assumed pod as sent to another server; its age stays within limits if the clock was set."""
    age_us = min(max(0, now_us - booked.at_us), LONGEST_US)
    of = booked.of
    return BookingMessage(
        booked.uid, booked.node, of.app, of.best_effort, age_us, booked.group, of.team, booked.reservation
    )


class TakeBookings:
    """Counts assumed pods of another server of the cluster or of its scheduler; those that left are taken back; 204."""

    roles = ("scheduler",)
    asks, empty = Bookings, 204

    def __init__(self, prioritizer: Prioritizer) -> None:
        self.prioritizer = prioritizer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take in one message."""
        messages = decoded(_decode, await whole_body(receive), "a list of bookings")
        now_us = self.prioritizer.serving.now_us()
        self.prioritizer.hear(one.news(now_us) for one in messages)
        await Response(status_code=204)(scope, receive, send)


class QueryAssumed:
    """Scores of the named nodes with their assumed pods, of all nodes with assumed pods for an empty list."""

    roles = ("scheduler",)
    asks, returns = Nodes, AssumedReply

    def __init__(self, prioritizer: Prioritizer) -> None:
        self.prioritizer = prioritizer

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        names = decoded(_decode_nodes, await whole_body(receive), "a list of nodes")
        await send_json(send, _encode(self.reply(names)), [])

    def reply(self, names: list[str]) -> AssumedReply:
        """The scores, with what all workers have published until now."""
        assumed = self.prioritizer.assumed
        assumed.listen()
        if (replies := assumed.replies) is None:
            return AssumedReply(-1, "", (), [], [])
        table, of = replies.table, assumed.bookings
        columns = [column for node in names or of.nodes() if (column := replies.column(node)) is not None]
        return AssumedReply(
            table.version, table.bundle, table.classes, [of.alike(c, "") for c in table.classes], columns
        )


def booking_routes(prioritizer: Prioritizer) -> APIRouter:
    """The routes for other servers and for the plugin of kube-scheduler."""
    router = APIRouter()
    router.routes.append(Route("/assumed-pods/query", QueryAssumed(prioritizer), methods=["POST"]))
    router.routes.append(Route("/assumed-pods", TakeBookings(prioritizer), methods=["POST"]))
    return router
