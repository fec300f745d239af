"""Stored ladders: ranked options by container, next to the snapshots, for servers and commands. An edge."""

from pathlib import Path

import msgspec

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
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        found = msgspec.json.decode(content, type=_File)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OSError) as error:
        raise _unreadable_ladders(path, str(error)) from error
    if found.format != FORMAT:
        raise _unreadable_ladders(path, f"its format is {found.format}, and this Cohabit reads {FORMAT}")
    return next((one for one in found.ladders if one.victim == victim), None)


def _unreadable_ladders(path: Path, reason: str) -> Unavailable:
    return Unavailable(
        f"{path} cannot be read ({reason}): write it again with `cohabit plan create`, in the same version of Cohabit "
        "as the server"
    )
