"""Atomic file operations: readers see a whole file or none. An edge."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


def replace_atomically(path: Path, content: bytes) -> None:
    """Write `path`, whether or not it exists; readers see the old content or the new."""
    with written_whole(path) as file:
        file.buffer.write(content)


@contextmanager
def written_whole(path: Path) -> Iterator[TextIO]:
    """A text file to write piece by piece, which appears under its name at the end; nothing where that fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)  # a full disk has no room for halves
