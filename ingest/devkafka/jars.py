"""Jars: fetch what Kafka's broker and Spark's Kafka source need, each file checked against a committed checksum.

`python -m ingest.devkafka.jars` fetches what is missing. Coordinates are explicit and nothing comes along by itself,
so the same bytes arrive whichever of two fetchers brings them: Maven when it is on PATH, else Ivy out of pyspark's own
jars.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import file_digest
from importlib.resources import files
from pathlib import Path

from rich.console import Console

from ingest.devkafka.java import cache_folder
from ingest.devkafka.maven import fetchers
from ingest.schema.errors import FetchFailed, IngestError

TRIES = 3
CHUNK = 16
"""Jars asked for at once: few enough to show progress, enough to start Maven seldom."""

Progress = Callable[[int, int, str], None]
"""Called with jars present, jars in all, and the newest one's name."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of `jars.sha256`."""

    sha256: str
    set: str
    name: str
    coordinate: str

    @property
    def path(self) -> Path:
        """Where the jar lies once fetched."""
        return jar_folder(self.set) / self.name

    def is_good(self, folder: Path) -> bool:
        """Whether `folder` holds this jar, byte for byte."""
        path = folder / self.name
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest() == self.sha256


def jar_folder(which: str) -> Path:
    """Folder of one set of jars, `broker` or `spark`."""
    return cache_folder() / "jars" / which


def listed_jars() -> tuple[Jar, ...]:
    """Every jar of the committed list, in its order."""
    lines = (files("ingest.devkafka") / "jars.sha256").read_text().splitlines()
    return tuple(_parse(line) for line in lines if line and not line.startswith("#"))


def jar_paths(which: str) -> list[Path]:
    """Paths of one set of jars, `broker` or `spark`.

    Raises:
        IngestError: some have not been fetched.
    """
    jars = [jar for jar in listed_jars() if jar.set == which]
    missing = [jar.name for jar in jars if not jar.path.is_file()]
    if missing:
        raise IngestError(
            f"{len(missing)} of the {which} jars are missing, first {missing[0]}: run `python -m ingest.devkafka.jars`"
        )
    return [jar.path for jar in jars]


def fetch_jars(progress: Progress) -> list[Path]:
    """Fetch every jar that is missing or damaged; return the paths of all.

    Raises:
        FetchFailed: a jar could not be had three times over, or is not the one that was listed.
    """
    jars = listed_jars()
    missing = [jar for jar in jars if not jar.is_good(jar.path.parent)]
    done = len(jars) - len(missing)
    for chunk in _chunks(missing):
        _fetch(chunk)
        done += len(chunk)
        progress(done, len(jars), chunk[-1].name)
    return [jar.path for jar in jars]


def _parse(line: str) -> Jar:
    sha256, place, coordinate = line.split()
    which, name = place.split("/")
    return Jar(sha256, which, name, coordinate)


def _chunks(jars: Sequence[Jar]) -> Iterator[list[Jar]]:
    """Runs of jars of one set: the sets hold two versions of one library, which no fetcher takes at once."""
    for which in dict.fromkeys(jar.set for jar in jars):
        same = [jar for jar in jars if jar.set == which]
        yield from (same[i : i + CHUNK] for i in range(0, len(same), CHUNK))


def _fetch(jars: Sequence[Jar]) -> None:
    """Bring jars of one set into its folder: every fetcher in turn, three times each, whole files only."""
    target = jar_folder(jars[0].set)
    target.mkdir(parents=True, exist_ok=True)
    output: list[str] = []
    for fetch in (fetch for fetch in fetchers() for _ in range(TRIES)):
        with tempfile.TemporaryDirectory(dir=target, prefix=".fetch-") as folder:
            output.append(fetch([jar.coordinate for jar in jars if not jar.is_good(target)], Path(folder)))
            for jar in (one for one in jars if one.is_good(Path(folder))):  # the listed bytes, and no others
                os.replace(Path(folder) / jar.name, target / jar.name)
        if all(jar.is_good(target) for jar in jars):
            return
    raise FetchFailed([jar.coordinate for jar in jars if not jar.is_good(target)], output[-1] if output else "")


def main() -> int:
    """Fetch the jars, say how it goes, and exit 1 with one message when it fails."""
    console = Console(stderr=True, highlight=False, emoji=False)
    try:
        paths = fetch_jars(lambda done, total, name: console.print(f"jars {done}/{total}: {name}"))
    except FetchFailed as error:
        console.print(str(error), markup=False, soft_wrap=True)
        return 1
    console.print(f"{len(paths)} jars in {cache_folder() / 'jars'}, all as listed", soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
