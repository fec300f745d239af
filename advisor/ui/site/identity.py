"""Entrance: how a browser is recognised; where access is open, as the user of this machine. Pure.

advisor/ui/site/sessions.py recognises those who logged in.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import new as hmac
from typing import Protocol

from advisor.api.http.csrf import is_loopback
from advisor.auth.api_tokens import ROLES
from advisor.auth.authenticator import Refusal
from advisor.auth.denials import Refusals
from advisor.auth.principal import Caller
from advisor.auth.rate_limit import Rates


@dataclass(frozen=True, slots=True)
class Visitor:
    """A user of the pages.

    Args:
        caller: who, and as what.
        csrf: what every form of theirs must bring back; no other site can read it.
        may_leave: whether there is a session that they could end.
    """

    caller: Caller
    csrf: str
    may_leave: bool


@dataclass(frozen=True, slots=True)
class Opened:
    """A session that was just begun: what its cookie says, and for how many seconds."""

    cookie: str = field(repr=False)
    lasts_s: int


class Entrance(Protocol):
    """Where visitors come in."""

    @property
    def refusals(self) -> Refusals | None:
        """Where refused requests are counted and recorded; None without authentication."""

    @property
    def rates(self) -> Rates | None:
        """How often one of them may ask; None as often as they like."""

    @property
    def now_us(self) -> Callable[[], int]:
        """The clock."""

    @property
    def new_id(self) -> Callable[[], str]:
        """Makes what a cookie says."""

    def answers_to(self, host: str) -> bool:
        """Whether this is a name under which pages are given."""

    async def visitor(self, cookie: str) -> Visitor | Refusal:
        """The visitor of this cookie, or the reason of a refusal."""

    async def log_in(self, token: str, address: str) -> Opened | Refusal:
        """Begin a session for the holder of a token."""

    async def log_out(self, cookie: str, visitor: Visitor) -> None:
        """End a session."""


def csrf_of(secret: str) -> str:
    """What forms bring back: bound to a cookie, and telling nothing of it."""
    return hmac(secret.encode(), b"cohabit forms", sha256).hexdigest()


@dataclass
class OpenEntrance:
    """Any client of a listener on loopback is the user of this machine, and may do everything.

    Another site could have its name mean our address, and then read what we say: only loopback's names are answered.

    Args:
        name: as in the audit.
        now_us: the clock.
        new_id: 256 random bits, in hex.
    """

    name: str
    now_us: Callable[[], int]
    new_id: Callable[[], str]
    refusals: Refusals | None = field(default=None, init=False)
    rates: Rates | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._visitor = Visitor(Caller(self.name, frozenset(ROLES)), csrf_of(self.new_id()), may_leave=False)

    def answers_to(self, host: str) -> bool:
        """Loopback's names and addresses, on any port."""
        return is_loopback(host)

    async def visitor(self, cookie: str) -> Visitor | Refusal:  # noqa: ARG002
        """Always the same one."""
        return self._visitor

    async def log_in(self, token: str, address: str) -> Opened | Refusal:  # noqa: ARG002
        """There is nothing to log in to."""
        return Refusal(401, "access is open")

    async def log_out(self, cookie: str, visitor: Visitor) -> None:
        """There is nothing to end."""
