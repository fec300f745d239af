"""`cohabit admin`: configuration, tokens, database, backup, restore, certificate, audit."""

from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from cohabit.cli.admin.backup import backup_app, restore_command
from cohabit.cli.admin.config import config_app
from cohabit.cli.admin.token import token_app
from cohabit.config.errors import CohabitError
from cohabit.terminal.console import console
from cohabit.terminal.db import database_app
from cohabit.terminal.options import reports_errors, settings

WEBHOOK = "cohabit-admission.cohabit.svc"
"""DNS name of the webhook's Service in the manifests."""

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
def certificate(
    out: Annotated[Path, typer.Argument(help="Folder for ca.crt, tls.crt and tls.key.")],
    name: Annotated[list[str], typer.Option(help="DNS name of the webhook; several are possible.")] = [WEBHOOK],  # noqa: B006
    days: Annotated[int, typer.Option(min=1, max=3650, help="Days until the certificate expires.")] = 365,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the files of a former certificate.")] = False,
) -> None:
    """Make a certificate for the admission webhook, and an authority of its own that signs it.

    For clusters without cert-manager: docs/admission.md has the next commands. The authority's key is not kept.
    """
    from cohabit.server.webhook_certificate import webhook_files, write_webhook_files

    if not overwrite and (there := [str(path) for path in webhook_files(out) if path.exists()]):
        raise CohabitError(f"{', '.join(there)} would be replaced: choose another folder, or add --overwrite")
    files = write_webhook_files(out, name, days, datetime.now(UTC))
    for path in files:
        console.print(str(path), soft_wrap=True)
    console.print(f"caBundle: {b64encode(files.ca.read_bytes()).decode()}", soft_wrap=True, highlight=False)


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
