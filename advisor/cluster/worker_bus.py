"""Journal: messages between the processes of one server, each in its own file that the others follow. An edge.

A worker reads before it answers, so that it knows every pod that another worker assumed before. Files rather than
sockets: no message is lost to a full queue, no worker is woken, and a late worker reads earlier messages.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from errno import ENOSPC
from pathlib import Path
from zlib import crc32

import msgspec
import structlog

from advisor.cluster.assumed_pod_load import Booked
from advisor.cluster.pending_pod import PodClass

log = structlog.get_logger()

MAX_BYTES = 8 << 20
"""Size at which a worker begins a new file: some 40,000 assumed pods, more than ever exist at once."""
READ_BYTES = 1 << 18
LENGTH_BYTES = 4


class Coming(msgspec.Struct, frozen=True, array_like=True, tag="coming"):
    """A pod is assumed on a node; a later record of the same uid replaces an earlier one."""

    uid: str
    node: str
    of: PodClass
    at_us: int
    group: str = ""
    reservation: str = ""


def booked_of(coming: Coming) -> Booked:
    """The assumed pod of a message."""
    return Booked(coming.uid, coming.node, coming.of, coming.at_us, coming.group, coming.reservation)


class Counted(msgspec.Struct, frozen=True, array_like=True, tag="counted"):
    """Exact cost of a node for some classes, with its assumed pods.

    Args:
        version: of the table that this corrects.
        bundle: of that table.
        node: which.
        assumed: checksum of the uids that were counted, see `checksum`.
        exact: points and cost by class.
    """

    version: int
    bundle: str
    node: str
    assumed: int
    exact: tuple[tuple[PodClass, int, float], ...]


class Gone(msgspec.Struct, frozen=True, array_like=True, tag="gone"):
    """An assumed pod that only one process knows to be no longer assumed.

    Args:
        uid: by which it was assumed.
        node: where it was recognised by another uid; empty for a pod that will not arrive.
    """

    uid: str
    node: str


def checksum(uids: Iterable[str]) -> int:
    """Of the assumed pods of a node, in any order: which they are, and not only how many."""
    return sum(crc32(uid.encode()) for uid in uids)


News = Coming | Counted | Gone
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(News).decode


@dataclass
class _Read:
    """How far a file was read."""

    path: str
    file: int = -1
    inode: int = 0
    at: int = 0

    def news(self) -> Iterator[News]:
        """What was added since, also in the file that replaced this one."""
        yield from self._added()
        if self._is_replaced():
            yield from self._added()  # what came before it was replaced
            self._open()
            yield from self._added()

    def _added(self) -> Iterator[News]:
        while self.file >= 0 and (block := os.pread(self.file, READ_BYTES, self.at)):
            begin, whole, first = 0, len(block), self.at
            while (end := _end(block, begin)) <= whole:
                self.at = first + end  # before the yield: a record that fails is not read again
                yield from _said(block[begin + LENGTH_BYTES : end])
                begin = end
            if begin == 0:  # the rest of a message is still being written
                return

    def _is_replaced(self) -> bool:
        try:
            return os.stat(self.path).st_ino != self.inode  # pathlib's takes longer, and this is for every answer
        except FileNotFoundError:
            return False

    def _open(self) -> None:
        self.close()
        self.file = os.open(self.path, os.O_RDONLY)
        self.inode, self.at = os.fstat(self.file).st_ino, 0

    def close(self) -> None:
        """Close the file."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


def _end(block: bytes, begin: int) -> int:
    """Where a message ends; beyond the block if its length is not there."""
    length = block[begin : begin + LENGTH_BYTES]
    return begin + LENGTH_BYTES + int.from_bytes(length, "little") if len(length) == LENGTH_BYTES else len(block) + 1


def _said(text: bytes) -> Iterator[News]:
    try:
        yield _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        log.exception("cannot decode a message of another worker")


@dataclass
class Journal:
    """One process's messages to the others, and theirs to it.

    Args:
        folder: of all journals.
        number: of this process: of a worker, or after the last worker that of the score table's process.
        workers: how many processes there are, from 0.
    """

    folder: Path
    number: int
    workers: int
    _file: int = field(init=False)
    _bytes: int = field(default=0, init=False)
    _fails: bool = field(default=False, init=False)
    _others: Sequence[_Read] = field(init=False)

    def __post_init__(self) -> None:
        self._others = [_Read(str(self._path(other))) for other in range(self.workers) if other != self.number]
        self._file = self._begun()

    def publish(self, news: News) -> None:
        """Let the others know; where that fails, as on a full disk, they do not, and no answer fails for it."""
        try:
            self._append(_encode(news))
        except OSError as error:
            if not self._fails:
                log.warning("cannot send to other workers", folder=str(self.folder), error=str(error))
            self._fails = True
        else:
            self._fails = False

    def _append(self, text: bytes) -> None:
        if self._bytes > MAX_BYTES:
            full, self._file, self._bytes = self._file, self._begun(), 0
            os.close(full)
        message = len(text).to_bytes(LENGTH_BYTES, "little") + text
        if (written := os.write(self._file, message)) < len(message):
            os.ftruncate(self._file, self._bytes)  # half a message would hide all that come after it
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        self._bytes += written

    def heard(self) -> Iterator[News]:
        """Messages of the other workers since the last call."""
        for other in self._others:
            yield from other.news()

    def close(self) -> None:
        """Close all files."""
        os.close(self._file)
        for other in self._others:
            other.close()

    def _path(self, number: int) -> Path:
        return self.folder / f"worker-{number}.journal"

    def _begun(self) -> int:
        """A new file in the place of the old one, which others read to its end first."""
        path = self._path(self.number)
        temporary = path.with_suffix(".new")
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        temporary.replace(path)
        return file
