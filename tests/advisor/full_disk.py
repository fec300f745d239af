"""A disk that is full, for tests of what is written whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from resource import RLIMIT_FSIZE, getrlimit, setrlimit


@contextmanager
def no_room_beyond(size_bytes: int) -> Iterator[None]:
    """Files of this process grow no longer than this."""
    before = getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        setrlimit(RLIMIT_FSIZE, before)
