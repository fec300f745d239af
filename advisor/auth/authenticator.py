"""Access: what a token opens, remembered for seconds so that the store is not asked for each request. An edge."""

from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import structlog
from anyio import CapacityLimiter, to_thread
from sqlalchemy import Engine

from advisor.auth.api_tokens import Shown, Signed
from advisor.auth.principal import Caller
from advisor.auth.token_store import Verdict, find_token
from advisor.database.engine import CONNECTIONS, named
from advisor.errors import IssuerUnavailable, StoreUnavailable

if TYPE_CHECKING:
    from advisor.auth.jwks import Issuer

log = structlog.get_logger(__name__)

REMEMBERED_US = 5 * 10**6
"""Cache time of a result: a revoked token stays valid for at most this long."""
MAX_REMEMBERED = 1024
SILENCE_US = 10**6
"""How long a store that did not answer is not asked again."""
RETRY_S = 5
"""Retry-After of a client that cannot be authenticated for now, seconds."""

Status = Literal[401, 403, 429, 503]
A = TypeVar("A")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request was not let in.

    Args:
        status: 401 unknown principal, 403 missing role, 429 too many requests, 503 authentication unavailable.
        why: in a word or two, for the audit; the caller learns less.
        caller: who, where that is known.
        retry_s: when to ask again; 0 where nothing is known of that.
    """

    status: Status
    why: str
    caller: Caller | None = None
    retry_s: int = 0


def forbidden(caller: Caller, roles: Collection[str]) -> Refusal | None:
    """Why a caller may not do what those roles may; None to let them in."""
    return None if caller.may(roles) else Refusal(403, "another role" if caller.roles else "no role", caller)


@dataclass(slots=True)
class Remembered(Generic[A, V]):
    """The newest verdicts on what is shown, a bounded number of them, each for a while."""

    kept: OrderedDict[A, tuple[V, int]] = field(default_factory=OrderedDict)

    def get(self, asked: A, now_us: int) -> V | None:
        """The cached result, if it is fresh; one dated in the future, by a clock set back since, is not."""
        verdict, at_us = self.kept.get(asked, (None, 0))
        return verdict if 0 <= now_us - at_us < REMEMBERED_US else None

    def forget(self, asked: A) -> None:
        """Ask the store the next time."""
        self.kept.pop(asked, None)

    def put(self, asked: A, verdict: V, now_us: int) -> None:
        """Remember a verdict, in the place of the oldest one where there is no room."""
        self.kept.pop(asked, None)
        while len(self.kept) >= MAX_REMEMBERED:
            self.kept.popitem(last=False)
        self.kept[asked] = verdict, now_us


@dataclass
class Access:
    """Who may do what on one listener. Everything but SQL runs on the event loop, so that nothing needs a lock.

    Args:
        store: where tokens are.
        now_us: the clock.
        issuer: OIDC issuer whose tokens are accepted too; None accepts none.
    """

    store: Engine
    now_us: Callable[[], int]
    issuer: "Issuer | None" = None
    _good: Remembered[Shown, Verdict] = field(default_factory=Remembered, init=False)
    _bad: Remembered[Shown, Verdict] = field(default_factory=Remembered, init=False)
    """Apart, so that no flood of wrong tokens pushes out the good ones."""
    _silent_until_us: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._threads = CapacityLimiter(CONNECTIONS)

    async def caller(self, asked: Shown | Signed | None) -> Caller | Refusal:
        """The principal of these credentials, or the reason for a refusal.

        Args:
            asked: the token that is shown; None where none is.
        """
        if asked is None:
            return Refusal(401, "no token")
        return await (self._signed(asked) if isinstance(asked, Signed) else self._shown(asked))

    async def _shown(self, asked: Shown) -> Caller | Refusal:
        try:
            verdict = await self._verdict(asked)
        except StoreUnavailable:
            return Refusal(503, "database does not respond", retry_s=RETRY_S)
        if verdict.token is None:
            return Refusal(401, f"{verdict.state} token")
        caller = Caller(verdict.token.name, frozenset({verdict.token.role}), verdict.token.team)
        return caller if verdict.state == "valid" else Refusal(401, f"{verdict.state} token", caller)

    async def _signed(self, asked: Signed) -> Caller | Refusal:
        if self.issuer is None:
            return Refusal(401, "no issuer is trusted")
        try:
            judged = await self.issuer.judged(asked)
        except IssuerUnavailable:
            return Refusal(503, "issuer does not respond", retry_s=RETRY_S)
        if judged.why or judged.caller is None:
            return Refusal(401, judged.why, judged.caller)
        return judged.caller

    async def _verdict(self, asked: Shown) -> Verdict:
        now_us = self.now_us()
        found = self._good.get(asked, now_us) or self._bad.get(asked, now_us)
        if found is None:
            found = await self._looked_for(asked, now_us)
            (self._bad if found.state != "valid" else self._good).put(asked, found, now_us)
        if found.token is not None and found.token.state(now_us) != "valid":
            return Verdict(found.token.state(now_us), found.token)
        return found

    async def _looked_for(self, asked: Shown, now_us: int) -> Verdict:
        if 0 < self._silent_until_us - now_us <= SILENCE_US:
            raise StoreUnavailable(named(self.store), "its last request failed")
        try:
            return await to_thread.run_sync(find_token, self.store, asked, now_us, limiter=self._threads)
        except StoreUnavailable as error:
            log.warning("cannot look up tokens", error=str(error))
            self._silent_until_us = self.now_us() + SILENCE_US
            raise
