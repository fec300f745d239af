"""Forms: read whole within limits before any other code, and accepted from our own pages only. An edge."""

import asyncio
from collections.abc import Mapping
from hmac import compare_digest
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.types import Message, Receive

from advisor.api.http.body_limits import BODY_S

MAX_BYTES = 64 << 10
MAX_FIELDS = 250
FIELD, HEADER = "csrf", "x-csrf-token"
KIND = "application/x-www-form-urlencoded"


class UnreadableForm(Exception):
    """A form that is too long, too slow or no form; `status` says which."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"a form cannot be parsed: {status}")


async def whole_body(receive: Receive) -> bytes:
    """The body of a request.

    Raises:
        UnreadableForm: it is too long, or does not arrive in time.
    """
    body, more = bytearray(), True
    try:
        async with asyncio.timeout(BODY_S):
            while more:
                message = await receive()
                body += message.get("body", b"")
                more = message["type"] == "http.request" and message.get("more_body", False)
                if len(body) > MAX_BYTES:
                    raise UnreadableForm(413)
    except TimeoutError as error:
        raise UnreadableForm(408) from error
    return bytes(body)


def fields(headers: Headers, body: bytes) -> dict[str, str]:
    """The fields of a form; of several of one name the last. Nothing where the body is something else.

    Raises:
        UnreadableForm: it is no form, though it says so.
    """
    if headers.get("content-type", "").partition(";")[0].strip().lower() != KIND:
        return {}
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError as error:
        raise UnreadableForm(400) from error


def replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that repeats the body which was read."""
    unread = [body]

    async def again() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return again


def brings(headers: Headers, form: Mapping[str, str], csrf: str) -> bool:
    """Whether a request brings back what only our own pages know."""
    token = headers.get(HEADER) or form.get(FIELD, "")
    return bool(csrf) and compare_digest(token.encode(), csrf.encode())
