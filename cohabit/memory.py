"""Memory: what a process that runs for months has freed goes back to the machine. An edge.

The C library keeps freed memory in heaps, up to eight for each core, whose holes are filled less and less well: a
process that holds the same for ever grows all the same. So there are few heaps, and their holes are given back. Arrow's
own heap would keep the most that it ever held; its tables are put into those of the C library.

Source: mallopt(3), malloc_trim(3).
"""

import ctypes
from threading import Event, Thread

import pyarrow as pa

M_ARENA_MAX = -8
MOST_HEAPS = 2
EVERY_S = 60.0


def give_back() -> bool:
    """Give what is free back at once; whether the C library can."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "malloc_trim"):
        return False
    library.malloc_trim(0)
    return True


def give_back_for_good(every_s: float = EVERY_S) -> Thread | None:
    """Give back again and again, until the process ends; None where the C library cannot, as musl's."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "malloc_trim") or not hasattr(library, "mallopt"):
        return None
    library.mallopt(M_ARENA_MAX, MOST_HEAPS)
    pa.set_memory_pool(pa.system_memory_pool())
    thread = Thread(target=_again_and_again, args=(every_s,), name="memory", daemon=True)
    thread.start()
    return thread


def _again_and_again(every_s: float) -> None:
    never = Event()
    while not never.wait(every_s):
        give_back()
