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
from contextlib import suppress

CHECK_EVERY_S = 0.5
PR_SET_PDEATHSIG = 1


def supervise(parent: int, grace_s: float, command: Sequence[str]) -> int:
    """Run the command until it ends, the parent is gone, or SIGTERM comes; the command's exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    die = _die_with_parent if sys.platform == "linux" else None
    child = subprocess.Popen(command, preexec_fn=die)  # noqa: PLW1509  (this process has one thread)
    try:
        while os.getppid() == parent and child.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                child.wait(CHECK_EVERY_S)
    finally:
        child.terminate()
        with suppress(subprocess.TimeoutExpired):
            child.wait(grace_s)
        child.kill()  # does nothing to one that has ended
        child.wait()
    return child.returncode


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(supervise(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
