"""Checkpoints: what links and manifests come to, so that what happened long ago is never read again. An edge.

Links and manifests never change, and all of them stay. So a checkpoint can be made from them at any time, and deleted
at any time: it saves reading and nothing else. It leaves out unneeded names: those of files which no longer count and
are gone.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import msgspec

from ingest.lake import manifests as journal
from ingest.lake.layout import BatchRun, Compaction, Count, DataFile, Layout, LinkFacts, Merged, Small, record

TRIES = 3
"""Of reading the newest: it is deleted once there are two newer ones."""
REMEDY = "delete it: it only saves reading, nothing is lost, and `cohabit lake compact` writes another"
IsThere = Callable[[str], bool]
"""Whether a path of the lake exists."""


class ChainState(Small, frozen=True):
    """What the links of a partition come to up to an offset.

    Args:
        topic: whose.
        partition: whose.
        end: where the last of these links ends.
        files: what they name, without what was replaced or has expired and is gone.
        unknown_fields: how often each field outside the catalogue was seen.
    """

    topic: str
    partition: Count
    end: Count
    files: tuple[DataFile, ...]
    unknown_fields: dict[str, Count]


class TableState(Small, frozen=True):
    """What the first compactions of a table come to: so many, without what is gone."""

    number: Count = 0
    compactions: tuple[Compaction, ...] = ()


class Checkpoint(Small, frozen=True):
    """What all links and manifests come to that were there when it was made."""

    chains: tuple[ChainState, ...] = ()
    tables: dict[str, TableState] = msgspec.field(default_factory=dict)

    @staticmethod
    def parse(content: bytes) -> "Checkpoint":
        """Read a checkpoint's JSON."""
        return record(content, Checkpoint)


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint as it lies there; none has number 0.

    Args:
        number: its number.
        written_ns: when its file was written: a number is given again once checkpoints were deleted.
        content: None where it cannot be read.
    """

    number: int = 0
    written_ns: int = 0
    content: Checkpoint | None = None


def newest_checkpoint(layout: Layout) -> Found:
    """The newest checkpoint. Where it cannot be read one follows all of the lake, and the next takes its place."""
    found = Found()
    for _ in range(TRIES):
        number, path = journal.newest(layout.checkpoints())
        if path is None:
            return Found(content=Checkpoint())
        try:
            found = Found(number, path.stat().st_mtime_ns)
            return replace(found, content=Checkpoint.parse(path.read_bytes()))
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            break
    return found


def all_checkpoints(layout: Layout) -> dict[Path, Checkpoint | None]:
    """Every checkpoint that is there, by its file; None where it cannot be read."""
    found: dict[Path, Checkpoint | None] = {}
    for path in journal.entries(layout.checkpoints()):
        try:
            found[path] = Checkpoint.parse(path.read_bytes())
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            found[path] = None
    return found


def is_newest(layout: Layout, found: Found) -> bool:
    """Whether a checkpoint that was read is the newest still."""
    number, path = journal.newest(layout.checkpoints())
    try:
        return (found.number, found.written_ns) == (number, path.stat().st_mtime_ns if path else 0)
    except OSError:
        return False


def condensed(whole: Checkpoint, is_there: IsThere, horizons_us: Mapping[str, int]) -> Checkpoint:
    """A checkpoint without unneeded names. Kernel.

    Args:
        whole: all that links and manifests say.
        is_there: asked of files that no longer count, and of folders of batches; must not change its mind.
        horizons_us: by table, the moment before which rows have expired, microseconds since 1970.

    Returns:
        The same without files that were replaced, or lie before the horizon, and are gone. Of what is left as much
        counts as before, and as much waits to be deleted.
    """
    replaced = {name: _replaced(state) for name, state in whole.tables.items()}

    def needed(file: DataFile) -> bool:
        counts = file.path not in replaced.get(file.table, ()) and file.end_us >= horizons_us.get(file.table, 0)
        return counts or is_there(file.path)

    chains = tuple(msgspec.structs.replace(one, files=tuple(filter(needed, one.files))) for one in whole.chains)
    tables = {
        name: TableState(state.number, tuple(_thinned(state.compactions, is_there, needed)))
        for name, state in whole.tables.items()
    }
    return Checkpoint(chains, tables)


def _replaced(state: TableState) -> set[str]:
    return {path for compaction in state.compactions for path in compaction.replaced()}


def _thinned(
    compactions: Sequence[Compaction], is_there: IsThere, needed: Callable[[DataFile], bool]
) -> Iterator[Compaction]:
    """Compactions that still say something, and what of them does, oldest first."""
    through: Counter[str] = Counter()
    for compaction in compactions:
        for run in compaction.runs:
            through[run.job] = max(through[run.job], run.through)
    kept: set[str] = set()
    """Compacted files whose names stay although they may be gone, since what they replaced is not."""
    for compaction in compactions:
        merged = []
        for one in compaction.merged:
            names = tuple(name for name in one.replaces if name in kept or is_there(name))
            if names or needed(one.file):
                merged.append(Merged(one.file, names))
        runs = [
            BatchRun(run.job, run.through, run.file if run.file and needed(run.file) else None, names)
            for run in compaction.runs
            if (names := tuple(name for name in run.replaces if is_there(str(PurePosixPath(name).parent))))
            or (run.file and needed(run.file))
            or run.through == through[run.job]
        ]
        kept |= {one.file.path for one in merged}
        if merged or runs:
            yield Compaction(compaction.at_us, tuple(merged), tuple(runs))


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
