"""Tokens: what clients present, and what is stored of it. Pure; advisor/auth/token_store.py holds them in SQL.

A token is `chb_`, 12 hex digits by which it is found, and 64 hex digits of secret: 256 random bits. Of the secret only
SHA-256 is kept. Slow and salted hashes protect what people choose, for that can be guessed. 256 random bits cannot be,
at any speed, and no two are alike: salt would add nothing, and slowness would be paid with each request.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from typing import Literal, get_args

from advisor.errors import AdvisorError, UnknownRole

TokenRole = Literal["scheduler", "sre", "finance", "planner", "admin", "team"]
ROLES: tuple[TokenRole, ...] = get_args(TokenRole)
SECRET_BYTES = 32
PREFIX_BYTES = 6
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
_TOKEN = re.compile(r"chb_([0-9a-f]{12})_([0-9a-f]{64})")
MAX_TEAM_CHARS = 200
MAX_SIGNED_CHARS = 8192
"""Of a token of an issuer: with some hundred groups it has 4,000; longer ones are not looked at."""
_SIGNED = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")

State = Literal["valid", "expired", "revoked"]


@dataclass(frozen=True, slots=True)
class Token:
    """What is kept of a token.

    Args:
        prefix: by which it is found; no secret.
        name: of its holder.
        expires_us: from then on it is worth nothing.
        last_used_us: to within an hour; None while it was not used.
        revoked_us: when it was taken back; None while it was not.
        team: the team whose bills role `team` reads; None for other roles.
    """

    prefix: str
    name: str
    role: TokenRole
    created_us: int
    expires_us: int
    last_used_us: int | None = None
    revoked_us: int | None = None
    team: str | None = None

    def state(self, now_us: int) -> State:
        """Whether it opens anything now."""
        if self.revoked_us is not None:
            return "revoked"
        return "valid" if now_us < self.expires_us else "expired"


@dataclass(frozen=True, slots=True)
class Shown:
    """A presented token, parsed; the secret itself is not held.

    Args:
        prefix: 12 hex digits.
        secret_sha256: (32) bytes.
    """

    prefix: str
    secret_sha256: bytes

    def opens(self, kept_sha256: bytes | None) -> bool:
        """Whether the secret equals the stored one, in constant time; None is no secret at all."""
        same = compare_digest(self.secret_sha256, kept_sha256 or bytes(SECRET_BYTES))
        return same and kept_sha256 is not None


@dataclass(frozen=True, slots=True)
class Signed:
    """A token that looks like one that an issuer signed (a JSON Web Token), not read yet."""

    text: str = field(repr=False)


def new_token(random_bytes: Callable[[int], bytes]) -> tuple[str, Shown]:
    """A token that was never there before, and what may be kept of it."""
    prefix, secret = random_bytes(PREFIX_BYTES).hex(), random_bytes(SECRET_BYTES).hex()
    return f"chb_{prefix}_{secret}", Shown(prefix, _hashed(secret))


def shown(text: str) -> Shown | None:
    """A token taken apart; None where the text is none."""
    found = _TOKEN.fullmatch(text)
    return Shown(found[1], _hashed(found[2])) if found else None


def signed(text: str) -> Signed | None:
    """A token of an issuer; None where the text cannot be one."""
    return Signed(text) if len(text) <= MAX_SIGNED_CHARS and _SIGNED.fullmatch(text) else None


def _hashed(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def checked_name(name: str) -> str:
    """The name.

    Raises:
        AdvisorError: it could be mistaken, or break a line of a list.
    """
    if not NAME.fullmatch(name):
        raise AdvisorError(
            f"invalid token name {name[:120]!r}: use up to 100 letters, digits and ._@-; begin with a letter or digit"
        )
    return name


def checked_role(role: str) -> TokenRole:
    """The role.

    Raises:
        UnknownRole: there is none of that name.
    """
    for known in ROLES:
        if role == known:
            return known
    raise UnknownRole(role, ROLES)


def checked_team(role: TokenRole, team: str | None) -> str | None:
    """The team of a token.

    Raises:
        AdvisorError: role `team` goes without, another one with a team, or it cannot be the name of one.
    """
    if (team is None) != (role != "team"):
        raise _bad_token_team(role, team)
    if team is not None and not (0 < len(team) <= MAX_TEAM_CHARS and team.isprintable()):
        raise _bad_token_team(role, team)
    return team


def _bad_token_team(role: str, team: str | None) -> AdvisorError:
    team_text = f"with team {team[:80]!r}" if team is not None else "without a team"
    return AdvisorError(
        f"a token of role {role} {team_text} is not allowed: role team requires --team, other roles exclude it"
    )
