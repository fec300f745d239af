"""Sessions in SQL: opened with a token, found while that token opens something, ended; in the audit with it."""

from dataclasses import dataclass

from sqlalchemy import Engine, select

from advisor.auth.api_tokens import Token, checked_role
from advisor.auth.audit_log import Entry, add
from advisor.auth.principal import Caller
from advisor.database.engine import SESSIONS, TOKENS, reading, writing

SESSION_US = 12 * 3600 * 10**6
"""How long a session lasts at most: a shift."""


@dataclass(frozen=True, slots=True)
class Session:
    """A user who is logged in with a browser.

    Args:
        caller: who, and as what.
        expires_us: from then on it opens nothing.
    """

    caller: Caller
    expires_us: int


def open_session(engine: Engine, id_sha256: bytes, token: Token, *, now_us: int, request_id: str) -> Session:
    """Begin a session for the holder of a token; expired sessions are removed.

    Args:
        engine: the store.
        id_sha256: (32) bytes, of what the cookie will say.
        token: which they showed, and which is good.
        now_us: microseconds since 1970.
        request_id: as in the audit.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    caller = Caller(token.name, frozenset({token.role}), token.team)
    session = Session(caller, min(now_us + SESSION_US, token.expires_us))
    row = {
        "id_sha256": id_sha256,
        "token_prefix": token.prefix,
        "who": token.name,
        "roles": token.role,
        "created_us": now_us,
        "expires_us": session.expires_us,
    }
    with writing(engine) as connection:
        connection.execute(SESSIONS.delete().where(SESSIONS.c.expires_us <= now_us))
        connection.execute(SESSIONS.insert().values(row))
        add(connection, _entry(session.caller, "log in", now_us, request_id))
    return session


def find_session(engine: Engine, id_sha256: bytes, now_us: int) -> Session | None:
    """A session that still opens something; its token has neither ended nor been taken back.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    wanted = (
        select(SESSIONS.c.who, SESSIONS.c.roles, SESSIONS.c.expires_us, TOKENS.c.team)
        .join(TOKENS, TOKENS.c.prefix == SESSIONS.c.token_prefix)
        .where(SESSIONS.c.id_sha256 == id_sha256, TOKENS.c.revoked_us.is_(None))
        .where(SESSIONS.c.expires_us > now_us, TOKENS.c.expires_us > now_us)
    )
    with reading(engine) as connection:
        row = connection.execute(wanted).one_or_none()
    if row is None:
        return None
    who, roles, expires_us, team = row
    return Session(Caller(who, frozenset(map(checked_role, roles.split(","))), team), expires_us)


def end_session(engine: Engine, id_sha256: bytes, caller: Caller, *, now_us: int, request_id: str) -> None:
    """End one: what the cookie says opens nothing any more.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    with writing(engine) as connection:
        connection.execute(SESSIONS.delete().where(SESSIONS.c.id_sha256 == id_sha256))
        add(connection, _entry(caller, "log out", now_us, request_id))


def _entry(caller: Caller, action: str, now_us: int, request_id: str) -> Entry:
    return Entry(now_us, caller.name, ",".join(sorted(caller.roles)), action, "pages", "done", request_id)
