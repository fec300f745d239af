"""Checkpointing: writing down what links and manifests come to, for the next process that opens the lake. An edge."""

from datetime import datetime, timedelta
from functools import cache

from ingest.lake import manifests as journal
from ingest.lake.checkpoints import Checkpoint, condensed
from ingest.lake.tables import Lake

KEPT = 2
"""Checkpoints that stay: a reader may just have found the name of the last but one."""
UNFINISHED = timedelta(days=1)
"""What is not finished after so long never will be."""


def checkpoint(lake: Lake, now: datetime) -> bool:
    """Write a checkpoint; a process that opens the lake from now on reads only what came after it.

    Args:
        lake: the lake.
        now: the present.

    Returns:
        Whether one was written: False where nothing happened since the last, or another run was quicker.

    Raises:
        DamagedLake: a link or manifest is missing or cannot be read; no checkpoint hides that.
        OSError: whether a file exists cannot be checked.
    """
    folder, history = lake.layout.checkpoints(), lake.history()
    tables = {name: history.compacted(name) for name in lake.tables}  # before the links, which name what these replace
    chains = tuple(history.chains.state(*place) for place in history.chains.partitions())
    whole = Checkpoint(tuple(one for one in chains if one.end > 0), tables)
    found = condensed(whole, cache(lake.layout.is_there), {name: lake.horizon_us(name) for name in lake.tables})
    if found == history.base and history.found.content is not None:
        return False
    if not journal.add(folder, history.found.number + 1, found.written()):
        return False
    limit_s = (now - UNFINISHED).timestamp()
    unfinished = [path for path in folder.glob(".*.json.*") if path.stat().st_mtime < limit_s]
    kept = KEPT if history.found.content else 1  # the other is the one that cannot be read
    for path in (*journal.entries(folder)[:-kept], *unfinished):
        path.unlink(missing_ok=True)
    return True
