"""Memory: what a process that runs for months has freed goes back to the machine. An edge.

The C library keeps freed memory in heaps, up to eight for each core, whose holes are filled less and less well: a
process that holds the same for ever grows all the same. So there are few heaps, and their holes are given back. Arrow's
own heap would keep the most that it ever held; whatever is Arrow's is put into those of the C library.

Objects that hold each other, as a frame and the exception that was raised in it, are searched for each minute too: by
itself Python does so once they are a quarter of all it holds, and counts a batch of 28 MB as one. Kafka's client leaves
some with every poll that brought nothing, and each holds what its callers had at hand.

Source: mallopt(3), malloc_trim(3), Python's module gc; Arrow C++, environment variables.
"""

import ctypes
import gc
import os
from threading import Event, Thread

M_ARENA_MAX, M_MMAP_THRESHOLD = -8, -3
MOST_HEAPS = 2
APART_BYTES = 128 << 10
"""Whatever is larger gets pages of its own, which it returns when it is freed. The C library begins so; by itself it
would put ever larger things into heaps, up to 32 MiB, where they leave holes. Taking and returning pages makes scoring
100 nodes a third slower, so a process that does nothing else leaves it to the library."""
EVERY_S = 60.0
ARROW_HEAP = "ARROW_DEFAULT_MEMORY_POOL"


def keep_arrow_from_its_own_heap() -> None:
    """Let Arrow take from the C library, here and in processes started from here, unless somebody chose otherwise.

    Arrow reads the variable once, when it is loaded: to be called before. Setting a pool later reaches the tables that
    Python makes, not what Arrow makes by itself, as it writes parquet.
    """
    os.environ.setdefault(ARROW_HEAP, "system")


def give_back() -> bool:
    """Give what is free back at once; whether the C library can."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "malloc_trim"):
        return False
    library.malloc_trim(0)
    return True


def give_back_for_good(every_s: float = EVERY_S, *, apart: bool = True) -> Thread | None:
    """Give back again and again, until the process ends; None where the C library cannot, as musl's.

    Searching for garbage stops everything for a tenth of a second in a process that holds much: one that answers
    soon freezes first what it has loaded (`gc.freeze`).

    Args:
        every_s: seconds in between.
        apart: whether what is larger than APART_BYTES gets pages of its own.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "malloc_trim") or not hasattr(library, "mallopt"):
        return None
    library.mallopt(M_ARENA_MAX, MOST_HEAPS)
    if apart:
        library.mallopt(M_MMAP_THRESHOLD, APART_BYTES)
    thread = Thread(target=_again_and_again, args=(every_s,), name="memory", daemon=True)
    thread.start()
    return thread


def _again_and_again(every_s: float) -> None:
    never = Event()
    while not never.wait(every_s):
        gc.collect()
        give_back()
