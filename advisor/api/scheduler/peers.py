"""Peers: assumed pods that another server of the same cluster publishes."""

from typing import Annotated

import msgspec
from fastapi import APIRouter
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from advisor.api.scheduler.raw_http import decoded, whole_body
from advisor.cluster.assumed_pod_load import Booked
from advisor.cluster.pending_pod import PodClass
from advisor.placement.assumed_pod_sync import LONGEST_GROUP, LONGEST_UID
from advisor.placement.prioritizer import Prioritizer

MAX_AT_ONCE = 1000
LONGEST_US = 3_600_000_000
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_UID)]


class BookingMessage(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One assumed pod and its age: clocks of two machines differ.

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


Bookings = Annotated[list[BookingMessage], msgspec.Meta(max_length=MAX_AT_ONCE)]
_decode = msgspec.json.Decoder(Bookings).decode


def booking_message(booked: Booked, now_us: int) -> BookingMessage:
    """An assumed pod as sent to another server; its age stays within limits if the clock was set."""
    age_us = min(max(0, now_us - booked.at_us), LONGEST_US)
    of = booked.of
    return BookingMessage(
        booked.uid, booked.node, of.app, of.best_effort, age_us, booked.group, of.team, booked.reservation
    )


class TakeBookings:
    """Counts assumed pods of another server of the same cluster; 204."""

    roles = ("scheduler",)
    asks, empty = Bookings, 204

    def __init__(self, prioritizer: Prioritizer) -> None:
        self.prioritizer = prioritizer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take in one message."""
        messages = decoded(_decode, await whole_body(receive), "a list of bookings")
        now_us = self.prioritizer.serving.now_us()
        self.prioritizer.hear(
            Booked(
                one.uid,
                one.node,
                PodClass(one.app, one.best_effort, one.team),
                now_us - int(one.age_us),
                group=one.group,
                reservation=one.reservation,
            )
            for one in messages
        )
        await Response(status_code=204)(scope, receive, send)


def booking_routes(prioritizer: Prioritizer) -> APIRouter:
    """The route for other servers."""
    router = APIRouter()
    router.routes.append(Route("/assumed-pods", TakeBookings(prioritizer), methods=["POST"]))
    return router
