"""Offer file: what nodes offer, as a file next to the snapshots, for servers and the refresher. An edge."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec
import structlog

from advisor.capacity.offers import Correction, NodeOffer
from advisor.cluster.newest_file import NewestFile, read_published
from advisor.errors import AdvisorError, Unavailable
from ingest.schema.atomic_file import replace_atomically

log = structlog.get_logger(__name__)
HOUR_S = 3600
"""Horizon by which best-effort pending pods are scored."""
FILE = "headroom.json"
FORMAT = 1
STALE = "stale"
MAX_BYTES = 64 << 20
"""Some 20,000 nodes with two resources and three horizons."""
MAX_AHEAD_US = 60 * 1_000_000
"""Offers of a clock that is ahead by more are none."""
MAX_US = 1 << 53
SHORTEST_S, LONGEST_S = 600, 3600
"""An offer stands for half of its horizon, but within these: after that, who lives on the node has changed."""


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

    def stale(self, horizon_s: int, now_us: int) -> bool:
        """Whether too much time has passed for anything to be offered for a horizon."""
        age_us = now_us - self.at_us
        return not -MAX_AHEAD_US <= age_us <= stands_s(horizon_s) * 1_000_000

    def standing(self, now_us: int) -> "OfferReport":
        """The report as it counts at a time: offers that are too old are 0, with the reason."""
        return replace(self, offers=tuple(self._standing(one, now_us) for one in self.offers))

    def _standing(self, one: NodeOffer, now_us: int) -> NodeOffer:
        if not self.stale(one.horizon_s, now_us):
            return one
        minutes = stands_s(one.horizon_s) // 60
        why = f"the offer is older than {minutes} minutes: run `features` and `capacity headroom --publish` again"
        return replace(one, offered=0.0, total=0.0, bound_by=STALE, reason=why)


def stands_s(horizon_s: int) -> int:
    """How long an offer stands, seconds."""
    return min(max(horizon_s // 2, SHORTEST_S), LONGEST_S)


class NewestOffers:
    """The offers of a folder; any number of threads may ask.

    Args:
        folder: where they are published.
    """

    def __init__(self, folder: Path) -> None:
        self._file = NewestFile(folder / FILE, partial(read_offers, folder))

    def report(self) -> OfferReport | None:
        """The newest offers; None before the first ones.

        Raises:
            Unavailable: the file cannot be read.
        """
        return self._file.newest()

    def cores(self, cluster: str, now_us: int) -> dict[str, tuple[float, float]] | None:
        """Cores that nodes of a cluster offer for an hour, and in all, those of best-effort containers included.

        Args:
            cluster: whose.
            now_us: the time; offers that are too old by then are 0.

        Returns:
            By node; None where none were published for this cluster, or they cannot be read, which is said.
        """
        try:
            report = self.report()
        except Unavailable as error:
            log.warning("cannot read what nodes offer; best-effort pods are scored without it", error=str(error))
            return None
        if report is None or report.cluster != cluster:
            return None
        stale = report.stale(HOUR_S, now_us)
        if stale:
            minutes = (now_us - report.at_us) // 60_000_000
            log.warning("what nodes offer is too old, so they offer nothing", minutes=minutes)
        wanted = (one for one in report.offers if (one.resource, one.horizon_s) == ("cpu", HOUR_S))
        return {one.node: (0.0, 0.0) if stale else (one.offered, one.total) for one in wanted}


class _File(msgspec.Struct, frozen=True):
    format: int
    report: OfferReport


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
    found = read_published(path, _File, FORMAT, MAX_BYTES, partial(_unreadable, path))
    if found is None:
        return None
    report = found.report
    if not 0 <= report.at_us < MAX_US or any(one.offered < 0 or one.total < 0 for one in report.offers):
        raise _unreadable(path, "a time or an amount in it cannot be")
    return report


def _unreadable(path: Path, reason: str) -> Unavailable:
    return Unavailable(
        f"{path} cannot be read ({reason}): write it again with `cohabit capacity headroom --publish`, in the same "
        "version of Cohabit as the server"
    )
