"""What takes seconds to make and is the same for all processes of a run: made by the first that asks."""

import fcntl
import os
import pickle
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")


def once(folders: pytest.TempPathFactory, name: str, make: Callable[[], T]) -> T:
    """What `make` makes, or what another process of this run has made by that name."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return make()
    kept = folders.getbasetemp().parent / f"{name}.pickle"
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_bytes(pickle.dumps(made := make()))
            return made
    return pickle.loads(kept.read_bytes())  # type: ignore[no-any-return]  # noqa: S301
