"""`cohabit admin database`: the database of tokens, audit and reservations. migrate."""

from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from cohabit.terminal.console import console
from cohabit.terminal.options import reports_errors, settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from sqlalchemy import Engine

    from cohabit.config.settings import Settings

STORE_FILE = "store.sqlite"
"""Default file of the database, next to the registry."""

database_app = typer.Typer(
    no_args_is_help=True, help="Create and migrate the database of tokens, audit, plans and bills."
)


@database_app.callback()
def database() -> None:
    """Create and migrate the database of tokens, audit, plans and bills."""


@database_app.command("migrate")
@reports_errors
def migrate_command() -> None:
    """Make the store, or bring it to the version of this Cohabit; nothing happens when it is there already.

    COHABIT_DATABASE names it: a file (SQLite), or postgresql://user:password@host/database, which must exist and be the
    user's own. Without, it is store.sqlite next to the registry. Make a backup before an upgrade.
    """
    from advisor.database.engine import migrate, named

    with opened(settings()) as engine:
        before, now = migrate(engine)
        store = named(engine)
    came = "" if before == now else f"from version {before} to " if before else "made at "
    console.print(f"store {store}: {came}version {now}", soft_wrap=True)


def opened(settings: "Settings") -> "AbstractContextManager[Engine]":
    """The store that the settings name, as it is."""
    from advisor.database.engine import open_store

    return open_store(address_of(settings))


def address_of(settings: "Settings") -> str:
    """Of the store that the settings name."""
    return settings.database or str(settings.registry.parent / STORE_FILE)


@contextmanager
def checked(settings: "Settings") -> "Iterator[Engine]":
    """The store that the settings name.

    Raises:
        StoreOutdated: it has not been made, or lacks migrations.
        StoreAhead: a newer Cohabit has migrated it.
        StoreUnavailable: it does not answer.
    """
    from advisor.database.engine import check

    with opened(settings) as engine:
        check(engine)
        yield engine
