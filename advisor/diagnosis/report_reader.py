"""Newest: what was found last, read again when the file changed and not for each question. An edge."""

from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from advisor.diagnosis.report_file import FILE, DiagnosisReport, read_report
from advisor.errors import NothingDiagnosed, UnreadableDiagnoses

Stamp = tuple[int, int, int]
"""When a file was written, its size and its number on disk."""


@dataclass
class NewestReport:
    """The diagnoses of a folder; any number of threads may ask.

    Args:
        folder: where they are written.
        read: how often the file was read.
    """

    folder: Path
    read: int = field(default=0, init=False)
    _stamp: Stamp | None = field(default=None, init=False)
    _found: DiagnosisReport | UnreadableDiagnoses | None = field(default=None, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def report(self) -> DiagnosisReport:
        """What was found last.

        Raises:
            NothingDiagnosed: no diagnosis was run yet.
            UnreadableDiagnoses: the file cannot be read.
        """
        with self._lock:
            if (stamp := self._stamped()) != self._stamp:
                self._found, self._stamp = self._looked(), stamp
            found = self._found
        if found is None:
            raise NothingDiagnosed
        if isinstance(found, UnreadableDiagnoses):
            raise found.with_traceback(None)
        return found

    def _looked(self) -> DiagnosisReport | UnreadableDiagnoses | None:
        self.read += 1
        try:
            return read_report(self.folder)
        except UnreadableDiagnoses as error:
            return error
        except OSError as error:
            return UnreadableDiagnoses(self.folder / FILE, error.strerror or str(error))

    def _stamped(self) -> Stamp | None:
        try:
            found = (self.folder / FILE).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
