"""A running server and clients that mean no good: each is answered or cut off, and nobody else waits for it."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import perf_counter
from urllib.parse import urlsplit

import pytest

from advisor.api.app import MAX_BODY_BYTES
from advisor.api.http.body_limits import BODY_S
from advisor.api.scheduler.scheduler_app import MAX_SCHEDULER_BODY_BYTES
from tests.advisor.running import ASKED, Running, fill, running, until_ready

LEVELS = 100_000
SOON_S = 2.0
"""For an answer, on a machine that does other things too."""
SLACK_MIB = 3 * MAX_SCHEDULER_BODY_BYTES / 2**20
"""The largest body as it came, put together, and once more while it is decoded."""
MIB = 1 << 20
LIMITS = {
    "/v1/scores": MAX_BODY_BYTES,
    "/extender/prioritize": MAX_SCHEDULER_BODY_BYTES,
    "/volcano/prioritize": MAX_SCHEDULER_BODY_BYTES,
}
ROUTES = pytest.mark.parametrize("route", LIMITS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("bounded")
    fill(folder)
    with running(folder) as found:
        until_ready(found.main, found.scheduler)
        yield found


@contextmanager
def connected(server: Running, route: str) -> Iterator[socket.socket]:
    address = urlsplit(server.main if route == "/v1/scores" else server.scheduler)
    with socket.create_connection((address.hostname, address.port), timeout=30) as made:
        yield made


def head(route: str, *headers: str) -> bytes:
    lines = (f"POST {route} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *headers)
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def status(connection: socket.socket) -> int:
    """Of the answer."""
    said = connection.makefile("rb").readline()
    return int(said.split()[1]) if said else 0


def answer(server: Running, route: str, body: bytes) -> int:
    with connected(server, route) as connection:
        connection.sendall(head(route, f"Content-Length: {len(body)}") + body)
        return status(connection)


def test_others_are_answered_soon(server: Running) -> None:
    """What the other tests ask in the middle of theirs."""
    assert_others_are_answered(server)


def assert_others_are_answered(server: Running) -> None:
    began = perf_counter()
    assert answer(server, "/extender/prioritize", ASKED) == 200
    assert answer(server, "/v1/scores", b'{"app": "web", "nodes": ["n0"]}') == 200
    assert perf_counter() - began < SOON_S


READ = {
    "/v1/scores": ['{"app": %s}', '{"app": "web", "nodes": %s}', '{"other": %s}'],
    "/extender/prioritize": ['{"NodeNames": %s}', '{"Pod": {"metadata": {"labels": %s}}}', '{"Pod": {"spec": %s}}'],
    "/volcano/prioritize": ['{"nodes": %s}', '{"task": {"Pod": %s}}', '{"nodes": [{"Name": "n0", "Tasks": %s}]}'],
}


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")], ids=["lists", "objects"])
@pytest.mark.parametrize(("route", "of"), [(route, of) for route, bodies in READ.items() for of in bodies])
def test_deep_nesting_is_refused_at_once_whether_the_field_is_read_or_not(
    server: Running, route: str, of: str, opening: str, closing: str
) -> None:
    body = of % (opening * LEVELS + "1" + closing * LEVELS)
    began = perf_counter()

    assert answer(server, route, body.encode()) in {400, 422}

    assert perf_counter() - began < SOON_S
    assert_others_are_answered(server)


@ROUTES
def test_a_body_one_byte_too_long_is_refused_before_it_is_sent(server: Running, route: str) -> None:
    with connected(server, route) as connection:
        connection.sendall(head(route, f"Content-Length: {LIMITS[route] + 1}"))

        assert status(connection) == 413


@ROUTES
def test_a_body_of_the_largest_size_is_read(server: Running, route: str) -> None:
    body = {"/v1/scores": b'{"app": "web"}', "/extender/prioritize": ASKED, "/volcano/prioritize": b'{"nodes": []}'}
    before = server.peak_mib()

    assert answer(server, route, body[route].ljust(LIMITS[route])) == 200

    assert server.peak_mib() - before < SLACK_MIB


@ROUTES
def test_an_endless_body_ends_where_the_limit_is_passed(server: Running, route: str) -> None:
    piece = b"%x\r\n" % MIB + b" " * MIB + b"\r\n"
    before, sent = server.peak_mib(), 0
    with connected(server, route) as connection:
        connection.sendall(head(route, "Transfer-Encoding: chunked"))
        while sent <= LIMITS[route]:
            connection.sendall(piece)
            sent += MIB

        assert status(connection) == 413
    assert server.peak_mib() - before < SLACK_MIB
    assert_others_are_answered(server)


@ROUTES
def test_slow_bodies_hold_nobody_else_up(server: Running, route: str) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(server, route)) for _ in range(100)]
        for connection in slow:
            connection.sendall(head(route, "Content-Length: 1000000") + b"{")
        for connection in slow:
            connection.sendall(b'"')

        assert_others_are_answered(server)


def test_a_slow_body_is_cut_off_in_the_end_even_one_that_never_began(server: Running) -> None:
    route, began = "/extender/prioritize", perf_counter()
    with connected(server, route) as slow, connected(server, route) as silent:
        slow.sendall(head(route, "Content-Length: 1000") + b"{")
        silent.sendall(head(route, "Content-Length: 1000"))
        replies = [connection.makefile("rb").read() for connection in (slow, silent)]

    for reply in replies:
        assert reply.startswith(b"HTTP/1.1 408 ")
        assert b"connection: close" in reply.lower()
        assert "did not arrive within" in json.loads(reply.partition(b"\r\n\r\n")[2])["error"]
    assert perf_counter() - began < BODY_S + SOON_S


@ROUTES
def test_thousands_of_headers_are_answered_or_refused_at_once(server: Running, route: str) -> None:
    many = [f"X-{number}: {number}" for number in range(5_000)]
    began = perf_counter()
    with connected(server, route) as connection:
        connection.sendall(head(route, *many, "Content-Length: 2") + b"{}")

        assert status(connection) in {200, 422, 431}
    assert perf_counter() - began < SOON_S


def test_who_goes_away_in_the_middle_leaves_nothing_behind(server: Running) -> None:
    for _ in range(50):
        with connected(server, "/volcano/prioritize") as connection:
            connection.sendall(head("/volcano/prioritize", "Content-Length: 1000000") + b"{" * 1000)

    assert_others_are_answered(server)
