"""Checkpoints: what links and manifests come to, so that what happened long ago is never read again. An edge.

Links and manifests never change, and all of them stay. So a checkpoint can be made from them at any time, and deleted
at any time: it saves reading and nothing else. It holds no name that nobody needs: that of a file which no longer
counts and is gone.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import msgspec

from ingest import journal
from ingest.lake_layout import BatchRun, Compaction, DataFile, Layout, Merged

TRIES = 3
"""Of reading the newest: it is deleted once there are two newer ones."""
REMEDY = "delete it: it only saves reading, nothing is lost, and `cohabit lake compact` writes another"


@dataclass(frozen=True, slots=True)
class ChainState:
    """What the links of a partition come to up to an offset.

    Args:
        topic: whose.
        partition: whose.
        end: where the last of these links ends.
        files: what they name, without what was replaced or has expired and is gone.
        unknown_fields: how often each field outside the catalogue was seen.
    """

    topic: str
    partition: int
    end: int
    files: tuple[DataFile, ...]
    unknown_fields: dict[str, int]


@dataclass(frozen=True, slots=True)
class TableState:
    """What the first compactions of a table come to: so many, without what is gone."""

    number: int = 0
    compactions: tuple[Compaction, ...] = ()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What all links and manifests come to that were there when it was made."""

    chains: tuple[ChainState, ...] = ()
    tables: dict[str, TableState] = field(default_factory=dict)

    @staticmethod
    def parse(content: bytes) -> "Checkpoint":
        """Read a checkpoint's JSON."""
        try:
            return msgspec.json.decode(content, type=Checkpoint)
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from error

    def written(self) -> bytes:
        """The checkpoint's JSON."""
        return msgspec.json.encode(self)


def newest_checkpoint(layout: Layout) -> tuple[int, Checkpoint | None]:
    """Number and content of the newest checkpoint: 0 where there is none, None where it cannot be read.

    Whoever reads the lake then follows all of it, and the next checkpoint takes the place of this one.
    """
    number = 0
    for _ in range(TRIES):
        number, path = journal.newest(layout.checkpoints())
        try:
            return number, Checkpoint.parse(path.read_bytes()) if path else Checkpoint()
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError):
            break
    return number, None


def condensed(whole: Checkpoint, there: Mapping[str, Collection[str]], horizons_us: Mapping[str, int]) -> Checkpoint:
    """A checkpoint without the names that nobody needs. Kernel.

    Args:
        whole: all that links and manifests say.
        there: by table, the files that exist; what links name of other tables stays.
        horizons_us: by table, the moment before which rows have expired, microseconds since 1970.

    Returns:
        The same without files that were replaced, or lie before the horizon, and are gone. Of what is left as much
        counts as before, and as much waits to be deleted.
    """
    replaced = {name: _replaced(state) for name, state in whole.tables.items()}

    def needed(file: DataFile) -> bool:
        counts = file.path not in replaced.get(file.table, ()) and file.end_us >= horizons_us.get(file.table, 0)
        return counts or file.table not in there or file.path in there[file.table]

    chains = tuple(replace(one, files=tuple(filter(needed, one.files))) for one in whole.chains)
    tables = {
        name: TableState(
            state.number,
            tuple(_thinned(state.compactions, there[name], {file.path for file in _files(state) if needed(file)})),
        )
        for name, state in whole.tables.items()
    }
    return Checkpoint(chains, tables)


def _replaced(state: TableState) -> set[str]:
    return {path for compaction in state.compactions for path in compaction.replaced()}


def _files(state: TableState) -> Iterator[DataFile]:
    return chain.from_iterable(compaction.files() for compaction in state.compactions)


def _thinned(
    compactions: Sequence[Compaction], there: Collection[str], needed: Collection[str]
) -> Iterator[Compaction]:
    """Compactions that still say something, and what of them does."""
    through = {run.job: run.through for compaction in compactions for run in compaction.runs}  # the newest counts
    for compaction in compactions:
        merged = [Merged(one.file, _those(one.replaces, there)) for one in compaction.merged]
        merged = [one for one in merged if one.replaces or one.file.path in needed]
        runs = [
            BatchRun(
                run.job,
                run.through,
                run.file if run.file and run.file.path in needed else None,
                _those(run.replaces, there),
            )
            for run in compaction.runs
        ]
        runs = [run for run in runs if run.file or run.replaces or run.through == through[run.job]]
        if merged or runs:
            yield Compaction(compaction.at_us, tuple(merged), tuple(runs))


def _those(names: Sequence[str], there: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in there)
