"""Raw requests: a body read whole and bytes sent back, for routes whose framework would take longer than the answer."""

from collections.abc import Callable
from typing import TypeVar

import msgspec
from starlette.types import Receive, Send

from advisor.errors import BadRequest

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


async def send_json(send: Send, reply: bytes, more: list[tuple[bytes, bytes]]) -> None:
    """Answer 200 with JSON and some more headers."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(reply)), *more]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": reply})
