"""Tokens in SQL: made, found, listed and taken back; what changes them is in the audit with it, or did not happen."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Literal

from sqlalchemy import Engine, or_, select
from sqlalchemy.exc import IntegrityError

from advisor.auth.api_tokens import Shown, State, Token, TokenRole, checked_name, checked_team, new_token
from advisor.auth.audit_log import Entry, add
from advisor.database.engine import TOKENS, reading, writing
from advisor.errors import AdvisorError, StoreUnavailable

USED_EVERY_US = 3600 * 10**6
"""How often it is written down, at most, that a token was used."""
COLUMNS = tuple(TOKENS.c[field.name] for field in fields(Token))


@dataclass(frozen=True, slots=True)
class Doer:
    """Who changes something, when, and under which id.

    Args:
        who: as in the audit.
        now_us: microseconds since 1970.
        request_id: as in the audit.
    """

    who: str
    now_us: int
    request_id: str

    def entry(self, action: str, subject: str, outcome: str) -> Entry:
        """Its row of the audit; any command with access to the store is its admin."""
        return Entry(self.now_us, self.who, "admin", action, subject, outcome, self.request_id)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of looking for a token.

    Args:
        state: `unknown` where no token has that prefix and secret.
        token: what is kept of it; None where it is unknown.
    """

    state: State | Literal["unknown"]
    token: Token | None


UNKNOWN = Verdict("unknown", None)


def create_token(
    engine: Engine,
    name: str,
    role: TokenRole,
    *,
    expires_us: int,
    doer: Doer,
    random_bytes: Callable[[int], bytes],
    team: str | None = None,
) -> str:
    """Make a token; one of role `team` for a team.

    Returns:
        The token itself, which cannot be shown again.

    Raises:
        AdvisorError: the name does not fit; role `team` goes without a team, or another one with a team; there is, or
            was, a token of that name: the audit could not distinguish the two.
        StoreUnavailable: the database does not answer.
    """
    text, made = new_token(random_bytes)
    row = {
        "prefix": made.prefix,
        "name": checked_name(name),
        "role": role,
        "secret_sha256": made.secret_sha256,
        "created_us": doer.now_us,
        "expires_us": expires_us,
        "team": checked_team(role, team),
    }
    of = f" of {team}" if team else ""
    try:
        with writing(engine) as connection:
            connection.execute(TOKENS.insert().values(row))
            add(connection, doer.entry("token create", f"{name} {made.prefix} as {role}{of}", "done"))
    except IntegrityError as error:
        raise AdvisorError(
            f"token name {name!r} is or was in use, and the audit log needs unique names: choose another, such as "
            f"{name}-2, then revoke the old token"
        ) from error
    return text


def revoke_token(engine: Engine, name: str, doer: Doer) -> Token:
    """Take a token back; it stays in lists.

    Raises:
        AdvisorError: none has that name, or it was taken back before.
        StoreUnavailable: the database does not answer.
    """
    open_one = TOKENS.update().where(TOKENS.c.name == name, TOKENS.c.revoked_us.is_(None))
    with writing(engine) as connection:
        if not connection.execute(open_one.values(revoked_us=doer.now_us)).rowcount:
            raise AdvisorError(f"no active token named {name[:120]!r}: `cohabit admin token list` lists all tokens")
        token = Token(*connection.execute(select(*COLUMNS).where(TOKENS.c.name == name)).one())
        add(connection, doer.entry("token revoke", f"{name} {token.prefix} as {token.role}", "done"))
    return token


def all_tokens(engine: Engine) -> list[Token]:
    """All tokens there ever were, by name.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    with reading(engine) as connection:
        return [Token(*row) for row in connection.execute(select(*COLUMNS).order_by(TOKENS.c.name))]


def find_token(engine: Engine, asked: Shown, now_us: int) -> Verdict:
    """Look up a presented token, and record its use from time to time.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    wanted = select(TOKENS.c.secret_sha256, *COLUMNS).where(TOKENS.c.prefix == asked.prefix)
    with reading(engine) as connection:
        row = connection.execute(wanted).one_or_none()
    if not asked.opens(None if row is None else bytes(row[0])) or row is None:
        return UNKNOWN
    token = Token(*row[1:])
    last_us = token.last_used_us
    if token.state(now_us) == "valid" and (last_us is None or last_us <= now_us - USED_EVERY_US):
        _used(engine, token.prefix, now_us)
    return Verdict(token.state(now_us), token)


def _used(engine: Engine, prefix: str, now_us: int) -> None:
    longer_ago = or_(TOKENS.c.last_used_us.is_(None), TOKENS.c.last_used_us < now_us)
    with suppress(StoreUnavailable), writing(engine) as connection:  # a note; its failure refuses no request
        connection.execute(TOKENS.update().where(TOKENS.c.prefix == prefix, longer_ago).values(last_used_us=now_us))
