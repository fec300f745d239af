"""Runs of real parts in a folder of their own: everything is stopped on any exit, and an error is one line."""

import signal
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import NoReturn

from cohabit.terminal.console import show_error
from e2e.kube.errors import E2eError


def exit_code(run: Callable[[Path, ExitStack], None], name: str) -> int:
    """0, or 1 with the error on the error stream; `name` is in the folder's."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    try:
        with tempfile.TemporaryDirectory(prefix=f"cohabit-e2e-{name}-") as folder, ExitStack() as stack:
            run(Path(folder), stack)
    except E2eError as error:
        show_error(error)
        return 1
    return 0


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
