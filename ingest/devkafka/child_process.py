"""Run one command that must not outlive its parent: `python child_process.py PARENT_PID GRACE_S COMMAND...`.

A program of its own, standard library only. The command is ended when this process gets a signal to stop, when the
parent is gone however it went (kill -9 included), and, where the kernel can promise it, when this process itself is
killed.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

CHECK_EVERY_S = 0.5
PR_SET_PDEATHSIG = 1


def supervise(parent: int, grace_s: float, command: Sequence[str]) -> int:
    """Run the command until it ends, the parent is gone, or SIGTERM comes; the command's exit code.

    The handler only notes the signal. An exception from it could land inside `Popen.wait` while that holds its lock,
    and every later wait would hang.
    """
    stopping = False

    def note_signal(*_: object) -> None:
        nonlocal stopping
        stopping = True

    awake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGTERM, note_signal)
    die = _die_with_parent if sys.platform == "linux" else None
    child = subprocess.Popen(command, preexec_fn=die)  # noqa: PLW1509  (this process has one thread)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # a child that ends writes to the pipe too
    while os.getppid() == parent and child.poll() is None and not stopping:
        select.select([awake], [], [], CHECK_EVERY_S)
    child.terminate()
    with suppress(subprocess.TimeoutExpired):
        child.wait(grace_s)
    child.kill()  # does nothing to one that has ended
    child.wait()
    return 0 if stopping else child.returncode


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(supervise(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
