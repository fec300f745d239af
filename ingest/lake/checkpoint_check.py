"""Does a checkpoint say what the links and manifests say that it stands for? Kernel."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ingest.lake.checkpoints import Checkpoint, IsThere, TableState
from ingest.lake.layout import Compaction, DataFile, LinkFacts

Chain = Sequence[tuple[int, LinkFacts]]
"""Where each link of a partition starts, and what it says."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What links and compactions of a table come to: files that count, all names, and where each job's runs end."""

    counting: list[str]
    names: set[str]
    through: Counter[str]


def wrong_of(
    base: Checkpoint,
    chains: Mapping[tuple[str, int], Chain],
    compactions: Mapping[str, Sequence[Compaction]],
    horizons_us: Mapping[str, int],
    is_there: IsThere,
) -> Iterator[str]:
    """What is wrong with a checkpoint.

    Args:
        base: the checkpoint.
        chains: all links by topic and partition, in order, read after it.
        compactions: all compactions by table, oldest first, read after it.
        horizons_us: by table, the moment before which rows have expired, microseconds since 1970.
        is_there: whether a file exists.
    """
    named: list[DataFile] = []
    for one in base.chains:
        links = [(start, facts) for start, facts in chains.get((one.topic, one.partition), ()) if start < one.end]
        named += [file for _, facts in links for file in facts.files]
        if not links or links[-1][1].end != one.end:
            yield f"no link of {one.topic} {one.partition} ends at {one.end}"
    for name, known in compactions.items():
        state = base.tables.get(name, TableState())
        said = _said(named, known, name, horizons_us[name])
        files = (file for one in base.chains for file in one.files)
        own = _said(files, (*state.compactions, *known[state.number :]), name, horizons_us[name])
        if said.counting != own.counting or said.through != own.through or state.number > len(known):
            yield f"it leads to other files of {name} than the links and manifests it stands for"
        if any(map(is_there, said.names - own.names)):
            yield f"it has forgotten files of {name} that are still there"


def _said(files: Iterable[DataFile], compactions: Sequence[Compaction], table: str, horizon_us: int) -> _Said:
    replaced = {path for compaction in compactions for path in compaction.replaced()}
    every = [file for file in files if file.table == table]
    every += [file for compaction in compactions for file in compaction.files()]
    counting = sorted(file.path for file in every if file.path not in replaced and file.end_us >= horizon_us)
    through: Counter[str] = Counter()
    for run in (run for compaction in compactions for run in compaction.runs):
        through[run.job] = max(through[run.job], run.through)
    return _Said(counting, replaced | {file.path for file in every}, through)
