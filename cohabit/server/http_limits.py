"""Bounded protocol: uvicorn's HTTP, with an end to how long and how large the head of a request may be. An edge.

uvicorn waits for ever for a request that was begun, and keeps as many headers as come. Bodies are counted by
`advisor.api.http.body_limits`; here ends what never gets that far, and who goes on sending after the answer.

Head and body of an answer are sent together: a client that waits wakes up once.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 << 10
"""What Go's servers and proxies read is of this size; kube-scheduler sends 200 bytes."""
REQUEST_S = 15.0
"""For a whole request, and for its first byte on a new connection; a body has ten of these seconds."""
JOINED_BYTES = 64 << 10
"""Written parts are sent at once when they are longer together."""
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class JoinedWrites:
    """A transport that sends together what is written in one turn of the event loop; all else is the transport's own.

    Args:
        transport: sends.
        loop: that it is used in.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []
        self._bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, content: bytes) -> None:
        """Send it soon, after what was written before."""
        if not self._parts:
            self._loop.call_soon(self._send)
        self._parts.append(content)
        self._bytes += len(content)
        if self._bytes > JOINED_BYTES:
            self._send()

    def close(self) -> None:
        """Send what was written, then close."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        parts, self._parts, self._bytes = self._parts, [], 0
        if parts and not self._transport.is_closing():
            self._transport.write(b"".join(parts))


class BoundedProtocol(HttpToolsProtocol):
    """A connection, closed when a request is not whole in time or its head is too large.

    Of the piece of data in which a head begins or ends nothing is counted: what is kept is at most `head_bytes` and two
    such pieces, 256 KiB each.
    """

    head_bytes = MAX_HEAD_BYTES
    request_s = REQUEST_S

    def __init__(self, *words: Any, **named: Any) -> None:
        super().__init__(*words, **named)
        self._in_head, self._heads, self._seen_bytes = True, 0, 0
        self._ends: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request."""
        joined: Any = JoinedWrites(transport, self.loop)
        super().connection_made(joined)
        self._arm()

    def data_received(self, data: bytes) -> None:
        """Count what belongs to a head."""
        heads, waiting = self._heads, self._in_head
        super().data_received(data)
        if self.transport.is_closing() or not self._in_head:
            return
        if self.cycle is None or self.cycle.response_complete:
            self._arm()  # blank lines begin no request; while one is answered there is no time limit
        if waiting and heads == self._heads:
            self._seen_bytes += len(data)
        if self._seen_bytes > self.head_bytes:
            self.transport.write(TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._heads += 1
        self._seen_bytes = 0
        self._arm()

    def on_headers_complete(self) -> None:
        """Its head is whole."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """It is whole."""
        self._in_head = True
        self._disarm()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more will come."""
        self._disarm()
        super().connection_lost(exc)

    def _arm(self) -> None:
        if self._ends is None:
            self._ends = self.loop.call_later(self.request_s, self.transport.close)

    def _disarm(self) -> None:
        if self._ends is not None:
            self._ends.cancel()
            self._ends = None
