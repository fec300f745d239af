"""Lines: of a text file, unpacked where it is packed. An edge."""

import lzma
from collections.abc import Iterator
from pathlib import Path

from benchmarks.reassign.errors import UnusableFile

WORDS = "utf-8-sig"
"""With or without a byte order mark."""


def lines_of(path: Path) -> Iterator[str]:
    """Lines of a file.

    Raises:
        UnusableFile: it is not there, not text, or damaged.
    """
    try:
        with (
            lzma.open(path, "rt", encoding="utf-8-sig")
            if path.suffix == ".xz"
            else path.open(encoding="utf-8-sig") as opened
        ):
            yield from opened
    except FileNotFoundError as error:
        raise UnusableFile(path, None, "there is no such file") from error
    except (OSError, UnicodeDecodeError, lzma.LZMAError, EOFError) as error:
        raise UnusableFile(path, None, str(error)) from error
