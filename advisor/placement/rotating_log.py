"""Kept lines: a folder of files of lines that only grow, the oldest of which go where they become too many. An edge.

Files are named by machine and process: in containers that share a folder every first process has the same number.
"""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from errno import ENOSPC
from pathlib import Path

SUFFIX = ".jsonl"


@dataclass
class KeptLines:
    """Lines of this process, in files of its own; the folder may be shared with others.

    Args:
        folder: made with the first line.
        file_bytes: a file that is longer is followed by the next one.
        folder_bytes: all files together, nearly; the newest of this process always stays.
    """

    folder: Path
    file_bytes: int
    folder_bytes: int
    _stem: str = field(init=False)
    _path: Path = field(init=False)

    def __post_init__(self) -> None:
        self._stem = f"{socket.gethostname().replace('.', '-')}-{os.getpid()}"
        self._path = self.folder / f"{self._stem}{SUFFIX}"

    def append(self, line: bytes) -> None:
        """Add a line.

        Raises:
            OSError: the disk is full, or the folder cannot be written to.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab", buffering=0) as file:
            before = file.tell()
            if file.write(line + b"\n") <= len(line):
                file.truncate(before)  # the next line would go on where half a one ended
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            full = file.tell() > self.file_bytes
        if full:
            self._path.replace(self._next())
            self._forget()

    def _next(self) -> Path:
        """A name that was not used before, after all those of this process."""
        numbers = [path.name.split(".")[1] for path in self.folder.glob(f"{self._stem}.*{SUFFIX}")]
        last = max((int(number) for number in numbers if number.isdecimal()), default=0)
        return self.folder / f"{self._stem}.{last + 1}{SUFFIX}"

    def _forget(self) -> None:
        """Take the oldest files away until the others, and one more, have room."""
        found = []
        for path in self.folder.glob(f"*{SUFFIX}"):
            with suppress(FileNotFoundError):  # another process does the same
                known = path.stat()
                found.append((known.st_mtime_ns, path, known.st_size))
        left = sum(size for _, _, size in found)
        for _, path, size in sorted(found):
            if left + self.file_bytes <= self.folder_bytes:
                return
            path.unlink(missing_ok=True)
            left -= size
