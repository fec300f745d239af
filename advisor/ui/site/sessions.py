"""Sessions: who holds a token begins one with it, and is known by a cookie from then on. An edge."""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

import structlog
from anyio import CapacityLimiter, to_thread
from sqlalchemy import Engine

from advisor.auth.api_tokens import Token, shown
from advisor.auth.authenticator import RETRY_S, Refusal, Remembered
from advisor.auth.denials import Refusals
from advisor.auth.principal import Caller
from advisor.auth.rate_limit import Rates
from advisor.auth.session_store import Session, end_session, find_session, open_session
from advisor.auth.token_store import find_token
from advisor.database.engine import CONNECTIONS
from advisor.errors import StoreUnavailable
from advisor.ui.site.identity import Opened, Visitor, csrf_of

log = structlog.get_logger(__name__)

LOGINS_PER_S, LOGINS_AT_ONCE = 0.2, 10
"""From one address."""


@dataclass
class SessionEntrance:
    """Who holds a token begins a session with it. Everything but SQL runs on the event loop.

    Args:
        store: where tokens and sessions are.
        now_us: the clock.
        new_id: 256 random bits, in hex.
        refusals: of the same listener.
        rates: of the same listener: pages and other requests of one person count together.
    """

    store: Engine
    now_us: Callable[[], int]
    new_id: Callable[[], str]
    refusals: Refusals
    rates: Rates
    logins: Rates = field(default_factory=lambda: Rates(LOGINS_PER_S, LOGINS_AT_ONCE))
    _found: Remembered[bytes, Session] = field(default_factory=Remembered, init=False)

    def __post_init__(self) -> None:
        self._threads = CapacityLimiter(CONNECTIONS)

    def answers_to(self, host: str) -> bool:  # noqa: ARG002
        """Any name: a request under another name has no cookie."""
        return True

    async def visitor(self, cookie: str) -> Visitor | Refusal:
        """See Entrance."""
        if not cookie:
            return Refusal(401, "no session")
        now_us, id_sha256 = self.now_us(), _hashed(cookie)
        if (session := self._found.get(id_sha256, now_us)) is None:
            try:
                session = await to_thread.run_sync(find_session, self.store, id_sha256, now_us, limiter=self._threads)
            except StoreUnavailable as error:
                log.warning("cannot look up sessions", error=str(error))
                return Refusal(503, "database does not respond", retry_s=RETRY_S)
            if session is not None:
                self._found.put(id_sha256, session, now_us)
        if session is None or session.expires_us <= now_us:
            return Refusal(401, "no such session")
        return Visitor(session.caller, csrf_of(cookie), may_leave=True)

    async def log_in(self, token: str, address: str) -> Opened | Refusal:
        """See Entrance; refusals are counted and written down here."""
        found = await self._logged_in(token, address)
        if isinstance(found, Refusal):
            await self.refusals.record(found, subject="POST /ui/login", address=address)
        return found

    async def _logged_in(self, token: str, address: str) -> Opened | Refusal:
        now_us, asked = self.now_us(), shown(token)
        if wait_s := self.logins.wait_s(address, now_us):
            return Refusal(429, "too many log-ins", retry_s=wait_s)
        if asked is None:
            return Refusal(401, "no token")
        try:
            verdict = await to_thread.run_sync(find_token, self.store, asked, now_us, limiter=self._threads)
            if verdict.token is None or verdict.state != "valid":
                held = verdict.token
                caller = Caller(held.name, frozenset({held.role})) if held else None
                return Refusal(401, f"{verdict.state} token", caller)
            return await self._begun(verdict.token, now_us)
        except StoreUnavailable as error:
            log.warning("log-ins are unavailable", error=str(error))
            return Refusal(503, "database does not respond", retry_s=RETRY_S)

    async def _begun(self, token: Token, now_us: int) -> Opened:
        cookie = self.new_id()

        def begin() -> Session:
            request_id = self.refusals.new_id()
            return open_session(self.store, _hashed(cookie), token, now_us=now_us, request_id=request_id)

        session = await to_thread.run_sync(begin, limiter=self._threads)
        return Opened(cookie, (session.expires_us - now_us) // 10**6)

    async def log_out(self, cookie: str, visitor: Visitor) -> None:
        """See Entrance.

        Raises:
            StoreUnavailable: the database does not answer, so that the session lasts.
        """
        id_sha256, now_us = _hashed(cookie), self.now_us()
        self._found.forget(id_sha256)

        def end() -> None:
            end_session(self.store, id_sha256, visitor.caller, now_us=now_us, request_id=self.refusals.new_id())

        await to_thread.run_sync(end, limiter=self._threads)


def _hashed(cookie: str) -> bytes:
    return sha256(cookie.encode()).digest()
