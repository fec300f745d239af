"""Peers: other servers of the same cluster, which get every assumed pod of this one. An edge.

One thread for each sends all that gathered since it sent last. A peer that does not answer is left alone for a second;
what it missed is counted, and its herd guard knows less meanwhile.
"""

import http.client
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event, Thread
from urllib.parse import urlsplit

import msgspec
import structlog
from prometheus_client import CollectorRegistry, Counter

from advisor.api.scheduler.peers import MAX_AT_ONCE, booking_message
from advisor.cluster.assumed_pod_load import Booked

log = structlog.get_logger()

MAX_WAITING = 2_000
TIMEOUT_S = 1.0
PAUSE_S = 1.0
"""How long a peer that did not answer is left alone."""
_encode = msgspec.json.Encoder().encode


@dataclass
class Peer:
    """One other server.

    Args:
        url: of its listener for schedulers, http or https.
        now_us: the clock.
        lost: counts assumed pods that it missed.
        secured: shows our certificate; None for http.
    """

    url: str
    now_us: Callable[[], int]
    lost: Counter
    secured: ssl.SSLContext | None = None
    _waiting: deque[Booked] = field(default_factory=lambda: deque(maxlen=MAX_WAITING), init=False)
    _wake: Event = field(default_factory=Event, init=False)
    _ended: Event = field(default_factory=Event, init=False)
    _failed: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._thread = Thread(target=self._run, name=f"cohabit-peer-{self.url}", daemon=True)
        self._thread.start()

    def send(self, booked: Booked) -> None:
        """Send it soon; never waits."""
        if len(self._waiting) == MAX_WAITING:
            self.lost.labels(self.url).inc()
        self._waiting.append(booked)
        self._wake.set()

    def close(self) -> None:
        """End the thread; what is waiting is dropped."""
        self._ended.set()
        self._wake.set()
        self._thread.join(TIMEOUT_S)

    def _run(self) -> None:
        connection = self._connection()
        while not self._ended.is_set():
            self._wake.wait()
            self._wake.clear()
            while self._waiting and not self._ended.is_set():
                self._send(connection)

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port
        if self.secured is not None:
            return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=self.secured)
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)

    def _send(self, connection: http.client.HTTPConnection) -> None:
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_AT_ONCE))]
        now_us = self.now_us()
        body = _encode([booking_message(booked, now_us) for booked in batch])
        # a second time, for a connection that was idle is closed by the other side
        problem = _asked(connection, body) and _asked(connection, body)
        if problem:
            self.lost.labels(self.url).inc(len(batch))
            self._ended.wait(PAUSE_S)
        self._say(problem)

    def _say(self, problem: str) -> None:
        if bool(problem) != self._failed:
            self._failed = bool(problem)
            log.warning(
                "a peer is not reached" if problem else "a peer is reached again", peer=self.url, problem=problem
            )


def others(urls: Sequence[str], host: str, port: int) -> tuple[str, ...]:
    """Peers without this server itself, so that all servers of a cluster can be given one and the same list.

    Args:
        urls: of listeners for schedulers.
        host: name of this machine; a peer is on it where it is called so, alone or before a domain.
        port: of this server's listener for schedulers.
    """
    parts = ((url, urlsplit(url)) for url in urls)
    return tuple(url for url, of in parts if of.port != port or not f"{of.hostname}.".startswith(f"{host.lower()}."))


def _asked(connection: http.client.HTTPConnection, body: bytes) -> str:
    """Why a message was not taken; empty when it was."""
    try:
        connection.request("POST", "/assumed-pods", body)
        reply = connection.getresponse()
        reply.read()
    except (OSError, http.client.HTTPException, UnicodeError) as error:  # the last of a host that no name can be
        connection.close()
        return str(error) or repr(error)
    return "" if reply.status == http.HTTPStatus.NO_CONTENT else f"it said {reply.status}"


@dataclass
class Peers:
    """All of them; call it with an assumed pod.

    Args:
        urls: of their listeners for schedulers.
        now_us: the clock.
        metrics: where the loss is counted.
        secured: shows our certificate; None for http.
    """

    urls: Sequence[str]
    now_us: Callable[[], int]
    metrics: CollectorRegistry
    secured: ssl.SSLContext | None = None
    _all: list[Peer] = field(init=False)

    def __post_init__(self) -> None:
        name, what = "cohabit_assumed_pods_lost", "Assumed pods that a peer missed."
        lost = Counter(name, what, ["peer"], registry=self.metrics)
        self._all = [Peer(url.rstrip("/"), self.now_us, lost, self.secured) for url in self.urls]

    def __call__(self, booked: Booked) -> None:
        """Send to all of them soon."""
        for peer in self._all:
            peer.send(booked)

    def close(self) -> None:
        """Stop sending."""
        for peer in self._all:
            peer.close()
