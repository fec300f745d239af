"""Collecting: who searches all of memory for garbage, for tests of giving back."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident


@contextmanager
def full_collections() -> Iterator[list[int]]:
    """By which thread each full collection was begun, and none by Python itself meanwhile."""
    begun_by: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            begun_by.append(get_ident())

    gc.disable()
    gc.callbacks.append(note)
    try:
        yield begun_by
    finally:
        gc.callbacks.remove(note)
        gc.enable()
