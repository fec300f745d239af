"""Compiled: how kernels of the search become machine code. The Python they are written in stays theirs to call.

Machine code is kept in the user's cache, in a folder of its own for each state of the kernels' sources: a file cached
next to its source is not rebuilt after a change of another source that it calls.
"""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

import numba

from ingest.devkafka.java import cache_folder

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """The function as machine code that lets other threads run, divides by zero as NumPy does, and is kept on disk."""
    return cast("Callable[P, R]", numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def vectorised(function: Callable[P, R]) -> Callable[P, R]:
    """As compiled, and sums may be taken in another order, so that several numbers are computed at once."""
    jit = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
    return cast("Callable[P, R]", jit(function))


def sources_digest(folder: Path) -> str:
    """A name for the state of all sources of a folder."""
    digest = sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


numba.config.CACHE_DIR = str(  # type: ignore[attr-defined]  # set when numba is imported
    cache_folder() / "compiled" / sources_digest(Path(__file__).parent)
)
