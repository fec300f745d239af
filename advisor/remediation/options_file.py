"""Stored ladders: ranked options by container, next to the snapshots, for servers and commands. An edge."""

from functools import partial
from pathlib import Path

import msgspec

from advisor.cluster.newest_file import read_published
from advisor.errors import Unavailable
from advisor.remediation.ranked_options import Ladder
from ingest.schema.atomic_file import replace_atomically

FILE = "ladders.json"
FORMAT = 2
MAX_BYTES = 16 << 20


class _File(msgspec.Struct, frozen=True):
    format: int
    cluster: str
    at_us: int
    ladders: tuple[Ladder, ...]


def keep_ladders(folder: Path, cluster: str, at_us: int, ladders: tuple[Ladder, ...]) -> None:
    """Put ladders in the place of those that were there."""
    written = msgspec.json.encode(_File(FORMAT, cluster, at_us, ladders))
    if len(written) <= MAX_BYTES:
        replace_atomically(folder / FILE, written)


def kept_ladder(folder: Path, victim: str) -> Ladder | None:
    """Options for a container; None before they are computed.

    Raises:
        Unavailable: the file is broken, too large, or of a newer Cohabit.
    """
    path = folder / FILE
    found = read_published(path, _File, FORMAT, MAX_BYTES, partial(_unreadable_ladders, path))
    if found is None:
        return None
    return next((one for one in found.ladders if one.victim == victim), None)


def _unreadable_ladders(path: Path, reason: str) -> Unavailable:
    return Unavailable(
        f"{path} cannot be read ({reason}): write it again with `cohabit plan create`, in the same version of Cohabit "
        "as the server"
    )
