"""`cohabit admin`: configuration, tokens, database, backup, restore, audit."""

from datetime import datetime
from typing import Annotated

import typer

from cohabit.cli.admin.backup import backup_app, restore_command
from cohabit.cli.admin.config import config_app
from cohabit.cli.admin.token import token_app
from cohabit.terminal.db import database_app
from cohabit.terminal.options import reports_errors, settings

admin_app = typer.Typer(no_args_is_help=True, help="Manage configuration, tokens, database, backups and the audit log.")
admin_app.add_typer(config_app, name="config")
admin_app.add_typer(token_app, name="token")
admin_app.add_typer(database_app, name="database")
admin_app.add_typer(backup_app, name="backup")
admin_app.command("restore")(restore_command)


@admin_app.callback()
def admin() -> None:
    """Manage configuration, tokens, database, backups and the audit log."""


@admin_app.command()
@reports_errors
def audit(
    since: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="Day or time, UTC; default: all rows."),
    ] = None,
) -> None:
    """List the audit log in order of time: tokens created and revoked, decisions, and rejected requests.

    Fields are separated by tabs: time, who, role, action, subject, outcome, request id.
    """
    from cohabit.cli.admin.token import run_audit

    run_audit(settings(), since)
