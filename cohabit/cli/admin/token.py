"""`cohabit admin token`: create, list, revoke tokens of the management API; and `cohabit admin audit`."""

import os
import pwd
from datetime import UTC, datetime
from secrets import token_bytes, token_hex
from time import time_ns
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.config.settings import Settings
from cohabit.terminal.console import complaints, console, show_table
from cohabit.terminal.db import checked
from cohabit.terminal.options import reports_errors, settings

if TYPE_CHECKING:
    from advisor.auth.token_store import Doer

DAY_US = 24 * 3600 * 10**6
MAX_DAYS = 3650

token_app = typer.Typer(no_args_is_help=True, help="Who may ask the listener for people and tools.")
Name = Annotated[str, typer.Argument(help="Name of its holder: letters, digits and ._@-")]


@token_app.callback()
def token() -> None:
    """Create, list and revoke tokens of the management API."""


@token_app.command("create")
@reports_errors
def create_command(
    name: Name,
    role: Annotated[str, typer.Option(help="scheduler, sre, finance, planner, team, or admin, which has all rights.")],
    team: Annotated[str | None, typer.Option(help="Role team only: the team whose bills it can read.")] = None,
    days: Annotated[int, typer.Option(min=1, max=MAX_DAYS, help="Validity in days.")] = 90,
) -> None:
    """Create a token and print it; it cannot be shown again.

    Send it in the header of each request, `Authorization: Bearer TOKEN`. Only its hash is saved. It is valid for
    `cohabit serve` with COHABIT_ADVISOR__AUTH=token on the same database.
    """
    from advisor.auth.api_tokens import checked_role
    from advisor.auth.token_store import create_token

    known, doer = checked_role(role), _doer()
    with checked(settings()) as engine:
        expires_us = doer.now_us + days * DAY_US
        text = create_token(engine, name, known, expires_us=expires_us, doer=doer, random_bytes=token_bytes, team=team)
    typer.echo(text)
    complaints.print(f"{name}, {known}, until {_moment(expires_us)}; this is the only time the token is shown")


@token_app.command("list")
@reports_errors
def list_command() -> None:
    """List all tokens ever created, by name; the secrets are not stored."""
    from advisor.auth.token_store import all_tokens

    now_us = _now_us()
    with checked(settings()) as engine:
        rows = [
            (
                each.name,
                each.prefix,
                each.role,
                each.team or "",
                each.state(now_us),
                _day(each.expires_us),
                _day(each.last_used_us),
            )
            for each in all_tokens(engine)
        ]
    show_table("tokens, days in UTC", ("name", "prefix", "role", "team", "state", "until", "last used"), rows)


@token_app.command("revoke")
@reports_errors
def revoke_command(name: Name) -> None:
    """Revoke a token; running servers reject it within seconds."""
    from advisor.auth.token_store import revoke_token

    with checked(settings()) as engine:
        taken = revoke_token(engine, name, _doer())
    console.print(f"revoked {taken.name} ({taken.prefix}, {taken.role})")


def run_audit(settings: Settings, since: datetime | None) -> None:
    """See `cohabit admin audit`."""
    from advisor.auth.audit_log import entries

    since_us = 0 if since is None else int(since.replace(tzinfo=UTC).timestamp()) * 10**6
    with checked(settings) as engine:
        for entry in entries(engine, since_us):
            cells = (_moment(entry.at_us), entry.who, entry.role, entry.action, entry.subject, entry.outcome)
            line = (_printable(cell) or "-" for cell in (*cells, entry.request_id))
            typer.echo("\t".join(line))


def _doer() -> "Doer":
    from advisor.auth.token_store import Doer

    return Doer(local_name(), _now_us(), token_hex(8))


def local_name() -> str:
    """The local user, as the audit log names them."""
    return f"local:{user()}"


def user() -> str:
    """Who runs this, as the machine knows it; a container may have no name for it."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _now_us() -> int:
    return time_ns() // 1000


def _moment(at_us: int) -> str:
    return f"{datetime.fromtimestamp(at_us // 10**6, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _day(at_us: int | None) -> str:
    return "never" if at_us is None else _moment(at_us)[:10]


def _printable(cell: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in cell)
