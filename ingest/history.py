"""History: all that the links and manifests of a lake say, read from a checkpoint on. An edge.

What was read is remembered, since none of it ever changes.
"""

from dataclasses import dataclass, field

from ingest import journal
from ingest.chains import Chains
from ingest.checkpoints import Checkpoint, TableState, newest_checkpoint
from ingest.lake_layout import Compaction, Layout


@dataclass(slots=True)
class History:
    """Chains and compactions of one lake. Begin with `History.begun`.

    Args:
        layout: where things lie.
        number: of the checkpoint it begins with; 0 for none.
        base: that checkpoint.
        chains: which stretches of which partitions were landed.
    """

    layout: Layout
    number: int
    base: Checkpoint
    chains: Chains
    _later: dict[str, list[Compaction]] = field(default_factory=dict)

    @staticmethod
    def begun(layout: Layout) -> "History":
        """History from the newest checkpoint on, or from the beginning where that cannot be read."""
        number, base = newest_checkpoint(layout)
        base = base or Checkpoint()
        return History(layout, number, base, Chains(layout, {(one.topic, one.partition): one for one in base.chains}))

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
