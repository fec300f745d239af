"""A real server with bounded connections: heads that are too large or never end, and connections that say nothing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from cohabit.server.http_limits import BoundedProtocol
from cohabit.server.sockets import free_socket

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
GOOD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
LIMIT = 4096


class Quick(BoundedProtocol):
    """The same, sooner."""

    head_bytes = LIMIT
    request_s = 0.3


async def echo(_scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 200 as soon as the body is there."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})


async def echo_body(_scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the body of a small request."""
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def echo_late(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer after twice the time that a request may take."""
    await asyncio.sleep(2 * Quick.request_s)
    await echo(scope, receive, send)


@asynccontextmanager
async def server(protocol: type[BoundedProtocol] = Quick, app: ASGIApp = echo) -> AsyncIterator[int]:
    config = uvicorn.Config(app, http=protocol, log_config=None, lifespan="off")
    with free_socket(0) as bound:
        run = uvicorn.Server(config)
        serving = asyncio.create_task(run.serve(sockets=[bound]))
        while not run.started:
            await asyncio.sleep(0)
        yield bound.getsockname()[1]
        run.should_exit = True
        await serving


def asking(
    ask: Callable[[Stream], Awaitable[bytes]], protocol: type[BoundedProtocol] = Quick, app: ASGIApp = echo
) -> bytes:
    """What a client got until it was done."""

    async def run() -> bytes:
        async with server(protocol, app) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                return await asyncio.wait_for(ask((reader, writer)), 10)
            finally:
                writer.close()

    return asyncio.run(run())


def test_ordinary_requests_are_answered_over_one_connection() -> None:
    async def ask(to: Stream) -> bytes:
        found = b""
        for _ in range(20):
            to[1].write(GOOD)
            found += await to[0].readuntil(b"\r\n\r\n")
        return found

    assert asking(ask).count(b"HTTP/1.1 200 OK") == 20


def test_head_and_body_of_an_answer_arrive_together() -> None:
    """A client that waits wakes up once."""

    async def ask(to: Stream) -> bytes:
        pieces = []
        for _ in range(50):
            to[1].write(GOOD)
            pieces.append(await to[0].read(LIMIT))
        assert all(piece.endswith(b"\r\n\r\n{}") for piece in pieces)
        return b"".join(pieces)

    assert asking(ask, app=echo_body).count(b"HTTP/1.1 200 OK") == 50


def test_requests_in_one_piece_are_answered_one_after_the_other() -> None:
    """More bytes than a head may have, in many heads."""
    count = 2 * LIMIT // len(GOOD)

    async def ask(to: Stream) -> bytes:
        to[1].write(GOOD * count)
        return b"".join([await to[0].readuntil(b"\r\n\r\n") for _ in range(count)])

    assert asking(ask).count(b"HTTP/1.1 200 OK") == count


@pytest.mark.parametrize("requests", [1, 2])
def test_an_answer_may_take_longer_than_a_request(requests: int) -> None:
    async def ask(stream: Stream) -> bytes:
        stream[1].write(GOOD * requests)
        return b"".join([await stream[0].readuntil(b"\r\n\r\n") for _ in range(requests)])

    assert asking(ask, app=echo_late).count(b"200 OK") == requests


def test_a_body_is_no_head_however_long_it_is() -> None:
    async def ask(to: Stream) -> bytes:
        to[1].write(GOOD.replace(b"h: 2", b"h: 1000000")[:-2])
        for _ in range(1000):
            to[1].write(b" " * 1000)
            await to[1].drain()
        return await to[0].readuntil(b"\r\n\r\n")

    assert asking(ask, BoundedProtocol).startswith(b"HTTP/1.1 200 OK")


async def all_said(to: Stream, piece: bytes) -> bytes:
    """What comes back while a piece is sent again and again, until the other side has had enough."""
    reading = asyncio.create_task(to[0].read())
    while not reading.done():
        to[1].write(piece)
        await asyncio.sleep(0)
    try:
        return await reading
    except ConnectionError:
        return b"cut off"


class Patient(Quick):
    """What is too large must not be refused for being late."""

    request_s = 60.0


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"GET / HTTP/1.1", b"\r\nX-More: 1"),
        (b"GET / HTTP/1.1\r\nX-Long: ", b"v" * 99),
        (b"", b"\r\n"),
        (b"GET /", b"a"),
    ],
    ids=["headers", "one header", "nothing", "address"],
)
def test_a_head_without_end_is_refused_where_the_limit_is_passed(begin: bytes, piece: bytes) -> None:
    async def ask(to: Stream) -> bytes:
        to[1].write(begin)
        return await all_said(to, piece)

    assert asking(ask, Patient).startswith((b"HTTP/1.1 431 ", b"cut off"))


@pytest.mark.parametrize(
    "said", [b"", b"POST / HT", GOOD[:-2], GOOD + b"\r\n"], ids=["nothing", "head", "body", "more"]
)
def test_what_is_not_whole_in_time_is_cut_off(said: bytes) -> None:
    async def ask(to: Stream) -> bytes:
        to[1].write(said)
        return await to[0].read() + b"ended"

    assert asking(ask).endswith(b"ended")


async def all_that_came(reader: asyncio.StreamReader) -> bytes:
    """What was sent before the end; whoever writes to a closed connection is answered with a reset, not an end."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := await reader.read(4096):
            parts.append(part)
    return b"".join(parts)


def test_a_dribble_is_cut_off_too() -> None:
    """A byte now and then keeps uvicorn's own timer from ending an idle connection."""

    async def ask(to: Stream) -> bytes:
        to[1].write(GOOD)
        reading = asyncio.create_task(all_that_came(to[0]))
        while not reading.done():
            to[1].write(b"\n")
            await asyncio.wait([reading], timeout=0.02)
        return await reading

    assert asking(ask).startswith(b"HTTP/1.1 200 OK")
