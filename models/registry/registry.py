"""Registry: a directory of bundles and the name of the one that is served. An edge.

The file `current` lists the promoted names, newest last, and is replaced as a whole: a reader sees the old bundle
or the new one. Who changes it holds a lock; any number read. `.verdicts/` has what came of judging challengers.
"""

import fcntl
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from ingest.schema.atomic_file import replace_atomically
from models.bundle.bundle import Bundle, read_bundle
from models.bundle.signing import ANYBODY, Trust
from models.errors import ModelsError
from models.registry.gate_result import Verdict

POINTER, LOCK, VERDICTS = "current", ".lock", ".verdicts"
FOLLOWED = "-until-"
"""Between the name of a bundle that was trained and the time until which its margins followed labels."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def trained_name(name: str) -> str:
    """Of a bundle whose margins followed labels, the name of the one that was trained."""
    return name.split(FOLLOWED, maxsplit=1)[0]


def checked_name(name: str) -> str:
    """The name, if a bundle that is trained can have it.

    Raises:
        ModelsError: it would lie elsewhere, be more than a line, or be taken for one whose margins followed labels.
    """
    if not NAME.fullmatch(name) or FOLLOWED in name:
        raise ModelsError(
            f"no bundle can be called {name!r}: give up to 100 letters of a to z and A to Z, digits, '.', '_' and '-', "
            f"a letter or digit first, without {FOLLOWED!r}"
        )
    return name


@dataclass(frozen=True)
class Registry:
    """Bundles in sub-folders of `root`, trusted where a signer in `trust` signed them."""

    root: Path
    trust: Trust = ANYBODY

    def current(self) -> Path | None:
        """The bundle to serve, or None before the first promotion.

        Raises:
            ModelsError: what is named as current lies elsewhere, and was never promoted by us.
        """
        promoted = self.promoted()
        if promoted and (Path(promoted[-1]).name != promoted[-1] or promoted[-1] in {"", ".."}):
            raise _unknown_bundle(promoted[-1], self.names())
        return self.root / promoted[-1] if promoted else None

    def names(self) -> tuple[str, ...]:
        """Every bundle here, promoted or not, in alphabetical order."""
        if not self.root.is_dir():
            return ()
        return tuple(sorted(p.name for p in self.root.iterdir() if p.is_dir() and not p.name.startswith(".")))

    def bundle(self, name: str) -> Bundle:
        """Read and verify one.

        Raises:
            ModelsError: no such bundle.
            BundleCorrupt: its files are not what was written, or not signed by anybody who is trusted.
        """
        if name not in self.names():
            raise _unknown_bundle(name, self.names())
        return read_bundle(self.root / name, self.trust)

    def promote(self, name: str) -> Path:
        """Serve a bundle from now on, after verifying its files.

        Raises:
            ModelsError: no such bundle.
            BundleCorrupt: its files are not what was written; the current bundle stays.
        """
        self._point(lambda promoted: promoted if promoted[-1:] == [name] else [*promoted, name])
        return self.root / name

    def replace(self, current: str | None, name: str) -> Path:
        """As promote, but only while another one is current, None for none.

        Raises:
            ModelsError: as in `promote`, or another one is current; nothing is changed.
        """

        def then(promoted: list[str]) -> list[str]:
            found = promoted[-1] if promoted else None
            if found != current:
                raise ModelsError(
                    f"{name} was made for the place of {current or 'nothing'}, but {found or 'nothing'} is current by "
                    "now: run the command again"
                )
            return [*promoted, name]

        self._point(then)
        return self.root / name

    def rollback(self, first: Callable[[Bundle], None] = lambda _bundle: None) -> Path:
        """Return to the newest bundle before that holds other models, after verifying its files.

        Args:
            first: called with that bundle before anything changes; where it raises, nothing does.

        Raises:
            ModelsError: there was none.
            BundleCorrupt: its files are not what was written; the current bundle stays.
        """

        def before(promoted: list[str]) -> list[str]:
            now = trained_name(promoted[-1]) if promoted else ""
            kept = list(promoted)
            while kept and trained_name(kept[-1]) == now:
                kept.pop()
            if not kept:
                raise ModelsError(f"registry {self.root} has no earlier bundle to return to: promote one by name")
            return kept

        return self.root / self._point(before, first)

    def retire(self, name: str) -> None:
        """Remove a bundle that is not current, and the way back to it.

        Raises:
            ModelsError: it is current.
        """

        def without(promoted: list[str]) -> list[str]:
            if promoted[-1:] == [name]:
                raise ModelsError(f"bundle {name} is current: promote another one first")
            return [kept for kept in promoted if kept != name]

        if name in self.promoted():
            self._point(without)
        shutil.rmtree(self.root / name, ignore_errors=True)

    def promoted(self) -> list[str]:
        """Names that were made current and not rolled back, newest last."""
        try:
            return (self.root / POINTER).read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return []

    def verdict(self, name: str) -> Verdict | None:
        """What came of judging a challenger; None before it was judged.

        Raises:
            ModelsError: something else is kept there.
        """
        path = self._verdict(name)
        try:
            return Verdict.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise ModelsError(
                f"{path} is no verdict ({str(error).splitlines()[0]}): judge again with `cohabit model gate`"
            ) from error

    def keep(self, verdict: Verdict) -> None:
        """Keep a verdict in the place of an earlier one on the same challenger."""
        replace_atomically(self._verdict(verdict.challenger), verdict.model_dump_json(indent=2).encode())

    def _verdict(self, name: str) -> Path:
        if name not in self.names():
            raise _unknown_bundle(name, self.names())
        return self.root / VERDICTS / f"{name}.json"

    def _point(
        self, change: Callable[[list[str]], list[str]], first: Callable[[Bundle], None] = lambda _bundle: None
    ) -> str:
        """Change the list of promoted bundles under the registry's lock; the name that is current then."""
        with self._locked():
            before = self.promoted()
            promoted = change(before)
            first(self.bundle(promoted[-1]))
            if promoted != before:
                replace_atomically(self.root / POINTER, "".join(f"{name}\n" for name in promoted).encode())
        return promoted[-1]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the registry's exclusive lock; a process that dies releases it."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / LOCK).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _unknown_bundle(name: str, known: tuple[str, ...]) -> ModelsError:
    return ModelsError(f"the registry has no bundle {name!r}; it has {', '.join(known) or 'none'}")
