"""Raw requests: a body read whole and bytes sent back, for routes whose framework would take longer than the answer."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from advisor.errors import AdvisorError, BadRequest
from advisor.placement.offer import Offer, Reply

T = TypeVar("T")


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


def decoded(decode: Callable[[bytes], T], body: bytes, what: str) -> T:
    """A body as one of our types.

    On the event loop, however large it is: decoding holds the interpreter's lock, so that others wait just as long when
    a thread does it (21 MB: 23 ms, and the longest wait was longer), and a process that is sent the body answers after
    90 ms.

    Raises:
        BadRequest: the body is not `what`.
    """
    try:
        return decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"cannot read the request: not {what} ({error})") from error


class ScoreRoute(Generic[T]):
    """An application around a request for scores: the framework's routing takes longer than the answer.

    Args:
        decode: a body as the scheduler's own type.
        offer_of: what the scheduler asks.
        answer: answers it.
    """

    roles = ("scheduler",)
    what = ""
    """Name of the request's type."""

    def __init__(
        self,
        decode: Callable[[bytes], T],
        offer_of: Callable[[T], Offer],
        answer: Callable[[Offer], Awaitable[Reply]],
    ) -> None:
        self._decode, self._offer_of, self._answer = decode, offer_of, answer

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = decoded(self._decode, await whole_body(receive), self.what)
        reply = await self._answer(self._offer_of(request))
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(reply.body)), *reply.headers]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})


async def send_json(send: Send, reply: bytes, more: list[tuple[bytes, bytes]]) -> None:
    """Answer 200 with JSON and some more headers."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(reply)), *more]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": reply})


class Direct:
    """Middleware: requests for scores reach their route past the rest of the framework.

    What the route or a limit refuses is answered by the framework, which has a status code for every error.

    Args:
        app: everything else.
        routes: by path, for POST.
    """

    def __init__(self, app: ASGIApp, routes: Mapping[str, ASGIApp]) -> None:
        self.app, self.routes = app, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        route = self.routes.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if route is None:
            await self.app(scope, receive, send)
            return
        try:
            await route(scope, receive, send)
        except (AdvisorError, HTTPException) as refusal:
            await self.app(scope, _raising(refusal), send)


def _raising(refusal: AdvisorError | HTTPException) -> Receive:
    """Receives what the request was refused for, where its body would be."""

    async def receiving() -> Message:
        raise refusal

    return receiving
