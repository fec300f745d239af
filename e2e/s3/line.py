"""The whole line twice, by the commands that a person types: with its lake in a folder, and in a bucket. An edge."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from cohabit.terminal.console import show_table
from e2e.airflow.killing import Digest, tables_of
from e2e.kube.errors import E2eError
from features.schema.tables import TABLES
from ingest.lake.tables import Lake

SIMULATED = ("--nodes", "8", "--apps", "9", "--hours", "2", "--antagonists", "1")
"""As in docs/quickstart.md: of less there is no model to promote."""
STEPS: Mapping[str, tuple[str, ...]] = {
    "ingest": ("ingest", "{stream}"),
    "ingest again": ("ingest", "{stream}"),
    "features": ("features",),
    "features again": ("features",),
    "train": ("model", "train"),
    "refresh": ("refresh", "{stream}"),
    "meter": ("bill", "meter"),
    "check": ("lake", "check", "--rows"),
    "compact": ("lake", "compact", "--older-than", "0", "--full"),
    "check, compacted": ("lake", "check", "--rows"),
    "expire": ("lake", "expire", "--before", "2026-03-03", "--table", "usage", "--table", "metered", "--yes"),
    "check, expired": ("lake", "check", "--rows"),
}
"""What runs on each lake, in this order. The simulated cluster begins on 2 March 2026."""
LOOKED_AT = ("ingest again", "features again", "meter", "compact", "expire")
"""Steps after which tables are compared."""


class CommandFailed(E2eError):
    """A command of the line ended badly."""

    def __init__(self, words: tuple[str, ...], lake: str, said: str) -> None:
        self.words, self.lake = words, lake
        super().__init__(f"cohabit {' '.join(words)} failed with its lake at {lake}; it said:\n{said[-3000:]}")


@dataclass
class Site:
    """One installation.

    Args:
        lake: address of its lake.
        folder: its own, for all else.
        seconds: that each step took.
    """

    lake: str
    folder: Path
    seconds: dict[str, float] = field(default_factory=dict)

    def run(self, *words: str) -> None:
        """Run a command to its end.

        Raises:
            CommandFailed: it exited with an error.
        """
        done = subprocess.run(
            [sys.executable, "-m", "cohabit", *words],
            env=self._environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise CommandFailed(words, self.lake, done.stdout + done.stderr)

    def step(self, name: str, stream: Path) -> None:
        """Run a step, and note how long it took."""
        began_s = monotonic()
        self.run(*(word.format(stream=stream) for word in STEPS[name]))
        self.seconds[name] = monotonic() - began_s

    def tables(self) -> dict[str, Digest]:
        """What each table holds."""
        return tables_of(Lake.open(self.lake, TABLES))

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("COHABIT_")}
        folders = {name: str(self.folder / name.lower()) for name in ("REGISTRY", "SNAPSHOTS", "BILLING__LEDGER_DIR")}
        own = {"LAKE": self.lake, "CLUSTER": "sim", "DATABASE": str(self.folder / "store.sqlite"), **folders}
        return kept | {f"COHABIT_{name}": value for name, value in own.items()}


def compared(bucket: str, folder: Path, say: Callable[[str], object]) -> int:
    """Run the line on both lakes and compare them on the way; 1 where they differ."""
    stream = folder / "stream"
    plain, other = Site(str(folder / "lake"), folder / "plain"), Site(f"{bucket}/lake", folder / "bucket")
    plain.run("dev", "simulate", str(stream), *SIMULATED)
    differing = [line for name in STEPS for line in _differing(name, plain, other, stream, say)]
    seconds = [(name, f"{plain.seconds[name]:.1f}", f"{other.seconds[name]:.1f}") for name in STEPS]
    show_table("seconds of each step", ("step", "folder", "bucket"), seconds)
    say("every table in the bucket is as in the folder" if not differing else "\n".join(differing))
    return int(bool(differing))


def _differing(name: str, plain: Site, other: Site, stream: Path, say: Callable[[str], object]) -> Iterator[str]:
    """Run a step on both; tables that differ after it."""
    for site in (plain, other):
        site.step(name, stream)
    if name not in LOOKED_AT:
        return
    here, there = plain.tables(), other.tables()
    say(f"{name}: {', '.join(f'{table} {rows:,}' for table, (rows, _) in here.items())}")
    for table in sorted({*here, *there}):
        nothing = (0, "")
        if (wanted := here.get(table, nothing)) != (found := there.get(table, nothing)):
            yield f"after {name}: table {table} has {wanted[0]:,} rows in the folder and {found[0]:,} in the bucket"
