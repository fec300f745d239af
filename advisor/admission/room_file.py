"""Room file: what nodes have left and their rules, as a file next to the snapshots. An edge."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import structlog

from advisor.admission.node_room import Rooms
from advisor.cluster.newest_file import NewestFile, read_published
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


def write_rooms(folder: Path, rooms: Rooms) -> None:
    """Put rooms in the place of those that were there; readers see the one or the other."""
    replace_atomically(folder / FILE, msgspec.json.encode(_File(FORMAT, rooms)))


def read_rooms(folder: Path) -> Rooms | None:
    """The newest rooms; None before the first ones.

    Raises:
        Unavailable: the file is broken, too large, or of another Cohabit.
    """
    path = folder / FILE
    found = read_published(path, _File, FORMAT, MAX_BYTES, partial(_unreadable, path))
    return None if found is None else found.rooms


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
