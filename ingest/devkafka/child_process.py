"""Run one command that must not outlive its parent: `python child_process.py PARENT_PID GRACE_S COMMAND...`.

A program of its own, standard library only. The command is ended when this process gets a signal to stop, when the
parent is gone however it went (kill -9 included), and, where the kernel can promise it, when this process itself is
killed.
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

CHECK_EVERY_S = 0.5
PR_SET_PDEATHSIG = 1


def supervise(parent: int, grace_s: float, command: Sequence[str]) -> int:
    """Run the command until it ends, the parent is gone, or SIGTERM comes; the command's exit code."""
    signal.signal(signal.SIGTERM, _leave)
    die = _die_with_parent if sys.platform == "linux" else None
    child = subprocess.Popen(command, preexec_fn=die)  # noqa: PLW1509  (this process has one thread)
    try:
        _wait(child, parent)
    finally:
        _end(child, grace_s)
    return child.returncode


def _wait(child: subprocess.Popen[bytes], parent: int) -> None:
    while os.getppid() == parent:
        try:
            child.wait(CHECK_EVERY_S)
        except subprocess.TimeoutExpired:
            continue
        return


def _end(child: subprocess.Popen[bytes], grace_s: float) -> None:
    child.terminate()
    try:
        child.wait(grace_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(supervise(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
