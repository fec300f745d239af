"""Offer file: what nodes offer, as a file next to the snapshots for servers and exporters. An edge."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from advisor.capacity.offers import Correction, NodeOffer
from advisor.errors import AdvisorError, Unavailable
from ingest.schema.atomic_file import replace_atomically

FILE = "headroom.json"
FORMAT = 1
MAX_BYTES = 64 << 20
"""Some 20,000 nodes with two resources and three horizons."""
STALE_US = 900 * 1_000_000
"""Offers that are older are none: what residents use has changed."""


@dataclass(frozen=True, slots=True)
class OfferReport:
    """What the nodes of a cluster offered at a time.

    Args:
        cluster: which.
        at_us: end of the newest measurements behind it, microseconds since 1970.
        created_us: when it was written.
        offers: sorted by node, resource and horizon.
        corrections: who gives back first where more is held than can be offered.
    """

    cluster: str
    at_us: int
    created_us: int
    offers: tuple[NodeOffer, ...]
    corrections: tuple[Correction, ...] = ()

    def stale(self, now_us: int) -> bool:
        """Whether too much time has passed for anything to be offered."""
        return now_us - self.at_us > STALE_US


class _File(msgspec.Struct, frozen=True):
    format: int
    report: OfferReport


class _Head(msgspec.Struct, frozen=True):
    format: int


def write_offers(folder: Path, report: OfferReport) -> Path:
    """Put offers in the place of those that were there; readers see the one or the other.

    Raises:
        AdvisorError: they would be larger than is read.
    """
    written = msgspec.json.encode(_File(FORMAT, report))
    if len(written) > MAX_BYTES:
        raise AdvisorError(
            f"{len(report.offers)} offers take {len(written)} bytes (limit {MAX_BYTES}): name fewer horizons"
        )
    folder.mkdir(parents=True, exist_ok=True)
    replace_atomically(folder / FILE, written)
    return folder / FILE


def read_offers(folder: Path) -> OfferReport | None:
    """The newest offers; None before the first ones.

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
        return msgspec.json.decode(content, type=_File).report
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(path, str(error)) from error


def _unreadable(path: Path, reason: str) -> Unavailable:
    return Unavailable(
        f"{path} cannot be read ({reason}): write it again with `cohabit capacity headroom --publish`, in the same "
        "version of Cohabit as the server"
    )
