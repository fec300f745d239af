"""A journal: small files numbered 1, 2, 3 …, each created by exactly one writer and never changed. An edge."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ingest.schema.atomic_file import create_exclusively
from ingest.schema.errors import DamagedLake

Entry = TypeVar("Entry")


def entries(folder: Path) -> list[Path]:
    """The files of a journal in order."""
    return sorted(folder.glob("[0-9]*.json"))


def newest(folder: Path) -> tuple[int, Path | None]:
    """Number and file of the newest entry; 0 and None where there is none."""
    path = max(folder.glob("[0-9]*.json"), default=None)
    return (int(path.stem), path) if path else (0, None)


def entry_path(folder: Path, number: int) -> Path:
    """The file of a numbered entry."""
    return folder / f"{number:012d}.json"


def add(folder: Path, number: int, content: bytes) -> bool:
    """Add entry `number`; False when another writer was quicker."""
    return create_exclusively(entry_path(folder, number), content)


def parsed(path: Path, parse: Callable[[bytes], Entry]) -> Entry:
    """Read one entry.

    Raises:
        DamagedLake: it cannot be read.
    """
    try:
        return parse(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DamagedLake(path, repr(error)) from error
