"""Backing up: lake, registry, bills, kept plans and store as one folder that can be checked, and back. An edge.

What refers comes before what it refers to: the store, then files of bills, plans and bundles, then what the lake says
counts, then its data. Each of these is written before something refers to it and never changed, so that a copy that is
made while everything goes on has all that it needs.
"""

import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec
from sqlalchemy import Engine

from advisor.database.dump import dump, load, refuse_filled
from cohabit.backup.bucket_copy import pull, push
from cohabit.config.errors import CohabitError
from features.schema.tables import TABLES
from ingest.lake.bucket import Bucket
from ingest.lake.tables import Lake
from ingest.schema.tables import LAKE_OWN
from models.registry.registry import LOCK

FORMAT = 2
MANIFEST = "backup.json"
STORE = "store"
TRIES = 3
"""Of copying a lake whose compaction takes files away meanwhile."""
CHUNK = 1 << 20
HIDDEN = ("registry",)
"""Folders in which hidden files mean something: history, drift, skew. In a lake they are what was never finished."""
BEING_WRITTEN = re.compile(r"\..+\.[0-9a-f]{32}")
NOT_OURS = ("lost+found",)
Progress = Callable[[str, int, int], None]
"""Called with what is copied, bytes done and bytes in all."""


class Kept(msgspec.Struct, frozen=True):
    """A file of a backup: its size, and SHA-256, hex."""

    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """What a backup holds, written last: without it a folder is none.

    Args:
        format: of this record.
        made_at: when it was begun, ISO 8601, UTC.
        cluster: whose.
        store_version: of the store.
        files: by path below the folder.
    """

    format: int
    made_at: str
    cluster: str
    store_version: str
    files: dict[str, Kept]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(kept.size for kept in self.files.values())


@dataclass(frozen=True)
class Places:
    """Where things are that are backed up.

    Args:
        cluster: whose they are.
        folders: by name, in the order in which they are copied; `lake` is the last one, unless it is a bucket.
        store: tokens, audit, plans and bills.
        bucket: where the lake is; None where it is one of the folders.
    """

    cluster: str
    folders: Mapping[str, Path]
    store: Engine
    bucket: Bucket | None = None


def back_up(places: Places, folder: Path, progress: Progress) -> Manifest:
    """Copy everything into a new folder while everything goes on.

    Args:
        places: what is copied; a folder that is not there is an empty one.
        folder: must be empty, or not there.
        progress: called as the copy proceeds.

    Raises:
        CohabitError: the folder holds something, a folder holds a link, or files of the lake vanish again and again.
        StoreOutdated: there is no store.
    """
    _refuse_filled(folder)
    made_at = datetime.now(UTC)
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)  # it holds digests of tokens
    version = dump(places.store, folder / STORE)
    files = {_below(path, folder): _kept(path) for path in _files(folder / STORE)}
    for name, source in places.folders.items():
        files |= {f"{name}/{path}": kept for path, kept in _copied(source, folder / name, name, progress).items()}
    if places.bucket is not None:
        files |= {f"lake/{path}": kept for path, kept in _pulled(places.bucket, folder / "lake", progress).items()}
    found = Manifest(FORMAT, made_at.strftime("%Y-%m-%dT%H:%M:%SZ"), places.cluster, version, files)
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(found, order="sorted"), indent=1))
    return found


def back_up_once(places: Places, folder: Path, progress: Progress) -> Manifest:
    """As `back_up`, but repeatable: a finished backup stays, an unfinished one is begun again.

    It is made next to its folder, whose name appears once it is whole.

    Raises:
        CohabitError: the folder holds something else, or what is there cannot be read.
        StoreOutdated, CohabitError: see `back_up`.
    """
    if (folder / MANIFEST).exists():
        return _manifest(folder)
    _refuse_filled(folder)
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    found = back_up(places, unfinished, progress)
    unfinished.rename(folder)
    return found


def verify(folder: Path, progress: Progress) -> Manifest:
    """What a backup holds, after reading all of it.

    Raises:
        CohabitError: the folder holds none, or an unfinished one, or files are missing or are not what was written.
    """
    found = _manifest(folder)
    done, wrong = 0, []
    for path, kept in found.files.items():
        if not _is_there(folder, path) or _kept(folder / path) != kept:
            wrong.append(path)
        done += kept.size
        progress("checked", done, found.size)
    if wrong:
        raise CohabitError(
            f"{len(wrong)} files of the backup {folder} are missing or were changed ({', '.join(wrong[:3])}): restore "
            "another backup"
        )
    return found


def restore(places: Places, folder: Path, progress: Progress) -> Manifest:
    """Put a backup into the places that settings name, none of which may hold anything.

    Args:
        places: where everything goes.
        folder: of the backup; all of it is checked before anything is written.
        progress: called as the copy proceeds.

    Raises:
        CohabitError: see `verify`.
        CohabitError, AdvisorError: something is there.
        AdvisorError, StoreAhead: its store is of a newer Cohabit, or not whole.

    Folders get their names last, once all of them and the store are whole: where one of these was raised, none is.
    """
    targets = {name: target.resolve() for name, target in places.folders.items()}
    for target in targets.values():
        _refuse_filled(target)
    if places.bucket is not None and places.bucket.is_there():
        raise CohabitError(f"{places.bucket.uri} is not empty, and its objects would be overwritten: name an empty one")
    refuse_filled(places.store)
    found = verify(folder, progress)
    temporary = {name: target.with_name(f".{target.name}.{uuid.uuid4().hex}") for name, target in targets.items()}
    try:
        for name, copy in temporary.items():
            _copy_back(found, folder, name, copy, progress)
        for target in filter(Path.exists, targets.values()):
            target.rmdir()  # before anything is filled: a volume that is mounted just there cannot be replaced
        if places.bucket is not None:
            push(places.bucket, folder / "lake", partial(progress, "lake"))
        load(places.store, folder / STORE, found.store_version)
        for name, copy in temporary.items():
            copy.rename(targets[name])
    finally:
        for copy in temporary.values():
            shutil.rmtree(copy, ignore_errors=True)
    return found


def _manifest(folder: Path) -> Manifest:
    """What a backup says that it holds."""
    try:
        found = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except OSError as error:
        raise _no_backup(folder, error.strerror or str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _no_backup(folder, str(error)) from error
    if found.format != FORMAT:
        raise _no_backup(folder, f"its format is {found.format}, and this Cohabit reads {FORMAT}")
    return found


def _copied(source: Path, target: Path, name: str, progress: Progress) -> dict[str, Kept]:
    """What was copied of a folder; again from the start where compaction took files of the lake away meanwhile."""
    for _ in range(TRIES):
        try:
            found = _copy(source, target, name, progress)
        except FileNotFoundError:
            found = None
        if found is not None and name != "lake":
            return found
        if found is not None and not _lacking(target):  # which renames what a power loss had torn
            there = {_below(path, target): path for path in _files(target)}
            return {path: found.get(path) or _kept(file) for path, file in there.items()}
        shutil.rmtree(target, ignore_errors=True)
    raise _deleted_meanwhile(str(source))


def _pulled(bucket: Bucket, target: Path, progress: Progress) -> dict[str, Kept]:
    """What was copied of a bucket; again from the start where upkeep took objects of the lake away meanwhile."""
    for _ in range(TRIES):
        target.mkdir(parents=True, exist_ok=True)
        try:
            pull(bucket, target, partial(progress, "lake"))
        except FileNotFoundError:
            pass
        else:
            if not _lacking(target):
                return {_below(path, target): _kept(path) for path in _files(target)}
        shutil.rmtree(target)
    raise _deleted_meanwhile(bucket.uri)


def _lacking(root: Path) -> bool:
    """Whether a lake says that a file counts which is not there.

    Raises:
        CohabitError: one has another length than was written.
    """
    lake = Lake.open(root, TABLES)
    for table in (*TABLES, *LAKE_OWN):
        files, sizes = lake.fence(table).files(), lake.store.sizes(table)
        if any(file.path not in sizes for file in files):
            return True
        if cut := next((file for file in files if sizes[file.path] != file.size_bytes), None):
            raise CohabitError(
                f"the lake is damaged: {table}/{cut.path} has {sizes[cut.path]:,} bytes, {cut.size_bytes:,} were "
                "written; `cohabit lake check` names all such files: restore them before you back up"
            )
    return False


def _copy(source: Path, target: Path, name: str, progress: Progress) -> dict[str, Kept]:
    """Copy a folder, Parquet files last, as listed once the others were copied, which say what of them counts."""
    target.mkdir(parents=True, exist_ok=True)
    small = [path for path in _files(source, hidden=name in HIDDEN) if path.suffix != ".parquet"]
    found = {_below(path, source): _copy_file(path, target / _below(path, source)) for path in small}
    large, done = [path for path in _files(source) if path.suffix == ".parquet"], 0
    total = sum(path.stat().st_size for path in large)
    for path in large:
        kept = found[_below(path, source)] = _copy_file(path, target / _below(path, source))
        done += kept.size
        progress(name, done, total)
    return found


def _copy_back(found: Manifest, folder: Path, name: str, target: Path, progress: Progress) -> None:
    """Copy what a backup says that it holds of a folder, and nothing else that lies there."""
    target.mkdir(parents=True)
    listed = {path: kept for path, kept in found.files.items() if path.startswith(f"{name}/")}
    done, total = 0, sum(kept.size for kept in listed.values())
    for path in listed:
        done += _copy_file(folder / path, target / path.removeprefix(f"{name}/")).size
        progress(name, done, total)


def _copy_file(path: Path, target: Path) -> Kept:
    target.parent.mkdir(parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as source, target.open("xb") as copy:
        while chunk := source.read(CHUNK):
            copy.write(chunk)
            digest.update(chunk)
            size += len(chunk)
        copy.flush()
        os.fsync(copy.fileno())
    return Kept(size, digest.hexdigest())


def _is_there(folder: Path, path: str) -> bool:
    """Whether a path names a file in the folder; with NUL, or 5,000 letters, it can name none anywhere."""
    try:
        return (
            ".." not in Path(path).parts
            and (folder / path).resolve().is_relative_to(folder.resolve())
            and (folder / path).is_file()
        )
    except (OSError, ValueError):
        return False


def _kept(path: Path) -> Kept:
    with path.open("rb") as file:
        return Kept(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def _files(folder: Path, *, hidden: bool = False) -> Iterator[Path]:
    """Files below a folder, unfinished ones left out.

    Args:
        folder: that; one that is not there is an empty one.
        hidden: whether a name that begins with a dot means something there, unless a lock or a file being written.

    Raises:
        CohabitError: something is a link, and what it leads to would be missing.
        OSError: a folder cannot be read.
    """

    def counts(name: str) -> bool:
        return name[0] != "." or (hidden and name != LOCK and not BEING_WRITTEN.fullmatch(name))

    if not folder.exists():
        return
    for place, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(name for name in folders if name not in NOT_OURS and not BEING_WRITTEN.fullmatch(name))
        for path in (Path(place, name) for name in (*folders, *sorted(filter(counts, names)))):
            if path.is_symlink():
                raise CohabitError(
                    f"{path} is a symbolic link, which a backup does not include: replace it by its target, or remove "
                    "it"
                )
        yield from (Path(place, name) for name in sorted(filter(counts, names)))


def _refuse(error: OSError) -> None:
    raise error


def _below(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _refuse_filled(folder: Path) -> None:
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise CohabitError(f"{folder} is not empty, and its files would be overwritten: name an empty or new folder")


def _deleted_meanwhile(lake: str) -> CohabitError:
    return CohabitError(
        f"files of the lake {lake} were deleted during each of {TRIES} attempts to copy it: back up while `cohabit "
        "lake compact` is not running; if it is not, files are missing: run `cohabit lake check`"
    )


def _no_backup(folder: Path, reason: str) -> CohabitError:
    return CohabitError(
        f"{folder} is not a complete backup ({reason}): name a folder that `cohabit admin backup make` of this version "
        "wrote; restore others with the version that wrote them"
    )
