"""Targets of fuzzing: what reads input from outside, good inputs for it, and the errors it may refuse others with."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import disk_usage

Refusals = tuple[type[BaseException], ...]


class Refused(Exception):
    """For targets that refuse by an answer, such as a status of HTTP, rather than an error."""


@dataclass(frozen=True)
class Target:
    """One reader.

    Args:
        name: of the target.
        module: that reads.
        good: inputs that it accepts; of a reader of several files `NAME\\n` and what is in that one.
        read: fed an input.
        refuses: errors of ours that may come out of it.
        in_files: whether the first line of an input names a file, and is to stay.
    """

    name: str
    module: str
    good: tuple[bytes, ...]
    read: Callable[[bytes], object]
    refuses: Refusals = ()
    in_files: bool = False


def in_memory() -> Path | None:
    """Where folders lie in memory; None where there is no such place, or a small one as in a container."""
    place = Path("/dev/shm")  # noqa: S108
    return place if place.is_dir() and disk_usage(place).free >= 1 << 30 else None


def of_text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    """A reader of text as the system hands it over: what is no UTF-8 becomes surrogates."""
    return lambda told: read(told.decode(errors="surrogateescape"))


def of_utf8(read: Callable[[str], object]) -> Callable[[bytes], object]:
    """A reader of text of which other bytes are refused before."""

    def decoded(told: bytes) -> object:
        try:
            text = told.decode()
        except UnicodeDecodeError as error:
            raise Refused("no UTF-8") from error
        return read(text)

    return decoded


def of_file(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """A reader of a file."""

    def written(told: bytes) -> object:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(told)
        return read(path)

    return written


def in_folder(
    name: str, module: str, folder: Path, read: Callable[[Path], object], refuses: Refusals, files: Iterable[str] = ()
) -> Target:
    """A reader of a folder that holds good files: of which one at a time is broken.

    Args:
        name: of the target.
        module: that reads.
        folder: with its files.
        read: fed the folder.
        refuses: errors that may come out.
        files: that are broken, by their paths in the folder; all of them where none is named.
    """
    below = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file())
    good: Mapping[str, bytes] = {of: (folder / of).read_bytes() for of in files or below}

    def broken(told: bytes) -> object:
        head, _, content = told.partition(b"\n")
        path = folder / head.decode()
        path.write_bytes(content)
        try:
            return read(folder)
        finally:
            path.write_bytes(good[head.decode()])

    inputs = tuple(of.encode() + b"\n" + content for of, content in good.items())
    return Target(name, module, inputs, broken, refuses, in_files=True)
