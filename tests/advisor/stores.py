"""Stores in which all migrations have run: copies of one, which take less long than to run them again."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Engine

from advisor.database.engine import migrate, open_store


def migrated_file(path: Path) -> str:
    """The address of a new SQLite file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_migrated())
    path.chmod(0o600)
    return str(path)


@contextmanager
def migrated_store(path: Path) -> Iterator[Engine]:
    """A new SQLite file, open."""
    with open_store(migrated_file(path)) as store:
        yield store


@cache
def _migrated() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, "store.sqlite")
        with open_store(str(path)) as store:
            migrate(store)
        return path.read_bytes()
