"""`cohabit admin backup`: everything as one folder, and back. make, verify, restore."""

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.terminal.console import bar, console
from cohabit.terminal.db import checked, opened
from cohabit.terminal.options import reports_errors, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Engine

    from cohabit.backup.archive import Manifest, Places, Progress
    from cohabit.config.settings import Settings

backup_app = typer.Typer(
    no_args_is_help=True,
    help="Lake, models, plans, bills and store as one folder that can be checked, and back.",
)
LITTLE = 20_000_000
"""Bytes that are copied before anybody has read how far it is."""
BackupFolder = Annotated[Path, typer.Argument(help="Of the backup.")]


@backup_app.callback()
def backup() -> None:
    """Back up lake, models, plans, bills and database to one folder, verify it, and restore it."""


@backup_app.command("make")
@reports_errors
def make_command(
    folder: Annotated[Path, typer.Argument(help="Output folder; empty or new.")],
    once: Annotated[
        bool, typer.Option("--once", help="For reruns: keep a complete backup, replace a partial one.")
    ] = False,
) -> None:
    """Copy lake, registry, plans, charge files and database, without downtime.

    The database is written as Parquet, so that it can be restored to SQLite or PostgreSQL. Browser sessions are left
    out, and so are snapshots, which `cohabit refresh` creates again. Protect the folder like the database: it contains
    digests of tokens.
    """
    from cohabit.backup.archive import back_up, back_up_once

    own, make = settings(), back_up_once if once else back_up
    with checked(own) as engine, _shown("backing up") as progress:
        _show_summary("backed up", folder, make(_places(own, engine), folder, progress))


@backup_app.command("verify")
@reports_errors
def verify_command(folder: BackupFolder) -> None:
    """Read a whole backup and compare checksums."""
    from cohabit.backup.archive import verify

    with _shown("checking") as progress:
        _show_summary("whole", folder, verify(folder, progress))


@reports_errors
def restore_command(folder: BackupFolder) -> None:
    """Restore a backup to the locations in the settings, all of which must be empty.

    It verifies the backup first, and migrates the database to this version at the end. Then run `cohabit refresh`.
    """
    from cohabit.backup.archive import restore

    own = settings()
    with opened(own) as engine, _shown("restoring") as progress:
        _show_summary("restored", folder, restore(_places(own, engine), folder, progress))


def _places(own: "Settings", engine: "Engine") -> "Places":
    from cohabit.backup.archive import Places
    from cohabit.plans.create import PLANS
    from ingest.lake.folder import Folder
    from ingest.lake.stores import store_of

    folders = {"lines": own.billing.ledger_dir, "plans": own.registry.parent / PLANS, "registry": own.registry}
    lake = store_of(own.lake)
    if isinstance(lake, Folder):
        return Places(own.cluster, {**folders, "lake": lake.root}, engine)
    return Places(own.cluster, folders, engine, lake)


@contextmanager
def _shown(title: str) -> "Iterator[Progress]":
    """Report every twentieth of the work, and for small backups the end alone."""
    counts: dict[str, int] = {}
    with bar(title) as shown:

        def progress(what: str, done: int, of: int) -> None:
            part = done * 20 // max(of, 1) if of > LITTLE else done // max(of, 1)
            if part != counts.get(what, 0):
                counts[what] = part
                shown.advance(f"{title}: {what}, MB", done // 1_000_000, of // 1_000_000)

        yield progress


def _show_summary(what: str, folder: Path, found: "Manifest") -> None:
    console.print(
        f"{what}: {folder}, cluster {found.cluster}, made {found.made_at}, {len(found.files):,} files, "
        f"{found.size:,} bytes, store version {found.store_version}",
        soft_wrap=True,
    )
