"""Newest file: what a file next to the snapshots said last, read again when it changed. An edge."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

import msgspec

from advisor.errors import AdvisorError

T = TypeVar("T")
Stamp = tuple[int, int, int]
"""When a file was written, its size and its number on disk."""


@dataclass
class NewestFile(Generic[T]):
    """What a file says; any number of threads may ask.

    Args:
        path: of the file.
        decode: reads it; None where it is not there. Its errors are kept like what it returns.
        read: how often the file was read.
    """

    path: Path
    decode: Callable[[], T | None]
    read: int = field(default=0, init=False)
    _stamp: Stamp | None = field(default=None, init=False)
    _found: T | AdvisorError | None = field(default=None, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def newest(self) -> T | None:
        """What the file says now; None where it is not there.

        Raises:
            AdvisorError: it cannot be read.
        """
        with self._lock:
            if (stamp := self._stamped()) != self._stamp:
                self._found, self._stamp = self._looked(), stamp
            found = self._found
        if isinstance(found, AdvisorError):
            raise found.with_traceback(None)
        return found

    def _looked(self) -> T | AdvisorError | None:
        self.read += 1
        try:
            return self.decode()
        except AdvisorError as error:
            return error

    def _stamped(self) -> Stamp | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


class _Head(msgspec.Struct, frozen=True):
    format: int


def read_published(
    path: Path, of: type[T], version: int, most_bytes: int, unreadable: Callable[[str], AdvisorError]
) -> T | None:
    """A published file of JSON with a field `format`.

    Args:
        path: of the file.
        of: what it holds.
        version: its format.
        most_bytes: a longer file is not read.
        unreadable: the error for a reason; it says what to do.

    Returns:
        None where it is not there.

    Raises:
        AdvisorError: `unreadable`; the file is broken, too large, or of another Cohabit.
    """
    try:
        with path.open("rb") as file:
            content = file.read(most_bytes + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(error.strerror or str(error)) from error
    if len(content) > most_bytes:
        raise unreadable(f"it exceeds {most_bytes} bytes")
    try:
        found = msgspec.json.decode(content, type=_Head).format
        if found != version:
            raise unreadable(f"its format is {found}, and this Cohabit reads {version}")
        return msgspec.json.decode(content, type=of)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(str(error)) from error
