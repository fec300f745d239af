"""Registry: a directory of bundles and the name of the one that is served. An edge.

The file `current` lists the promoted names, newest last, and is replaced as a whole: a reader sees the old bundle
or the new one. One process promotes at a time; any number read.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from ingest.atomic import replace_atomically
from models.bundle import read_bundle
from models.errors import NothingToRollBackTo, StillServed, UnknownBundle

POINTER = "current"


@dataclass(frozen=True)
class Registry:
    """Bundles in sub-folders of `root`."""

    root: Path

    def current(self) -> Path | None:
        """The bundle to serve, or None before the first promotion."""
        promoted = self.promoted()
        return self.root / promoted[-1] if promoted else None

    def names(self) -> tuple[str, ...]:
        """Every bundle here, promoted or not, in alphabetical order."""
        return tuple(sorted(p.name for p in self.root.iterdir() if p.is_dir() and not p.name.startswith(".")))

    def promote(self, name: str) -> Path:
        """Serve a bundle from now on, after verifying its files.

        Raises:
            UnknownBundle: no such bundle.
            BundleCorrupt: its files are not what was written; the current bundle stays.
        """
        promoted = self.promoted()
        if promoted[-1:] != [name]:
            self._point([*promoted, name])
        return self.root / name

    def rollback(self) -> Path:
        """Return to the bundle that was current before, after verifying its files.

        Raises:
            NothingToRollBackTo: there was none.
            BundleCorrupt: its files are not what was written; the current bundle stays.
        """
        promoted = self.promoted()
        if len(promoted) < 2:
            raise NothingToRollBackTo(self.root)
        self._point(promoted[:-1])
        return self.root / promoted[-2]

    def retire(self, name: str) -> None:
        """Remove a bundle that is not current, and the way back to it.

        Raises:
            StillServed: it is current.
        """
        promoted = self.promoted()
        if promoted[-1:] == [name]:
            raise StillServed(name)
        if name in promoted:
            self._point([kept for kept in promoted if kept != name])
        shutil.rmtree(self.root / name, ignore_errors=True)

    def promoted(self) -> list[str]:
        """Names that were made current and not rolled back, newest last."""
        try:
            return (self.root / POINTER).read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return []

    def _point(self, promoted: list[str]) -> None:
        if promoted[-1] not in self.names():
            raise UnknownBundle(promoted[-1], self.names())
        read_bundle(self.root / promoted[-1])
        replace_atomically(self.root / POINTER, "".join(f"{name}\n" for name in promoted).encode())
