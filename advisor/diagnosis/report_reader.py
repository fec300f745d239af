"""Newest report: the diagnoses that were written last. An edge."""

from functools import partial
from pathlib import Path

from advisor.cluster.newest_file import NewestFile
from advisor.diagnosis.report_file import FILE, DiagnosisReport, read_report
from advisor.errors import NothingDiagnosed, UnreadableDiagnoses


class NewestReport:
    """The diagnoses of a folder; any number of threads may ask.

    Args:
        folder: where they are written.
    """

    def __init__(self, folder: Path) -> None:
        self._file = NewestFile(folder / FILE, partial(_looked, folder))

    @property
    def read(self) -> int:
        """How often the file was read."""
        return self._file.read

    def report(self) -> DiagnosisReport:
        """What was found last.

        Raises:
            NothingDiagnosed: no diagnosis was run yet.
            UnreadableDiagnoses: the file cannot be read.
        """
        if (found := self._file.newest()) is None:
            raise NothingDiagnosed
        return found


def _looked(folder: Path) -> DiagnosisReport | None:
    try:
        return read_report(folder)
    except OSError as error:
        raise UnreadableDiagnoses(folder / FILE, error.strerror or str(error)) from error
