"""Saved table: a copy of the score table next to the snapshots; a restarted server answers from it. An edge.

Several servers may share the folder; each saves its own table there, and any of them will do for a start.
"""

from pathlib import Path

import structlog

from advisor.errors import NoTable
from advisor.scoring.score_table_file import read_table
from ingest.schema.atomic_file import replace_atomically

log = structlog.get_logger(__name__)

NAME = "score-table"
SAVE_EVERY_S = 10.0


class Saving:
    """Copies a table's file, at most every SAVE_EVERY_S.

    Args:
        table: the file.
        snapshots: folder that the copy goes to.
    """

    def __init__(self, table: Path, snapshots: Path) -> None:
        self._table, self._to = table, snapshots / NAME
        self._at_s = float("-inf")
        self._inode = 0
        self._fails = False

    def save(self, now_s: float) -> None:
        """Copy the file if it was replaced since; a folder that cannot be written is reported once."""
        if now_s - self._at_s < SAVE_EVERY_S or not self._table.exists():
            return
        self._at_s, inode = now_s, self._table.stat().st_ino
        if inode == self._inode:
            return
        try:
            replace_atomically(self._to, self._table.read_bytes())
        except OSError as error:
            if not self._fails:
                log.warning("cannot save the score table; a restart begins without it", error=str(error))
            self._fails = True
        else:
            self._inode, self._fails = inode, False


def restore(table: Path, snapshots: Path, bundle: str) -> bool:
    """Put the saved table in its place; whether it is there and of the bundle that answers now.

    Answers end by themselves when the snapshot behind a table is too old, see `TableSource.believed`.
    """
    saved = snapshots / NAME
    try:
        if read_table(saved).bundle != bundle:
            return False
        replace_atomically(table, saved.read_bytes())
    except (NoTable, OSError):
        return False
    return True
