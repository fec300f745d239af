"""Report: slowed containers, as a file next to the snapshots for servers (docs/decisions/0044). An edge."""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec

from advisor.cluster.newest_file import read_published
from advisor.diagnosis.coverage import Coverage
from advisor.diagnosis.slowdown_causes import Diagnosis, Suspect, Verdict
from advisor.errors import AdvisorError, NotFound, UnreadableDiagnoses
from ingest.schema.atomic_file import replace_atomically

FILE = "diagnosis.json"
FORMAT = 2
MAX_BYTES = 64 << 20
"""Some 20,000 victims with all their windows."""


@dataclass(frozen=True, slots=True)
class DiagnosisReport:
    """What was found in one look at a cluster.

    Args:
        cluster: which.
        at_us: until when was looked, microseconds since 1970.
        created_us: when that was written.
        diagnoses: of all slowed containers, the slowest first.
    """

    cluster: str
    at_us: int
    created_us: int
    diagnoses: tuple[Diagnosis, ...]
    coverage: Coverage | None = None
    """How much was looked at; None where an older Cohabit wrote the report."""
    ended: int = 0
    """How many more diagnoses were left out, of containers that have ended since."""

    def running(self, containers: Collection[str]) -> "DiagnosisReport":
        """The report of the containers that still run.

        Args:
            containers: those that run.
        """
        here = tuple(one for one in self.diagnoses if one.container in containers)
        ended = len(self.diagnoses) - len(here)
        return replace(self, diagnoses=here, ended=self.ended + ended) if ended else self

    def of(self, container: str) -> Diagnosis | None:
        """What is wrong with a container; None where nothing is known to be."""
        return next((one for one in self.diagnoses if one.container == container), None)


class SuspectFile(msgspec.Struct, frozen=True):
    """See Suspect; null is a number that is not known."""

    container: str
    app: str | None
    qos: str | None
    resource: str
    added: float | None
    low: float | None
    high: float | None
    surely: float | None
    through: float | None
    used: tuple[float | None, ...]


class DiagnosisFile(msgspec.Struct, frozen=True):
    """See Diagnosis; null is a number that is not known."""

    cluster: str
    node: str
    container: str
    app: str | None
    window_end_us: int
    slowdown: float | None
    verdict: Verdict
    reason: str
    ends_us: tuple[int, ...]
    slowdowns: tuple[float | None, ...]
    suspects: tuple[SuspectFile, ...]
    kind: str | None = None


class ReportFile(msgspec.Struct, frozen=True):
    """The whole file."""

    format: int
    cluster: str
    at_us: int
    created_us: int
    diagnoses: tuple[DiagnosisFile, ...]
    coverage: Coverage | None = None


def write_report(folder: Path, report: DiagnosisReport) -> Path:
    """Put what was found in the place of what was there; readers see the one or the other.

    Raises:
        AdvisorError: it would be larger than is read.
    """
    written = msgspec.json.encode({"format": FORMAT, **_plain(report)})
    if len(written) > MAX_BYTES:
        raise AdvisorError(
            f"the diagnoses of {len(report.diagnoses)} victims take {len(written)} bytes (limit {MAX_BYTES}): diagnose "
            "fewer nodes at a time"
        )
    replace_atomically(folder / FILE, written)
    return folder / FILE


def read_report(folder: Path) -> DiagnosisReport | None:
    """The newest report; None before the first diagnosis.

    Raises:
        UnreadableDiagnoses: the file is broken, too large, or of a newer Cohabit.
    """
    path = folder / FILE
    of = read_published(path, ReportFile, FORMAT, MAX_BYTES, partial(UnreadableDiagnoses, path))
    if of is None:
        return None
    return DiagnosisReport(of.cluster, of.at_us, of.created_us, tuple(map(_diagnosis, of.diagnoses)), of.coverage)


def _plain(report: DiagnosisReport) -> dict[str, object]:
    """As the file has it; msgspec writes what is no number as null."""
    return {
        "cluster": report.cluster,
        "at_us": report.at_us,
        "created_us": report.created_us,
        "diagnoses": report.diagnoses,
        "coverage": report.coverage,
    }


def _diagnosis(of: DiagnosisFile) -> Diagnosis:
    return Diagnosis(
        cluster=of.cluster,
        node=of.node,
        container=of.container,
        app=of.app,
        window_end_us=of.window_end_us,
        slowdown=_number(of.slowdown),
        verdict=of.verdict,
        reason=of.reason,
        ends_us=of.ends_us,
        slowdowns=tuple(map(_number, of.slowdowns)),
        suspects=tuple(map(_suspect, of.suspects)),
        kind=of.kind,
    )


def _suspect(of: SuspectFile) -> Suspect:
    return Suspect(
        container=of.container,
        app=of.app,
        qos=of.qos,
        resource=of.resource,
        added=_number(of.added),
        low=_number(of.low),
        high=_number(of.high),
        surely=_number(of.surely),
        through=_number(of.through),
        used=tuple(map(_number, of.used)),
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def no_victim(container: str) -> NotFound:
    """A container that is not among the victims."""
    return NotFound(
        f"container {container[:253]!r} is not among the victims of the newest diagnoses: GET /v1/victims has "
        "them, and how much was looked at"
    )
