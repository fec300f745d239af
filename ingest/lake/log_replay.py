"""History: all that the links and manifests of a lake say, read from a checkpoint on. An edge.

What was read is remembered, since none of it ever changes.
"""

from dataclasses import dataclass, field

from ingest.lake import manifests as journal
from ingest.lake.checkpoints import Checkpoint, Found, TableState, newest_checkpoint
from ingest.lake.commit_log import Chains
from ingest.lake.layout import Compaction, Layout


@dataclass(slots=True)
class History:
    """Chains and compactions of one lake. Begin with `History.begun`.

    Args:
        layout: where things lie.
        found: the checkpoint it begins with.
        chains: which stretches of which partitions were landed.
    """

    layout: Layout
    found: Found
    chains: Chains
    _later: dict[str, list[Compaction]] = field(default_factory=dict)

    @staticmethod
    def begun(layout: Layout) -> "History":
        """History from the newest checkpoint on, or from the beginning where that cannot be read."""
        found = newest_checkpoint(layout)
        base = {(one.topic, one.partition): one for one in found.content.chains} if found.content else {}
        return History(layout, found, Chains(layout, base))

    @property
    def base(self) -> Checkpoint:
        """What the checkpoint says."""
        return self.found.content or Checkpoint()

    def compacted(self, table: str) -> TableState:
        """Every compaction of a table that still says something, oldest first, and how many there ever were.

        Raises:
            DamagedLake: a manifest cannot be read.
        """
        base, later = self.base.tables.get(table, TableState()), self._later.setdefault(table, [])
        folder = self.layout.compactions(table)
        while (path := journal.entry_path(folder, base.number + len(later) + 1)).exists():
            later.append(journal.parsed(path, Compaction.parse))
        return TableState(base.number + len(later), (*base.compactions, *later))
