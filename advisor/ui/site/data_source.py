"""Data source of pages: the newest snapshot, and slowed containers where a report exists. An edge."""

from dataclasses import dataclass

from advisor.cluster.snapshot import Snapshot
from advisor.diagnosis.report_file import DiagnosisReport
from advisor.errors import NothingDiagnosed, UnreadableDiagnoses
from advisor.placement.model_state import Serving


@dataclass(frozen=True, slots=True)
class Seen:
    """What there is to show.

    Args:
        snapshot: None where none could be read.
        report: None where nothing was, or it cannot be read.
        lacking: why not, in sentences.
    """

    snapshot: Snapshot | None
    report: DiagnosisReport | None
    lacking: tuple[str, ...]


def look(serving: Serving) -> Seen:
    """What is newest."""
    snapshot, report, lacking = serving.snapshot, None, list[str]()
    if snapshot is None:
        lacking.append(serving.refused.get("no_snapshot", "no snapshot is loaded yet"))
    try:
        report = serving.report()
    except (NothingDiagnosed, UnreadableDiagnoses) as error:
        lacking.append(str(error))
    return Seen(snapshot, report, tuple(lacking))
