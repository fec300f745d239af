"""Limits: a request body is counted while it arrives, and refused before it can fill the memory or take for ever."""

import asyncio

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOO_LARGE, TOO_SLOW = 413, 408
BODY_S = 10.0
"""For the largest body 7 MB/s. By default kube-scheduler waits five seconds for an answer, Volcano one."""


class BodyLimit:
    """Middleware: at most `limit_bytes` of a request's body reach the routes, and nothing of it after `patience_s`.

    A declared length over the limit is answered before anything is read. A body that says nothing of its length ends
    where the limit is passed. Who waits for a slow body is that request alone.
    """

    def __init__(self, app: ASGIApp, limit_bytes: int, patience_s: float = BODY_S) -> None:
        self.app, self.limit_bytes, self.patience_s = app, limit_bytes, patience_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif _declared(scope) > self.limit_bytes:
            refusal = JSONResponse({"error": _too_large(self.limit_bytes)}, TOO_LARGE)
            await refusal(scope, receive, send)
        else:
            await self.app(scope, self._counted(receive), send)

    def _counted(self, receive: Receive) -> Receive:
        seen, ends = 0, asyncio.get_running_loop().time() + self.patience_s

        async def counting() -> Message:
            nonlocal seen
            try:
                async with asyncio.timeout_at(ends):
                    message = await receive()
            except TimeoutError as error:
                late = f"the request body did not arrive within {self.patience_s:g} s: send the whole request again"
                raise HTTPException(TOO_SLOW, late, {"Connection": "close"}) from error
            seen += len(message.get("body", b""))
            if seen > self.limit_bytes:
                raise HTTPException(TOO_LARGE, _too_large(self.limit_bytes))
            return message

        return counting


def _too_large(limit_bytes: int) -> str:
    return (
        f"the request body exceeds the limit of {limit_bytes} bytes: send node names instead of whole nodes "
        "(nodeCacheCapable: true), or fewer candidates"
    )


def _declared(scope: Scope) -> int:
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    return int(length) if length.isdigit() and len(length) < 20 else 0
