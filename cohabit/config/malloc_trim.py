"""Memory: what a process that runs for months has freed goes back to the machine. An edge.

The C library keeps freed memory in heaps, up to eight for each core, whose holes are filled less and less well: a
process that holds the same for ever grows all the same. So there are few heaps, and their holes are given back. Arrow's
own heap would keep the most that it ever held; whatever is Arrow's is put into those of the C library. Delta's library
has an allocator of its own (jemalloc) that the C library cannot trim, with a cache for each of some hundred threads.

Objects that hold each other, as a frame and the exception that was raised in it, are searched for each minute too: by
itself Python does so once they are a quarter of all it holds, and counts a batch of 28 MB as one. Kafka's client leaves
some with every poll that brought nothing, and each holds what its callers had at hand.

Source: mallopt(3), malloc_trim(3), Python's module gc; Arrow C++, environment variables; jemalloc(3), TUNING.
"""

import ctypes
import gc
import os
from dataclasses import dataclass, field
from threading import Event, Thread
from time import monotonic

M_ARENA_MAX, M_MMAP_THRESHOLD = -8, -3
MAX_HEAPS = 2
APART_BYTES = 128 << 10
"""Whatever is larger gets pages of its own, which it returns when it is freed. The C library begins so; by itself it
would put ever larger things into heaps, up to 32 MiB, where they leave holes. Taking and returning pages makes scoring
100 nodes a third slower, so a process that does nothing else leaves it to the library."""
EVERY_S = 60.0
ARROW_HEAP = "ARROW_DEFAULT_MEMORY_POOL"
DELTA_HEAP = "_RJEM_MALLOC_CONF"
WITHOUT_CACHES = "narenas:1,dirty_decay_ms:0,muzzy_decay_ms:0,tcache:false"
"""What is freed goes back at once. In 600 commits the least held grew by 1 MiB, not 12; each took 14 ms more."""


def keep_arrow_from_its_own_heap() -> None:
    """Let Arrow take from the C library, here and in child processes, unless the environment sets a pool.

    Arrow reads the variable once, when it is loaded: to be called before. Setting a pool later reaches the tables that
    Python makes, not what Arrow makes by itself, as it writes parquet.
    """
    os.environ.setdefault(ARROW_HEAP, "system")


def keep_delta_from_its_own_caches() -> None:
    """Let Delta's library return what it frees, here and in child processes, unless the environment sets it up.

    It reads the variable once, when it is loaded: to be called before. Only for processes that run for good: freeing
    at once takes time.
    """
    os.environ.setdefault(DELTA_HEAP, WITHOUT_CACHES)


def give_back() -> bool:
    """Give what is free back at once; whether the C library can."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "malloc_trim"):
        return False
    library.malloc_trim(0)
    return True


def hold_few_heaps(*, apart: bool = True) -> bool:
    """Let the C library keep few heaps, from now on; whether it can, unlike musl's.

    Args:
        apart: whether what is larger than APART_BYTES gets pages of its own.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        return False
    library.mallopt(M_ARENA_MAX, MAX_HEAPS)
    if apart:
        library.mallopt(M_MMAP_THRESHOLD, APART_BYTES)
    return True


@dataclass
class GivingBack:
    """Gives back what is free when it is called, unless it did so lately.

    Work in pieces calls it right after a piece, in the same thread: by a clock it would now and
    then meet a piece of work, and what that holds for a moment would stay in memory until the next time.

    Searching for garbage stops everything for a tenth of a second in a process that holds much: one that answers
    soon freezes first what it has loaded (`gc.freeze`).

    Args:
        every_s: seconds at least in between.
    """

    every_s: float = EVERY_S
    _due_s: float = field(default=float("-inf"), init=False)

    def __call__(self) -> None:
        """Once."""
        if monotonic() < self._due_s:
            return
        gc.collect()
        give_back()
        self._due_s = monotonic() + self.every_s


def give_back_for_good(every_s: float = EVERY_S, *, apart: bool = True) -> Thread | None:
    """Hold few heaps and give back by the clock, until the process ends; None where the C library cannot.

    Args:
        every_s: seconds in between.
        apart: see `hold_few_heaps`.
    """
    if not hold_few_heaps(apart=apart):
        return None
    thread = Thread(target=_again_and_again, args=(every_s,), name="memory", daemon=True)
    thread.start()
    return thread


def _again_and_again(every_s: float) -> None:
    giving_back, never = GivingBack(0.0), Event()
    while not never.wait(every_s):
        giving_back()
