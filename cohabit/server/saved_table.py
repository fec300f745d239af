"""Saved table: a copy of the score table next to the snapshots; a restarted server answers from it. An edge.

Several servers may share the folder; each saves its own table there, and any of them will do for a start.
"""

from pathlib import Path

import structlog

from advisor.cluster.pending_pod import PodClass
from advisor.errors import NoTable
from advisor.scoring.score_table_file import table_in
from ingest.schema.atomic_file import replace_atomically

log = structlog.get_logger(__name__)

NAME = "score-table"
SAVE_EVERY_S = 10.0
MAX_BYTES = 1 << 29
"""Some 500 classes on 100,000 nodes; a longer file is not read."""


class Saving:
    """Copies a table's file now and then.

    Args:
        table: the file.
        to: the copy, replaced as a whole.
        every_s: seconds from one copy to the next, at least.
    """

    def __init__(self, table: Path, to: Path, every_s: float = SAVE_EVERY_S) -> None:
        self._table, self._to, self._every_s = table, to, every_s
        self._at_s = float("-inf")
        self._saved: tuple[int, int, int] | None = None
        self._fails = False

    def save(self, now_s: float) -> None:
        """Copy the file if it was replaced since; a folder that cannot be written is reported once."""
        if now_s - self._at_s < self._every_s or not self._table.exists():
            return
        of = self._table.stat()
        now = of.st_mtime_ns, of.st_size, of.st_ino  # not the inode alone: its number is soon taken again
        self._at_s = now_s
        if now == self._saved:
            return
        try:
            replace_atomically(self._to, self._table.read_bytes())
        except OSError as error:
            if not self._fails:
                log.warning("cannot copy the score table", to=str(self._to), error=str(error))
            self._fails = True
        else:
            self._saved, self._fails = now, False


def restore(table: Path, snapshots: Path, bundle: str) -> bool:
    """Put the saved table in its place; whether it is there and of the bundle that answers now.

    Answers end by themselves when the snapshot behind a table is too old, see `TableSource.believed`.
    """
    content = _content(snapshots)
    if content is None or table_in(content).bundle != bundle:
        return False
    replace_atomically(table, content)
    return True


def saved_classes(snapshots: Path) -> tuple[PodClass, ...]:
    """Classes of the saved table, of whatever bundle; none without one."""
    content = _content(snapshots)
    return () if content is None else table_in(content).classes


def _content(snapshots: Path) -> bytes | None:
    """The saved file, read as a whole: another server may replace it at any time. None unless it is a table."""
    saved = snapshots / NAME
    try:
        if saved.stat().st_size > MAX_BYTES:
            return None
        content = saved.read_bytes()
        table_in(content)
    except (NoTable, OSError):
        return None
    return content
