"""Limits: a request body is counted while it arrives, and refused before it can fill the memory."""

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from advisor.errors import BodyTooLarge

TOO_LARGE = 413


class BodyLimit:
    """Middleware: at most `limit_bytes` of a request's body reach the routes.

    A declared length over the limit is answered before anything is read. A body that says nothing of its length ends
    where the limit is passed.
    """

    def __init__(self, app: ASGIApp, limit_bytes: int) -> None:
        self.app, self.limit_bytes = app, limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif _declared(scope) > self.limit_bytes:
            refusal = JSONResponse({"error": str(BodyTooLarge(self.limit_bytes))}, TOO_LARGE)
            await refusal(scope, receive, send)
        else:
            await self.app(scope, self._counted(receive), send)

    def _counted(self, receive: Receive) -> Receive:
        seen = 0

        async def counting() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.limit_bytes:
                raise HTTPException(TOO_LARGE, str(BodyTooLarge(self.limit_bytes)))
            return message

        return counting


def _declared(scope: Scope) -> int:
    length = Headers(scope=scope).get("content-length", "")
    return int(length) if length.isdecimal() and len(length) < 20 else 0
