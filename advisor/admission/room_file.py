"""Room file: what nodes have left and their rules, as a file next to the snapshots. An edge."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import structlog

from advisor.admission.node_room import Rooms
from advisor.cluster.newest_file import NewestFile
from advisor.errors import Unavailable
from ingest.schema.atomic_file import replace_atomically

log = structlog.get_logger(__name__)
FILE = "node_rooms.json"
FORMAT = 1
MAX_BYTES = 64 << 20
"""Some 20,000 nodes with 50 labels each."""


class _File(msgspec.Struct, frozen=True):
    format: int
    rooms: Rooms


class _Head(msgspec.Struct, frozen=True):
    format: int


def write_rooms(folder: Path, rooms: Rooms) -> None:
    """Put rooms in the place of those that were there; readers see the one or the other."""
    replace_atomically(folder / FILE, msgspec.json.encode(_File(FORMAT, rooms)))


def read_rooms(folder: Path) -> Rooms | None:
    """The newest rooms; None before the first ones.

    Raises:
        Unavailable: the file is broken, too large, or of another Cohabit.
    """
    path = folder / FILE
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    if len(content) > MAX_BYTES:
        raise _unreadable(path, f"it exceeds {MAX_BYTES} bytes")
    try:
        found = msgspec.json.decode(content, type=_Head).format
        if found != FORMAT:
            raise _unreadable(path, f"its format is {found}, and this Cohabit reads {FORMAT}")
        return msgspec.json.decode(content, type=_File).rooms
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(path, str(error)) from error


@dataclass
class NewestRooms:
    """The rooms of a folder, read again when the file changed; for the reloading thread.

    Args:
        folder: where the refresher publishes them.
    """

    folder: Path

    def __post_init__(self) -> None:
        self._file = NewestFile(self.folder / FILE, partial(read_rooms, self.folder))

    def newest(self) -> Rooms | None:
        """What the file says now, ready to be asked; None where there is none, or where it cannot be read."""
        try:
            rooms = self._file.newest()
        except Unavailable as error:
            log.warning("cannot read what nodes have left; the snapshot alone says so", error=str(error))
            return None
        if rooms is not None:
            len(rooms.by_name)  # computed here, and not while a pod waits
        return rooms


def _unreadable(path: Path, reason: str) -> Unavailable:
    return Unavailable(f"{path} cannot be read ({reason}): run `cohabit refresh` in the same version as the server")
