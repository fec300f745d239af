"""Lines: of a text file, unpacked where it is packed. An edge."""

import lzma
from collections.abc import Iterator
from pathlib import Path

from benchmarks.reassign.errors import UnusableFile

BYTE_ORDER_MARK = "\ufeff"


def lines_of(path: Path) -> Iterator[str]:
    """Lines of a file, with or without a byte order mark.

    Raises:
        UnusableFile: it is not there, not text, or damaged.
    """
    try:
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as opened:
            for line, raw in enumerate(opened, 1):
                yield _text(path, line, raw)
    except FileNotFoundError as error:
        raise UnusableFile(path, None, "there is no such file") from error
    except (OSError, lzma.LZMAError, EOFError) as error:
        raise UnusableFile(path, None, str(error)) from error


def _text(path: Path, line: int, raw: bytes) -> str:
    try:
        return raw.decode().removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        raise UnusableFile(path, line, f"no text ({error})") from error
