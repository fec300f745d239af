"""Checkpointing: writing down what links and manifests come to, for whoever opens the lake next. An edge."""

from ingest import journal
from ingest.checkpoints import Checkpoint, condensed
from ingest.lake import Lake

KEPT = 2
"""Checkpoints that stay: somebody may just have found the name of the last but one."""


def checkpoint(lake: Lake) -> bool:
    """Write a checkpoint; whoever opens the lake from now on reads only what came after it.

    Args:
        lake: the lake.

    Returns:
        Whether one was written: False where nothing happened since the last, or another run was quicker.

    Raises:
        DamagedLake: a link or manifest is missing or cannot be read; no checkpoint hides that.
    """
    folder, history = lake.layout.checkpoints(), lake.history()
    tables = {
        name: history.compacted(name) for name in lake.tables
    }  # before the links: these name all that is replaced
    chains = tuple(history.chains.state(*place) for place in history.chains.partitions())
    there = {name: {lake.layout.relative(path) for path in lake.layout.rows_on_disk(name)} for name in lake.tables}
    found = condensed(Checkpoint(chains, tables), there, {name: lake.horizon_us(name) for name in lake.tables})
    if found == history.base or not journal.add(folder, history.number + 1, found.written()):
        return False
    for path in journal.entries(folder)[:-KEPT]:
        path.unlink(missing_ok=True)
    return True
