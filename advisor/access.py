"""Access: what a token opens, remembered for seconds so that the store is not asked for each request. An edge."""

from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Literal

import structlog
from anyio import CapacityLimiter, to_thread
from sqlalchemy import Engine

from advisor.errors import StoreUnavailable
from advisor.store import CONNECTIONS, named
from advisor.token_store import Verdict, find_token
from advisor.tokens import Shown, Token

log = structlog.get_logger(__name__)

REMEMBERED_US = 5 * 10**6
"""How long a verdict is believed: a token that is taken back may open doors for so long."""
MOST_REMEMBERED = 1024
SILENCE_US = 10**6
"""How long a store that did not answer is not asked again."""

Status = Literal[401, 403, 503]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request was not let in.

    Args:
        status: 401 nobody knows who asks, 403 somebody else may, 503 nobody can say.
        why: in a word or two, for the audit; the caller learns less.
        token: whose, where that is known.
    """

    status: Status
    why: str
    token: Token | None = None


@dataclass(slots=True)
class Remembered:
    """The newest verdicts, a bounded number of them, each for a while."""

    kept: OrderedDict[Shown, tuple[Verdict, int]] = field(default_factory=OrderedDict)

    def get(self, asked: Shown, now_us: int) -> Verdict | None:
        """The verdict, if it is still believed; one dated in the future, by a clock put back since, is not."""
        verdict, at_us = self.kept.get(asked, (None, 0))
        return verdict if 0 <= now_us - at_us < REMEMBERED_US else None

    def put(self, asked: Shown, verdict: Verdict, now_us: int) -> None:
        """Remember a verdict, in the place of the oldest one where there is no room."""
        self.kept.pop(asked, None)
        while len(self.kept) >= MOST_REMEMBERED:
            self.kept.popitem(last=False)
        self.kept[asked] = verdict, now_us


@dataclass
class Access:
    """Who may do what on one listener. Everything but SQL runs on the event loop, so that nothing needs a lock.

    Args:
        store: where tokens are.
        now_us: the clock.
    """

    store: Engine
    now_us: Callable[[], int]
    _good: Remembered = field(default_factory=Remembered, init=False)
    _bad: Remembered = field(default_factory=Remembered, init=False)
    """Apart, so that no flood of wrong tokens pushes out the good ones."""
    _silent_until_us: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._threads = CapacityLimiter(CONNECTIONS)

    async def refusal(self, asked: Shown | None, roles: Collection[str]) -> Refusal | None:
        """Why somebody who shows this may not do what those roles may; None to let them in.

        Args:
            asked: the token that is shown; None where none is.
            roles: who may; with `anyone`, whoever has a valid token.
        """
        if asked is None:
            return Refusal(401, "no token")
        try:
            verdict = await self._verdict(asked)
        except StoreUnavailable:
            return Refusal(503, "store does not answer")
        token = verdict.token
        if token is None or verdict.state != "valid":
            return Refusal(401, f"{verdict.state} token", token)
        if token.role == "admin" or token.role in roles or "anyone" in roles:
            return None
        return Refusal(403, "another role", token)

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
            raise StoreUnavailable(named(self.store), "it did not a moment ago")
        try:
            return await to_thread.run_sync(find_token, self.store, asked, now_us, limiter=self._threads)
        except StoreUnavailable as error:
            log.warning("tokens cannot be looked for", error=str(error))
            self._silent_until_us = self.now_us() + SILENCE_US
            raise
