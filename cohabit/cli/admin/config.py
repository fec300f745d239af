"""`cohabit admin config`: what is set, whether it works, and what can be set. show, check, reference."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from cohabit.terminal.console import console
from cohabit.terminal.options import reports_errors, settings

config_app = typer.Typer(no_args_is_help=True, help="What is set, whether it works, and what can be set.")


@config_app.callback()
def config() -> None:
    """Show, check and document settings."""


@config_app.command("show")
@reports_errors
def show_command() -> None:
    """List every setting in force and its source, environment or default; passwords are hidden."""
    from cohabit.config.describe import sections

    table = Table(title="settings", title_justify="left")
    for heading in ("variable", "value", "from", "meaning"):
        table.add_column(heading, overflow="fold")
    for section in sections(settings(), os.environ):
        for one in section.settings:
            table.add_row(one.name, one.value or "–", "environment" if one.given else "default", one.meaning)
        table.add_section()
    console.print(table)


@config_app.command("check")
@reports_errors
def check_command() -> None:
    """Check that folders, database, model and brokers of the settings work. Exits 1 if not.

    It writes nothing. In production (COHABIT_ENVIRONMENT) every command rejects unsafe defaults.
    """
    from cohabit.doctor.finding import show_findings
    from cohabit.doctor.settings_checks import findings

    raise typer.Exit(not show_findings(findings(settings())))


@config_app.command("reference")
@reports_errors
def reference_command(
    context: typer.Context,
    into: Annotated[
        Path | None, typer.Option("--into", metavar="DIR", help="Write all reference pages to this folder instead.")
    ] = None,
) -> None:
    """Every setting with its default and meaning, as Markdown: docs/settings.md.

    With --into docs, as `make reference` has it, also those of commands, routes, metrics, tables and features.
    """
    from cohabit.reference.pages import PAGES

    root = context.find_root().command
    if into is None:
        typer.echo(PAGES["settings.md"](root), nl=False)
        return
    for name, write in PAGES.items():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        (into / name).write_text(write(root))
        console.print(f"written: {into / name}")
