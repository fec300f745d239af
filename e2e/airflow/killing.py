"""Killing: a task's command is killed mid-way, and what its next try leaves is held against a run that never was."""

import hashlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from e2e.airflow.site import POLL_S, Site
from features.schema.tables import TABLES
from ingest.lake.tables import Lake

Digest = tuple[int, str]
"""Of a table: its rows, and what is in them whatever their order."""


@dataclass
class Used:
    """What a command used of the processor, in seconds, by when it was last looked at."""

    seconds: float = 0.0


@contextmanager
def measured(site: Site, words: Sequence[str]) -> Iterator[Used]:
    """Within the block it is measured what a command of a site uses that begins so."""
    used = Used()

    def look(pid: int) -> bool:
        used.seconds = max(used.seconds, _cpu_s(pid))
        return False

    with _watching(site, words, look):
        yield used


@contextmanager
def killed(site: Site, words: Sequence[str], after_s: float) -> Iterator[Event]:
    """Within the block the first command that begins so and used so much of the processor is killed; then set.

    By the clock it would be killed before it began, or after it ended, wherever something else runs beside it.
    """
    done = Event()

    def look(pid: int) -> bool:
        if _cpu_s(pid) < after_s:
            return False
        os.kill(pid, signal.SIGKILL)
        done.set()
        return True

    with _watching(site, words, look):
        yield done


@contextmanager
def _watching(site: Site, words: Sequence[str], look: Callable[[int], bool]) -> Iterator[None]:
    """Within the block each command that begins so is looked at again and again, until that returns True."""
    over = Event()

    def watch() -> None:
        while not over.wait(POLL_S):
            if any(look(pid) for pid in _running(site, words)):
                return

    thread = Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _cpu_s(pid: int) -> float:
    """What a process used of the processor, with its threads; 0 where it has ended."""
    try:
        fields = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _running(site: Site, words: Sequence[str]) -> list[int]:
    """Processes of a site that run a command."""
    wanted, here = "\0".join(("-m", "cohabit", *words)), f"COHABIT_LAKE={site.settings['COHABIT_LAKE']}\0"
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (place / "cmdline").read_text() and here in (place / "environ").read_text(errors="replace"):
                found.append(int(place.name))
        except OSError:  # it has ended, or is somebody else's
            continue
    return found


def tables_of(lake: Lake, names: Sequence[str] = tuple(TABLES)) -> dict[str, Digest]:
    """Each table that has rows."""
    return {name: found for name in names if (found := _digest(lake, name))[0]}


def _digest(lake: Lake, name: str) -> Digest:
    facts, rows = TABLES[name], lake.read(name)
    keys = [column for column in dict.fromkeys((facts.time, *facts.key)) if column in rows.column_names]
    ordered, digest = rows.sort_by([(key, "ascending") for key in keys]), hashlib.sha256()
    for column in ordered.column_names:
        digest.update(repr((column, ordered[column].to_pylist())).encode())
    return rows.num_rows, digest.hexdigest()


def models_of(site: Site) -> dict[str, str]:
    """Every model of a site's bundles: SHA-256 by bundle and file, but for what tells when it was made."""
    registry = site.folder / "registry"
    return {
        str(path.relative_to(registry)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(registry.rglob("*.onnx"))
    }


def differing(one: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    """Names under which two tell something else."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
